//! Another profiler at the same time.

use std::collections::BTreeMap;

use super::check::{Check, Judgement, Rule, Unit, Whole};
use crate::recording::{SeenRecord, kind, text};
use perftax_doc::words::named;

/// Profilers and tracers that were executed, by name.
#[derive(Default)]
pub(super) struct Profilers(BTreeMap<&'static str, u64>);

static RULE: Rule = Rule {
    name: "profilers",
    measures: "other profilers, tracers and debuggers that ran",
    unit: Unit::Count,
    warning: Some(1.0),
    error: None,
    source: "PERF_RECORD_COMM of an exec; all share counters and slow the program down, strace and gdb stop it at each call",
};

/// As the kernel has their names: 15 characters.
const NAMES: [&str; 26] = [
    "perf",
    "simpleperf",
    "perftax",
    "samply",
    "vtune",
    "amplxe-runss",
    "emon",
    "sep",
    "AMDuProfCLI",
    "hpcrun",
    "likwid-perfctr",
    "ocperf",
    "toplev",
    "operf",
    "bpftrace",
    "trace-cmd",
    "strace",
    "ltrace",
    "gdb",
    "lldb",
    "rr",
    "py-spy",
    "rbspy",
    "asprof",
    "profiler.sh",
    "valgrind",
];

impl Check for Profilers {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn sees_records(&self) -> bool {
        true
    }

    fn record(&mut self, record: &SeenRecord<'_>) {
        if record.kind == kind::COMM && record.misc & kind::MISC_COMM_EXEC != 0 {
            let name = record.body.get(8..).map(text).unwrap_or_default();
            if let Some(known) = NAMES.iter().find(|known| **known == name) {
                *self.0.entry(known).or_default() += 1;
            }
        }
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        // Of those that ran already there are samples where CPUs were watched. One perf is the recorder itself.
        let counts = &whole.recording.counts;
        let mut running: BTreeMap<&str, std::collections::BTreeSet<u32>> = BTreeMap::new();
        for (thread, _) in counts.by_thread.keys().filter(|_| counts.of_cpus) {
            if let Some(name) = NAMES.iter().find(|name| **name == counts.comm(thread.pid)) {
                running.entry(name).or_default().insert(thread.pid);
            }
        }
        let others = running.iter().map(|(name, pids)| (*name, pids.len() - usize::from(*name == "perf")));
        let mut found: BTreeMap<&str, u64> =
            others.filter(|(_, many)| *many > 0).map(|(name, many)| (name, many as u64)).collect();
        for (name, executed) in &self.0 {
            let many = found.entry(name).or_default();
            *many = (*many).max(*executed);
        }
        if found.is_empty() {
            return Judgement::none("no other profiler seen");
        }
        let names: Vec<String> = found.iter().map(|(name, many)| format!("{name} ({many})")).collect();
        Judgement::measured(
            found.values().sum::<u64>() as f64,
            format!("{} ran meanwhile", named(&names)),
            "the program paid for both, counters may have been shared, and part of what was sampled is the other's own work",
            "record without it",
        )
    }
}
