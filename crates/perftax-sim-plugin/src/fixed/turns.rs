// SPDX-License-Identifier: GPL-2.0-or-later
//! Threads one after another: one goes on until it waits in the kernel, then the one that was woken first. So what a thread finds in memory, and
//! whom it wakes, is the same in every run.
//!
//! Who waits for what is known from the system calls: a futex, a time. A sleep ends, by the program's clock, when nobody else can go on. What
//! else threads may wait for (a pipe, a terminal, a spinning lock) is not known: whoever has the turn and sleeps loses it, which is counted, since
//! runs are not alike then.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::lock::lock;

use super::clock;

/// From one look at who has the turn to the next.
const LOOK: Duration = Duration::from_millis(5);
/// Looks in a row at which that one slept, after which it loses the turn.
const QUIET_LOOKS: u32 = 4;
/// Longest that whoever has left is waited for until it sleeps.
const LEAVING: u32 = 20_000;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    /// A futex: its address, and the bits that it can be woken by.
    pub futex: Option<(u64, u32)>,
    /// A time by the program's clock, ns.
    pub until: Option<u64>,
}

/// Who goes on, and who waits.
#[derive(Default)]
pub struct Turns {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    holder: Option<u32>,
    /// The thread of the host that had the turn before, and may not sleep yet.
    leaving: Option<i32>,
    ready: VecDeque<u32>,
    /// In the order in which they began to wait.
    waiting: Vec<(u32, Wait)>,
    /// Threads of the host, by the program's.
    hosts: HashMap<u32, i32>,
    /// Threads that are back from the kernel, and wait for their turn.
    back: Vec<u32>,
    /// What happened that another run need not do alike.
    strays: u64,
}

impl Turns {
    /// A thread goes into the kernel, and may wait there.
    pub fn wait(&self, thread: u32, wait: Wait) {
        let mut inner = lock(&self.inner);
        inner.hosts.insert(thread, own_tid());
        inner.waiting.push((thread, wait));
        inner.give_up(thread);
        self.changed.notify_all();
    }

    /// A thread lets the others go first.
    pub fn yield_to_others(&self, thread: u32) {
        let mut inner = lock(&self.inner);
        if !inner.ready.is_empty() {
            inner.hosts.insert(thread, own_tid());
            inner.ready.push_back(thread);
            inner.give_up(thread);
            self.changed.notify_all();
        }
    }

    /// A thread has gone on for long: others have theirs, and if all of them sleep, the one that sleeps for the shortest time has slept.
    pub fn end_long_turn(&self, thread: u32) {
        let mut inner = lock(&self.inner);
        if inner.ready.is_empty()
            && let Some(sleeper) = inner.woken_by_time()
        {
            inner.ready.push_back(sleeper);
        }
        drop(inner);
        self.yield_to_others(thread);
        self.back(thread);
    }

    /// A thread created another one, which goes on first.
    pub fn created(&self, thread: u32, new: u32) {
        let mut inner = lock(&self.inner);
        inner.hosts.insert(thread, own_tid());
        inner.ready.push_back(thread);
        inner.holder = Some(new);
        inner.leaving = None;
        self.changed.notify_all();
    }

    /// A thread wakes up to so many of those that wait for a futex; how many that are.
    pub fn wake(&self, address: u64, bits: u32, most: u64) -> u64 {
        let mut inner = lock(&self.inner);
        let mut woken = 0;
        while woken < most {
            let is_it = |wait: &Wait| wait.futex.is_some_and(|(at, mask)| at == address && mask & bits != 0);
            let Some(at) = inner.waiting.iter().position(|(_, wait)| is_it(wait)) else { break };
            let (thread, _) = inner.waiting.remove(at);
            inner.ready.push_back(thread);
            woken += 1;
        }
        woken
    }

    /// A thread is back from the kernel: it waits for its turn.
    pub fn back(&self, thread: u32) {
        let mut inner = lock(&self.inner);
        if inner.holder == Some(thread) {
            inner.left_behind();
            return;
        }
        inner.hosts.insert(thread, own_tid());
        inner.back.push(thread);
        // Nobody woke it, and no time was over: a signal did, or somebody outside of the program.
        if let Some(at) = inner.waiting.iter().position(|(other, wait)| *other == thread && wait.until.is_none()) {
            inner.waiting.remove(at);
            inner.ready.push_back(thread);
            inner.strays += 1;
        } else if !inner.ready.contains(&thread) && !inner.waiting.iter().any(|(other, _)| *other == thread) {
            // Its turn was taken while it was in the kernel.
            inner.ready.push_back(thread);
        }
        if inner.holder.is_none() {
            inner.hand_on();
        }
        self.changed.notify_all();
        let (mut quiet, mut of) = (0, None);
        while inner.holder != Some(thread) {
            inner = self.pause(inner);
            if inner.holder != of {
                (quiet, of) = (0, inner.holder);
            } else if inner.holder.is_some_and(|holder| inner.is_asleep(holder)) {
                quiet += 1;
            } else {
                quiet = 0;
            }
            if quiet > QUIET_LOOKS && !inner.ready.is_empty() {
                inner.strays += 1;
                inner.hand_on();
                self.changed.notify_all();
            }
        }
        inner.back.retain(|other| *other != thread);
        inner.left_behind();
    }

