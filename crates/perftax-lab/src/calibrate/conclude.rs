//! From blocks to a calibration: which arms are compared with which.

use std::collections::BTreeMap;

use perftax_cost::alpha::{Unit, control, difference_of, drift, linearity, ratio_of_sums};
use perftax_cost::bootstrap::{REPLICATES, SEED, cluster_bootstrap};
use perftax_cost::buffering::{ASSIST_TERM, COPY_TERM, INTERRUPT_TERM, Split, split};
use perftax_cost::direct::{DirectSplit, HANDLER_TERM, direct_split, record_cost};
use perftax_cost::prediction::RAW_TERM;
use perftax_cost::tasks::{EXEC_CPUS_TERM, EXEC_TERM, TASK_CPUS_TERM, TASK_EVENT_TERM, TASK_TERM, more_each};
use perftax_doc::median;
use perftax_doc::observation::Block;
use perftax_doc::{ArmName, Calibration, Control, DirectCost, Linearity, Origin, StopReason};
use perftax_doc::{Estimate, Mechanism, PayloadTerm};

use super::arm::{
    ARMED, CACHED, COUNTING, EACH, EXCLUDED_IN_KERNEL, EXCLUDED_IN_USER, GROUP_READ, IDLE, OFF, OFF_AGAIN, OFF_CACHED,
    OFF_IN_KERNEL, OFF_WIDE_CODE, ON, PERF_IDLE, SIGNAL, WIDE_CODE,
};
use super::spec::{baseline, clock};
use super::switching::{SWITCH_ARMS, SWITCH_OFF, SWITCH_RARE};
use crate::stimulus::WideCode;

use super::tasking::{EXEC_CPUS, EXEC_OFF, EXEC_ON, TASK_CPUS, TASK_OFF, TASK_ON, Tasks};

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
    /// By size of our own buffer.
    pub direct: Option<DirectCost>,
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
    /// Discarded blocks.
    pub discarded: u64,
}

impl Conclusion {
    /// The document, without a cross-check by the handler's own time.
    pub(crate) fn calibration(self, origin: Origin, mechanism: Mechanism, event: String, blocks: Vec<Block>) -> Calibration {
        Calibration {
            origin,
            mechanism,
            event,
            alpha_ns: self.alpha_ns,
            floor_ns: self.floor_ns,
            samples: self.samples,
            expected_samples: self.expected_samples,
            lost: self.lost,
            throttled: self.throttled,
            wide_code_pages: self.terms.contains_key(WIDE_CODE).then(WideCode::effective_pages),
            terms: self.terms,
            linearity: self.linearity,
            control: self.control,
            cross_check: None,
            direct: self.direct,
            drift: self.drift,
            sessions: self.sessions,
            elapsed_s: 0.0,
            stopped: StopReason::TimeLimit,
            blocks,
        }
    }
}

/// The payload arms whose cost is told apart, each on top of the basic sample.
const PAYLOADS: [&str; 7] = [
    PayloadTerm::Callchain.name(),
    PayloadTerm::UserRegisters.name(),
    PayloadTerm::UserStack.name(),
    PayloadTerm::Branches.name(),
    RAW_TERM,
    GROUP_READ,
    SIGNAL,
];

/// The terms of a buffer, where there is one.
enum Terms {
    /// Perf's.
    Perf(Split),
    /// Our module's, with what perf's PEBS took beside it.
    Direct(DirectSplit, Option<Split>),
}

impl Terms {
    fn of(blocks: &[Block], mechanism: Mechanism) -> Option<Self> {
        match mechanism {
            Mechanism::Pebs => split(blocks, IDLE, is_on).map(Self::Perf),
            Mechanism::PebsDirect => {
                let perf = split(blocks, PERF_IDLE, |b| matches!(ArmName::of(&b.arm), ArmName::Perf { .. }));
                direct_split(blocks, is_idle, is_on, EACH).map(|direct| Self::Direct(direct, perf))
            }
            _ => None,
        }
    }

    /// What a sample costs; our module's record, which nobody reads, without its share of an interrupt.
    fn alpha_ns(&self) -> Estimate {
        match self {
            Self::Perf(split) => split.alpha_ns,
            Self::Direct(split, _) => split.record_ns,
        }
    }

    fn by_name(&self) -> Vec<(&'static str, Option<Estimate>)> {
        match self {
            Self::Perf(split) => {
                vec![(ASSIST_TERM, Some(split.assist_ns)), (COPY_TERM, Some(split.copy_ns)), (INTERRUPT_TERM, split.interrupt_ns)]
            }
            Self::Direct(split, _) => vec![
                (ASSIST_TERM, Some(split.record_ns)),
                (INTERRUPT_TERM, Some(split.interrupt_ns)),
                (HANDLER_TERM, split.handler_ns),
            ],
        }
    }

