//! What is known of the messages that were not kept (`--keep-slow`).
//!
//! | table | columns (int64, but for text) |
//! |---|---|
//! | population | cause (0: latency; else its place among the causes, from 1), ns, times |
//! | usual_events | event, amount (samples); function, module, object (text); where events are counted |
//! | usual_executed | messages of which it is known, instructions, cycles, on_cpu_ns; where they are counted |
//! | usual | cause (from 1), kind (0 all of it, ns; 1 which, ns; 2 function, samples), which, amount, function (text), module (text) |

use std::path::Path;

use perftax_pmu::Result;
use rustc_hash::FxHashMap;

use super::reader::Symbols;
use super::table::{Function, read_texts, write_texts};
use crate::blame::{Detail, Usual};
use crate::cause::{Cause, Shares};
use crate::distribution::{Distribution, Population};
use crate::executed::{Executed, ExecutedTotals};
use crate::spot::Spot;

const POPULATION: &str = "population.parquet";
const USUAL: &str = "usual.parquet";
const POPULATION_COLUMNS: ([&str; 3], [&str; 0]) = (["cause", "ns", "times"], []);
const USUAL_EVENTS: &str = "usual_events.parquet";
const USUAL_EVENT_COLUMNS: ([&str; 2], [&str; 3]) = (["event", "amount"], ["function", "module", "object"]);
const USUAL_EXECUTED: &str = "usual_executed.parquet";
const USUAL_EXECUTED_COLUMNS: ([&str; 4], [&str; 0]) = (["messages", "instructions", "cycles", "on_cpu_ns"], []);
const USUAL_COLUMNS: ([&str; 4], [&str; 2]) = (["cause", "kind", "which", "amount"], ["function", "module"]);

/// All messages in sums.
#[derive(Clone, Debug, Default)]
pub struct Background {
    /// How latencies and times by cause are distributed.
    pub population: Population,
    /// What messages that are not slow are like.
    pub usual: Usual,
}

impl Background {
    /// Writes the tables.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn write(&self, folder: &Path, symbols: &Symbols, objects: &[String]) -> Result<()> {
        let all = std::iter::once(&self.population.latency).chain(&self.population.causes);
        let rows: Vec<([u64; 3], [String; 0])> = all
            .enumerate()
            .flat_map(|(at, distribution)| distribution.buckets().map(move |(ns, times)| ([at as u64, ns, times], [])))
            .collect();
        write_texts(&folder.join(POPULATION), POPULATION_COLUMNS, &rows)?;
        let number = |cause: Cause| cause as u64 + 1;
        let totals = Cause::ALL.into_iter().map(|cause| ([number(cause), 0, 0, self.usual.totals.of(cause)], Default::default()));
        let details = self.usual.details.iter().filter_map(|((cause, detail), amount)| match detail {
            Detail::Which(which) => Some(([number(*cause), 1, u64::from(*which), *amount], Default::default())),
            // Kinds are not known while messages are recorded.
            Detail::Ended { .. } | Detail::Meanwhile(_) => None,
            Detail::Function(function) => {
                let function = symbols.get(*function);
                Some(([number(*cause), 2, 0, *amount], [function.name.clone(), function.module.clone()]))
            }
        });
        if !self.usual.events.is_empty() {
            let object =
                |number: u32| (number as usize).checked_sub(1).and_then(|at| objects.get(at)).cloned().unwrap_or_default();
            let row = |(spot, amount): (&Spot, &u64)| {
                let function = symbols.get(spot.function);
                ([spot.event.into(), *amount], [function.name.clone(), function.module.clone(), object(spot.object)])
            };
            let rows: Vec<([u64; 2], [String; 3])> = self.usual.events.iter().map(row).collect();
            write_texts(&folder.join(USUAL_EVENTS), USUAL_EVENT_COLUMNS, &rows)?;
        }
        let ExecutedTotals { messages, executed, on_cpu_ns } = self.usual.executed;
        if messages > 0 {
            let row: [([u64; 4], [&str; 0]); 1] = [([messages, executed.instructions, executed.cycles, on_cpu_ns], [])];
            write_texts(&folder.join(USUAL_EXECUTED), USUAL_EXECUTED_COLUMNS, &row)?;
        }
        write_texts(&folder.join(USUAL), USUAL_COLUMNS, &totals.chain(details).collect::<Vec<_>>())
    }

    /// Reads them; none where the trace holds all messages.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn read(folder: &Path, symbols: &Symbols, objects: &[String]) -> Result<Option<Self>> {
        if !folder.join(POPULATION).exists() {
            return Ok(None);
        }
        let mut background = Self::default();
        for ([cause, ns, times], []) in read_texts(&folder.join(POPULATION), POPULATION_COLUMNS)? {
            let distribution: Option<&mut Distribution> = match cause {
                0 => Some(&mut background.population.latency),
                other => background.population.causes.get_mut(other as usize - 1),
            };
            if let Some(distribution) = distribution {
                distribution.add_many(ns, times);
            }
        }
        // Unless the recording says that it was off for some.
        background.population.watched = background.population.latency.len();
        let usual = &mut background.usual;
        let mut totals = Shares::default();
        for ([cause, kind, which, amount], [name, module]) in read_texts(&folder.join(USUAL), USUAL_COLUMNS)? {
            let Some(cause) = Cause::ALL.get((cause as usize).wrapping_sub(1)).copied() else { continue };
            match kind {
                0 => totals.add(cause, amount),
                1 => drop(usual.details.insert((cause, Detail::Which(which as u32)), amount)),
                _ => {
                    let function = symbols.number(&Function { name, module });
                    *usual.details.entry((cause, Detail::Function(function))).or_default() += amount;
                }
            }
        }
        if folder.join(USUAL_EVENTS).exists() {
            let objects: FxHashMap<&str, u32> = (1..).zip(objects).map(|(number, name)| (name.as_str(), number)).collect();
            for ([event, amount], [name, module, object]) in read_texts(&folder.join(USUAL_EVENTS), USUAL_EVENT_COLUMNS)? {
                let object = objects.get(object.as_str()).copied().unwrap_or(0);
                let spot = Spot { event: event as u32, function: symbols.number(&Function { name, module }), object };
                *usual.events.entry(spot).or_default() += amount;
            }
        }
        if folder.join(USUAL_EXECUTED).exists() {
            for ([messages, instructions, cycles, on_cpu_ns], []) in
                read_texts(&folder.join(USUAL_EXECUTED), USUAL_EXECUTED_COLUMNS)?
            {
                usual.executed.join(&ExecutedTotals { messages, executed: Executed { instructions, cycles }, on_cpu_ns });
            }
        }
        usual.totals = totals;
        usual.latency_ns = background.population.latency.quantile_ns(0.5);
        usual.shares = background.population.usual();
        Ok(Some(background))
    }
}
