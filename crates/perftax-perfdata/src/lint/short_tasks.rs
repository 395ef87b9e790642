//! Threads and processes that lived shorter than a period: the copy of an event that each inherits begins to count anew, and never comes to a sample.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::check::{Check, Judgement, Rule, Unit, Whole};
use crate::recording::{SeenRecord, kind};
use perftax_doc::words::{count, many, share, time_s};

/// Lifetimes by power of two of their length, ns: how many, and all of them together.
#[derive(Default)]
pub(super) struct ShortTasks {
    born_ns: FxHashMap<u32, u64>,
    ended_ns: FxHashMap<u32, u64>,
    lives: BTreeMap<u32, (u64, u64)>,
}

static RULE: Rule = Rule {
    name: "short-tasks",
    measures: "lifetime of threads and processes that lived shorter than one period, of the run",
    unit: Unit::Share,
    warning: Some(0.1),
    error: Some(0.5),
    source: "perf_event_init_task gives each child a copy with a whole period to go (kernel/events/core.c)",
};

const MAX_ALIVE: usize = 1 << 16;
/// Fewer are no pattern.
const MIN_TASKS: u64 = 20;

impl Check for ShortTasks {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn sees_records(&self) -> bool {
        true
    }

    fn record(&mut self, record: &SeenRecord<'_>) {
        if record.kind != kind::FORK && record.kind != kind::EXIT {
            return;
        }
        // pid, ppid, tid, ptid, time
        let (Some(tid), Some(time_ns)) = (record.order.u32(record.body, 8), record.order.u64(record.body, 16)) else { return };
        if time_ns == 0 {
            return;
        }
        // Its end may stand before its beginning, in another CPU's ring.
        let (own, other) = match record.kind {
            kind::FORK => (&mut self.born_ns, &mut self.ended_ns),
            _ => (&mut self.ended_ns, &mut self.born_ns),
        };
        match other.remove(&tid) {
            Some(other_ns) => {
                let life_ns = time_ns.abs_diff(other_ns);
                let of_length = self.lives.entry(life_ns.checked_ilog2().unwrap_or(0)).or_default();
                *of_length = (of_length.0 + 1, of_length.1.saturating_add(life_ns));
            }
            None if own.len() < MAX_ALIVE => {
                own.insert(tid, time_ns);
            }
            None => {}
        }
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        if whole.recording.counts.of_cpus {
            return Judgement::none("CPUs were watched: a period goes on from task to task");
        }
        let period_ns =
            |event: &crate::recording::EventCounts| event.attribute.clock_period_ns().filter(|_| event.attribute.inherit);
        let Some(shortest_ns) = whole.recording.events.iter().filter_map(period_ns).min() else {
            return Judgement::none("no clock that children inherit");
        };
        let (mut short, mut short_ns, mut all) = (0_u64, 0_u64, 0_u64);
        for (length, (tasks, ns)) in &self.lives {
            all += tasks;
            // Of the length in which the period lies about half are shorter: they are left out.
            if 2_u128 << length <= u128::from(shortest_ns) {
                short += tasks;
                short_ns = short_ns.saturating_add(*ns);
            }
        }
        let Some(span_s) = whole.span_s().filter(|_| short >= MIN_TASKS) else {
            return Judgement::none(format!("{} of {} lived shorter than a period", count(short), many(all, "task", "tasks")));
        };
        Judgement::measured(
            (short_ns as f64 * 1e-9 / span_s).min(1.0),
            format!(
                "{} of {} lived shorter than the period of {}, {} of the run together",
                count(short),
                many(all, "thread or process", "threads and processes"),
                time_s(shortest_ns as f64 * 1e-9),
                share((short_ns as f64 * 1e-9 / span_s).min(1.0))
            ),
            "they have no sample, or too few, however much they did together",
            "watch the CPUs instead (sudo perf record -a -- COMMAND), or a period well below their lifetime",
        )
    }
}
