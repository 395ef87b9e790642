//! What the kernel says that it did, from its tracepoints, and what that means for each thread.

use std::collections::HashMap;

use crate::cause::Cause;

/// What runs on a CPU instead of the thread that it interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// `irq:irq_handler_*`.
    Irq,
    /// `irq:softirq_*`.
    Softirq,
    /// `irq_vectors:*`.
    Vector,
}

/// One record of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `sched:sched_switch`.
    Switch {
        /// The thread that leaves the CPU.
        previous: u32,
        /// Whether it could go on: it was preempted.
        is_runnable: bool,
        /// The thread that gets it; 0 is the idle task.
        next: u32,
    },
    /// `sched:sched_wakeup`: a thread can run from now on.
    Wakeup {
        /// Which.
        tid: u32,
    },
    /// An interruption begins.
    Enter(Interruption),
    /// It ends.
    Exit(Interruption),
    /// `raw_syscalls:sys_enter`.
    SyscallEnter,
    /// `raw_syscalls:sys_exit`.
    SyscallExit,
}

/// A record with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEvent {
    /// When.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// The thread that ran there.
    pub tid: u32,
    /// What.
    pub what: What,
}

/// A piece of a thread's time that was not simply the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The thread.
    pub tid: u32,
    /// From when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// What it went to.
    pub cause: Cause,
}

/// What runs on a CPU.
#[derive(Default)]
struct Cpu {
    tid: u32,
    since_ns: u64,
    interruptions: Vec<Interruption>,
}

/// A thread that does not run.
struct Off {
    since_ns: u64,
    cause: Cause,
}

#[derive(Default)]
struct Sweep {
    cpus: HashMap<u32, Cpu>,
    off: HashMap<u32, Off>,
    in_syscall: HashMap<u32, bool>,
    activities: Vec<Activity>,
}

/// The activities of all threads, each thread's in order and without overlap, from records in order of time.
///
/// Of a CPU nothing is known before its first record, of a thread that was off nothing before it comes or is woken.
pub fn activities(events: impl IntoIterator<Item = KernelEvent>) -> Vec<Activity> {
    let mut sweep = Sweep::default();
    for event in events {
        sweep.take(&event);
    }
    // Two CPUs finish pieces of one thread in the order of their ends.
    sweep.activities.sort_by_key(|activity| (activity.tid, activity.from_ns));
    sweep.activities
}

impl Sweep {
    fn take(&mut self, event: &KernelEvent) {
        let now_ns = event.time_ns;
        // Whoever is seen runs, even where the switch to it is missing: some kernels lose what happens while a CPU idles.
        self.end_of_off(event.tid, now_ns);
        self.close(event.cpu, event.tid, now_ns);
        match event.what {
            What::Switch { previous, is_runnable, next } => {
                let cause = if is_runnable { Cause::Runnable } else { Cause::Blocked };
                self.off.insert(previous, Off { since_ns: now_ns, cause });
                self.end_of_off(next, now_ns);
                if let Some(cpu) = self.cpus.get_mut(&event.cpu) {
                    cpu.tid = next;
                }
            }
            What::Wakeup { tid } => {
                let waited = self.off.get(&tid).is_some_and(|off| off.cause == Cause::Blocked);
                if waited {
                    self.end_of_off(tid, now_ns);
                    self.off.insert(tid, Off { since_ns: now_ns, cause: Cause::Runnable });
                }
            }
            What::Enter(interruption) => self.cpus.entry(event.cpu).or_default().interruptions.push(interruption),
            What::Exit(interruption) => {
                let stack = &mut self.cpus.entry(event.cpu).or_default().interruptions;
                // An exit without its entry, where a record was lost or recording began in between, ends nothing.
                if let Some(at) = stack.iter().rposition(|other| *other == interruption) {
                    stack.truncate(at);
                }
            }
            What::SyscallEnter => drop(self.in_syscall.insert(event.tid, true)),
            What::SyscallExit => drop(self.in_syscall.insert(event.tid, false)),
        }
    }

