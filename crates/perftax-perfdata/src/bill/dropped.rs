//! Interrupts of a timer whose sample its filter dropped (`cpu-clock:u` in the kernel's mode): they are paid for, and nothing of them is recorded.

use perftax_doc::{Estimate, LeftOut};

use super::price::Price;
use crate::recording::{EventCounts, Recording};

/// What they cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dropped {
    /// How many there were: from none to as many as the time has room for. Which of them came the recording does not tell.
    pub(super) interrupts: Estimate,
    /// CPU time of all, s.
    pub(super) cost_s: Estimate,
    /// Of that what made the run longer, s.
    pub(super) elapsed_cost_s: Estimate,
}

impl Dropped {
    /// Of an event in a run of `span_s`; none where it drops nothing, or how long the run took is not known.
    pub(super) fn of(recording: &Recording, counts: &EventCounts, price: &Price<'_>, span_s: f64) -> Option<Self> {
        let attribute = &counts.attribute;
        let left_out = LeftOut::of(price.calibration.mechanism, attribute.exclude_kernel, attribute.exclude_user);
        let term_ns = price.calibration.terms.get(left_out.term()?);
        let each_ns = term_ns.map_or(price.alpha_ns, |term_ns| term_ns.widened(price.drift));
        // A clock by frequency has a fixed period, too (perf_swevent_init_hrtimer).
        let period_ns = attribute.period.map(|ns| ns as f64).or_else(|| Some(1e9 / attribute.frequency? as f64))?;
        let on_one = span_s * 1e9 / period_ns;
        if on_one.is_nan() || on_one <= 0.0 {
            return None;
        }
        let at_most = (on_one * tracks(recording) - counts.samples as f64).max(0.0);
        let up_to = |most: f64| Estimate::new(most / 2.0, 0.0, most);
        let cost_s = |most: f64| Estimate::new(most / 2.0 * each_ns.estimate, 0.0, most * each_ns.high).scaled(1e-9);
        Some(Self { interrupts: up_to(at_most), cost_s: cost_s(at_most), elapsed_cost_s: cost_s(at_most.min(on_one)) })
    }
}

/// How many CPUs may have been interrupted at a time.
fn tracks(recording: &Recording) -> f64 {
    let counts = &recording.counts;
    let cpus = recording.cpus();
    if counts.of_cpus {
        return cpus as f64;
    }
    let threads = counts.by_thread.keys().map(|(thread, _)| thread.tid).collect::<std::collections::HashSet<_>>().len() as u64;
    threads.saturating_add(counts.created).clamp(1, cpus) as f64
}
