//! What is calibrated, and how thoroughly.

use std::time::Duration;

use perftax_cost::alpha::Clock;
use perftax_cost::period::{Rule, event_defaults};
use perftax_cost::prediction::{RAW_TERM, USER_STACK_BYTES};
use perftax_doc::steps::{Calibrated, Operation};
use perftax_doc::{ArmName, LeftOut, Mechanism, PayloadTerm};
use perftax_pmu::event::Event;
use perftax_pmu::machine::usual_event;
use perftax_pmu::sampler::{Pages, Payload};
use perftax_pmu::{Error, Result};

use super::arm::{
    ARMED, Arm, CACHED, COUNTING, EACH, EXCLUDED_IN_KERNEL, EXCLUDED_IN_USER, GROUP_READ, IDLE, OFF, OFF_AGAIN, OFF_CACHED,
    OFF_IN_KERNEL, OFF_WIDE_CODE, ON, OwnBuffer, RING_PAGES, SIGNAL, WIDE_CODE, Work,
};
use crate::run::Attach;
use crate::stimulus::{
    PageFaults, PathWalk, PointerChase, ProbedCalls, Spin, Stimulus, Syscalls, WatchedWrites, WideCode, second_level_bytes,
};

/// How much a calibration wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Depth {
    /// α and its control only: what a plan needs, quickly.
    Alpha,
    /// Also linearity over periods and the split into terms.
    Full,
    /// α at given periods (arms `on@PERIOD`), for a verification; with `switching`, the cost of context switches too.
    At {
        /// The periods beside the main one; none of them: the main one alone.
        periods: Vec<u64>,
        /// What the cost of context switches is measured with.
        switching: Switching,
    },
}

/// The context switches that a verification needs the cost of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switching {
    /// How events are attached; none: no switches are measured.
    pub attachments: Vec<Attach>,
    /// The periods. What a switch costs depends on them where a timer is stopped and started with it: one due after the next
    /// tick does not reach the hardware, one due before it does, twice a switch.
    pub periods: Vec<u64>,
}

/// The buffers that `pebs-direct` is measured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Sizes, bytes a CPU; the largest is the main one.
    pub bytes: Vec<u64>,
    /// Of which pages.
    pub pages: Pages,
}

impl Default for Buffers {
    /// perf's size, and three of the ROSS'17 study's.
    fn default() -> Self {
        Self { bytes: vec![64 << 10, 256 << 10, 1 << 20, 4 << 20], pages: Pages::Any }
    }
}

impl Buffers {
    fn of(&self, bytes: u64) -> OwnBuffer {
        OwnBuffer { bytes, pages: self.pages }
    }

    /// The largest.
    pub fn largest(&self) -> u64 {
        self.bytes.iter().copied().max().unwrap_or(0)
    }
}

/// A calibration to be made.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The buffers, where the mechanism lets one choose.
    pub buffers: Buffers,
    /// The event, none for the mechanism's default.
    pub event: Option<Event>,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The CPU that the measuring thread is pinned to.
    pub cpu: u32,
    /// How much is wanted.
    pub depth: Depth,
    /// The sampling period of the main arm; none chooses one.
    pub period: Option<u64>,
    /// What samples carry, in the arms that are not about that.
    pub payload: Payload,
    /// A planted relative slow-down of the second unmonitored arm, to show that the control catches it.
    pub planted_bias: f64,
}

/// Undisturbed duration of one block of fixed work (docs/explain/methods.md: 2.5 ms).
const BLOCK: Duration = Duration::from_micros(2500);
/// Events in one block of the sources that fire at every operation; each chosen for a few milliseconds.
const FAULTS: usize = 500;
const WATCHED_WRITES: u64 = 150;
const SYSCALLS: u64 = 2500;
const PROBED_CALLS: u64 = 250;

/// Main period of cpu-clock: about 20 kHz, a prime; raised where a sample costs more than a third of it ([`Spec::raised_for`]).
const CPU_CLOCK_PERIOD_NS: u64 = 50_021;
/// Main period of counter-driven sources: a prime near 2^15 events, in the middle of the paper's range.
const COUNTER_PERIOD: u64 = 32_771;
/// Period at which a buffer of some hundred records fills several times in a block, events: a prime near 2^11, the paper's shortest.
const BUSY_PERIOD: u64 = 2053;

