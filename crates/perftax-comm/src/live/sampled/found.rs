//! The document of what was found.

use std::collections::BTreeMap;

use crate::document::{self, UnnamedLine};
use crate::{AccessTable, Evidence, LineTransfers, Transfers, estimate};
use perftax_doc::Warning;
use perftax_doc::steps::{Operation, Setting};
use perftax_doc::{Comm, CommEvidence, CommPair, CommRest, CommShare, CommThread, CommWay, Origin};
use perftax_pmu::{Error, Result};
use perftax_target::Counted;

use super::sampling::Sampling;
use super::spaces::Spaces;
use super::threads::Threads;
use crate::live::ending::Ending;
use crate::live::names::ProcessNames;
use crate::live::warnings::{throttled, unwatched, warning};

/// Share of the traps whose instruction may be unknown: what they did would be missing from every follow.
const MAX_UNDECODED: f64 = 0.1;

/// What was found.
pub struct Found {
    /// How it ended, and what came.
    pub ending: Ending,
    /// Time for which a line was watched, ns.
    pub armed_ns: u64,
    /// Loads and stores counted, and loads that take long where they were sampled.
    pub counted: Vec<Counted>,
    /// Follows and samples.
    pub evidence: Evidence,
    /// How lines are used.
    pub board: AccessTable,
    /// Follows that ended for too many traps.
    pub crowded: u64,
    /// Samples that were not followed for the budget.
    pub unaffordable: u64,
    /// Threads.
    pub threads: Threads,
    /// Whose memory lines are.
    pub spaces: Spaces,
    /// How it was sampled.
    pub sampling: Sampling,
    /// Registers were aimed thread by thread: those of the CPUs may not be had.
    pub is_by_thread: bool,
}

/// Share of the samples that may be missing without being said: counters and samplers do not start at once.
const MAX_MISSING: f64 = 0.02;

impl Found {
    /// Whether what came can be estimated from.
    ///
    /// # Errors
    /// Where an event had no counter all the time, or too many traps are of instructions that are not known.
    pub fn check(&self) -> Result<()> {
        if let Some((event, _)) = self.of_events().find(|(_, counted)| counted.multiplexed() == Some(0.0)) {
            return Err(Error::Discarded {
                why: format!("the event {event} never had a counter: other events had them all the time"),
                remedy: "end other profilers (perf stat -a), free one counter (sysctl kernel.nmi_watchdog=0), or a longer run"
                    .into(),
            });
        }
        let CommEvidence { traps, undecoded, .. } = self.ending.records;
        if undecoded as f64 <= MAX_UNDECODED * traps as f64 {
            return Ok(());
        }
        Err(Error::Discarded {
            why: format!("of {undecoded} of {traps} traps it is not known which instruction it was, as of calls and returns"),
            remedy: format!(
                "{} sees every access of the program; {} the lines that you name",
                Operation::SimulateSharing,
                Operation::WatchNamed
            ),
        })
    }

    /// The document, with so many lines at most.
    pub fn document(&self, mut origin: Origin, program: Vec<String>, most_lines: usize) -> Comm {
        origin.warnings.extend(self.warnings());
        origin.warnings.extend(self.ending.warnings_of_heaps());
        let transfers = estimate(&self.evidence, &self.board, self.counted.get(1).map_or(0, |stores| stores.events));
        if transfers.disturbed_lines > 0 {
            origin.warnings.push(warning(
                format!(
                    "{} fetched far less often than registers saw: threads that contend without waiting for each other come in between where a \
                     store takes a trap",
                    match transfers.disturbed_lines {
                        1 => "1 line was".into(),
                        n => format!("{n} lines were"),
                    }
                ),
                "nothing: of those, sampled accesses that fetched tell, which takes no trap",
            ));
        }
        let threads = self.threads.document();
        let ending = &self.ending;
        let mut names = ProcessNames::new(&ending.images, ending.heaps.as_ref(), &[]);
        let named = |line: &LineTransfers| unnamed(line).named(&mut names.in_process(self.spaces.process(line.line)));
        let lines = transfers.lines.iter().take(most_lines).map(named).collect();
        Comm {
            origin,
            program,
            way: CommWay::Sampled {
                events: self.sampling.events.names(),
                period: self.sampling.period,
                loads_period: Some(self.sampling.loads_period()),
                watchpoints: self.sampling.terms.registers,
            },
            elapsed_s: ending.elapsed_ns as f64 * 1e-9,
            total: document::estimated(&transfers.total),
            pairs: document::pairs(transfers.pairs.iter().map(|(pair, shares)| (*pair, document::estimated(shares)))),
            core_pairs: core_pairs(&transfers, &threads),
            threads,
            lines,
            evidence: ending.with_heaps(self.evidence(&transfers)),
            cost: Some(ending.cost(self.armed_ns)),
        }
    }

