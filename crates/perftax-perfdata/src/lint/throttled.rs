//! Stretches in which the kernel stopped sampling because interrupts took too much time.

use std::collections::HashMap;

use super::check::{Check, Judgement, Rule, Unit, Whole};
use crate::recording::{SeenRecord, kind};
use perftax_doc::words::{many, share, time_s};

#[derive(Default)]
pub(super) struct Throttled {
    /// By stream: since when.
    since_ns: HashMap<u64, u64>,
    /// Streams that were, and for how long in all.
    streams: HashMap<u64, u64>,
    throttles: u64,
}

static RULE: Rule = Rule {
    name: "throttled",
    measures: "time without sampling because of throttling, of the run, of the event instance that had most",
    unit: Unit::Share,
    warning: Some(0.000_001),
    error: Some(0.05),
    source: "PERF_RECORD_THROTTLE and UNTHROTTLE; __perf_event_account_interrupt stops an event until the next tick (kernel/events/core.c)",
};

const MAX_STREAMS: usize = 1 << 14;
/// Of a kernel of 100 Hz.
const LONGEST_TICK_NS: u64 = 10_000_000;

impl Check for Throttled {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn sees_records(&self) -> bool {
        true
    }

    fn record(&mut self, record: &SeenRecord<'_>) {
        if record.kind != kind::THROTTLE && record.kind != kind::UNTHROTTLE {
            return;
        }
        // time, id, stream id
        let (Some(time_ns), Some(stream)) = (record.order.u64(record.body, 0), record.order.u64(record.body, 16)) else { return };
        if record.kind == kind::THROTTLE {
            self.throttles += 1;
            if self.streams.len() < MAX_STREAMS || self.streams.contains_key(&stream) {
                self.streams.entry(stream).or_default();
                self.since_ns.insert(stream, time_ns);
            }
        } else if let Some(since_ns) = self.since_ns.remove(&stream) {
            let stopped_ns = self.streams.entry(stream).or_default();
            *stopped_ns = stopped_ns.saturating_add(time_ns.saturating_sub(since_ns).min(LONGEST_TICK_NS));
        }
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        if self.throttles == 0 {
            return Judgement::none("never throttled");
        }
        let last_ns = whole.recording.counts.last_sample_ns.unwrap_or(0);
        // A task that ends meanwhile, or sleeps, is told of late or never.
        let open =
            |stream: &u64| self.since_ns.get(stream).map_or(0, |since_ns| last_ns.saturating_sub(*since_ns).min(LONGEST_TICK_NS));
        let longest_ns = self.streams.iter().map(|(stream, ns)| ns.saturating_add(open(stream))).max().unwrap_or(0);
        let of_run = whole.span_s().map(|span_s| (longest_ns as f64 * 1e-9 / span_s).min(1.0));
        let told = match of_run {
            Some(of_run) => {
                format!(", up to {} of the run without samples ({})", share(of_run), time_s(longest_ns as f64 * 1e-9))
            }
            None => String::new(),
        };
        Judgement::measured(
            // Throttled at all is a warning, however short, or of unknown length.
            of_run.unwrap_or(0.0).max(1e-6),
            format!("{}{told}", many(self.throttles, "event instance was throttled", "times an event instance was throttled")),
            "the busiest stretches have the fewest samples, until the next tick each time",
            "fewer samples (-F, -c), or sudo sysctl kernel.perf_cpu_time_max_percent=0 kernel.perf_event_max_sample_rate=RATE",
        )
    }
}
