//! `perftax comm`, `perftax sim --comm` on a terminal.

use itertools::Itertools as _;
use owo_colors::OwoColorize;
use perftax_doc::{Comm, CommCost, CommPair, CommShare, CommThread, CommWay};

use super::{comm_lines, plural};
use crate::printable::printable;
use crate::sheet::{Sheet, WIDTH};
use crate::table::{Table, visible_width};
use crate::{shell, units};

/// Threads whose matrix a terminal shows.
const MAX_THREADS: usize = 12;
/// Pairs below the matrix; all that are shown where there is none.
const MAX_PAIRS: usize = 12;
/// Threads that are named in the head.
const MAX_NAMED: usize = 8;

/// Which threads share which lines: the matrix, the lines, what it rests on and what it cost.
pub fn comm(doc: &Comm) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    head(&mut sheet, doc);
    total(&mut sheet, doc);
    sheet.blank();
    matrices(&mut sheet, doc);
    comm_lines::lines(&mut sheet, doc);
    rests_on(&mut sheet, doc);
    cost(&mut sheet, doc);
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

fn head(sheet: &mut Sheet, doc: &Comm) {
    sheet.row("program", &program(doc));
    sheet.row("seen by", &way(doc));
    sheet.row("", &format!("does not see {}", blind(doc)));
    if let CommWay::Watched { places, .. } = &doc.way {
        for (i, place) in places.iter().enumerate() {
            let text = format!(
                "{}, {} from {:#x}",
                printable(&place.name),
                plural(&units::count(place.bytes), "byte", "bytes"),
                place.address
            );
            sheet.row(if i == 0 { "watched" } else { "" }, &text);
        }
    }
    let named: Vec<String> = doc.threads.iter().take(MAX_NAMED).map(|thread| on_core(doc, thread)).collect();
    let rest = doc.threads.len().saturating_sub(MAX_NAMED);
    let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
    let elapsed = if doc.elapsed_s > 0.0 { format!(", for {}", units::time_s(doc.elapsed_s)) } else { String::new() };
    sheet.row("threads", &format!("{}{elapsed}: {}{more}", doc.threads.len(), named.join(", ")));
}

/// The command, printable.
pub(crate) fn program(doc: &Comm) -> String {
    let words: Vec<String> = doc.program.iter().map(|word| printable(word)).collect();
    shell::join(&words)
}

/// How accesses were seen.
pub(crate) fn way(doc: &Comm) -> String {
    let registers = |n: u32| plural(&n.to_string(), "debug register", "debug registers");
    match &doc.way {
        CommWay::Every => "every access, in a simulation: a cache for each thread, which never runs full".into(),
        CommWay::Sampled { events, period, loads_period, watchpoints } => format!(
            "samples of {}, one in {}{}, and {} of each thread on the lines that they name",
            printable(&events.join(" and ")),
            units::count(*period),
            loads_period.map_or(String::new(), |period| format!(" stores and {} loads", units::count(period))),
            registers(*watchpoints)
        ),
        CommWay::Watched { watchpoints, .. } => {
            format!("{} of each thread on what was named, no samples", registers(*watchpoints))
        }
    }
}

/// What that way cannot see.
pub(crate) fn blind(doc: &Comm) -> &'static str {
    match doc.way {
        CommWay::Every => {
            "how threads would overlap on a real machine, the kernel's own accesses, and lines that caches would have evicted"
        }
        CommWay::Sampled { .. } => {
            "lines that no sample names, nor the kernel's own accesses; what happens to a line between its turns on a register is estimated"
        }
        CommWay::Watched { .. } => "any other place: what is not named here may be shared as much",
    }
}

/// A thread with its number: `3 worker`.
pub(crate) fn thread_label(doc: &Comm, number: u32) -> String {
    let name = doc.thread(number).map_or("", |thread| thread.name.as_str());
    if name.is_empty() { number.to_string() } else { format!("{number} {}", printable(name)) }
}

fn on_core(doc: &Comm, thread: &CommThread) -> String {
    let core = thread.core.map_or(String::new(), |core| format!(" on core {core}"));
    format!("{}{core}", thread_label(doc, thread.number))
}

/// Of which kind the transfers are, with what is exact beside it.
pub(crate) fn kinds(share: &CommShare) -> String {
    let share_of = |share: &CommShare| {
        share.false_share().map_or(String::new(), |e| format!("; {} of them false", units::estimate_share(&e)))
    };
    format!(
        "{} true, {} false sharing{}",
        units::estimate_number(&share.true_sharing),
        units::estimate_number(&share.false_sharing),
        share_of(share)
    )
}

