// SPDX-License-Identifier: GPL-2.0-or-later
//! Threads take turns: one at a time goes on, for some accesses, then the one that has waited longest.
//!
//! So the order of all accesses is known, threads meet as often as on cores of their own, and two runs of a program are alike as far as its
//! system calls are. A thread that is inside a system call has no turn; nor does anybody else have to wait for it. But who wakes others goes
//! on only when they have come back from the kernel: on cores of their own they would be there at once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::lock::lock;

/// After so long without an access of whoever has the turn, another takes it if that one sleeps. QEMU stops all threads for some of its own
/// work, and then the one that has the turn waits for those that wait for theirs. One that could run, and does not since the host is busy, keeps it:
/// else who meets whom would depend on the host's load.
const LONGEST: Duration = Duration::from_millis(5);

/// Who has the turn, and who waits.
pub struct Turns {
    inner: Mutex<Inner>,
    /// Threads that were waited for have come.
    came: Condvar,
    quantum: u32,
}

/// Who came longer ago than that was woken by somebody whom nobody told of (a thread's end wakes who joins it).
const EARLY: Duration = Duration::from_millis(20);
/// Longest that whoever woke others waits for them.
const COMING: Duration = Duration::from_millis(200);
/// From one look at them to the next, at most.
const LOOK: Duration = Duration::from_millis(1);
/// Looks in a row at which none was on its way, after which none is waited for.
const QUIET_LOOKS: u32 = 2;

/// A thread of the host.
#[derive(Default)]
struct Host {
    tid: i32,
    /// Rung when it has the turn: its own, so that nobody else wakes.
    bell: Arc<Condvar>,
}

struct Inner {
    /// Threads that were woken, or created, and have not come yet.
    coming: u32,
    /// When threads came whose waking was not told yet: they may be faster than who woke them.
    came: VecDeque<Instant>,
    holder: Option<u32>,
    /// Threads of the host, by the program's.
    hosts: HashMap<u32, Host>,
    waiting: VecDeque<u32>,
    /// Threads that are in the kernel, or on their way back, or new.
    outside: HashSet<u32>,
    /// Turns begun.
    begun: u64,
    /// Of them taken from a holder that did not go on.
    taken: u64,
    rng: fastrand::Rng,
}

impl Turns {
    /// Turns of so many accesses in the mean.
    pub fn new(quantum: u32, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let inner = Inner {
            coming: 0,
            came: VecDeque::new(),
            holder: None,
            hosts: HashMap::new(),
            waiting: VecDeque::new(),
            outside: HashSet::new(),
            begun: 0,
            taken: 0,
            rng,
        };
        Self { inner: Mutex::new(inner), came: Condvar::new(), quantum: quantum.max(1) }
    }

    /// So many threads were woken, or created, by one that has no turn now: it waits for them. Those that were woken are known: where none of them
    /// is on its way, as the host's kernel says, they came before it was told that they would, or are not ours.
    pub fn woke(&self, threads: u32, are_new: bool) {
        let mut inner = lock(&self.inner);
        let now = Instant::now();
        inner.came.retain(|came| now.duration_since(*came) < EARLY);
        let here = threads.min(inner.came.len() as u32);
        inner.came.drain(..here as usize);
        inner.coming += threads - here;
        let until = now + COMING;
        let mut quiet = 0;
        while inner.coming > 0 {
            let before = inner.coming;
            inner = match self.came.wait_timeout(inner, LOOK) {
                Ok((inner, _)) => inner,
                Err(poisoned) => poisoned.into_inner().0,
            };
            if inner.coming < before {
                continue;
            }
            // Looking takes longer than they mostly do.
            quiet = if are_new || inner.is_somebody_coming() { 0 } else { quiet + 1 };
            if quiet >= QUIET_LOOKS || Instant::now() >= until {
                // They are not ours, or have ended, or are here.
                inner.coming = 0;
            }
        }
    }

    /// A thread is there, and will come.
    pub fn start(&self, thread: u32) {
        lock(&self.inner).outside.insert(thread);
    }

    /// Waits for a turn; how many accesses it lasts. `came`: it was waiting in the kernel, or is new.
    pub fn begin(&self, thread: u32, came: bool) -> u32 {
        let mut inner = lock(&self.inner);
        inner.outside.remove(&thread);
        if came {
            if inner.coming > 0 {
                inner.coming -= 1;
                self.came.notify_all();
            } else {
                inner.came.push_back(Instant::now());
            }
        }
        // SAFETY: gettid(2) takes nothing and cannot fail.
        let tid = unsafe { libc::gettid() };
        inner.hosts.entry(thread).or_default().tid = tid;
        if inner.holder.is_none() {
            inner.holder = Some(thread);
        }
        self.wait(inner, thread)
    }

    /// Others may go on: their turns first, then another of this thread's.
    pub fn pass(&self, thread: u32) -> u32 {
        let mut inner = lock(&self.inner);
        if inner.waiting.is_empty() && !inner.outside.is_empty() {
            // Who could come back from the kernel, but for the CPU that we have, comes now.
            drop(inner);
            std::thread::yield_now();
            inner = lock(&self.inner);
        }
        if inner.holder == Some(thread)
            && let Some(next) = inner.waiting.pop_front()
        {
            inner.waiting.push_back(thread);
            let bell = inner.hand_to(next);
            // Who is woken goes on at once, and would stop again for what we have locked.
            drop(inner);
            bell.notify_one();
            inner = lock(&self.inner);
        }
        self.wait(inner, thread)
    }

