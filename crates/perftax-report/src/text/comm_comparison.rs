//! Transfers between threads, several documents side by side: an estimate beside the truth, or one run beside another.

use std::collections::BTreeMap;

use perftax_doc::Estimate;
use perftax_doc::{Comm, CommLine, CommWay};

use super::comm::{program, thread_label};
use super::comm_lines;
use crate::printable::printable;
use crate::table::Table;
use crate::units;

/// Documents that a table has columns for; the page and `-x` have all.
const MAX: usize = 4;
/// Pairs that a terminal shows.
const MAX_PAIRS: usize = 20;

/// Each document, how far apart each two of them are, the shares of the pairs, and the lines with the most transfers.
pub(super) fn side_by_side(docs: &[(String, &Comm)]) -> Vec<Table> {
    if docs.is_empty() {
        return Vec::new();
    }
    let mut tables = vec![each(docs)];
    if docs.len() > 1 {
        tables.push(distances(docs));
    }
    tables.extend(docs.chunks(MAX).flat_map(|chunk| [shares(chunk), lines(chunk)]));
    tables
}

fn each(docs: &[(String, &Comm)]) -> Table {
    let mut table = Table::default()
        .left("")
        .left("program")
        .left("seen by")
        .right("threads")
        .right("transfers")
        .right("of them false")
        .right("rests on")
        .right("lost");
    for (label, doc) in docs {
        table.row(vec![
            label.clone(),
            program(doc),
            seen_by(doc).into(),
            doc.threads.len().to_string(),
            units::estimate_number(&doc.total.total),
            doc.total.false_share().map_or("—".into(), |share| units::estimate_share(&share)),
            units::count(doc.total.evidence),
            units::count(doc.evidence.lost()),
        ]);
    }
    table
}

fn seen_by(doc: &Comm) -> &'static str {
    match doc.way {
        CommWay::Every => "every access",
        CommWay::Sampled { .. } => "samples",
        CommWay::Watched { .. } => "registers",
    }
}

fn distances(docs: &[(String, &Comm)]) -> Table {
    let mut table = Table::default()
        .left("how far apart")
        .right("total variation distance of the pairs' shares")
        .right("by chance alone about")
        .right("top lines in common");
    for (i, (label, doc)) in docs.iter().enumerate() {
        for (other_label, other) in &docs[i + 1..] {
            let likeness = doc.likeness(other);
            table.row(vec![
                format!("{label}, {other_label}"),
                format!("{:.3}", likeness.distance),
                format!("{:.3}", likeness.chance),
                format!("{} of {}", likeness.lines_in_common, likeness.lines),
            ]);
        }
    }
    table
}

/// A pair, its name, and the share that it has of all transfers in each document; none where there is no such pair.
pub(crate) struct SharedPair {
    /// `0 main → 1 worker`.
    pub(crate) name: String,
    /// In each document.
    pub(crate) shares: Vec<Option<Estimate>>,
}

/// Every pair of any document, the one with the largest share anywhere first.
pub(crate) fn shared_pairs(docs: &[(String, &Comm)]) -> Vec<SharedPair> {
    let of_docs: Vec<BTreeMap<(u32, u32), (f64, f64)>> = docs.iter().map(|(_, doc)| doc.pair_shares()).collect();
    let mut largest: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for (pair, (share, _)) in of_docs.iter().flatten() {
        let known = largest.entry(*pair).or_default();
        *known = known.max(*share);
    }
    let mut pairs: Vec<((u32, u32), f64)> = largest.into_iter().collect();
    pairs.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let named = |(from, to): (u32, u32)| {
        let known = |(_, doc): &&(String, &Comm)| doc.thread(from).is_some() && doc.thread(to).is_some();
        docs.iter()
            .find(known)
            .map_or(format!("{from} → {to}"), |(_, doc)| format!("{} → {}", thread_label(doc, from), thread_label(doc, to)))
    };
    let estimate = |(share, half): &(f64, f64)| Estimate::new(*share, (share - half).max(0.0), share + half);
    let row = |(pair, _)| SharedPair {
        name: named(pair),
        shares: of_docs.iter().map(|shares| shares.get(&pair).map(estimate)).collect(),
    };
    pairs.into_iter().map(row).collect()
}

fn shares(docs: &[(String, &Comm)]) -> Table {
    let table = Table::default().left("share of all transfers");
    let mut table = docs.iter().fold(table, |table, (label, _)| table.right(label));
    for pair in shared_pairs(docs).into_iter().take(MAX_PAIRS) {
        let cells = pair.shares.iter().map(|share| share.map_or("—".into(), |share| units::estimate_share(&share)));
        table.row(std::iter::once(pair.name).chain(cells).collect());
    }
    table
}

/// A line that is among the first ones of a document, and its rank and transfers in each, where it is.
pub(crate) struct ComparedLine<'a> {
    /// Its name, else its address.
    pub(crate) name: String,
    /// In each document.
    pub(crate) ranks: Vec<Option<(usize, &'a CommLine)>>,
}

/// The lines with the most transfers of all documents, in the order of the first that has them.
pub(crate) fn compared_lines<'a>(docs: &[(String, &'a Comm)]) -> Vec<ComparedLine<'a>> {
    let mut found: Vec<ComparedLine<'a>> = Vec::new();
    for (i, (_, doc)) in docs.iter().enumerate() {
        for (rank, (name, line)) in doc.top_lines().enumerate() {
            let at = found.iter().position(|known| known.name == name).unwrap_or_else(|| {
                found.push(ComparedLine { name, ranks: vec![None; docs.len()] });
                found.len() - 1
            });
            found[at].ranks[i] = Some((rank + 1, line));
        }
    }
    found
}

fn lines(docs: &[(String, &Comm)]) -> Table {
    let table = Table::default().left("line");
    let mut table = docs.iter().fold(table, |table, (label, _)| table.right(&format!("{label}: transfers")).left("do"));
    for line in compared_lines(docs) {
        let mut row = vec![printable(&line.name)];
        for rank in line.ranks {
            let (transfers, advice) = rank.map_or(("—".into(), ""), |(rank, line)| {
                (format!("{} ({rank}.)", units::estimate_number(&line.share.total)), comm_lines::word(line.advice))
            });
            row.extend([transfers, advice.into()]);
        }
        table.row(row);
    }
    table
}
