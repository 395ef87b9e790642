//! Samples that a filter leaves out once they are taken.
//!
//! A timer does not know which mode the processor is in: the kernel looks at it in the interrupt, and drops the sample of a mode that the event
//! excludes (kernel/events/core.c, perf_swevent_hrtimer). The interrupt is paid for all the same, the record is not. IBS with its software filter is alike
//! (arch/x86/events/amd/ibs.c, swfilt); counters of the core stand still in the excluded mode, and cost nothing there.

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

    /// The share of a program's interrupts whose sample is dropped: that of its CPU time in the mode, by its unmonitored runs.
    pub fn share(self, workload: &WorkloadProfile) -> f64 {
        let sum = |of: fn(&crate::observation::Run) -> f64| -> f64 {
            workload.runs.iter().filter(|run| run.spoiled.is_none() && run.period == 0).map(of).sum()
        };
        let (user_s, system_s) = (sum(|run| run.user_s), sum(|run| run.system_s));
        if user_s + system_s <= 0.0 {
            return 0.0;
        }
        match self {
            Self::Nothing => 0.0,
            Self::KernelMode => system_s / (user_s + system_s),
            Self::UserMode => user_s / (user_s + system_s),
        }
    }
}
