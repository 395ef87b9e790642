//! Units of what rows compare.

use std::fmt::{self, Display, Formatter};

/// What a row's numbers are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Samples.
    Samples,
    /// Samples of each of several events.
    SamplesOfEach,
    /// Events.
    Events,
    /// Events that could be opened.
    EventsOpened,
    /// Instructions.
    Instructions,
    /// A share of the samples, %.
    ShareOfSamples,
    /// A share of the samples of loads, %.
    ShareOfLoadsSamples,
    /// A share of the events, %.
    ShareOfEvents,
    /// A share of the CPU time, %.
    ShareOfCpuTime,
    /// Samples that arithmetic foretells, %.
    Foretold,
    /// Whether there are enough, 1 or 0.
    Enough,
    /// Runs that came to an end.
    WholeRuns,
    /// Microseconds to a sample.
    MicrosecondsASample,
    /// KiB.
    Kib,
}

impl Unit {
    const ALL: [Self; 14] = [
        Self::Samples,
        Self::SamplesOfEach,
        Self::Events,
        Self::EventsOpened,
        Self::Instructions,
        Self::ShareOfSamples,
        Self::ShareOfLoadsSamples,
        Self::ShareOfEvents,
        Self::ShareOfCpuTime,
        Self::Foretold,
        Self::Enough,
        Self::WholeRuns,
        Self::MicrosecondsASample,
        Self::Kib,
    ];

    /// Its text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::SamplesOfEach => "samples of each",
            Self::Events => "events",
            Self::EventsOpened => "events opened",
            Self::Instructions => "instructions",
            Self::ShareOfSamples => "% of the samples",
            Self::ShareOfLoadsSamples => "% of the loads' samples",
            Self::ShareOfEvents => "% of the events",
            Self::ShareOfCpuTime => "% of the CPU time",
            Self::Foretold => "% as arithmetic foretells",
            Self::Enough => "1 where there are enough",
            Self::WholeRuns => "whole runs",
            Self::MicrosecondsASample => "µs a sample",
            Self::Kib => "KiB",
        }
    }

    /// The one of this text; none of a row that has none.
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.text() == text)
    }
}

impl Display for Unit {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_read_from_its_text() {
        let texts = "samples; samples of each; events; events opened; instructions; % of the samples; % of the loads' samples; % of the events; \
                     % of the CPU time; % as arithmetic foretells; 1 where there are enough; whole runs; µs a sample; KiB";
        assert_eq!(Unit::ALL.map(|unit| unit.to_string()).join("; "), texts);
        assert!(Unit::ALL.into_iter().all(|unit| Unit::read(unit.text()) == Some(unit)));
        assert_eq!(Unit::read(""), None);
    }
}
