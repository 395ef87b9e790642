//! Price lists side by side on a page: one kernel beside another.

use perftax_doc::Estimate;
use perftax_doc::{CostUnit, PriceSection, Selfcost};

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part};
use crate::text::{selfcost_compared as compared, selfcost_compared_fits as compared_fits, selfcost_cost as cost};
use crate::units;

/// A panel for each part of the lists: costs below each other, one colour a document.
pub(super) fn panels(part: &mut Part, docs: &[(String, &Selfcost)]) {
    let Some((first, _)) = docs.first() else { return };
    let against = format!("#{}/{first}", docs.last().map_or("", |(label, _)| label));
    let prices = compared(docs);
    let is_alike = docs.iter().all(|(_, doc)| doc.unit == docs[0].1.unit);
    for section in PriceSection::ALL {
        let rows: Vec<_> = prices.iter().filter(|one| one.price.section == section).collect();
        if rows.is_empty() {
            continue;
        }
        let (axis, scale) = match docs[0].1.unit {
            CostUnit::Nanoseconds => (Axis::time("cost"), 1e-9),
            CostUnit::Instructions => (Axis::count("cost, instructions"), 1.0),
        };
        let mut figure = Figure::new(140 + 22 * rows.len() as u32, axis.log(), Axis::names().downwards());
        let mut table = Grid::new(&["what"]);
        for (at, (label, doc)) in docs.iter().enumerate() {
            let known = rows.iter().filter_map(|one| Some((one.price.name(), one.costs[at]?.scaled(scale))));
            let (names, costs): (Vec<String>, Vec<Estimate>) = known.filter(|(_, cost)| cost.low > 0.0).unzip();
            figure.add(Trace::forest(&format!("{label}: Linux {}", doc.origin.kernel), &costs, &names).colour(at));
            table.column(format!("{label}: {}", doc.origin.kernel));
        }
        table.column(against.trim_start_matches('#').into());
        for one in &rows {
            let each = docs.iter().zip(&one.costs).map(|((_, doc), known)| known.map_or("—".into(), |known| cost(doc, &known)));
            let ratio = one.ratio.map_or(String::new(), |ratio| units::estimate_number(&ratio));
            table.row([one.price.name()].into_iter().chain(each).chain([ratio]).collect());
        }
        let caption = "Intervals that do not overlap are real differences, as far as the machines are the same.";
        let panel = Panel::new(section.title(), caption).table(table);
        part.panel(if is_alike { panel.figure(figure) } else { panel });
    }
    fits(part, docs, &against);
}

fn fits(part: &mut Part, docs: &[(String, &Selfcost)], against: &str) {
    let fits = compared_fits(docs);
    if fits.is_empty() {
        return;
    }
    let mut table = Grid::new(&["what", "by", "events"]);
    docs.iter().for_each(|(label, doc)| table.column(format!("{label}: {}", doc.origin.kernel)));
    table.column(against.trim_start_matches('#').into());
    for one in fits {
        let each = docs.iter().zip(&one.slopes).map(|((_, doc), known)| known.map_or("—".into(), |known| cost(doc, &known)));
        let ratio = one.ratio.map_or(String::new(), |ratio| units::estimate_number(&ratio));
        let fit = one.fit;
        table.row([fit.operation.clone(), fit.method.clone(), fit.set.clone()].into_iter().chain(each).chain([ratio]).collect());
    }
    part.panel(Panel::new("What each event adds", "The slope of the line over the number of events.").table(table));
}