    /// A thread is no more; whoever waits for a futex at an address goes on.
    pub fn end(&self, thread: u32, cleared: u64) {
        if cleared != 0 {
            self.wake(cleared, u32::MAX, u64::MAX);
        }
        let mut inner = lock(&self.inner);
        inner.hosts.insert(thread, own_tid());
        inner.ready.retain(|other| *other != thread);
        inner.waiting.retain(|(other, _)| *other != thread);
        inner.give_up(thread);
        self.changed.notify_all();
    }

    /// Something came that was not foreseen.
    pub fn stray(&self) {
        lock(&self.inner).strays += 1;
    }

    /// How often threads did what another run need not do alike.
    pub fn strays(&self) -> u64 {
        lock(&self.inner).strays
    }

    fn pause<'a>(&self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        match self.changed.wait_timeout(inner, LOOK) {
            Ok((inner, _)) => inner,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }
}

impl Inner {
    /// Who has the turn has it no more.
    fn give_up(&mut self, thread: u32) {
        if self.holder.is_none_or(|holder| holder == thread) {
            self.leaving = Some(own_tid());
            self.hand_on();
        }
    }

    /// The turn is the next one's: of those that were woken, else of the one that sleeps for the shortest time.
    fn hand_on(&mut self) {
        let mut due: Vec<(u64, u32)> = Vec::new();
        let now = clock::now();
        self.waiting.retain(|(thread, wait)| match wait.until {
            Some(until) if until <= now => {
                due.push((until, *thread));
                false
            }
            _ => true,
        });
        due.sort_by_key(|(until, _)| *until);
        self.ready.extend(due.into_iter().map(|(_, thread)| thread));
        self.holder = self.ready.pop_front().or_else(|| self.woken_by_time());
    }

    /// The one that sleeps for the shortest time: it is that late now.
    fn woken_by_time(&mut self) -> Option<u32> {
        let sleeping = self.waiting.iter().enumerate().filter_map(|(at, (_, wait))| Some((wait.until?, at)));
        let (until, at) = sleeping.min()?;
        clock::advance_to(until);
        Some(self.waiting.remove(at).0)
    }

    /// Waits until who had the turn before sleeps in the kernel, is back from there, or is no more: what it would find in memory, it has found.
    fn left_behind(&mut self) {
        let Some(leaving) = self.leaving.take().filter(|leaving| *leaving != own_tid()) else { return };
        if self.back.iter().any(|thread| self.hosts.get(thread) == Some(&leaving)) {
            return;
        }
        for _ in 0..LEAVING {
            if !is_running(leaving) {
                return;
            }
            std::thread::sleep(Duration::from_micros(10));
        }
        self.strays += 1;
    }

    fn is_asleep(&self, thread: u32) -> bool {
        self.hosts.get(&thread).is_some_and(|tid| !is_running(*tid))
    }
}

fn own_tid() -> i32 {
    // SAFETY: gettid(2) takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Whether a thread of ours runs or could run: `R` in /proc/pid/stat (proc(5)); one that is no more does not.
fn is_running(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
    // The name before it may hold anything, parentheses too.
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R')))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Who has the turn, and how it went on.
    fn holder(turns: &Turns) -> Option<u32> {
        lock(&turns.inner).holder
    }

    #[test]
    fn who_was_woken_first_goes_on_first_and_sleepers_when_nobody_else_can() {
        let turns = Turns::default();
        turns.created(0, 1);
        assert_eq!(holder(&turns), Some(1), "who is new goes on");
        turns.wait(1, Wait { futex: Some((64, u32::MAX)), until: None });
        assert_eq!(holder(&turns), Some(0));
        turns.wait(0, Wait { futex: None, until: Some(clock::now() + 5_000_000) });
        let slept = clock::now();
        assert_eq!(holder(&turns), Some(0), "nobody else can go on, and it is late enough then");
        assert!(slept >= 5_000_000);
        assert_eq!((turns.wake(64, 1, 9), turns.wake(64, 1, 9), turns.wake(72, 1, 9)), (1, 0, 0));
        turns.end(0, 0);
        assert_eq!((holder(&turns), turns.strays()), (Some(1), 0));
    }

    #[test]
    fn who_spins_until_a_sleeper_has_done_something_does_not_spin_for_ever() {
        let turns = Turns::default();
        turns.created(0, 1);
        turns.yield_to_others(1);
        assert_eq!(holder(&turns), Some(0));
        turns.wait(0, Wait { futex: None, until: Some(clock::now() + 1_000_000_000) });
        assert_eq!(holder(&turns), Some(1));
        let steps = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                turns.back(0);
                steps.fetch_add(1, Ordering::SeqCst);
                turns.end(0, 0);
            });
            turns.end_long_turn(1);
            assert_eq!(steps.load(Ordering::SeqCst), 1);
        });
        assert_eq!(holder(&turns), Some(1));
    }
}