    fn direct(&self) -> Option<DirectCost> {
        match self {
            Self::Perf(_) => None,
            Self::Direct(split, perf) => Some(DirectCost {
                buffers: split.buffers.clone(),
                line: split.line,
                decomposition: perf.as_ref().and_then(|perf| split.decompose(perf)),
                published: Vec::new(),
            }),
        }
    }
}

fn is_idle(block: &Block) -> bool {
    ArmName::of(&block.arm).is_idle()
}

fn is_on(block: &Block) -> bool {
    ArmName::of(&block.arm).is_on()
}

/// α where a buffer has no terms.
fn ratio_of(blocks: &[Block], mechanism: Mechanism) -> Option<Estimate> {
    ratio_of_sums(blocks, baseline(mechanism), ON, Unit::Samples, clock(mechanism))
}

/// α, as [`conclude`] finds it, without all else.
pub(super) fn alpha_of(blocks: &[Block], mechanism: Mechanism) -> Option<Estimate> {
    let of_buffer = match mechanism {
        Mechanism::PebsDirect => record_cost(blocks, is_idle, is_on, EACH),
        _ => Terms::of(blocks, mechanism).as_ref().map(Terms::alpha_ns),
    };
    of_buffer.or_else(|| ratio_of(blocks, mechanism))
}

