//! What a thread is at.

use rustc_hash::FxHashMap;

use super::unread::Unread;
use super::window::Window;
use super::worked::Worked;
use super::{Key, Slot};
use crate::cause::Cause;
use crate::kernel::Interruption;
use crate::kinds::Kinds;
use crate::message::{Piece, Waker};
use crate::timeline::{Stretch, Timeline};

/// What was recorded of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Marks that it wrote.
    pub marks: u64,
    /// Samples of it.
    pub samples: u64,
    /// Records of the kernel's while it was the current one.
    pub records: u64,
    /// Time that it ran, by the kernel's word, ns; 0 where the kernel was not asked.
    pub ran_ns: u64,
}

/// A thread, as far as its records tell.
pub(super) struct Thread {
    /// The messages that it has begun or taken up and not left, the last one on top.
    pub stack: Vec<Key>,
    /// Until when its time is accounted for.
    pub since_ns: u64,
    /// It was woken while it was still leaving its CPU: when, by whom.
    pub woken: Option<(u64, Waker)>,
    /// Why it does not run, and who or what it is due to.
    pub off: Option<(Cause, u32)>,
    /// The CPU that it left last, or was moved to since; none where that is not known.
    pub cpu: Option<u32>,
    /// What interrupts it, the last one on top.
    pub interruptions: Vec<(Interruption, u32)>,
    /// The system call that it is in.
    pub syscall: Option<u32>,
    /// Whether it is in a page fault.
    pub in_fault: bool,
    /// When its last page fault ended.
    pub fault_left_ns: Option<u64>,
    /// Since when it has been at the message on top.
    pub at_since_ns: u64,
    /// The messages that it was at before.
    pub worked: Worked,
    /// Since the kernel last said how long it had run.
    pub window: Window,
    /// Since its counters were read last.
    pub unread: Unread,
    /// What was recorded of it.
    pub activity: Activity,
}

impl Thread {
    pub fn new(now_ns: u64) -> Self {
        Self {
            stack: Vec::new(),
            since_ns: now_ns,
            woken: None,
            off: None,
            cpu: None,
            interruptions: Vec::new(),
            syscall: None,
            in_fault: false,
            fault_left_ns: None,
            at_since_ns: now_ns,
            worked: Worked::default(),
            window: Window::default(),
            unread: Unread::default(),
            activity: Activity::default(),
        }
    }

    /// Accounts for its time until now: it goes to the message on top.
    pub fn settle(&mut self, tid: u32, now_ns: u64, slots: &mut [Slot], timeline: Option<&mut Timeline>) {
        if now_ns <= self.since_ns {
            return;
        }
        let key = self.stack.last().copied();
        let (from_ns, (cause, which)) = (self.since_ns, self.at());
        let mut slot = key.map(|key| &mut slots[key as usize]);
        if cause == Cause::OnCpu
            && self.unread.ran(key.zip(slot.as_ref().map(|slot| slot.serial)), now_ns - from_ns)
            && let Some(slot) = &mut slot
        {
            slot.message.executed.ran(now_ns - from_ns);
        }
        if cause.is_running() {
            self.window.silence(key, slot.as_ref().map_or(0, |slot| slot.serial), from_ns, now_ns, cause);
        } else if cause.is_interruption() {
            self.window.interrupted_ns += now_ns - from_ns;
        }
        if let Some(timeline) = timeline {
            let id = slot.as_ref().map(|slot| slot.message.id);
            timeline.add(tid, Stretch { from_ns, to_ns: now_ns, id, cause, which });
        }
        if let Some(slot) = slot {
            slot.message.add(Piece { tid, from_ns, to_ns: now_ns, cause, which });
        }
        self.since_ns = now_ns;
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

    /// As somebody who wakes another: itself, or what interrupts it, then for nobody's sake.
    pub fn as_waker(&self, tid: u32, id: Option<u64>, kinds: &Kinds) -> Waker {
        let at = Some(self.at()).filter(|(cause, _)| *cause != Cause::OnCpu);
        match self.interruptions.is_empty() {
            true => Waker { tid, id, at, kind: kinds.kind(tid, id) },
            false => Waker { tid: 0, id: None, at, kind: 0 },
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

/// All threads. Who was asked for last is asked for next, mostly.
#[derive(Default)]
pub(super) struct Threads {
    all: Vec<(u32, Thread)>,
    places: FxHashMap<u32, usize>,
    last: usize,
}

impl Threads {
    fn place(&self, tid: u32) -> Option<usize> {
        match self.all.get(self.last) {
            Some((last, _)) if *last == tid => Some(self.last),
            _ => self.places.get(&tid).copied(),
        }
    }

    pub fn get(&self, tid: u32) -> Option<&Thread> {
        self.place(tid).map(|place| &self.all[place].1)
    }

    pub fn get_mut(&mut self, tid: u32) -> Option<&mut Thread> {
        self.last = self.place(tid)?;
        Some(&mut self.all[self.last].1)
    }

    /// A thread; one that is heard of for the first time does nothing in particular since now.
    pub fn of(&mut self, tid: u32, now_ns: u64) -> &mut Thread {
        self.last = self.place(tid).unwrap_or_else(|| {
            self.places.insert(tid, self.all.len());
            self.all.push((tid, Thread::new(now_ns)));
            self.all.len() - 1
        });
        &mut self.all[self.last].1
    }

    /// Nothing more is heard of a thread: what was recorded of it is forgotten, unless a message that is over waits for it. Those that it was at may be ended by others.
    pub fn forget(&mut self, tid: u32) {
        let Some(place) = self.place(tid) else { return };
        if !self.all[place].1.window.pending.is_empty() {
            return;
        }
        self.all.swap_remove(place);
        self.places.remove(&tid);
        if let Some((moved, _)) = self.all.get(place) {
            self.places.insert(*moved, place);
        }
        self.last = 0;
    }

    pub fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.all.iter().map(|(_, thread)| thread)
    }

    /// With what was recorded of each.
    pub fn activities(&self) -> impl Iterator<Item = (u32, Activity)> {
        self.all.iter().map(|(tid, thread)| (*tid, thread.activity))
    }

    /// In order of their numbers.
    pub fn tids(&self) -> Vec<u32> {
        let mut tids: Vec<u32> = self.all.iter().map(|(tid, _)| *tid).collect();
        tids.sort_unstable();
        tids
    }
}
