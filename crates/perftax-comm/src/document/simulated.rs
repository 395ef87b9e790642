//! The document of a simulated run, in which every access was seen.

use std::collections::BTreeMap;

use perftax_doc::Estimate;
use perftax_doc::{Comm, CommEvidence, CommExact, CommShare, CommThread, CommWay, Origin};

use super::{Naming, UnnamedLine};
use crate::run::{Estimated, Outcome};
use crate::{Counts, Line, LineCensus, Thread};

/// The document of a run: the truth, with the estimate of one of its periods beside it where there is one.
pub fn simulated_document(
    origin: Origin,
    program: Vec<String>,
    outcome: &Outcome,
    estimated: Option<&Estimated>,
    registers: u32,
    names: &mut dyn Naming,
) -> Comm {
    match estimated {
        None => exact_document(origin, program, outcome, names),
        Some(estimated) => estimated_document(origin, program, outcome, estimated, registers, names),
    }
}

fn exact_document(origin: Origin, program: Vec<String>, outcome: &Outcome, names: &mut dyn Naming) -> Comm {
    let lines = outcome.exact.lines.iter().map(|(line, census)| {
        let pairs = census.pairs.iter().map(|((from, to), counts)| (*from, *to, counts.total() as f64)).collect();
        UnnamedLine::of_sites(*line, exactly(census.total()), pairs, &census.sites).named(names)
    });
    let accesses = sum_of(outcome.accesses);
    Comm {
        origin,
        program,
        way: CommWay::Every,
        elapsed_s: 0.0,
        threads: threads(outcome),
        total: exactly(total(outcome)),
        pairs: super::pairs(outcome.exact.pairs.iter().map(|(pair, counts)| (*pair, exactly(*counts)))),
        core_pairs: Vec::new(),
        lines: lines.collect(),
        evidence: CommEvidence { samples: accesses, accesses, ..CommEvidence::default() },
        cost: None,
    }
}

fn estimated_document(
    origin: Origin,
    program: Vec<String>,
    outcome: &Outcome,
    estimated: &Estimated,
    registers: u32,
    names: &mut dyn Naming,
) -> Comm {
    let transfers = &estimated.transfers;
    let exact_lines: BTreeMap<Line, &LineCensus> = outcome.exact.lines.iter().map(|(line, census)| (*line, census)).collect();
    let lines = transfers.lines.iter().map(|line| {
        let exact = exact_lines.get(&line.line).map(|census| exact_of(census.total()));
        let mut line = UnnamedLine::estimated(line);
        line.share.exact = exact;
        line.named(names)
    });
    Comm {
        origin,
        program,
        way: CommWay::Sampled {
            events: vec!["loads".into(), "stores".into()],
            period: estimated.period,
            loads_period: None,
            watchpoints: registers,
        },
        elapsed_s: 0.0,
        threads: threads(outcome),
        total: CommShare { exact: Some(exact_of(total(outcome))), ..super::estimated(&transfers.total) },
        pairs: super::pairs(estimated_pairs(outcome, estimated).into_iter()),
        core_pairs: Vec::new(),
        lines: lines.collect(),
        evidence: CommEvidence {
            samples: sum_of(estimated.samples),
            accesses: sum_of(outcome.accesses),
            traps: estimated.traps,
            followed: estimated.followed,
            unfollowed: estimated.busy,
            silent: estimated.silent,
            evicted: estimated.evicted,
            ..CommEvidence::default()
        },
        cost: None,
    }
}

/// All pairs that shared anything, or seem to.
fn estimated_pairs(outcome: &Outcome, estimated: &Estimated) -> BTreeMap<(Thread, Thread), CommShare> {
    let unseen = unseen(estimated.transfers.total.total);
    let mut pairs: BTreeMap<_, _> = outcome.exact.pairs.iter().map(|(pair, _)| (*pair, unseen)).collect();
    pairs.extend(estimated.transfers.pairs.iter().map(|(pair, shares)| (*pair, super::estimated(shares))));
    let exact: BTreeMap<_, _> = outcome.exact.pairs.iter().copied().collect();
    for (pair, share) in &mut pairs {
        share.exact = Some(exact_of(exact.get(pair).copied().unwrap_or_default()));
    }
    pairs
}

/// Transfers of the whole program.
fn total(outcome: &Outcome) -> Counts {
    let mut total = Counts::default();
    outcome.exact.pairs.iter().for_each(|(_, counts)| total += *counts);
    total
}

fn sum_of(kinds: [u64; 2]) -> u64 {
    kinds.iter().sum()
}

/// Threads of a simulation have numbers only.
fn threads(outcome: &Outcome) -> Vec<CommThread> {
    (0..outcome.threads).map(|number| CommThread { number, name: format!("thread {number}"), ..CommThread::default() }).collect()
}

fn exact_of(counts: Counts) -> CommExact {
    let Counts { true_sharing, false_sharing, by_stores, by_later_loads } = counts;
    CommExact { true_sharing, false_sharing, by_stores, by_later_loads }
}

fn exactly(counts: Counts) -> CommShare {
    CommShare {
        total: Estimate::exact(counts.total() as f64),
        true_sharing: Estimate::exact(counts.true_sharing as f64),
        false_sharing: Estimate::exact(counts.false_sharing as f64),
        evidence: counts.total(),
        exact: Some(exact_of(counts)),
    }
}

/// Nothing was seen of a pair: it has nothing, or what the whole may have beyond its estimate.
fn unseen(total: Estimate) -> CommShare {
    let none = Estimate::new(0.0, 0.0, total.high - total.low);
    CommShare { total: none, true_sharing: none, false_sharing: none, evidence: 0, exact: None }
}
