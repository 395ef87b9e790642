//! Steal: what a hypervisor took from a thread without its kernel's noticing.
//!
//! The kernel says now and then for how long a thread has run (`sched_stat_runtime`: at every tick and switch), and leaves out what the
//! hypervisor says it took. How much was taken between two such records is so known to some microseconds, and when is not; but nothing at
//! all happens to a thread meanwhile. So it is charged to the longest stretches between two records of the thread.

use super::Key;
use crate::cause::Cause;

/// Stretches without any record that are shorter than this are not remembered, ns: what a hypervisor takes is seldom less.
const SILENT_NS: u64 = 10_000;
/// Less than this missing is what the two clocks are read apart, ns.
const STEAL_NS: u64 = 10_000;
/// Messages that wait for one thread's next record; one of them is enough to make others wait on a CPU without ticks.
pub(super) const MAX_PENDING: usize = 4096;

/// A stretch of a thread's time in which it ran, and nothing was heard of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Silent {
    /// The message that it was at; none: no message.
    pub key: Option<Key>,
    pub serial: u64,
    pub from_ns: u64,
    pub to_ns: u64,
    pub cause: Cause,
}

/// From one word of the kernel's to the next.
#[derive(Default)]
pub(super) struct Window {
    from_ns: Option<u64>,
    /// Time in interruptions; kernels differ in whether they count it (`CONFIG_IRQ_TIME_ACCOUNTING`), so it is never taken for steal.
    pub interrupted_ns: u64,
    silent: Vec<Silent>,
    /// Messages that are over, part of which lies within.
    pub pending: Vec<Key>,
}

impl Window {
    /// A new one begins. What is pending has been handed out.
    pub fn open(&mut self, now_ns: u64) {
        // Without any word of the kernel's so far there may never be one, and nothing must wait for it.
        self.from_ns = Some(now_ns);
        self.interrupted_ns = 0;
        self.silent.clear();
    }

    /// Remembers a stretch in which the thread ran.
    pub fn silence(&mut self, key: Option<Key>, serial: u64, from_ns: u64, to_ns: u64, cause: Cause) {
        if self.from_ns.is_some() && to_ns - from_ns >= SILENT_NS && self.silent.len() < MAX_PENDING {
            self.silent.push(Silent { key, serial, from_ns, to_ns, cause });
        }
    }

    /// Whether part of a message lies within that may turn out to have been stolen.
    pub fn knows(&self, key: Key) -> bool {
        self.silent.iter().any(|silent| silent.key == Some(key))
    }

    /// Takes those that are pending of which the kernel's word can change nothing.
    pub fn without_word(&mut self) -> Vec<Key> {
        let silent = &self.silent;
        self.pending.extract_if(.., |key| !silent.iter().any(|silent| silent.key == Some(*key))).collect()
    }

    /// The kernel says how long the thread has run since; tells which stretches lose how much to the hypervisor, and begins a new window.
    pub fn close(&mut self, now_ns: u64, ran_ns: u64, mut stolen: impl FnMut(&Silent, u64)) {
        if let Some(from_ns) = self.from_ns {
            let mut missing = (now_ns - from_ns.min(now_ns)).saturating_sub(ran_ns).saturating_sub(self.interrupted_ns);
            if missing >= STEAL_NS {
                self.silent.sort_by_key(|silent| std::cmp::Reverse(silent.to_ns - silent.from_ns));
                for silent in &self.silent {
                    if missing < STEAL_NS {
                        break;
                    }
                    let taken = missing.min(silent.to_ns - silent.from_ns);
                    stolen(silent, taken);
                    missing -= taken;
                }
            }
        }
        self.open(now_ns);
    }
}