/// How many times rarer than usual the samples of a clock are over work that lives off its caches: it goes through all of them within some 50 µs.
const RARELY: u64 = 2;
/// The same over work of wide code: it goes through all of its code within some 200 µs.
const RARELY_OF_CODE: u64 = 4;
/// But a few to a block, ns.
const RAREST_NS: u64 = BLOCK.as_nanos() as u64 / 5;
/// The smallest ring: a page of records beside its control page.
const MIN_RING_PAGES: usize = 1;

/// The arm that sampled ones of a mechanism are held against: nothing, or the event running without a sample where stopping it is part
/// of what is timed.
pub fn baseline(mechanism: Mechanism) -> &'static str {
    if mechanism.keeps_a_buffer() { IDLE } else { OFF }
}

/// The time of a block that its samples are charged with: where a buffer is read when the event is stopped, that time too, but not
/// where stopping it only counts what is thrown away.
pub(super) fn clock(mechanism: Mechanism) -> Clock {
    if mechanism == Mechanism::PebsDirect { Clock::Work } else { Clock::Wall }
}

impl Spec {
    /// The same with the main period raised to three times the cost of a sample, where it was not given: nearer to the cost the
    /// program crawls, and the kernel skips the periods that it misses.
    pub(super) fn raised_for(&self, alpha_ns: f64) -> Self {
        let least = (3.0 * alpha_ns) as u64;
        let raised = (self.period.is_none() && least > self.main_period()).then(|| next_prime(least));
        Self { period: self.period.or(raised), ..self.clone() }
    }

    /// The main period.
    pub fn main_period(&self) -> u64 {
        self.period.unwrap_or(match self.mechanism {
            Mechanism::CpuClock => CPU_CLOCK_PERIOD_NS,
            Mechanism::Software | Mechanism::Breakpoint | Mechanism::Tracepoint | Mechanism::Uprobe => 1,
            Mechanism::IbsOp | Mechanism::IbsFetch => COUNTER_PERIOD * 16,
            Mechanism::Pebs | Mechanism::PebsDirect | Mechanism::Spe | Mechanism::Pmi => COUNTER_PERIOD,
        })
    }

    /// Further periods, for the linearity check.
    fn other_periods(&self) -> Vec<u64> {
        let main = self.main_period();
        match self.mechanism {
            Mechanism::CpuClock => vec![next_prime(main * 2), next_prime(main * 4), next_prime(main * 8)],
            Mechanism::Software | Mechanism::Breakpoint | Mechanism::Tracepoint | Mechanism::Uprobe => {
                vec![main * 2, main * 3, main * 7]
            }
            // Beyond the longest the kernel interrupts several times for one sample.
            Mechanism::IbsOp | Mechanism::IbsFetch => {
                let rule = Rule::of(self.mechanism, None);
                let mut periods: Vec<u64> = [8209_u64, 65_537, 131_101].iter().filter_map(|p| rule.at_most(p * 16)).collect();
                periods.dedup();
                periods
            }
            Mechanism::Pebs | Mechanism::Spe | Mechanism::Pmi => vec![4099, 8209, 65_537, 131_101],
            Mechanism::PebsDirect => event_defaults(&Rule::of(self.mechanism, None)),
        }
    }

    /// Whether the cost of context switches and of tasks is measured too: for events that are switched in and out with their thread, and inherited.
    pub(super) fn wants_more_than_samples(&self) -> bool {
        !matches!(self.mechanism, Mechanism::Uprobe | Mechanism::Breakpoint | Mechanism::PebsDirect)
    }