    fn evidence(&self, transfers: &Transfers) -> CommEvidence {
        CommEvidence {
            samples: self.evidence.load_samples + self.evidence.stores(),
            accesses: self.counted.iter().take(2).map(|counted| counted.events).sum(),
            followed: self.evidence.follows.len() as u64,
            unfollowed: self.evidence.busy,
            silent: self.evidence.silent(),
            evicted: self.board.evicted(),
            untold_fetches: transfers.untold,
            moved_fetches: transfers.moved,
            fetches: self.evidence.fetches.as_ref().map_or(0, |fetches| fetches.loads.len() as u64),
            missed_stores: self.evidence.fetches.as_ref().map_or(0, |fetches| fetches.stores.len() as u64),
            unnamed_mappings: self.ending.images.unnamed(),
            ..self.ending.records
        }
    }

    /// Each sampled event's name, and how often it came.
    fn of_events(&self) -> impl Iterator<Item = (String, &Counted)> {
        self.sampling.events.names().into_iter().zip(&self.counted)
    }

    /// Samples that there should be, by the accesses that were counted.
    fn expected(&self) -> f64 {
        let periods = [self.sampling.loads_period(), self.sampling.period];
        self.counted.iter().zip(periods).map(|(accesses, period)| accesses.events as f64 / period as f64).sum()
    }

    /// How many of them neither came nor are known to be lost.
    fn missing(&self) -> f64 {
        let came = self.evidence.load_samples + self.evidence.stores() + self.ending.records.lost_samples;
        (self.expected() - came as f64).max(0.0)
    }

    /// What weakens the result.
    fn warnings(&self) -> Vec<Warning> {
        let mut all = Vec::new();
        let Ending { records, images, .. } = &self.ending;
        let longer_period = format!("a longer {}", Setting::Period);
        if records.lost_samples + records.lost_traps > 0 {
            all.push(warning(
                format!("{} samples and {} traps were lost: the rings were full", records.lost_samples, records.lost_traps),
                format!("{} with a larger power of two, or a longer {}", Setting::RingPages, Setting::Period),
            ));
        }
        let missing = self.missing();
        if missing > MAX_MISSING * self.expected() {
            all.push(warning(
                format!(
                    "{missing:.0} of {:.0} samples that there should be by the counters did not come: totals may be too small by as much",
                    self.expected()
                ),
                longer_period.as_str(),
            ));
        }
        all.extend(throttled(records.throttled, &longer_period));
        all.extend(unwatched(records.unwatched_threads));
        if self.crowded > 0 {
            all.push(warning(
                format!("{} follows ended early: their lines are read all the time, which traps each time", self.crowded),
                "nothing: of those the first store alone counts",
            ));
        }
        if self.is_by_thread {
            all.push(warning(
                "registers had to be aimed thread by thread, which takes long: few lines could be followed".into(),
                "CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0",
            ));
        }
        if self.unaffordable > 0 {
            all.push(warning(
                format!("{} samples were not followed for the budget", self.unaffordable),
                format!("a larger {}, or a longer run", Setting::Budget),
            ));
        }
        if images.unnamed() > 0 {
            all.push(warning(
                format!(
                    "{} mappings came after the most that are noted: lines there have addresses instead of names",
                    images.unnamed()
                ),
                format!("a shorter run, or {}, which names what malloc gives", Setting::Heap),
            ));
        }
        if self.evidence.stores() == 0 {
            all.push(warning("no store was sampled".into(), format!("a shorter {}, or a longer run", Setting::Period)));
        }
        let of_events = self.sampling.events.names().into_iter().zip(&self.counted);
        // What came while other events had the counters is missing from totals.
        all.extend(
            of_events.filter_map(|(event, counted)| Some(Warning::Multiplexed { event, running: counted.multiplexed()? })),
        );
        all
    }
}

fn unnamed(line: &LineTransfers) -> UnnamedLine {
    let rest = CommRest {
        stores_per_sample: line.rest.stores_per_sample,
        store_samples: line.rest.store_samples,
        transfers_per_store: line.rest.transfers_per_store.clone(),
    };
    UnnamedLine { rest: Some(rest), ..UnnamedLine::estimated(line) }
}

/// Transfers between cores, by the core that each thread ran on the most. Sums over pairs of threads; their intervals are added as if
/// they had nothing to do with each other.
fn core_pairs(transfers: &Transfers, threads: &[CommThread]) -> Vec<CommPair> {
    let core = |thread: u32| threads.get(thread as usize).and_then(|thread| thread.core);
    let mut by_cores: BTreeMap<(u32, u32), CommShare> = BTreeMap::new();
    for ((from, to), shares) in &transfers.pairs {
        let (Some(from), Some(to)) = (core(*from), core(*to)) else { continue };
        if from == to {
            continue;
        }
        let share = document::estimated(shares);
        by_cores
            .entry((from, to))
            .and_modify(|sum| {
                sum.total = sum.total.plus(&share.total);
                sum.true_sharing = sum.true_sharing.plus(&share.true_sharing);
                sum.false_sharing = sum.false_sharing.plus(&share.false_sharing);
                sum.evidence += share.evidence;
            })
            .or_insert(share);
    }
    document::pairs(by_cores.into_iter())
}
