//! A line that registers watch now, and when it is to be left.

use perftax_pmu::sys::monotonic_raw_ns;

use crate::End;
use crate::live::intake::Intake;

/// Traps after which a line is left at any rate: threads that wait for a flag read it all the time.
pub const MAX_TRAPS: u64 = 4096;
/// Samples after which it is left at any rate: a store once in a while would keep a line for the whole of a run.
const MAX_SAMPLES: usize = 4096;
/// Traps of unknown instructions after which it is left: as a rule calls and returns, on a stack that is one thread's own.
const MAX_UNDECODED: u64 = 8;
/// Longest that a line is watched where no samples come, ns.
const LONGEST_NS: u64 = 200_000_000;

/// Why a line is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// All that was wanted has come, or what comes tells nothing.
    Cut,
    /// Its traps are too many.
    Crowded,
    /// Nobody touches it.
    Silent,
}

impl Due {
    /// As evidence has it.
    pub fn end(self) -> End {
        match self {
            Self::Cut | Self::Crowded => End::Cut,
            Self::Silent => End::Silent,
        }
    }
}

/// A line that is watched now.
pub struct ActiveWatch {
    /// Since when, CLOCK_MONOTONIC_RAW, ns.
    pub since_ns: u64,
    /// When samples were taken meanwhile, ns.
    pub samples_ns: Vec<u64>,
    /// Traps before it.
    traps_before: u64,
    undecoded_before: u64,
    /// Traps that told something at the last sample, and samples since they grew.
    telling: u64,
    idle: u32,
}

impl ActiveWatch {
    /// Registers are aimed; what came before has been taken.
    pub fn new(since_ns: u64, intake: &Intake) -> Self {
        Self {
            since_ns,
            samples_ns: Vec::new(),
            traps_before: intake.evidence.traps,
            undecoded_before: intake.evidence.undecoded,
            telling: intake.telling(),
            idle: 0,
        }
    }

    /// A sample was taken meanwhile.
    pub fn sampled(&mut self, time_ns: u64, intake: &Intake) {
        let telling = intake.telling();
        self.idle = if telling > self.telling { 0 } else { self.idle + 1 };
        self.telling = telling;
        self.samples_ns.push(time_ns);
    }

    /// Why it is to be left, if it is; where nobody touches it, after so many samples.
    pub fn due(&self, intake: &Intake, patience: u32) -> Option<Due> {
        let traps = intake.evidence.traps - self.traps_before;
        let undecoded = intake.evidence.undecoded - self.undecoded_before;
        // Which store was the last that counts, the line watcher says itself.
        if intake.has_enough() || (undecoded >= MAX_UNDECODED && 2 * undecoded >= traps) {
            return Some(Due::Cut);
        }
        if traps >= MAX_TRAPS {
            return Some(Due::Crowded);
        }
        if self.samples_ns.len() > MAX_SAMPLES {
            return Some(Due::Cut);
        }
        // Where the program sleeps no samples come; others may be worth more by then.
        let is_old = monotonic_raw_ns() - self.since_ns > LONGEST_NS && intake.telling() == 0;
        (self.idle > patience || is_old).then_some(Due::Silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::plan::Plan;

    #[test]
    fn a_line_is_left_for_what_comes_of_it_or_does_not() {
        let mut intake = Intake::new(&Plan::default(), |_| false, 1);
        intake.evidence.traps = 100;
        let new = |intake: &Intake| ActiveWatch::new(monotonic_raw_ns(), intake);
        let mut active = new(&intake);
        assert_eq!(active.due(&intake, 1), None);
        (0..2).for_each(|time_ns| active.sampled(time_ns, &intake));
        assert_eq!((active.due(&intake, 1), active.due(&intake, 2)), (Some(Due::Silent), None));
        let old = ActiveWatch { since_ns: monotonic_raw_ns() - LONGEST_NS - 1, ..new(&intake) };
        assert_eq!(old.due(&intake, 1), Some(Due::Silent), "no sample came");
        intake.evidence.traps = 100 + MAX_TRAPS;
        assert_eq!(active.due(&intake, 2), Some(Due::Crowded));
        intake.evidence.undecoded = MAX_TRAPS / 2;
        assert_eq!(active.due(&intake, 2), Some(Due::Cut), "of half of them it is not known what they were");
    }
}
