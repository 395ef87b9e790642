//! Price lists side by side: what measuring costs on one kernel and on another.

use perftax_doc::Estimate;
use perftax_doc::{Price, PriceFit, PriceSection, Selfcost};

use super::comparison::ratio;
use super::selfcost::{brief, what};
use crate::printable::printable;
use crate::table::Table;
use crate::units;

/// Documents that a table has columns for; the page and `-x` have all.
const MAX: usize = 4;
/// Numbers of events that a terminal shows of starting, stopping and reading; the page and `-x` have all.
const SHOWN: [u32; 4] = [0, 1, 4, 16];

/// A price that at least one document has, with what it is in each, and the last against the first.
pub(crate) struct ComparedPrice<'a> {
    /// From the first document that has it.
    pub(crate) price: &'a Price,
    /// What each document says; none where it has no such price.
    pub(crate) costs: Vec<Option<Estimate>>,
    /// The last document's against the first's, where both have it and count alike.
    pub(crate) ratio: Option<Estimate>,
}

/// Every price of which at least one document has the cost.
pub(crate) fn compared<'a>(docs: &[(String, &'a Selfcost)]) -> Vec<ComparedPrice<'a>> {
    let mut prices: Vec<&Price> = Vec::new();
    for price in docs.iter().flat_map(|(_, doc)| &doc.prices).filter(|price| price.cost.is_some()) {
        if !prices.iter().any(|known| known.is_of(price)) {
            prices.push(price);
        }
    }
    let of = |price: &'a Price| {
        let in_doc = |(_, doc): &(String, &Selfcost)| doc.same(price).and_then(|same| same.cost).map(|cost| cost.median);
        let costs: Vec<Option<Estimate>> = docs.iter().map(in_doc).collect();
        ComparedPrice { price, ratio: last_against_first(docs, &costs), costs }
    };
    prices.into_iter().map(of).collect()
}

/// A line over the number of events that at least one document has.
pub(crate) struct ComparedFit<'a> {
    /// From the first document that has it.
    pub(crate) fit: &'a PriceFit,
    /// What each event adds, in each document.
    pub(crate) slopes: Vec<Option<Estimate>>,
    /// The last document's slope against the first's.
    pub(crate) ratio: Option<Estimate>,
}

/// How each line over the number of events rises in each document.
pub(crate) fn compared_fits<'a>(docs: &[(String, &'a Selfcost)]) -> Vec<ComparedFit<'a>> {
    let is_same = |a: &PriceFit, b: &PriceFit| (&a.operation, &a.method, &a.set) == (&b.operation, &b.method, &b.set);
    let mut fits: Vec<&PriceFit> = Vec::new();
    for fit in docs.iter().flat_map(|(_, doc)| &doc.fits) {
        if !fits.iter().any(|known| is_same(known, fit)) {
            fits.push(fit);
        }
    }
    let of = |fit: &'a PriceFit| {
        let in_doc = |(_, doc): &(String, &Selfcost)| doc.fits.iter().find(|same| is_same(same, fit)).map(|same| same.per_event);
        let slopes: Vec<Option<Estimate>> = docs.iter().map(in_doc).collect();
        ComparedFit { fit, ratio: last_against_first(docs, &slopes), slopes }
    };
    fits.into_iter().map(of).collect()
}

fn last_against_first(docs: &[(String, &Selfcost)], costs: &[Option<Estimate>]) -> Option<Estimate> {
    let (first, last) = (docs.first()?, docs.last()?);
    if docs.len() < 2 || first.1.unit != last.1.unit {
        return None;
    }
    ratio(&costs.last().copied()??, &costs.first().copied()??)
}

/// The tables: prices part by part, then lines.
pub(super) fn selfcosts(docs: &[(String, &Selfcost)]) -> Vec<Table> {
    if docs.is_empty() {
        return Vec::new();
    }
    let shown = &docs[..docs.len().min(MAX)];
    let against = format!("{}/{}", docs.last().map_or("", |(label, _)| label), docs[0].0);
    let head = |title: &str| {
        let table = Table::default().left(title).left("");
        shown.iter().fold(table, |table, (label, _)| table.right(label)).right(&against)
    };
    let cells = |costs: &[Option<Estimate>], ratio: Option<Estimate>| -> Vec<String> {
        let each = shown.iter().zip(costs).map(|((_, doc), known)| known.map_or("—".into(), |known| brief(doc, &known)));
        each.chain([ratio.map_or(String::new(), |ratio| format!("× {}", units::estimate_number(&ratio)))]).collect()
    };
    let prices = compared(docs);
    let mut tables = Vec::new();
    for section in PriceSection::ALL {
        let mut table = head(section.title());
        let mut is_empty = true;
        let is_shown = |events: u32| section != PriceSection::Measuring || SHOWN.contains(&events);
        for one in prices.iter().filter(|one| one.price.section == section && is_shown(one.price.events)) {
            let events = match (one.price.events, one.price.set.as_str()) {
                (0, _) => String::new(),
                (n, set) => format!("{n} {set}"),
            };
            let name = printable(&what(&one.price.operation, &one.price.method));
            table.row([name, events].into_iter().chain(cells(&one.costs, one.ratio)).collect());
            is_empty = false;
        }
        if !is_empty {
            tables.push(table);
        }
    }
    let fits = compared_fits(docs);
    if !fits.is_empty() {
        let mut table = head("What each event adds");
        for ComparedFit { fit, slopes, ratio } in fits {
            let name = printable(&format!("{}, {}", fit.operation, fit.method));
            table.row([name, fit.set.clone()].into_iter().chain(cells(&slopes, ratio)).collect());
        }
        tables.push(table);
    }
    tables
}
