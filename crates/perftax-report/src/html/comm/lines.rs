//! The cache lines with the most transfers: bars, and a table whose rows unfold to the instructions.

use askama::Template;
use perftax_doc::{Comm, CommLine, CommSite};

use super::both_kinds;
use crate::html::figure::{Axis, Figure};
use crate::html::page::Panel;
use crate::printable::printable;
use crate::text::{
    comm_access, comm_advice, comm_allocations, comm_bytes, comm_exact, comm_name, comm_pairs, comm_source, comm_threads,
    comm_word,
};
use crate::units;

/// Lines that are drawn.
const MAX_DRAWN: usize = 20;
/// Lines of the table; `--json` has all.
const MAX: usize = 200;
/// Lines that stand open.
const OPEN: usize = 2;
/// Characters of a name beside its bars.
const LONGEST: usize = 44;

/// True and false sharing of the first lines.
pub(super) fn bars(doc: &Comm) -> Option<Panel> {
    let lines = &doc.lines[..doc.lines.len().min(MAX_DRAWN)];
    if lines.is_empty() {
        return None;
    }
    let names: Vec<String> = lines.iter().enumerate().map(|(i, line)| ranked(i + 1, &comm_name(line))).collect();
    let shares: Vec<_> = lines.iter().map(|line| &line.share).collect();
    let axis = Axis::count("transfers").zero_based();
    let mut figure = Figure::new(150 + 40 * names.len() as u32, axis, Axis::names().downwards());
    both_kinds(&mut figure, &names, &shares);
    let caption = "The lines with the most transfers. Orange goes away with padding; blue asks for fewer hand-overs.";
    Some(Panel::new("Lines", caption).figure(figure))
}

/// A name that no other line has, and that leaves place for its bars.
fn ranked(rank: usize, name: &str) -> String {
    let short: String = name.chars().take(LONGEST).collect();
    let more = if short.len() < name.len() { "…" } else { "" };
    format!("{rank}. {short}{more}")
}

#[derive(Template)]
#[template(path = "comm/lines.html")]
struct Lines {
    lines: Vec<Row>,
    has_exact: bool,
    has_evidence: bool,
    columns: usize,
    left_out: usize,
}

struct Row {
    number: usize,
    name: String,
    address: String,
    allocated_at: String,
    total: String,
    true_sharing: String,
    false_sharing: String,
    exact: String,
    evidence: String,
    pairs: String,
    word: &'static str,
    advice: String,
    sites: Vec<Site>,
    is_open: bool,
}

struct Site {
    access: &'static str,
    bytes: String,
    source: String,
    function: String,
    address: String,
    threads: String,
    seen: String,
}

/// Every line with its instructions, as far as a page can carry them.
pub(super) fn table(doc: &Comm) -> Option<Panel> {
    if doc.lines.is_empty() {
        return None;
    }
    let has_exact = doc.lines.iter().any(|line| line.share.exact.is_some());
    let has_evidence = !doc.is_exact();
    let lines = Lines {
        lines: doc.lines.iter().take(MAX).enumerate().map(|(i, line)| row(i, line)).collect(),
        has_exact,
        has_evidence,
        columns: 6 + usize::from(has_exact) + usize::from(has_evidence),
        left_out: doc.lines.len().saturating_sub(MAX),
    };
    // Writing into a string cannot fail, and the template calls nothing else that can.
    let body = lines.render().unwrap_or_else(|error| format!("<p>This table failed: {error}</p>"));
    let caption = "Each line unfolds to the instructions that touch it, the bytes of the line that they touch, who executes them, and what \
                   to do.";
    Some(Panel::new("Lines and their instructions", caption).body(body))
}

fn row(i: usize, line: &CommLine) -> Row {
    Row {
        number: i + 1,
        name: comm_name(line),
        address: format!("{:#x}", line.address),
        allocated_at: comm_allocations(line).join("; "),
        total: units::estimate_number(&line.share.total),
        true_sharing: units::estimate_number(&line.share.true_sharing),
        false_sharing: units::estimate_number(&line.share.false_sharing),
        exact: comm_exact(&line.share),
        evidence: units::count(line.share.evidence),
        pairs: comm_pairs(line),
        word: comm_word(line.advice),
        advice: comm_advice(line),
        sites: line.sites.iter().map(site).collect(),
        is_open: i < OPEN,
    }
}

fn site(site: &CommSite) -> Site {
    Site {
        access: comm_access(site),
        bytes: comm_bytes(site),
        source: comm_source(site),
        function: printable(&site.function),
        address: format!("{:#x}", site.ip),
        threads: comm_threads(site),
        seen: units::count(site.seen),
    }
}