/// What every access says, and whether the interval holds it; empty where that is not known.
pub(crate) fn exact(share: &CommShare) -> String {
    let Some(exact) = share.exact else { return String::new() };
    let off = |n: u64| if share.total.contains(n as f64) { "" } else { ", outside" };
    format!("{} ({} true){}", units::count(exact.total()), units::count(exact.true_sharing), off(exact.total()))
}

/// The same where it stands beside an estimate: what is exact already is not said twice.
pub(crate) fn beside(doc: &Comm, share: &CommShare) -> String {
    if doc.is_exact() { String::new() } else { exact(share) }
}

fn total(sheet: &mut Sheet, doc: &Comm) {
    let total = units::estimate_number(&doc.total.total);
    let evidence =
        if doc.is_exact() { String::new() } else { format!("; rests on {} observed", units::count(doc.total.evidence)) };
    sheet.row("transfers", &format!("{} of cache lines between threads: {}{evidence}", total.bold(), kinds(&doc.total)));
    let exact = beside(doc, &doc.total);
    if !exact.is_empty() {
        let (known, covered) = doc.covered();
        sheet.row("exact", &format!("{exact}; of {}, {covered} intervals hold it", plural(&known.to_string(), "pair", "pairs")));
    }
    if let Some(exact) = doc.total.exact.filter(|exact| exact.total() > 0) {
        let share = |part: u64| units::share(part as f64 / exact.total() as f64);
        let (first, later, stores) = (share(exact.by_first_loads()), share(exact.by_later_loads), share(exact.by_stores));
        sheet.row(
            "fetched",
            &format!("{first} by loads that found the line modified, {later} by later readers, {stores} by stores"),
        );
    }
}

fn matrices(sheet: &mut Sheet, doc: &Comm) {
    if doc.pairs.is_empty() {
        let none = if doc.is_exact() { "no thread fetched a line that another wrote" } else { "none was observed" };
        sheet.row("pairs", none);
        return;
    }
    matrix(sheet, &doc.pairs, "writer ↓ reader →", |thread| thread_label(doc, thread));
    pairs(sheet, doc);
    if !doc.core_pairs.is_empty() {
        matrix(sheet, &doc.core_pairs, "core ↓ to core →", |core| core.to_string());
    }
}

/// Those that are in any pair, ascending.
pub(crate) fn members(pairs: &[CommPair]) -> Vec<u32> {
    pairs.iter().flat_map(|pair| [pair.from, pair.to]).sorted_unstable().dedup().collect()
}

/// Writers down, readers across; said instead where there are too many.
fn matrix(sheet: &mut Sheet, pairs: &[CommPair], corner: &str, label: impl Fn(u32) -> String) {
    let members = members(pairs);
    if members.len() > MAX_THREADS {
        let text = format!("{} of them share lines: --html shows the whole matrix, -x has every pair", members.len());
        sheet.row("matrix", &text);
        return;
    }
    let with_intervals = matrix_table(pairs, &members, corner, &label, units::brief_estimate);
    if with_intervals.lines(2, WIDTH).iter().all(|line| visible_width(line) <= WIDTH) {
        sheet.table(&with_intervals);
    } else {
        sheet.table(&matrix_table(pairs, &members, corner, &label, |e| units::brief(e.estimate)));
        sheet.row("", "there is no place for intervals here: the pairs below, --html and -x have them");
    }
}

fn matrix_table(
    pairs: &[CommPair],
    members: &[u32],
    corner: &str,
    label: impl Fn(u32) -> String,
    cell: impl Fn(&perftax_doc::Estimate) -> String,
) -> Table {
    let mut table = members.iter().fold(Table::default().left(corner), |table, to| table.right(&to.to_string()));
    for &from in members {
        let of = |&to: &u32| match pairs.iter().find(|pair| (pair.from, pair.to) == (from, to)) {
            Some(pair) => cell(&pair.share.total),
            None if from == to => "—".into(),
            None => "·".into(),
        };
        table.row(std::iter::once(label(from)).chain(members.iter().map(of)).collect());
    }
    table
}

/// The pairs with the most transfers.
fn pairs(sheet: &mut Sheet, doc: &Comm) {
    let mut table = Table::default()
        .left("writer")
        .left("reader")
        .right("transfers")
        .right("true sharing")
        .right("false sharing")
        .right("rests on")
        .left("exact");
    for pair in doc.pairs.iter().take(MAX_PAIRS) {
        let share = &pair.share;
        table.row(vec![
            thread_label(doc, pair.from),
            thread_label(doc, pair.to),
            units::estimate_number(&share.total),
            units::estimate_number(&share.true_sharing),
            units::estimate_number(&share.false_sharing),
            if doc.is_exact() { String::new() } else { units::count(share.evidence) },
            beside(doc, share),
        ]);
    }
    sheet.table(&table);
    let rest = doc.pairs.len().saturating_sub(MAX_PAIRS);
    if rest > 0 {
        sheet.row("pairs", &format!("{} are not shown: --html, -x and --json have all", units::count(rest as u64)));
    }
}