    fn wait(&self, mut inner: MutexGuard<'_, Inner>, thread: u32) -> u32 {
        let bell = Arc::clone(&inner.hosts.entry(thread).or_default().bell);
        while inner.holder != Some(thread) {
            // One whose turn was taken before it could begin waits again.
            if !inner.waiting.contains(&thread) {
                inner.waiting.push_back(thread);
            }
            let before = inner.begun;
            let (now, wait) = match bell.wait_timeout(inner, LONGEST) {
                Ok(woken) => woken,
                Err(poisoned) => poisoned.into_inner(),
            };
            inner = now;
            if wait.timed_out() && inner.begun == before && inner.holder != Some(thread) && !inner.is_holder_runnable() {
                inner.waiting.retain(|other| *other != thread);
                inner.holder = Some(thread);
                inner.taken += 1;
            }
        }
        inner.begun += 1;
        // Of any length: a fixed one would beat in time with loops.
        inner.rng.u32(1..=2 * self.quantum - 1)
    }

    /// The thread goes where it needs no turn: into the kernel.
    pub fn leave(&self, thread: u32) {
        self.give_up(thread, true);
    }

    /// The thread is no more.
    pub fn end(&self, thread: u32) {
        self.give_up(thread, false);
    }

    fn give_up(&self, thread: u32, comes_back: bool) {
        let mut inner = lock(&self.inner);
        if comes_back {
            inner.outside.insert(thread);
        } else {
            inner.outside.remove(&thread);
        }
        inner.waiting.retain(|other| *other != thread);
        if inner.holder == Some(thread) {
            inner.holder = None;
            if let Some(next) = inner.waiting.pop_front() {
                let bell = inner.hand_to(next);
                drop(inner);
                bell.notify_one();
            }
        }
    }

    /// Turns that were taken.
    pub fn taken(&self) -> u64 {
        lock(&self.inner).taken
    }
}

impl Inner {
    /// Whose turn it is from now on; the bell to be rung.
    fn hand_to(&mut self, next: u32) -> Arc<Condvar> {
        self.holder = Some(next);
        Arc::clone(&self.hosts.entry(next).or_default().bell)
    }

    /// Whether who has the turn could run, as the host's kernel says (proc(5), /proc/pid/stat: R), or runs.
    fn is_holder_runnable(&self) -> bool {
        self.holder.and_then(|holder| self.hosts.get(&holder)).is_some_and(|host| is_runnable(host.tid))
    }

    /// Whether a thread without a turn could run, and does not wait for one.
    fn is_somebody_coming(&self) -> bool {
        // SAFETY: gettid(2) takes nothing and cannot fail.
        let own = unsafe { libc::gettid() };
        let is_outside = |thread: &u32| self.holder != Some(*thread) && !self.waiting.contains(thread);
        self.hosts.iter().any(|(thread, host)| host.tid != own && is_outside(thread) && is_runnable(host.tid))
    }
}

/// Whether a thread of ours runs or could run: `R` in /proc/pid/stat (proc(5)).
fn is_runnable(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
    // The name before it may hold anything, parentheses too.
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R')))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn turns_go_round_and_a_holder_that_sleeps_does_not_stop_the_others() {
        let turns = Turns::new(4, 1);
        assert!((1..8).contains(&turns.begin(1, false)));
        assert!((1..8).contains(&turns.pass(1)), "nobody else waits");
        turns.start(9);
        assert!((1..8).contains(&turns.pass(1)), "one that is in the kernel is not waited for");
        std::thread::scope(|scope| {
            // Thread 1 has the turn and does nothing: 2 and 3 take it.
            for thread in [2, 3] {
                let turns = &turns;
                scope.spawn(move || {
                    turns.begin(thread, false);
                    turns.end(thread);
                });
            }
        });
        assert!(turns.taken() >= 1);
        turns.end(1);
        assert_eq!(lock(&turns.inner).holder, None);
    }

    /// Looked at from outside while it runs: at its end it waits for the lock, and then does not run.
    #[test]
    fn a_holder_that_could_run_keeps_its_turn() {
        let turns = Turns::new(4, 1);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (begun, has_begun) = std::sync::mpsc::channel();
            let (turns, is_over) = (&turns, &is_over);
            scope.spawn(move || {
                turns.begin(1, false);
                begun.send(()).ok();
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                turns.end(1);
            });
            has_begun.recv().ok();
            scope.spawn(|| {
                turns.begin(2, false);
                turns.end(2);
            });
            std::thread::sleep(10 * LONGEST);
            let taken = turns.taken();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(taken, 0);
        });
    }

    #[test]
    fn who_wakes_waits_for_those_who_come() {
        let turns = Turns::new(4, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                turns.begin(2, true);
                turns.end(2);
            });
            turns.woke(1, true);
        });
        assert_eq!(lock(&turns.inner).coming, 0);
        for are_new in [true, false] {
            let before = Instant::now();
            turns.woke(1, are_new);
            assert_eq!(lock(&turns.inner).coming, 0, "nobody comes, and nobody waits for ever");
            assert!(are_new || before.elapsed() < COMING, "who was woken would be on its way");
        }
    }
}