    /// The work, and the event where the work brings it along (a watched variable's address, a probed function's offset).
    pub(super) fn stimulus(&self) -> Result<(Box<dyn Stimulus>, Option<String>)> {
        let own = |name: &str| self.event.is_none().then(|| name.to_string());
        Ok(match self.mechanism {
            Mechanism::CpuClock
            | Mechanism::Pebs
            | Mechanism::PebsDirect
            | Mechanism::Pmi
            | Mechanism::IbsOp
            | Mechanism::IbsFetch
            | Mechanism::Spe => (
                Box::new(Spin::lasting(BLOCK)),
                own(match self.mechanism {
                    // Ours is measured beside perf's.
                    Mechanism::PebsDirect => usual_event(Mechanism::Pebs),
                    other => usual_event(other),
                }),
            ),
            Mechanism::Software => match self.event.as_ref().map(|e| base_name(&e.name)) {
                None | Some("page-faults" | "faults" | "minor-faults") => {
                    (Box::new(PageFaults::new(FAULTS)?), own("page-faults"))
                }
                Some(other) => return Err(no_stimulus(other, Calibrated::Event("page-faults".into()))),
            },
            Mechanism::Tracepoint => match self.event.as_ref().map(|e| base_name(&e.name)) {
                None => (Box::new(Syscalls::new(SYSCALLS)), Some(self.default_tracepoint())),
                Some("syscalls:sys_enter_getppid" | "raw_syscalls:sys_enter" | "raw_syscalls:sys_exit") => {
                    (Box::new(Syscalls::new(SYSCALLS)), None)
                }
                Some(other) => return Err(no_stimulus(other, Calibrated::Event("raw_syscalls:sys_enter".into()))),
            },
            Mechanism::Breakpoint => {
                if let Some(event) = &self.event {
                    return Err(no_stimulus(&event.name, Calibrated::Mechanism(Mechanism::Breakpoint)));
                }
                let writes = WatchedWrites::new(WATCHED_WRITES);
                let text = writes.event_text();
                (Box::new(writes), Some(text))
            }
            Mechanism::Uprobe => {
                if let Some(event) = &self.event {
                    return Err(no_stimulus(&event.name, Calibrated::Mechanism(Mechanism::Uprobe)));
                }
                (Box::new(ProbedCalls::new(PROBED_CALLS)), Some(ProbedCalls::event_text()?))
            }
        })
    }

    /// The work of the arms that do not have the usual one.
    pub(super) fn other_stimulus(&self, work: Work) -> Option<Box<dyn Stimulus>> {
        match work {
            Work::Usual => None,
            Work::InKernel => Some(Box::new(PathWalk::lasting(BLOCK))),
            Work::Cached => Some(Box::new(PointerChase::lasting(BLOCK, second_level_bytes(self.cpu) / 2))),
            Work::WideCode => Some(Box::new(WideCode::lasting(BLOCK))),
        }
    }

    fn default_tracepoint(&self) -> String {
        // Kernels without CONFIG_FTRACE_SYSCALLS have no tracepoint per system call, but one for all of them.
        let specific = "/sys/kernel/tracing/events/syscalls/sys_enter_getppid";
        if std::path::Path::new(specific).exists() {
            "syscalls:sys_enter_getppid".into()
        } else {
            "raw_syscalls:sys_enter".into()
        }
    }

    fn sampled(&self, name: &str, period: u64, payload: Payload) -> Arm {
        Arm::sampled(name, period, payload, self.ring_pages_for(payload, period))
    }

    /// Sampling at a period beside the main one.
    fn at(&self, period: u64) -> Arm {
        self.sampled(&ArmName::On { period: Some(period), buffer_bytes: None }.to_string(), period, self.payload)
    }

