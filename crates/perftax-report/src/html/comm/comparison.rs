//! Transfers of several documents side by side on a page.

use perftax_doc::Comm;
use serde_json::json;

use crate::html::figure::{Axis, Figure, Trace};
use crate::html::page::{Grid, Panel};
use crate::text::{comm_compared_lines, comm_program, comm_shared_pairs, comm_way, comm_word};
use crate::units;

/// Pairs that are drawn; the table has all.
const MAX_DRAWN: usize = 24;

/// How far apart the documents are, the shares of their pairs, and their lines.
pub(in crate::html) fn together(docs: &[(String, &Comm)]) -> Vec<Panel> {
    if docs.is_empty() {
        return Vec::new();
    }
    let mut panels = vec![each(docs)];
    panels.extend(distances(docs));
    panels.push(shares(docs));
    panels.push(lines(docs));
    panels
}

fn each(docs: &[(String, &Comm)]) -> Panel {
    let columns = ["", "program", "seen by", "#threads", "#transfers", "#true sharing", "#of them false", "#rests on", "#lost"];
    let mut table = Grid::new(&columns);
    for (label, doc) in docs {
        let share = &doc.total;
        table.row(vec![
            label.clone(),
            comm_program(doc),
            comm_way(doc),
            doc.threads.len().to_string(),
            units::estimate_number(&share.total),
            units::estimate_number(&share.true_sharing),
            share.false_share().map_or("—".into(), |share| units::estimate_share(&share)),
            units::count(share.evidence),
            units::count(doc.evidence.lost()),
        ]);
    }
    Panel::new("Transfers between threads", "").table(table)
}

fn distances(docs: &[(String, &Comm)]) -> Option<Panel> {
    if docs.len() < 2 {
        return None;
    }
    let mut table = Grid::new(&["", "#total variation distance", "#by chance alone about", "#top lines in common"]);
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
    let caption = "Of the shares that pairs of threads, by their numbers, have of all transfers: 0 where they are the same, 1 where no pair \
                   is in both. Chance alone: what two looks at the same program differ by, as wide as their intervals are.";
    Some(Panel::new("How far apart", caption).table(table))
}

fn shares(docs: &[(String, &Comm)]) -> Panel {
    let pairs = comm_shared_pairs(docs);
    let drawn = &pairs[..pairs.len().min(MAX_DRAWN)];
    let height = 150 + (drawn.len() * (12 + 14 * docs.len())) as u32;
    let mut figure = Figure::new(height, Axis::share("share of all transfers").zero_based(), Axis::names().downwards());
    figure.set("barmode", json!("group"));
    let mut table = Grid::new(&["pair"]);
    for (i, (label, _)) in docs.iter().enumerate() {
        let (names, shares): (Vec<_>, Vec<_>) =
            drawn.iter().filter_map(|pair| Some((pair.name.clone(), pair.shares[i]?))).unzip();
        figure.add(Trace::bars_right(label, &shares, &names).colour(i));
        table.column(label.clone());
    }
    for pair in &pairs {
        let cells = pair.shares.iter().map(|share| share.map_or("—".into(), |share| units::estimate_share(&share)));
        table.row(std::iter::once(pair.name.clone()).chain(cells).collect());
    }
    let panel = Panel::new("Shares of the pairs", "Writer → reader, by the numbers of the threads; the largest first.");
    let panel = panel.folded(table);
    if drawn.is_empty() { panel } else { panel.figure(figure) }
}

fn lines(docs: &[(String, &Comm)]) -> Panel {
    let mut table = Grid::new(&["line"]);
    for (label, _) in docs {
        table.column(format!("{label}: rank"));
        table.column(format!("{label}: transfers"));
        table.column(format!("{label}: do"));
    }
    for line in comm_compared_lines(docs) {
        let mut row = vec![line.name];
        for rank in line.ranks {
            row.extend(rank.map_or(["—".into(), String::new(), String::new()], |(rank, line)| {
                [rank.to_string(), units::estimate_number(&line.share.total), comm_word(line.advice).into()]
            }));
        }
        table.row(row);
    }
    let caption = "The ten lines with the most transfers of each, by name; by address where the name does not tell them apart.";
    Panel::new("Lines side by side", caption).table(table)
}