    /// Ends the piece of time that a CPU is in.
    fn close(&mut self, cpu: u32, tid: u32, now_ns: u64) {
        let state = self.cpus.entry(cpu).or_insert_with(|| Cpu { tid, since_ns: now_ns, interruptions: Vec::new() });
        if state.tid != tid {
            // A switch was not seen: what lies before is nobody's.
            (state.tid, state.since_ns) = (tid, now_ns);
            state.interruptions.clear();
        }
        let cause = match state.interruptions.last() {
            Some(Interruption::Irq) => Some(Cause::Irq),
            Some(Interruption::Softirq) => Some(Cause::Softirq),
            Some(Interruption::Vector) => Some(Cause::Vector),
            None if self.in_syscall.get(&tid) == Some(&true) => Some(Cause::Syscall),
            None => None,
        };
        let from_ns = std::mem::replace(&mut state.since_ns, now_ns);
        if let Some(cause) = cause {
            self.add(tid, from_ns, now_ns, cause);
        }
    }

    fn end_of_off(&mut self, tid: u32, now_ns: u64) {
        if let Some(off) = self.off.remove(&tid) {
            self.add(tid, off.since_ns, now_ns, off.cause);
        }
    }

    fn add(&mut self, tid: u32, from_ns: u64, to_ns: u64, cause: Cause) {
        if tid != 0 && to_ns > from_ns {
            self.activities.push(Activity { tid, from_ns, to_ns, cause });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ns: u64, cpu: u32, tid: u32, what: What) -> KernelEvent {
        KernelEvent { time_ns, cpu, tid, what }
    }

    fn activity(tid: u32, from_ns: u64, to_ns: u64, cause: Cause) -> Activity {
        Activity { tid, from_ns, to_ns, cause }
    }

    #[test]
    fn waiting_is_told_from_being_ready() {
        let switch = |previous, is_runnable, next| What::Switch { previous, is_runnable, next };
        let events = [
            event(10, 0, 7, switch(7, false, 0)),
            event(30, 1, 9, What::Wakeup { tid: 7 }),
            event(35, 0, 0, switch(0, true, 7)),
            // Preempted, and goes on elsewhere.
            event(50, 0, 7, switch(7, true, 8)),
            event(52, 1, 9, What::Wakeup { tid: 7 }),
            event(60, 1, 9, switch(9, false, 7)),
        ];
        let expected =
            [activity(7, 10, 30, Cause::Blocked), activity(7, 30, 35, Cause::Runnable), activity(7, 50, 60, Cause::Runnable)];
        assert_eq!(activities(events), expected);
    }

    #[test]
    fn interruptions_nest_and_belong_to_whom_they_interrupt() {
        let events = [
            event(0, 0, 7, What::SyscallEnter),
            event(10, 0, 7, What::Enter(Interruption::Vector)),
            event(14, 0, 7, What::Enter(Interruption::Softirq)),
            event(16, 0, 7, What::Enter(Interruption::Irq)),
            event(17, 0, 7, What::Exit(Interruption::Irq)),
            event(20, 0, 7, What::Exit(Interruption::Softirq)),
            event(21, 0, 7, What::Exit(Interruption::Vector)),
            event(30, 0, 7, What::SyscallExit),
            event(40, 0, 7, What::Exit(Interruption::Irq)),
        ];
        let expected = [
            activity(7, 0, 10, Cause::Syscall),
            activity(7, 10, 14, Cause::Vector),
            activity(7, 14, 16, Cause::Softirq),
            activity(7, 16, 17, Cause::Irq),
            activity(7, 17, 20, Cause::Softirq),
            activity(7, 20, 21, Cause::Vector),
            activity(7, 21, 30, Cause::Syscall),
        ];
        assert_eq!(activities(events), expected);
    }

    #[test]
    fn who_is_seen_again_has_come_back() {
        let events = [
            event(0, 1, 7, What::SyscallEnter),
            event(5, 1, 7, What::Switch { previous: 7, is_runnable: false, next: 0 }),
            // Neither the wakeup nor the switch to it is seen.
            event(3000, 1, 7, What::SyscallExit),
        ];
        assert_eq!(activities(events), [activity(7, 0, 5, Cause::Syscall), activity(7, 5, 3000, Cause::Blocked)]);
    }

    #[test]
    fn a_switch_that_was_lost_makes_nothing_up() {
        let events = [
            event(0, 0, 7, What::Enter(Interruption::Vector)),
            event(50, 0, 8, What::SyscallEnter),
            event(60, 0, 8, What::SyscallExit),
        ];
        assert_eq!(activities(events), [activity(8, 50, 60, Cause::Syscall)]);
    }
}
