//! From blocks to a calibration: which arms are compared with which.

use std::collections::BTreeMap;

use perftax_cost::Estimate;
use perftax_cost::alpha::{Clock, Unit, control, difference_of, drift, linearity, ratio_of_sums};
use perftax_cost::bootstrap::{REPLICATES, SEED, cluster_bootstrap, median};
use perftax_cost::buffering::{ASSIST_TERM, COPY_TERM, INTERRUPT_TERM, Split, split};
use perftax_cost::document::{Control, Linearity};
use perftax_cost::observation::Block;

use super::arm::{ARMED, COUNTING, IDLE, OFF, OFF_AGAIN, ON};
use super::switching::{SWITCH_ARMS, SWITCH_OFF};

/// Everything that the blocks of a calibration say.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// α, ambient.
    pub alpha_ns: Estimate,
    /// The floor, where there were enough samples for it.
    pub floor_ns: Option<Estimate>,
    /// The split of the cost.
    pub terms: BTreeMap<String, Estimate>,
    /// Cost by period.
    pub linearity: Option<Linearity>,
    /// Off against off.
    pub control: Option<Control>,
    /// Spread of α between sessions beyond their noise, a fraction.
    pub drift: f64,
    /// Samples behind α.
    pub samples: u64,
    /// Samples that should have come in those blocks.
    pub expected_samples: f64,
    /// Lost in all blocks.
    pub lost: u64,
    /// THROTTLE records in all blocks.
    pub throttled: u64,
    /// Sessions.
    pub sessions: u32,
    /// Spoiled blocks.
    pub spoiled: u64,
}

/// The payload arms whose cost is told apart, each on top of the basic sample.
const PAYLOADS: [&str; 5] = ["callchain", "user-regs", "user-stack", "group-read", "signal"];

/// The terms of a buffer, where there is one.
pub(super) fn split_of(blocks: &[Block], baseline: &str) -> Option<Split> {
    (baseline == IDLE).then(|| split(blocks, baseline, |b| b.arm == ON || b.arm.starts_with("on@")))?
}

/// α: the sum of a buffer's terms, or the ratio of sums.
pub(super) fn alpha_of(blocks: &[Block], baseline: &str, split: Option<&Split>) -> Option<Estimate> {
    split.map(|split| split.alpha_ns).or_else(|| ratio_of_sums(blocks, baseline, ON, Unit::Samples, Clock::Wall))
}

/// Concludes from all blocks (sampled ones being held against arm `baseline`) and the per-session floors; none while there are fewer
/// than two usable sessions.
pub fn conclude(blocks: &[Block], baseline: &str, floors_ns: &[f64]) -> Option<Conclusion> {
    let (unit, clock) = (Unit::Samples, Clock::Wall);
    let split = split_of(blocks, baseline);
    let alpha_ns = alpha_of(blocks, baseline, split.as_ref())?;
    let mut terms = BTreeMap::new();
    let has = |arm: &str| blocks.iter().any(|b| b.arm == arm);
    let mut term = |name: &str, estimate: Option<Estimate>| {
        if let Some(estimate) = estimate {
            terms.insert(name.to_string(), estimate);
        }
    };
    if let Some(split) = &split {
        term(ASSIST_TERM, Some(split.assist_ns));
        term(COPY_TERM, Some(split.copy_ns));
        term(INTERRUPT_TERM, split.interrupt_ns);
    }
    if has(ARMED) {
        term(ARMED, ratio_of_sums(blocks, OFF, ARMED, Unit::Expected, clock));
    }
    if has(COUNTING) {
        // Per event, and contained in α at period 1; what taking the sample adds is its own term.
        term(COUNTING, ratio_of_sums(blocks, OFF, COUNTING, Unit::Expected, clock));
        term("record", difference_of(blocks, OFF, COUNTING, ON, Unit::Expected, clock));
    } else if split.is_none() {
        term("record", Some(alpha_ns));
    }
    for name in PAYLOADS.into_iter().filter(|name| has(name)) {
        term(name, difference_of(blocks, baseline, ON, name, unit, clock));
    }
    for (arm, _) in SWITCH_ARMS.into_iter().filter(|(arm, _)| has(arm)) {
        // Samples taken while switching are paid for by α already; what is left is the switches'.
        let raw = ratio_of_sums(blocks, SWITCH_OFF, arm, Unit::Expected, clock);
        let usable = || blocks.iter().filter(|b| b.arm == arm && b.spoiled.is_none());
        let samples_per_switch = usable().map(|b| b.samples as f64).sum::<f64>() / usable().map(|b| b.expected).sum::<f64>();
        term(arm, raw.map(|r| r.plus(&alpha_ns.scaled(-samples_per_switch))));
    }
    let base = if has(COUNTING) { COUNTING } else { baseline };
    let on_arms: Vec<&str> = {
        let mut names: Vec<&str> = blocks.iter().map(|b| b.arm.as_str()).filter(|n| *n == ON || n.starts_with("on@")).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let main: Vec<&Block> = blocks.iter().filter(|b| b.arm == ON && b.spoiled.is_none()).collect();
    Some(Conclusion {
        alpha_ns,
        floor_ns: cluster_bootstrap(floors_ns, |f| median(&mut f.iter().map(|v| **v).collect::<Vec<_>>()), REPLICATES, SEED),
        terms,
        linearity: linearity(blocks, base, &on_arms, unit, clock),
        control: control(blocks, OFF, OFF_AGAIN, clock),
        drift: drift(blocks, baseline, ON, unit, clock).unwrap_or(0.0),
        samples: main.iter().map(|b| b.samples).sum(),
        expected_samples: main.iter().map(|b| b.expected).sum(),
        lost: blocks.iter().map(|b| b.lost).sum(),
        throttled: blocks.iter().map(|b| b.throttled).sum(),
        sessions: blocks.iter().map(|b| b.session + 1).max().unwrap_or(0),
        spoiled: blocks.iter().filter(|b| b.spoiled.is_some()).count() as u64,
    })
}
