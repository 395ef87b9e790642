//! Programs whose sharing is known by construction, as sequences of accesses: threads take turns by chance, as they do on cores of a machine
//! that nothing synchronises.

use perftax_comm::{Access, Bytes, Kind, Line, Thread};

/// How threads share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// All store to one word.
    True,
    /// Each stores to a word of its own; eight share a line.
    False,
    /// Half of the one, half of the other, in different lines.
    Mixed,
    /// The first stores, the others load.
    ReadWrite,
    /// Pairs: one fills a line with eight stores, the other loads all of it.
    Stream,
    /// The same by eight instructions each, as compilers peel such loops, with many lines (512 a pair, read eight lines later).
    Peeled,
    /// A lock (load, store), two words that it protects, the lock again.
    Lock,
}

/// All of them.
pub const PATTERNS: [Pattern; 7] =
    [Pattern::True, Pattern::False, Pattern::Mixed, Pattern::ReadWrite, Pattern::Stream, Pattern::Peeled, Pattern::Lock];

/// Accesses of `threads` threads; a share `fraction` of the operations touches shared lines, the others the thread's own.
pub struct Program {
    pattern: Pattern,
    threads: u32,
    fraction: f64,
    rng: fastrand::Rng,
    /// What each thread has still to do of an operation, last first.
    pending: Vec<Vec<Access>>,
    /// Threads that hold the lock.
    holder: Option<Thread>,
    /// Lines that each pair has filled.
    filled: Vec<u64>,
}

const SHARED: u64 = 1 << 20;
const OWN: u64 = 1 << 30;

impl Program {
    pub fn new(pattern: Pattern, threads: u32, fraction: f64, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let pending = vec![Vec::new(); threads as usize];
        Self { pattern, threads, fraction, rng, pending, holder: None, filled: vec![0; threads as usize] }
    }

    /// The next access of whichever thread's turn it is.
    pub fn next(&mut self) -> Access {
        loop {
            let thread = self.rng.u32(0..self.threads);
            let at = thread as usize;
            if self.pending[at].is_empty() {
                if self.rng.f64() < self.fraction {
                    self.shared(thread);
                } else {
                    self.own(thread);
                }
                self.pending[at].reverse();
            }
            if let Some(access) = self.pending[at].pop() {
                if self.pending[at].is_empty() && self.holder == Some(thread) {
                    self.holder = None;
                }
                return access;
            }
        }
    }

    fn push(&mut self, thread: Thread, line: u64, offset: u64, bytes: u64, kind: Kind, ip: u64) {
        let access = Access { thread, line: Line(line), bytes: Bytes::new(offset, bytes), kind, ip };
        self.pending[thread as usize].push(access);
    }

    /// A store and a load in lines that no other thread touches.
    fn own(&mut self, thread: Thread) {
        let line = OWN + u64::from(thread) * 1000 + self.rng.u64(0..16);
        let word = self.rng.u64(0..8);
        self.push(thread, line, 8 * word, 8, Kind::Store, 1);
    }

    fn shared(&mut self, thread: Thread) {
        let lines = 4;
        let line = SHARED + self.rng.u64(0..lines);
        let group = SHARED + 100 + u64::from(thread / 8);
        let own_offset = u64::from(thread % 8) * 8;
        match self.pattern {
            Pattern::True => self.push(thread, line, 8, 8, Kind::Store, 10),
            Pattern::False => self.push(thread, group, own_offset, 8, Kind::Store, 11),
            Pattern::Mixed => {
                if self.rng.bool() {
                    self.push(thread, line, 8, 8, Kind::Store, 10);
                } else {
                    self.push(thread, group, own_offset, 4, Kind::Store, 11);
                }
            }
            Pattern::ReadWrite => {
                let kind = if thread == 0 { Kind::Store } else { Kind::Load };
                self.push(thread, line, 16, 8, kind, 12 + u64::from(thread == 0));
            }
            Pattern::Stream | Pattern::Peeled => {
                // A ring of 64 lines a pair: what was filled 32 lines ago is read.
                let is_peeled = self.pattern == Pattern::Peeled;
                let (slots, behind) = if is_peeled { (512, 8) } else { (64, 32) };
                let pair = thread / 2;
                let base = SHARED + 1000 + 1000 * u64::from(pair);
                let fills = thread.is_multiple_of(2);
                let at = self.filled[thread as usize];
                self.filled[thread as usize] += 1;
                let line = base + if fills { at % slots } else { (at + slots - behind) % slots };
                let kind = if fills { Kind::Store } else { Kind::Load };
                let ip = |word: u64| 100 + u64::from(fills) + if is_peeled { 2 * word } else { 0 };
                (0..8).for_each(|word| self.push(thread, line, 8 * word, 8, kind, ip(word)));
            }
            Pattern::Lock => {
                if self.holder.is_some() {
                    // It is taken: looked at.
                    return self.push(thread, SHARED + 300, 0, 4, Kind::Load, 20);
                }
                self.holder = Some(thread);
                self.push(thread, SHARED + 300, 0, 4, Kind::Store, 21);
                self.push(thread, SHARED + 301, 8, 8, Kind::Store, 22);
                self.push(thread, SHARED + 302, 8, 8, Kind::Store, 23);
                self.push(thread, SHARED + 300, 0, 4, Kind::Store, 24);
            }
        }
    }
}