fn rests_on(sheet: &mut Sheet, doc: &Comm) {
    sheet.blank();
    sheet.row("evidence", &evidence(doc));
    sheet.row("lost", &lost(doc));
}

/// What the estimates rest on.
pub(crate) fn evidence(doc: &Comm) -> String {
    let evidence = &doc.evidence;
    let accesses = units::count(evidence.accesses);
    let heap = match evidence.allocations {
        0 => String::new(),
        n => format!("; {}", plural(&units::count(n), "object of the heap", "objects of the heap")),
    };
    let of_accesses = match doc.way {
        CommWay::Every => format!("all of {accesses} accesses"),
        CommWay::Sampled { .. } => format!(
            "{} of {accesses} accesses, {}; {} had a register put on their line, {} found the registers taken, {} saw nothing come",
            plural(&units::count(evidence.samples), "sample", "samples"),
            plural(&units::count(evidence.traps), "trap", "traps"),
            units::count(evidence.followed),
            units::count(evidence.unfollowed),
            plural(&units::count(evidence.silent), "line", "lines"),
        ),
        CommWay::Watched { .. } => plural(&units::count(evidence.traps), "trap", "traps"),
    };
    let fetches = match evidence.fetches + evidence.missed_stores {
        0 => String::new(),
        _ => format!(
            "; {} found a line that another core had modified, {} missed: {} of them one that nobody but the thread itself is known to write, {} \
             one that nobody is",
            plural(&units::count(evidence.fetches), "load", "loads"),
            plural(&units::count(evidence.missed_stores), "store", "stores"),
            units::count(evidence.moved_fetches),
            units::count(evidence.untold_fetches)
        ),
    };
    of_accesses + &fetches + &heap
}

/// What was lost, each kind that was.
pub(crate) fn lost(doc: &Comm) -> String {
    let evidence = &doc.evidence;
    let kinds = [
        (evidence.lost_samples, "sample lost by the kernel", "samples lost by the kernel"),
        (evidence.lost_traps, "trap lost by the kernel", "traps lost by the kernel"),
        (evidence.throttled, "time throttled by the kernel", "times throttled by the kernel"),
        (evidence.unwatched_threads, "thread that could not be watched", "threads that could not be watched"),
        (evidence.evicted, "line dropped from the board for want of room", "lines dropped from the board for want of room"),
        (evidence.undecoded, "trap of an unknown instruction", "traps of unknown instructions"),
        (evidence.lost_allocations, "allocation lost", "allocations lost"),
        (evidence.unnamed_mappings, "mapping without a name", "mappings without names"),
    ];
    let lost: Vec<String> =
        kinds.into_iter().filter(|(n, ..)| *n > 0).map(|(n, one, many)| plural(&units::count(n), one, many)).collect();
    if lost.is_empty() { "nothing".into() } else { lost.join(", ") }
}

/// How much of it was perftax's own.
pub(crate) fn own(cost: &CommCost) -> String {
    cost.own_s.map_or("perftax's own not counted".into(), |s| format!("with {} of perftax's own", units::time_s(s)))
}

fn cost(sheet: &mut Sheet, doc: &Comm) {
    let Some(cost) = &doc.cost else { return };
    let mut said = Vec::new();
    if let Some(overhead) = &cost.overhead {
        said.push(format!("{} of the program's CPU time, {}", units::estimate_share(overhead).bold(), own(cost)));
    }
    if let Some(budget) = cost.budget {
        let is_over = cost.overhead.is_some_and(|overhead| overhead.high > budget);
        let verdict = if is_over { format!(", which it {}", "may exceed".red()) } else { String::new() };
        said.push(format!("the budget is {}{verdict}", units::share(budget)));
    }
    if let Some(trap) = &cost.trap_ns {
        said.push(format!("a trap takes {}", units::estimate_ns(trap)));
    }
    said.push(format!("registers were armed for {} of the time", units::share(cost.armed)));
    if cost.probes > 0 {
        said.push(format!("{} on the allocator besides", plural(&units::count(cost.probes), "hit of a probe", "hits of probes")));
    }
    sheet.row("cost", &said.join("; "));
}
