//! What the first messages say about what sampling can show of one.

use perftax_doc::{Estimate, Mechanism};
use perftax_report::units;
use perftax_trace::record::Row;
use perftax_trace::{Record, Tracker};

/// Messages that are looked at.
const MESSAGES: usize = 1000;
/// Samples of a message from which on it shows where its time went.
const ENOUGH: f64 = 5.0;
/// The kernel's least period of cpu-clock, ns (kernel/events/core.c, perf_swevent_start_hrtimer).
const MIN_PERIOD_NS: u64 = 10_000;

/// Watches the first messages of a recording.
pub struct Pilot {
    tracker: Tracker,
    latencies_ns: Vec<u64>,
    period_ns: u64,
    alpha_ns: Option<Estimate>,
}

impl Pilot {
    /// One for a clock's samples; of other events nobody knows how many a message will have.
    pub fn new(mechanism: Mechanism, period: u64, alpha_ns: Option<Estimate>) -> Option<Self> {
        let tracker = Tracker::default();
        (mechanism == Mechanism::CpuClock).then(|| Self { tracker, latencies_ns: Vec::new(), period_ns: period, alpha_ns })
    }

    /// Takes a row; after the last one that it needs, says what is to be expected.
    pub fn take(&mut self, row: &Row) -> Option<String> {
        let Row::Mark(mark) = row else { return None };
        let latencies = &mut self.latencies_ns;
        self.tracker.take(&Record::Mark(*mark), &mut |message| latencies.extend(message.latency_ns()));
        (self.latencies_ns.len() >= MESSAGES).then(|| self.promise())
    }

    fn promise(&mut self) -> String {
        self.latencies_ns.sort_unstable();
        let median_ns = self.latencies_ns[self.latencies_ns.len() / 2].max(1);
        let each = median_ns as f64 / self.period_ns as f64;
        let mut text = format!(
            "messages take {} (median of the first {MESSAGES}): {} samples each at this period",
            units::time_ns(median_ns as f64),
            units::about(each)
        );
        if each >= ENOUGH {
            return text;
        }
        let sight = units::time_ns(3.0 * self.period_ns as f64);
        text += &format!(". The function of a delay is told from {sight} on; of shorter ones over many messages only");
        let wanted_ns = (median_ns as f64 / ENOUGH) as u64;
        text += &match self.alpha_ns {
            _ if wanted_ns < MIN_PERIOD_NS => {
                format!(". No period gives the median message {ENOUGH} samples: the kernel's least is {MIN_PERIOD_NS} ns")
            }
            // Beyond half of the time the program crawls.
            Some(alpha) if wanted_ns as f64 <= 2.0 * alpha.high => {
                let sample = units::time_ns(alpha.estimate);
                format!(". No period gives the median message {ENOUGH} samples: each takes {sample}")
            }
            Some(alpha) => {
                let share = units::share(alpha.high / (wanted_ns as f64 - alpha.high).max(1.0));
                format!(". -c {wanted_ns} gives the median message {ENOUGH}, and costs up to {share}")
            }
            None => format!(". -c {wanted_ns} gives the median message {ENOUGH}; what that costs says perftax calibrate"),
        };
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use perftax_trace::{Kind, Mark};

    fn promise(latency_ns: u64, period: u64) -> String {
        let mut pilot = Pilot::new(Mechanism::CpuClock, period, Some(Estimate::new(1500.0, 1400.0, 1600.0))).unwrap();
        let mark = |time_ns, id, kind| Row::Mark(Mark { time_ns, tid: 1, id, kind });
        let pairs = (1..).flat_map(|id| {
            let begin = id * 2 * latency_ns;
            [mark(begin, id, Kind::Begin), mark(begin + latency_ns, id, Kind::End)]
        });
        pairs.into_iter().find_map(|row| pilot.take(&row)).unwrap()
    }

    #[test]
    fn no_more_is_promised_than_there_is() {
        let fine = promise(10_000_000, 1_000_000);
        assert!(fine.ends_with("samples each at this period") && fine.contains(": 10"), "{fine}");
        let coarse = promise(1_000_000, 1_000_000);
        assert!(
            coarse.contains("from 3 ms on") && coarse.contains("-c 200000 gives the median message 5, and costs up to"),
            "{coarse}"
        );
        let hopeless = promise(3000, 1_000_000);
        assert!(hopeless.contains("No period gives the median message 5 samples"), "{hopeless}");
        // A sample takes up to 1.6 µs of the 11 that it would have, and of the 10.5 that a shorter message would leave: within reach, and not.
        let dear = promise(55_000, 1_000_000);
        assert!(dear.contains("-c 11000 gives the median message 5"), "{dear}");
        assert!(Pilot::new(Mechanism::Pebs, 1000, None).is_none());
    }
}
