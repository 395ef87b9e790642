//! What a thread is at.

use super::Key;
use super::window::Window;
use crate::cause::Cause;
use crate::kernel::Interruption;
use crate::message::Piece;

/// A thread, as far as its records tell.
pub(super) struct Thread {
    /// The messages that it has begun or taken up and not left, the last one on top.
    pub stack: Vec<Key>,
    /// Until when its time is accounted for.
    pub since_ns: u64,
    /// Why it does not run, and who or what it is due to.
    pub off: Option<(Cause, u32)>,
    /// What interrupts it, the last one on top.
    pub interruptions: Vec<(Interruption, u32)>,
    /// The system call that it is in.
    pub syscall: Option<u32>,
    /// Whether it is in a page fault.
    pub in_fault: bool,
    /// When its last page fault ended.
    pub fault_left_ns: Option<u64>,
    /// Since the kernel last said how long it had run.
    pub window: Window,
}

impl Thread {
    pub fn new(now_ns: u64) -> Self {
        Self {
            stack: Vec::new(),
            since_ns: now_ns,
            off: None,
            interruptions: Vec::new(),
            syscall: None,
            in_fault: false,
            fault_left_ns: None,
            window: Window::default(),
        }
    }

    /// What it is at, interruptions aside, and which.
    pub fn beneath(&self) -> (Cause, u32) {
        match (self.in_fault, self.syscall) {
            (true, _) => (Cause::PageFault, 0),
            (false, Some(number)) => (Cause::Syscall, number + 1),
            (false, None) => (Cause::OnCpu, 0),
        }
    }

    /// What it is at, and which.
    pub fn at(&self) -> (Cause, u32) {
        match (self.off, self.interruptions.last()) {
            (Some(off), _) => off,
            (None, Some((Interruption::Irq, which))) => (Cause::Irq, *which),
            (None, Some((Interruption::Softirq, which))) => (Cause::Softirq, *which),
            (None, Some((Interruption::Vector, which))) => (Cause::Vector, *which),
            (None, None) => self.beneath(),
        }
    }

    /// What it waits in when it leaves the CPU now, as [`crate::Piece::which`] has it.
    pub fn waits_in(&self) -> u32 {
        match self.beneath() {
            (Cause::PageFault, _) => Piece::IN_FAULT,
            (_, which) => which,
        }
    }
}
