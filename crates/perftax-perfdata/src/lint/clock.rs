//! A clock that stepped back: records whose time is before what was already final.
//!
//! perf record reads its rings in rounds, and ends each with a FINISHED_ROUND. What comes in a round is younger than what came in the round before the last, by
//! perf's own rule (`tools/perf/util/ordered-events.c`): perf report puts records in order by it.

use super::check::{Check, Judgement, Rule, Unit, Whole};
use crate::recording::{SeenRecord, SeenSample, kind};
use perftax_doc::words::{count, share, time_s};

#[derive(Default)]
pub(super) struct Clock {
    /// Latest time of this round, and of those before it; what is before `final_ns` comes too late.
    latest_ns: u64,
    before_ns: u64,
    final_ns: u64,
    rounds: u64,
    timed: u64,
    late: u64,
    furthest_ns: u64,
}

static RULE: Rule = Rule {
    name: "clock",
    measures: "samples whose time is before what came a round earlier, of all samples",
    unit: Unit::Share,
    warning: Some(0.000_001),
    error: Some(0.01),
    source: "FINISHED_ROUND (perf.data-file-format.txt); an unstable TSC, a guest that was moved, or CLOCK_REALTIME that was set",
};

impl Check for Clock {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn sees_samples(&self) -> bool {
        true
    }

    fn sees_records(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &SeenSample<'_>) {
        let Some(time_ns) = sample.belongs.time_ns.filter(|time_ns| *time_ns > 0) else { return };
        self.timed += 1;
        self.latest_ns = self.latest_ns.max(time_ns);
        if time_ns < self.final_ns {
            self.late += 1;
            self.furthest_ns = self.furthest_ns.max(self.final_ns - time_ns);
        }
    }

    fn record(&mut self, record: &SeenRecord<'_>) {
        if record.kind == kind::FINISHED_ROUND {
            self.rounds += 1;
            self.final_ns = self.before_ns;
            self.before_ns = self.latest_ns;
        }
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        if whole.samples() == 0 {
            return Judgement::unknown("there are no samples");
        }
        if self.timed == 0 {
            return Judgement::unknown("samples carry no time (perf record -T)");
        }
        if self.rounds == 0 {
            return Judgement::unknown("rings were not read in rounds (perf record --threads, other recorders)");
        }
        if self.rounds < 3 {
            return Judgement::none("all in one round");
        }
        if self.late == 0 {
            return Judgement::none("time goes forwards");
        }
        let of_all = self.late as f64 / self.timed as f64;
        Judgement::measured(
            of_all,
            format!(
                "{} of {} samples ({}) are older than what was read a round before, by up to {}",
                count(self.late),
                count(self.timed),
                share(of_all),
                time_s(self.furthest_ns as f64 * 1e-9)
            ),
            "order, intervals and what was mapped or called how at the time are wrong around the step",
            "perf record -k CLOCK_MONOTONIC, on a machine whose clock source is stable (dmesg | grep -i tsc)",
        )
    }
}
