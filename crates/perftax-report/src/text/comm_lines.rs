//! The cache lines of `perftax comm`: which there are, who touches them from where, and what to do.

use owo_colors::OwoColorize;
use perftax_doc::{Comm, CommAdvice, CommLine, CommSite};

use super::comm::{beside, kinds};
use super::plural;
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// Lines that a terminal shows; the page and `--json` have all.
const MAX: usize = 10;
/// Lines whose instructions it shows.
const MAX_DETAILED: usize = 4;
/// Instructions of a line.
const MAX_SITES: usize = 6;
/// Threads and pairs that are listed.
const MAX_LISTED: usize = 6;

/// The lines with the most transfers, then the first ones in detail.
pub(super) fn lines(sheet: &mut Sheet, doc: &Comm) {
    if doc.lines.is_empty() {
        return;
    }
    let shown = doc.lines.len().min(MAX);
    let (total, sum) = (doc.total.total.estimate, doc.lines[..shown].iter().map(|line| line.share.total.estimate).sum::<f64>());
    let share =
        if doc.is_exact() && total > 0.0 { format!(", {} of all transfers", units::share(sum / total)) } else { String::new() };
    let all = units::count(doc.lines.len() as u64);
    sheet.blank();
    sheet.row("lines", &format!("{shown} of {all}, those with the most transfers{share}"));
    sheet.table(&overview(&doc.lines[..shown]));
    for (i, line) in doc.lines.iter().take(MAX_DETAILED).enumerate() {
        detail(sheet, doc, i + 1, line);
    }
}

fn overview(lines: &[CommLine]) -> Table {
    let mut table =
        Table::default().right("line").left("what").right("address").right("transfers").right("of them false").left("do");
    for (i, line) in lines.iter().enumerate() {
        table.row(vec![
            (i + 1).to_string(),
            name(line),
            format!("{:#x}", line.address),
            units::estimate_number(&line.share.total),
            line.share.false_share().map_or("—".into(), |share| units::estimate_share(&share)),
            word(line.advice).into(),
        ]);
    }
    table
}

fn detail(sheet: &mut Sheet, doc: &Comm, number: usize, line: &CommLine) {
    sheet.blank();
    sheet.row(&format!("line {number}"), &format!("{} at {:#x}", name(line).bold(), line.address));
    for (i, allocation) in allocations(line).iter().enumerate() {
        sheet.row("", &if i == 0 { format!("allocated at {allocation}") } else { allocation.clone() });
    }
    let rests = if doc.is_exact() { String::new() } else { format!("; rests on {} observed", units::count(line.share.evidence)) };
    sheet.row("", &format!("{}{rests}", kinds(&line.share)));
    let exact = beside(doc, &line.share);
    if !exact.is_empty() {
        sheet.row("", &format!("exact: {exact}"));
    }
    sheet.row("", &format!("writer → reader, the most first: {}", pairs(line)));
    if !line.sites.is_empty() {
        sheet.table(&sites(line));
        let rest = line.sites.len().saturating_sub(MAX_SITES);
        if rest > 0 {
            sheet.row("", &format!("and {}: --html has all", plural(&rest.to_string(), "instruction more", "instructions more")));
        }
    }
    sheet.row("to do", &advice(line));
}

/// What lies there, or that it is not known.
pub(crate) fn name(line: &CommLine) -> String {
    if line.name.is_empty() { "unnamed memory".into() } else { printable(&line.name) }
}

/// Where what lies there was allocated, and by whom what lies beside it was.
pub(crate) fn allocations(line: &CommLine) -> Vec<String> {
    let chain = |frames: &[String]| printable(&frames.join(" < "));
    let first = Some(chain(&line.allocated_at)).filter(|first| !first.is_empty());
    let beside = line.objects.iter().skip(1).map(|object| {
        let at = if object.allocated_at.is_empty() { "an unknown place".into() } else { chain(&object.allocated_at) };
        format!("beside it {}, allocated at {at}", object.name())
    });
    first.into_iter().chain(beside).collect()
}

/// Between whom, the most first.
pub(crate) fn pairs(line: &CommLine) -> String {
    list(line.pairs.iter().map(|(from, to, _)| format!("{from} → {to}")).collect())
}

fn list(all: Vec<String>) -> String {
    let rest = all.len().saturating_sub(MAX_LISTED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{more}", all[..all.len().min(MAX_LISTED)].join(", "))
}

fn sites(line: &CommLine) -> Table {
    let mut table = Table::default().left("").right("bytes").left("source").left("function").left("threads").right("seen");
    for site in line.sites.iter().take(MAX_SITES) {
        table.row(vec![
            access(site).into(),
            bytes(site),
            source(site),
            printable(&site.function),
            threads(site),
            units::count(site.seen),
        ]);
    }
    table
}

/// `store` or `load`.
pub(crate) fn access(site: &CommSite) -> &'static str {
    if site.is_store { "store" } else { "load" }
}

/// The bytes of the line that an instruction touches, first to last: `8–15`.
pub(crate) fn bytes(site: &CommSite) -> String {
    match site.bytes {
        0 => format!("{}–?", site.offset),
        1 => site.offset.to_string(),
        n => format!("{}–{}", site.offset, site.offset + n - 1),
    }
}

/// Where in the source it is, or what stands for it.
pub(crate) fn source(site: &CommSite) -> String {
    site.source.as_deref().map_or("—".into(), printable)
}

/// Which threads execute it.
pub(crate) fn threads(site: &CommSite) -> String {
    list(site.threads.iter().map(u32::to_string).collect())
}

/// What to do, in a word.
pub(crate) fn word(advice: CommAdvice) -> &'static str {
    match advice {
        CommAdvice::Pad => "pad",
        CommAdvice::Split => "split",
        CommAdvice::Move => "move",
        CommAdvice::None => "—",
    }
}

/// What to do, in words.
pub(crate) fn advice(line: &CommLine) -> String {
    match line.advice {
        CommAdvice::Pad => format!(
            "pad: the threads use different bytes{}. Give each thread's part a line of its own: align it to 64 bytes (alignas(64), on \
             the heap with aligned_alloc), or pad it to that size",
            parts(line)
        ),
        CommAdvice::Split => format!(
            "split: something that is mostly read shares the line with something that is often written{}. Move them to different lines",
            parts(line)
        ),
        CommAdvice::Move => {
            "move: the threads hand over these very bytes. Hand over less often (batches, a copy for each thread that is \
                             merged at the end), or keep the threads on cores that share a cache"
                .into()
        }
        CommAdvice::None => "nothing: too few transfers of it were seen to advise".into(),
    }
}

/// Which bytes are stored to and which are loaded by whom, where that tells them apart.
fn parts(line: &CommLine) -> String {
    let mut parts: Vec<String> = Vec::new();
    for site in &line.sites {
        let (who, verb) = match site.threads.as_slice() {
            [] => continue,
            [one] => (format!("thread {one}"), format!("{}s", access(site))),
            _ => (format!("threads {}", threads(site)), access(site).into()),
        };
        let part = format!("{who} {verb} {}", bytes(site));
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    const MAX_PARTS: usize = 4;
    if parts.len() < 2 || parts.len() > MAX_PARTS { String::new() } else { format!(" ({})", parts.join(", ")) }
}
