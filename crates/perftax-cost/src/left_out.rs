//! Samples that a filter leaves out once they are taken.
//!
//! A timer does not know which mode the processor is in: the kernel looks at it in the interrupt, and drops the sample of a mode that the event
//! excludes (kernel/events/core.c, perf_swevent_hrtimer). The interrupt is paid for all the same, the record is not. IBS with its software filter drops
//! samples, too (arch/x86/events/amd/ibs.c, swfilt), but is driven by operations, which are counted in both modes. Counters of the core stand still in the
//! excluded mode, and cost nothing there.

use crate::Mechanism;
use crate::document::WorkloadProfile;

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

impl LeftOut {
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
    pub fn share(self, workload: &WorkloadProfile) -> f64 {
        let sum = |of: fn(&crate::observation::Run) -> f64| -> f64 {
            workload.runs.iter().filter(|run| run.spoiled.is_none() && run.period == 0).map(of).sum()
        };
        self.share_of(sum(|run| run.user_s), sum(|run| run.system_s))
    }

    /// The same of so much CPU time in each mode; nothing where there was none, which nothing interrupts.
    pub fn share_of(self, user_s: f64, system_s: f64) -> f64 {
        let dropped_s = match self {
            Self::Nothing => 0.0,
            Self::KernelMode => system_s,
            Self::UserMode => user_s,
        };
        if dropped_s > 0.0 { dropped_s / (user_s + system_s) } else { 0.0 }
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
        assert_eq!(LeftOut::KernelMode.share_of(1.0, 3.0), 0.75);
        assert_eq!(LeftOut::UserMode.share_of(1.0, 3.0), 0.25);
        assert_eq!(LeftOut::Nothing.share_of(1.0, 3.0), 0.0);
        assert_eq!(LeftOut::KernelMode.share_of(0.0, 0.0), 0.0);
    }
}