/// Concludes from all blocks and the per-session floors; none while there are fewer than two usable sessions.
pub fn conclude(blocks: &[Block], mechanism: Mechanism, floors_ns: &[f64]) -> Option<Conclusion> {
    let (unit, clock, baseline) = (Unit::Samples, clock(mechanism), baseline(mechanism));
    let of_buffer = Terms::of(blocks, mechanism);
    let alpha_ns = of_buffer.as_ref().map(Terms::alpha_ns).or_else(|| ratio_of(blocks, mechanism))?;
    let mut terms = BTreeMap::new();
    let has = |arm: &str| blocks.iter().any(|b| b.arm == arm);
    let mut term = |name: &str, estimate: Option<Estimate>| {
        if let Some(estimate) = estimate {
            terms.insert(name.to_string(), estimate);
        }
    };
    for (name, estimate) in of_buffer.iter().flat_map(Terms::by_name) {
        term(name, estimate);
    }
    if has(ARMED) {
        term(ARMED, ratio_of_sums(blocks, OFF, ARMED, Unit::Expected, clock));
    }
    if has(COUNTING) {
        // Per event, and contained in α at period 1; what taking the sample adds is its own term.
        term(COUNTING, ratio_of_sums(blocks, OFF, COUNTING, Unit::Expected, clock));
        term("record", difference_of(blocks, OFF, COUNTING, ON, Unit::Expected, clock));
    } else if of_buffer.is_none() {
        term("record", Some(alpha_ns));
    }
    for (baseline, name) in [(baseline, EXCLUDED_IN_USER), (OFF_IN_KERNEL, EXCLUDED_IN_KERNEL)] {
        if has(name) {
            // None came: what the CPU time and the period say is how many interrupts there were.
            term(name, ratio_of_sums(blocks, baseline, name, Unit::Expected, clock));
        }
    }
    for (baseline, name) in [(OFF_CACHED, CACHED), (OFF_WIDE_CODE, WIDE_CODE)].into_iter().filter(|(_, name)| has(name)) {
        term(name, ratio_of_sums(blocks, baseline, name, unit, clock));
    }
    for name in PAYLOADS.into_iter().filter(|name| has(name)) {
        term(name, difference_of(blocks, baseline, ON, name, unit, clock));
    }
    for arm in SWITCH_ARMS.into_iter().map(|(arm, _)| arm).chain([SWITCH_RARE]).filter(|arm| has(arm)) {
        // Samples taken while switching are paid for by α already; what is left is the switches'.
        let raw = ratio_of_sums(blocks, SWITCH_OFF, arm, Unit::Expected, clock);
        let usable = || blocks.iter().filter(|b| b.arm == arm && b.discarded.is_none());
        let samples_per_switch = usable().map(|b| b.samples as f64).sum::<f64>() / usable().map(|b| b.expected).sum::<f64>();
        term(arm, raw.map(|r| r.plus(&alpha_ns.scaled(-samples_per_switch))));
    }
    if let Some(task_ns) = more_each(blocks, TASK_OFF, TASK_ON, &alpha_ns) {
        term(TASK_TERM, Some(task_ns));
        let more = blocks.iter().find_map(|b| Some((b.arm.as_str(), Tasks::further_copies(&ArmName::of(&b.arm))?)));
        let further = more.and_then(|(arm, copies)| Some((more_each(blocks, TASK_ON, arm, &alpha_ns)?, copies)));
        term(TASK_EVENT_TERM, further.map(|(copies_ns, copies)| copies_ns.scaled(1.0 / f64::from(copies))));
        // Whatever executes a program was created before.
        term(EXEC_TERM, more_each(blocks, EXEC_OFF, EXEC_ON, &alpha_ns).map(|ns| ns.plus(&task_ns.scaled(-1.0))));
    }
    if let Some(task_ns) = more_each(blocks, TASK_OFF, TASK_CPUS, &alpha_ns) {
        term(TASK_CPUS_TERM, Some(task_ns));
        term(EXEC_CPUS_TERM, more_each(blocks, EXEC_OFF, EXEC_CPUS, &alpha_ns).map(|ns| ns.plus(&task_ns.scaled(-1.0))));
    }
    let base = if has(COUNTING) { COUNTING } else { baseline };
    // Of several buffers the largest tells of samples alone: the others add interrupts at short periods.
    let largest = blocks.iter().filter_map(|b| b.settling).map(|s| s.buffer_bytes).max().unwrap_or(0);
    let is_largest = |b: &&Block| b.settling.is_none_or(|s| s.buffer_bytes == largest);
    let on_arms: Vec<&str> = {
        let on = blocks.iter().filter(|b| is_on(b)).filter(is_largest);
        let mut names: Vec<&str> = on.map(|b| b.arm.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let direct = of_buffer.as_ref().and_then(Terms::direct);
    // Our module's α comes from all of them.
    let is_behind = |b: &&Block| if direct.is_some() { is_on(b) } else { b.arm == ON };
    let behind: Vec<&Block> = blocks.iter().filter(is_behind).filter(|b| b.discarded.is_none()).collect();
    Some(Conclusion {
        alpha_ns,
        // Of a record that waits in a buffer no single operation tells: the longest ones are somebody else's.
        floor_ns: of_buffer.is_none().then(|| floor(floors_ns)).flatten(),
        terms,
        linearity: linearity(blocks, base, &on_arms, unit, clock),
        direct,
        control: control(blocks, OFF, OFF_AGAIN, clock),
        drift: drift(blocks, baseline, ON, unit, clock).unwrap_or(0.0),
        samples: behind.iter().map(|b| b.samples).sum(),
        expected_samples: behind.iter().map(|b| b.expected).sum(),
        lost: blocks.iter().map(|b| b.lost).sum(),
        throttled: blocks.iter().map(|b| b.throttled).sum(),
        sessions: blocks.iter().map(|b| b.session + 1).max().unwrap_or(0),
        discarded: blocks.iter().filter(|b| b.discarded.is_some()).count() as u64,
    })
}

/// The median over sessions.
fn floor(floors_ns: &[f64]) -> Option<Estimate> {
    cluster_bootstrap(floors_ns, |f| median(&mut f.iter().map(|v| **v).collect::<Vec<_>>()), REPLICATES, SEED)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use perftax_doc::observation::Settling;

    use super::*;

    /// Blocks of PEBS, each record of which takes 1,000 ns.
    fn blocks(waiting: u64, interrupts: u64) -> Vec<Block> {
        let of = |session: u32, arm: &str, samples: u64| {
            let wall_ns = 2_500_000 + u64::from(session) * 700 + samples * 1_000;
            let (waiting, interrupts) = (waiting.min(samples), interrupts.min(samples));
            Block {
                session,
                round: 0,
                arm: arm.into(),
                period: 32_771,
                samples,
                expected: samples as f64,
                lost: 0,
                throttled: 0,
                wall_ns,
                cpu_ns: wall_ns,
                involuntary_switches: 0,
                steal_ns: 0,
                settling: Some(Settling { waiting, interrupts, ..Settling::default() }),
                discarded: None,
            }
        };
        (0..8).flat_map(|session| [of(session, OFF, 0), of(session, IDLE, 0), of(session, ON, 76)]).collect()
    }

    #[test]
    fn what_waits_in_a_buffer_has_no_floor() {
        let floors_ns = [900.0, 950.0, 980.0, 1_000.0];
        let shared = conclude(&blocks(76, 0), Mechanism::Pebs, &floors_ns).unwrap();
        assert!(shared.terms.contains_key(ASSIST_TERM) && shared.floor_ns.is_none(), "{shared:?}");
        let single = conclude(&blocks(0, 76), Mechanism::Pebs, &floors_ns).unwrap();
        assert!(!single.terms.contains_key(ASSIST_TERM), "{single:?}");
        assert!(single.floor_ns.is_some_and(|floor| floor.contains(960.0)), "{single:?}");
    }
}