    /// The arms, in no particular order.
    pub(super) fn arms(&self) -> Vec<Arm> {
        if self.mechanism == Mechanism::PebsDirect {
            return self.direct_arms();
        }
        let main = self.main_period();
        let fires_at_every_operation =
            matches!(self.mechanism, Mechanism::Software | Mechanism::Breakpoint | Mechanism::Tracepoint | Mechanism::Uprobe);
        let mut arms = vec![Arm::unmonitored(OFF), Arm::unmonitored(OFF_AGAIN), self.sampled(ON, main, self.payload)];
        if self.mechanism.keeps_a_buffer() {
            arms.push(Arm::idle(self.payload));
            arms.push(self.at(BUSY_PERIOD));
        }
        if self.mechanism == Mechanism::Uprobe {
            arms.push(Arm::counting(ARMED, false));
        }
        if fires_at_every_operation {
            arms.push(Arm::counting(COUNTING, true));
        }
        match &self.depth {
            Depth::Alpha => {
                arms.extend(self.arms_over_other_work());
                return arms;
            }
            Depth::At { periods, .. } => {
                arms.extend(periods.iter().map(|&period| self.at(period)));
                arms.extend(self.arms_over_other_work());
                return arms;
            }
            Depth::Full => {}
        }
        arms.extend(self.other_periods().into_iter().map(|period| self.at(period)));
        let payloads = [
            (PayloadTerm::Callchain, self.payload.with_callchain()),
            (PayloadTerm::UserRegisters, self.payload.with_user_registers()),
            (PayloadTerm::UserStack, self.payload.with_user_stack(USER_STACK_BYTES)),
        ];
        for (term, payload) in payloads {
            if self.ring_pages_for(payload, main) <= MAX_RING_PAGES {
                arms.push(self.sampled(term.name(), main, payload));
            }
        }
        // The hardware's counters alone go with its branch records.
        if matches!(self.mechanism, Mechanism::Pebs | Mechanism::Pmi) {
            arms.push(self.sampled(PayloadTerm::Branches.name(), main, self.payload.with_branches()));
        }
        if matches!(self.mechanism, Mechanism::Tracepoint | Mechanism::Uprobe) {
            arms.push(self.sampled(RAW_TERM, main, self.payload.with_tracepoint_data()));
        }
        arms.push(self.sampled(GROUP_READ, main, self.payload).with_group(3));
        arms.push(self.sampled(SIGNAL, main, self.payload).with_signal());
        arms.extend(self.arms_over_other_work());
        arms
    }

    /// Samples that are dropped, in each mode that an event's filter may leave out; and samples of work that lives off its caches. Opened last: where
    /// memory for rings runs out, it is these that are missing.
    fn arms_over_other_work(&self) -> Vec<Arm> {
        let main = self.main_period();
        let is_for_cells = matches!(self.depth, Depth::At { .. });
        let left_out = self.event.as_ref().map_or(LeftOut::Nothing, Event::left_out);
        // A cell of `verify` needs what its own event drops; a profile is asked for all.
        let is_dropped = |mode: LeftOut| self.mechanism.is_time_driven() && (!is_for_cells || left_out == mode);
        // Nothing comes into their rings.
        let dropping = |name: &str| Arm::sampled(name, main, self.payload, MIN_RING_PAGES).dropping_all();
        let mut arms = Vec::new();
        if is_dropped(LeftOut::UserMode) {
            arms.push(dropping(EXCLUDED_IN_USER));
        }
        if is_dropped(LeftOut::KernelMode) {
            arms.push(Arm::unmonitored(OFF_IN_KERNEL).over(Work::InKernel));
            arms.push(dropping(EXCLUDED_IN_KERNEL).over(Work::InKernel));
        }
        // What fills a buffer of the hardware's interrupts too rarely for a block, and is paid for by its records.
        let interrupts =
            self.mechanism.is_time_driven() || matches!(self.mechanism, Mechanism::Pmi | Mechanism::IbsOp | Mechanism::IbsFetch);
        if interrupts && !is_for_cells {
            // Of a clock more rarely: what the work has to lose is what it has fetched since the sample before.
            let rarely = |times: u64| match self.mechanism.is_time_driven() {
                true => next_prime((main * times).min(RAREST_NS).max(main)),
                false => main,
            };
            arms.push(Arm::unmonitored(OFF_CACHED).over(Work::Cached));
            arms.push(self.sampled(CACHED, rarely(RARELY), self.payload).over(Work::Cached));
            arms.push(Arm::unmonitored(OFF_WIDE_CODE).over(Work::WideCode));
            arms.push(self.sampled(WIDE_CODE, rarely(RARELY_OF_CODE), self.payload).over(Work::WideCode));
        }
        arms
    }

