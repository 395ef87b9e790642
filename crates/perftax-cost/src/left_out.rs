//! Samples that a filter leaves out once they are taken.
//!
//! A timer does not know which mode the processor is in: the kernel looks at it in the interrupt, and drops the sample of a mode that the event
//! excludes (kernel/events/core.c, perf_swevent_hrtimer). The interrupt is paid for all the same, the record is not. It is cheaper where it finds the
//! processor in the kernel already: nothing is switched over, neither stacks nor (with page-table isolation) page tables. IBS with its software filter drops
//! samples, too (arch/x86/events/amd/ibs.c, swfilt), but is driven by operations, which are counted in both modes. Counters of the core stand still in the
//! excluded mode, and cost nothing there.

use crate::bootstrap::normal_quantile;
use crate::document::WorkloadProfile;
use crate::estimate::CONFIDENCE;
use crate::{Estimate, Mechanism};

/// From one look at the mode to the next: the longest tick that Linux has (CONFIG_HZ=100). A kernel that looks more often knows better.
const TICK_S: f64 = 0.01;

/// Which mode's samples are taken and dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeftOut {
    /// None's.
    #[default]
    Nothing,
    /// The kernel's (`:u`).
    KernelMode,
    /// The program's own (`:k`).
    UserMode,
}

/// The calibration's arm that stays in the kernel, unmonitored: what [`EXCLUDED_KERNEL_TERM`] is held against.
pub const OFF_IN_KERNEL_ARM: &str = "off-kernel";
/// The term (and the arm) of an interrupt of the kernel's mode whose sample a filter drops, ns an interrupt.
pub const EXCLUDED_KERNEL_TERM: &str = "excluded-kernel";
/// The same of an interrupt of the program's own mode.
pub const EXCLUDED_USER_TERM: &str = "excluded-user";

impl LeftOut {
    /// What a dropped sample's interrupt stands under in a calibration; nothing where none is dropped.
    pub fn term(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::KernelMode => Some(EXCLUDED_KERNEL_TERM),
            Self::UserMode => Some(EXCLUDED_USER_TERM),
        }
    }

    /// The unmonitored arm that the term's arm is held against, where `off` is the usual one.
    pub fn baseline(self, off: &str) -> &str {
        if self == Self::KernelMode { OFF_IN_KERNEL_ARM } else { off }
    }

    /// Of an event that excludes the kernel's mode, or the program's.
    pub fn of(mechanism: Mechanism, excludes_kernel: bool, excludes_user: bool) -> Self {
        match (mechanism.is_time_driven(), excludes_kernel, excludes_user) {
            (true, true, false) => Self::KernelMode,
            (true, false, true) => Self::UserMode,
            _ => Self::Nothing,
        }
    }

    /// The same of an event by its name, where only that is left of it: `cpu-clock:u`.
    pub fn named(mechanism: Mechanism, event: &str) -> Self {
        let modifiers = event.rsplit_once(':').map_or("", |(_, modifiers)| modifiers);
        let [user, kernel] = ['u', 'k'].map(|mode| modifiers.contains(mode));
        Self::of(mechanism, user && !kernel, kernel && !user)
    }

    /// The share of a program's interrupts whose sample is dropped: that of its CPU time in the mode, by its unmonitored runs.
    pub fn share(self, workload: &WorkloadProfile) -> Estimate {
        let sum = |of: fn(&crate::observation::Run) -> f64| -> f64 { workload.measured_runs().into_iter().map(of).sum() };
        self.share_of(sum(|run| run.user_s), sum(|run| run.system_s))
    }

    /// The same of so much CPU time in each mode, as getrusage(2) tells; nothing where there was none, which nothing interrupts.
    ///
    /// Most kernels tell the modes apart by looking at every tick (kernel/sched/cputime.c, account_process_tick, cputime_adjust), so the share is
    /// one of a number of looks, and its interval is a binomial's (Agresti and Coull's). Work that repeats in step with the tick is seen at the
    /// same few places, which no interval tells.
    pub fn share_of(self, user_s: f64, system_s: f64) -> Estimate {
        let dropped_s = match self {
            Self::Nothing => return Estimate::exact(0.0),
            Self::KernelMode => system_s,
            Self::UserMode => user_s,
        };
        let looks = (user_s + system_s) / TICK_S;
        if looks <= 0.0 {
            return Estimate::exact(0.0);
        }
        let z = normal_quantile(CONFIDENCE);
        let share = dropped_s / (user_s + system_s);
        let about = (share * looks + z * z / 2.0) / (looks + z * z);
        let half = z * (about * (1.0 - about) / (looks + z * z)).sqrt();
        Estimate::new(share, (about - half).clamp(0.0, share), (about + half).clamp(share, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_timers_interrupt_for_nothing() {
        assert_eq!(LeftOut::of(Mechanism::CpuClock, true, false), LeftOut::KernelMode);
        assert_eq!(LeftOut::of(Mechanism::CpuClock, false, true), LeftOut::UserMode);
        assert_eq!(LeftOut::of(Mechanism::CpuClock, false, false), LeftOut::Nothing);
        assert_eq!(LeftOut::of(Mechanism::Pmi, true, false), LeftOut::Nothing);
        let named = |event| LeftOut::named(Mechanism::CpuClock, event);
        assert_eq!(["cpu-clock:u", "cpu-clock:k"].map(named), [LeftOut::KernelMode, LeftOut::UserMode]);
        assert_eq!(["cpu-clock", "cpu-clock:uk"].map(named), [LeftOut::Nothing; 2]);
    }

    #[test]
    fn shares_are_of_the_time_in_the_mode() {
        assert_eq!(LeftOut::KernelMode.share_of(1.0, 3.0).estimate, 0.75);
        assert_eq!(LeftOut::UserMode.share_of(1.0, 3.0).estimate, 0.25);
        assert_eq!(LeftOut::Nothing.share_of(1.0, 3.0), Estimate::exact(0.0));
        assert_eq!(LeftOut::KernelMode.share_of(0.0, 0.0), Estimate::exact(0.0));
    }

    /// A mode that no look has seen may have been there between two.
    #[test]
    fn shares_are_known_as_well_as_they_were_looked_at() {
        let long = LeftOut::KernelMode.share_of(50.0, 50.0);
        assert!((long.half_width() - 0.0098).abs() < 1e-4, "{long:?}");
        let short = LeftOut::KernelMode.share_of(0.1, 0.0);
        assert!(short.estimate == 0.0 && short.low == 0.0 && (0.2..0.4).contains(&short.high), "{short:?}");
        let all = LeftOut::KernelMode.share_of(0.0, 0.1);
        assert!(all.estimate == 1.0 && all.high == 1.0 && all.low < 0.8, "{all:?}");
    }
}
