//! Which threads of a simulated program share which lines.

use std::collections::BTreeMap;

use perftax_comm::run::{Estimated, Outcome, Request};
use perftax_comm::{Counts, LINE_BYTES, Line, LineCensus, Thread};
use perftax_cost::Estimate;
use perftax_cost::document::{Comm, CommEvidence, CommExact, CommShare, CommThread, CommWay, Origin};
use perftax_model::run::Mapping;
use perftax_pmu::{Error, Result};

use super::runner::{no_outcome, run_with_plugin};
use super::{Guest, Installation};
use crate::comm::document::{self, Called};
use crate::comm::naming::{CodePlace, Names};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct SimulatedComm {
    /// What was seen; none where the program ended so that it could not be told.
    pub outcome: Option<Outcome>,
    /// How the program ended: its exit code, or 128 + the signal that killed it.
    pub code: i32,
    /// It forked; what the children did was not seen.
    pub forked: bool,
}

/// Runs a program and sees its every access.
///
/// # Errors
/// Where the program cannot be executed.
pub fn simulate_comm(installation: &Installation, guest: &Guest, request: &Request) -> Result<SimulatedComm> {
    let (outcome, code, forked) = run_with_plugin(installation, guest, request.seed, "comm", |outcome| {
        serde_json::to_vec(&Request { outcome, ..request.clone() })
    })?;
    Ok(SimulatedComm { outcome, code, forked })
}

impl SimulatedComm {
    /// Why there is no outcome.
    pub fn without(&self, program: &str) -> Error {
        no_outcome(self.code, program)
    }
}

/// The document of a run: the truth, with the estimate of one of its periods beside it where there is one.
pub fn comm_document(
    origin: Origin,
    program: Vec<String>,
    outcome: &Outcome,
    estimated: Option<&Estimated>,
    registers: u32,
) -> Comm {
    let mut names = Named::of(outcome);
    match estimated {
        None => exact_document(origin, program, outcome, &mut names),
        Some(estimated) => estimated_document(origin, program, outcome, estimated, registers, &mut names),
    }
}

fn exact_document(origin: Origin, program: Vec<String>, outcome: &Outcome, names: &mut Named) -> Comm {
    let lines = outcome.exact.lines.iter().map(|(line, census)| {
        let pairs = census.pairs.iter().map(|((from, to), counts)| (*from, *to, counts.total() as f64)).collect();
        document::line(*line, exactly(census.total()), pairs, &census.sites, names)
    });
    let accesses = sum_of(outcome.accesses);
    Comm {
        origin,
        program,
        way: CommWay::Every,
        elapsed_s: 0.0,
        threads: threads(outcome),
        total: exactly(total(outcome)),
        pairs: document::pairs(outcome.exact.pairs.iter().map(|(pair, counts)| (*pair, exactly(*counts)))),
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
    names: &mut Named,
) -> Comm {
    let transfers = &estimated.transfers;
    let exact_lines: BTreeMap<Line, &LineCensus> = outcome.exact.lines.iter().map(|(line, census)| (*line, census)).collect();
    let lines = transfers.lines.iter().map(|line| {
        let exact = exact_lines.get(&line.line).map(|census| exact_of(census.total()));
        let pairs = line.pairs.iter().map(|((from, to), transfers)| (*from, *to, *transfers)).collect();
        let share = CommShare { exact, ..document::estimated(&line.shares) };
        document::line(line.line, share, pairs, &line.sites, names)
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
        total: CommShare { exact: Some(exact_of(total(outcome))), ..document::estimated(&transfers.total) },
        pairs: document::pairs(estimated_pairs(outcome, estimated).into_iter()),
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
    pairs.extend(estimated.transfers.pairs.iter().map(|(pair, shares)| (*pair, document::estimated(shares))));
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

/// What stands where.
struct Named<'a> {
    names: Names,
    outcome: &'a Outcome,
}

impl<'a> Named<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        let mapping =
            |m: &perftax_comm::run::Mapped| Mapping { start: m.start, end: m.end, offset: m.offset, path: m.path.clone() };
        Self { names: Names::of(outcome.mappings.iter().map(mapping).collect()), outcome }
    }
}

impl Called for Named<'_> {
    fn line(&mut self, address: u64) -> String {
        let found = self.names.lying_in(address, LINE_BYTES);
        if found.is_known() {
            return found.name;
        }
        self.outcome.anonymous.name(address).unwrap_or(found.name)
    }

    fn code(&mut self, ip: u64) -> (String, Option<String>) {
        let CodePlace { function, source } = self.names.code(ip);
        (function, source)
    }
}