    /// The arms of our own module: each buffer at each period; a buffer of one record; and perf's PEBS, to be told apart from it.
    fn direct_arms(&self) -> Vec<Arm> {
        let (main, buffers) = (self.main_period(), &self.buffers);
        let largest = buffers.largest();
        let mut arms = vec![
            Arm::unmonitored(OFF),
            Arm::unmonitored(OFF_AGAIN),
            Arm::direct_idle(IDLE, buffers.of(largest)),
            Arm::direct(ON, main, buffers.of(largest)),
            Arm::direct_idle(&idle_name(1), buffers.of(1)),
            Arm::direct(EACH, BUSY_PERIOD, buffers.of(1)),
            Arm::perf_idle(self.payload),
            self.sampled(&ArmName::Perf { period: main }.to_string(), main, self.payload),
            self.sampled(&ArmName::Perf { period: BUSY_PERIOD }.to_string(), BUSY_PERIOD, self.payload),
        ];
        let periods = if self.depth == Depth::Alpha { vec![BUSY_PERIOD] } else { self.other_periods() };
        for &bytes in &buffers.bytes {
            // What giving out and clearing a buffer leaves to be done depends on its size.
            if bytes != largest {
                arms.push(Arm::direct_idle(&idle_name(bytes), buffers.of(bytes)));
            }
            arms.extend(periods.iter().map(|&period| Arm::direct(&direct_name(period, bytes), period, buffers.of(bytes))));
        }
        arms
    }

    /// Most samples of one block at a period, generously.
    fn samples_per_block(&self, period: u64) -> u64 {
        match self.mechanism {
            Mechanism::Software => FAULTS as u64,
            Mechanism::Breakpoint => WATCHED_WRITES,
            Mechanism::Tracepoint => SYSCALLS,
            Mechanism::Uprobe => PROBED_CALLS,
            Mechanism::CpuClock => 4 * BLOCK.as_nanos() as u64 / period,
            // At most a few instructions or operations a cycle, some cycles a nanosecond.
            _ => 20 * BLOCK.as_nanos() as u64 / period.max(1),
        }
    }

    fn ring_pages_for(&self, payload: Payload, period: u64) -> usize {
        // An entry of a branch stack has 24 bytes, and no processor keeps more than 64.
        let branches = if payload.branch_sample_type == 0 { 0 } else { 64 * 24 };
        let bytes_per_sample = 512 + branches + u64::from(payload.stack_user_bytes);
        let bytes = self.samples_per_block(period) * bytes_per_sample * 5 / 4;
        let pages = (bytes as usize).div_ceil(rustix::param::page_size()).next_power_of_two();
        if payload == self.payload { pages.clamp(RING_PAGES, 512) } else { pages.max(RING_PAGES) }
    }
}

/// The name of an arm of our own module.
fn direct_name(period: u64, buffer_bytes: u64) -> String {
    ArmName::On { period: Some(period), buffer_bytes: Some(buffer_bytes) }.to_string()
}

/// The name of the arm of a buffer that is not the main one, without a sample.
fn idle_name(buffer_bytes: u64) -> String {
    ArmName::Idle { buffer_bytes: Some(buffer_bytes) }.to_string()
}

/// The largest ring that a calibration maps: 8 MiB with 4 KiB pages.
const MAX_RING_PAGES: usize = 2048;

/// An event's name without its modifiers.
fn base_name(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((base, modifiers)) if modifiers.len() <= 6 && modifiers.chars().all(|c| "ukhGHpPSDeWb".contains(c)) => base,
        _ => name,
    }
}

fn no_stimulus(event: &str, instead: Calibrated) -> Error {
    Error::Unsupported {
        what: format!("calibrate {event}"),
        why: "calibrating needs work whose number of events is known by construction, and there is none for this event".into(),
        remedy: format!("{}   (the cost belongs to the mechanism, hardly to the event)", Operation::Calibrate(instead)),
    }
}

fn next_prime(from: u64) -> u64 {
    perftax_cost::period::prime_at_least(from).unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mechanism: Mechanism) -> Spec {
        let (buffers, payload) = (Buffers::default(), Payload::BASIC);
        Spec { buffers, event: None, mechanism, cpu: 0, depth: Depth::Full, period: None, payload, planted_bias: 0.0 }
    }

    /// A longer period than the hardware counts by itself interrupts several times for one sample: the line that samples are put on would bend.
    #[test]
    fn what_is_calibrated_is_one_interrupt_a_sample() {
        for mechanism in Mechanism::ALL {
            let (spec, rule) = (of(mechanism), Rule::of(mechanism, None));
            let periods = [spec.other_periods(), vec![spec.main_period()]].concat();
            // SPE's shortest interval is the machine's to say.
            let taken = |period: &u64| rule.allows(*period) || mechanism == Mechanism::Spe;
            assert!(periods.len() >= 3 && periods.iter().all(taken), "{mechanism}: {periods:?}");
        }
    }
}
