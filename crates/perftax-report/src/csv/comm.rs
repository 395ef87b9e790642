//! `perftax comm`, `perftax sim --comm` as separated values: pairs of threads, pairs of cores, lines with their instructions.

use perftax_doc::{Comm, CommLine, CommPair, CommShare, CommSite};

use super::{Rows, ends, word};
use crate::text::comm_allocations;

/// What [`shares`] writes.
const SHARES: [&str; 12] = [
    "total",
    "total_low",
    "total_high",
    "true",
    "true_low",
    "true_high",
    "false",
    "false_low",
    "false_high",
    "evidence",
    "exact_true",
    "exact_false",
];

/// One row a pair of threads, `from` being the writer; pairs without transfers are left out.
pub fn comm(doc: &Comm, separator: &str) -> String {
    let name = |number: u32| doc.thread(number).map_or(String::new(), |thread| thread.name.clone());
    pairs(&doc.pairs, separator, &name)
}

/// One row a pair of cores, likewise; without rows where cores are not known.
pub fn comm_cores(doc: &Comm, separator: &str) -> String {
    pairs(&doc.core_pairs, separator, &|core| format!("core {core}"))
}

fn pairs(pairs: &[CommPair], separator: &str, name: &dyn Fn(u32) -> String) -> String {
    let names = ["from", "from_name", "to", "to_name"].into_iter().chain(SHARES).collect::<Vec<_>>();
    let mut rows = Rows::new(separator, &names);
    for pair in pairs {
        let head = vec![pair.from.to_string(), name(pair.from), pair.to.to_string(), name(pair.to)];
        rows.row([head, shares(&pair.share)].concat());
    }
    rows.out
}

/// One row for each instruction that touches a line, led by the line and its transfers; a line of which none is known has one row.
pub fn comm_lines(doc: &Comm, separator: &str) -> String {
    let names = ["line", "address", "name", "allocated_at"]
        .into_iter()
        .chain(SHARES)
        .chain(["pairs", "advice", "ip", "function", "source", "access", "offset", "bytes", "threads", "seen"]);
    let mut rows = Rows::new(separator, &names.collect::<Vec<_>>());
    for (i, line) in doc.lines.iter().enumerate() {
        let head = [of_line(i + 1, line), shares(&line.share), between(line)].concat();
        if line.sites.is_empty() {
            rows.row([head.clone(), vec![String::new(); 8]].concat());
        }
        for site in &line.sites {
            rows.row([head.clone(), of_site(site)].concat());
        }
    }
    rows.out
}

fn of_line(number: usize, line: &CommLine) -> Vec<String> {
    vec![number.to_string(), format!("{:#x}", line.address), line.name.clone(), comm_allocations(line).join("; ")]
}

/// Writer, reader and transfers of each pair (`0>1:120.5 1>0:118`), and what to do.
fn between(line: &CommLine) -> Vec<String> {
    let pairs: Vec<String> = line.pairs.iter().map(|(from, to, transfers)| format!("{from}>{to}:{transfers}")).collect();
    vec![pairs.join(" "), word(&line.advice)]
}

fn of_site(site: &CommSite) -> Vec<String> {
    let threads: Vec<String> = site.threads.iter().map(u32::to_string).collect();
    vec![
        format!("{:#x}", site.ip),
        site.function.clone(),
        site.source.clone().unwrap_or_default(),
        if site.is_store { "store" } else { "load" }.into(),
        site.offset.to_string(),
        site.bytes.to_string(),
        threads.join(" "),
        site.seen.to_string(),
    ]
}

fn shares(share: &CommShare) -> Vec<String> {
    let estimates = [&share.total, &share.true_sharing, &share.false_sharing].into_iter().flat_map(|e| ends(Some(e)));
    let exact = share
        .exact
        .map_or([String::new(), String::new()], |exact| [exact.true_sharing.to_string(), exact.false_sharing.to_string()]);
    estimates.chain([share.evidence.to_string()]).chain(exact).collect()
}
