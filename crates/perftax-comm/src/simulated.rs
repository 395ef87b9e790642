//! Sampling and debug registers over every access of a program: what a machine would have seen, beside what there was.

use crate::access::{Access, Thread};
use crate::estimate::{Transfers, estimate};
use crate::line_watcher::{LineWatcher, Settings, Trap, trapped};

/// Every R-th load and every R-th store of each thread is sampled, each by a counter of its own, as PEBS does it with two events.
#[derive(Debug)]
pub struct Simulated {
    line_watcher: LineWatcher,
    period: u64,
    /// Loads and stores of each thread until the next sample.
    left: Vec<[u64; 2]>,
    counted: [u64; 2],
    rng: fastrand::Rng,
    /// Accesses from a sample until registers are armed.
    delay: u64,
    armed_at: u64,
    now: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Found {
    /// Loads and stores counted.
    pub counted: [u64; 2],
    /// What it rests on.
    pub evidence: crate::Evidence,
    /// How lines are used.
    pub board: crate::AccessTable,
    /// The estimate.
    pub transfers: Transfers,
}

impl Simulated {
    /// One sample each `period` accesses of a kind; registers are armed `delay` accesses of the whole program later.
    pub fn new(settings: Settings, period: u64, delay: u64) -> Self {
        let settings = Settings { at_once: delay == 0, ..settings };
        let rng = fastrand::Rng::with_seed(settings.seed ^ period);
        let line_watcher = LineWatcher::new(settings);
        Self { line_watcher, period: period.max(1), left: Vec::new(), counted: [0; 2], rng, delay, armed_at: 0, now: 0 }
    }

    /// A thread is there.
    pub fn thread_started(&mut self, thread: Thread) {
        let at = thread as usize;
        while self.left.len() <= at {
            // Counters start where the thread was opened, which is nowhere in particular.
            self.left.push([self.rng.u64(1..=self.period), self.rng.u64(1..=self.period)]);
        }
        self.line_watcher.thread_started(thread);
    }

    /// A thread is gone.
    pub fn thread_ended(&mut self, thread: Thread) {
        self.line_watcher.thread_ended(thread);
    }

    /// Takes one access of a thread that was started.
    #[inline]
    pub fn take(&mut self, access: &Access) {
        self.now += 1;
        if self.line_watcher.followed() == Some(access.line) && self.now >= self.armed_at {
            self.look(access);
        }
        let kind = usize::from(access.kind.is_store());
        self.counted[kind] += 1;
        let Some(left) = self.left.get_mut(access.thread as usize) else { return };
        left[kind] -= 1;
        if left[kind] == 0 {
            left[kind] = self.period;
            self.sample(access);
        }
    }

    #[cold]
    fn sample(&mut self, access: &Access) {
        let before = self.line_watcher.follows();
        self.line_watcher.sample(access);
        if self.line_watcher.follows() > before {
            self.armed_at = self.now + 1 + self.delay;
        }
    }

    fn look(&mut self, access: &Access) {
        let Some(aim) = self.line_watcher.aim_of(access.thread) else { return };
        let Some(words) = trapped(aim, access.bytes, access.kind) else { return };
        let Access { thread, line, kind, ip, .. } = *access;
        self.line_watcher.trap(&Trap { thread, line, words, ip, kind });
    }

    /// The program has ended.
    pub fn finish(self) -> Found {
        let (evidence, board) = self.line_watcher.finish();
        let transfers = estimate(&evidence, &board, self.counted[1]);
        Found { counted: self.counted, evidence, board, transfers }
    }
}
