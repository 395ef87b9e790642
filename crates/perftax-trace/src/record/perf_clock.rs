//! perf's own clock beside CLOCK_MONOTONIC_RAW. Intel's PEBS writes many records to an interrupt on the first alone, and the rest of a trace is
//! on the second.
//!
//! Nobody but the kernel can read perf's clock, and its rule for the time stamp counter (`time_zero` …) is missing in most guests. So now and
//! then we fault in a page, for which three events write a record each, one after the other: the first and the last on the one clock,
//! the second on the other. The middle of the two is when the second was written.

use perftax_pmu::event::{Catalog, parse};
use perftax_pmu::record::{Layout, Record, decode};
use perftax_pmu::sampler::{Clock, LiveSampler, Payload, Sampler, Sampling};
use perftax_pmu::sys::{FaultArea, Target};
use perftax_pmu::{Error, Result};

use crate::clock::Anchors;

/// Ring of one event, pages: one record at a time.
const RING_PAGES: usize = 1;
/// Faults of which the tightest is kept.
const ATTEMPTS: u32 = 3;
const EVENT: &str = "page-faults";

pub(super) struct PerfClock {
    clocks: [LiveSampler; 3],
    area: FaultArea,
    anchors: Anchors,
}

impl PerfClock {
    /// For the calling thread, which has to call [`PerfClock::anchor`], too.
    pub fn open(catalog: &Catalog) -> Result<Self> {
        let ring_bytes = RING_PAGES * rustix::param::page_size();
        let open = |clock| {
            let sampling = Sampling { clock, ..Sampling::every(1, ring_bytes).carrying(Payload::BASIC) };
            let events: Vec<_> = parse(EVENT, catalog)?.into_iter().map(|event| (event, sampling)).collect();
            LiveSampler::open(&events, &[Target::ThisThread], RING_PAGES)
        };
        let clocks = [open(Clock::MonotonicRaw)?, open(Clock::Perf)?, open(Clock::MonotonicRaw)?];
        Ok(Self { clocks, area: FaultArea::new(1)?, anchors: Anchors::default() })
    }

    /// Reads both clocks.
    ///
    /// # Errors
    /// Where the kernel wrote no record of the fault.
    pub fn anchor(&mut self) -> Result<()> {
        let mut readings = Vec::new();
        for _ in 0..ATTEMPTS {
            self.area.forget()?;
            self.clocks.iter_mut().try_for_each(Sampler::enable)?;
            self.area.touch();
            self.clocks.iter_mut().try_for_each(Sampler::disable)?;
            let mut times = [None; 3];
            for (time, clock) in times.iter_mut().zip(&mut self.clocks) {
                *time = last_time(clock)?;
            }
            if let [Some(first), Some(perf), Some(last)] = times {
                readings.push((perf, first.min(last), first.max(last)));
            }
        }
        if readings.is_empty() {
            let why = format!("the kernel wrote no record of our own {EVENT}");
            return Err(Error::Discarded { why, remedy: "kernel.perf_event_paranoid at 1 or less".into() });
        }
        let mut readings = readings.into_iter();
        self.anchors.take(readings.len() as u32, || readings.next().unwrap_or_default());
        Ok(())
    }

    /// A time of perf's clock as CLOCK_MONOTONIC_RAW has it.
    pub fn time_ns(&self, perf_ns: u64) -> Option<u64> {
        self.anchors.time_ns(perf_ns)
    }
}

/// When its last record was written.
fn last_time(clock: &mut LiveSampler) -> Result<Option<u64>> {
    let layout: Layout = *clock.layout();
    let mut time_ns = None;
    clock.drain(&mut |header, body| {
        if let Ok(Record::Sample(sample)) = decode(header, body, &layout) {
            time_ns = sample.time_ns;
        }
    })?;
    Ok(time_ns)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use perftax_pmu::sys::monotonic_raw_ns;

    #[test]
    fn a_fault_is_at_one_time_on_both_clocks() {
        let mut clock = PerfClock::open(&Catalog::of_this_machine()).unwrap();
        let before = monotonic_raw_ns();
        clock.anchor().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        clock.anchor().unwrap();
        let after = monotonic_raw_ns();
        let pairs = clock.anchors.pairs().to_vec();
        assert_eq!(pairs.len(), 2);
        assert!(before < pairs[0].1 && pairs[1].1 < after, "{before} {pairs:?} {after}");
        // Both clocks pass alike.
        let (perf, raw) = (pairs[1].0 - pairs[0].0, pairs[1].1 - pairs[0].1);
        assert!(perf.abs_diff(raw) * 100 < raw, "{pairs:?}");
        assert_eq!(clock.time_ns(pairs[0].0), Some(pairs[0].1));
    }
}
