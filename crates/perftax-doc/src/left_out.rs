//! Samples that a filter leaves out once they are taken.
//!
//! A timer does not know which mode the processor is in: the kernel looks at it in the interrupt, and drops the sample of a mode that the event
//! excludes (kernel/events/core.c, perf_swevent_hrtimer). The interrupt is paid for all the same, the record is not. It is cheaper where it finds the
//! processor in the kernel already: nothing is switched over, neither stacks nor (with page-table isolation) page tables. IBS with its software filter drops
//! samples, too (arch/x86/events/amd/ibs.c, swfilt), but is driven by operations, which are counted in both modes. Counters of the core stand still in the
//! excluded mode, and cost nothing there.

use crate::Mechanism;

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
}
