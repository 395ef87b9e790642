//! What a mark costs on this machine.
//!
//! In a tight loop marks overlap with each other, and cost least. Between a program's own work it depends on what the time stamp counter
//! keeps apart: short pieces of work that wait for memory would overlap without it. So a mark is timed in three surroundings, as the
//! difference of loops with and without, in turn.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use perftax_doc::Estimate;
use perftax_pmu::event::Event;
use perftax_pmu::sys::{SelfMonitor, Tsc, monotonic_raw_ns};

/// Messages, of two marks each, that are timed together, and how many times.
const MESSAGES: u64 = 1000;
const TIMINGS: usize = 9;
/// Marks of the ring that is written for it, at most.
const MAX_MARKS: u64 = 1 << 18;
/// Memory that the work reads, bytes: more than a core's own caches have.
const MEMORY_BYTES: usize = 16 << 20;
/// From one message's memory to the next one's, bytes: no prefetcher gets there first.
const STRIDE_BYTES: usize = 2176;

/// A piece of work: bytes of memory that it reads, and multiplications each of which waits for the one before.
#[derive(Clone, Copy)]
struct Work {
    bytes: usize,
    multiplications: u64,
}

/// None; a line of memory that is in no cache; a packet's checksum and half a microsecond of arithmetic.
const SURROUNDINGS: [Work; 3] =
    [Work { bytes: 0, multiplications: 0 }, Work { bytes: 64, multiplications: 0 }, Work { bytes: 1408, multiplications: 500 }];

/// What a mark takes with rings of so many marks, ns: the median of three surroundings, from the least to the most of them. What
/// `perftax_tag_mark` of the header does is done here: the counter, two stores, the ring's head.
pub fn mark_ns(ring_marks: u64) -> Estimate {
    let mut memory = vec![1u8; MEMORY_BYTES];
    let ring = Ring::new(ring_marks.clamp(64, MAX_MARKS));
    let mut of = SURROUNDINGS.map(|work| in_work(work, &mut memory, &ring));
    of.sort_by(f64::total_cmp);
    Estimate::new(of[1], of[0], of[2])
}

/// What it takes the calling thread to read counters of its own without a system call, ns: the median of some timings, from the least to the most of them; none where it cannot.
pub fn counters_ns(counters: &[Event; 2]) -> Option<Estimate> {
    let mut monitor = SelfMonitor::group(counters).ok()?;
    monitor.map().ok()?;
    monitor.start().ok()?;
    monitor.read_in_user_mode()?;
    let mut all: Vec<f64> = (0..TIMINGS)
        .map(|_| {
            timed(|_| {
                black_box(monitor.read_in_user_mode());
            })
        })
        .collect();
    all.sort_by(f64::total_cmp);
    Some(Estimate::new(all[TIMINGS / 2], all[0], all[TIMINGS - 1]))
}

/// The median of some differences.
fn in_work(work: Work, memory: &mut [u8], ring: &Ring) -> f64 {
    let mut at = 0;
    let mut differences: Vec<f64> = (0..=TIMINGS)
        .map(|_| {
            let without_ns = timed(|_| work.done(memory, &mut at));
            let with_ns = timed(|id| {
                ring.mark(id, 1);
                work.done(memory, &mut at);
                ring.mark(id, 2);
            });
            (with_ns - without_ns) / 2.0
        })
        // The first one touches the ring and the memory for the first time.
        .skip(1)
        .collect();
    differences.sort_by(f64::total_cmp);
    differences[TIMINGS / 2].max(0.0)
}

/// A message's time, ns.
fn timed(mut message: impl FnMut(u64)) -> f64 {
    let began_ns = monotonic_raw_ns();
    (1..=MESSAGES).for_each(&mut message);
    (monotonic_raw_ns() - began_ns) as f64 / MESSAGES as f64
}

impl Work {
    fn done(self, memory: &mut [u8], at: &mut usize) {
        *at = (*at + STRIDE_BYTES) % (memory.len() - self.bytes - 1);
        // Plain loops: a build for tests, which the emulated machine runs, makes calls of what an iterator does.
        let (mut sum, mut byte, mut i) = (0, *at, 0);
        while byte < *at + self.bytes {
            sum += u64::from(memory[byte]);
            byte += 1;
        }
        while i < self.multiplications {
            sum = sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i);
            i += 1;
        }
        black_box(sum);
    }
}

/// A ring as the header's.
struct Ring {
    marks: Vec<AtomicU64>,
    head: AtomicU64,
    tail: AtomicU64,
}

impl Ring {
    fn new(marks: u64) -> Self {
        let marks = marks.next_power_of_two();
        Self { marks: (0..2 * marks).map(|_| AtomicU64::new(0)).collect(), head: AtomicU64::new(0), tail: AtomicU64::new(0) }
    }

    fn mark(&self, id: u64, kind: u64) {
        let at = self.head.load(Ordering::Relaxed);
        // Nobody reads it: it is full when it cannot be.
        if at.wrapping_sub(self.tail.load(Ordering::Acquire)) >= u64::MAX / 2 {
            return;
        }
        let place = 2 * (at as usize & (self.marks.len() / 2 - 1));
        self.marks[place].store(Tsc::now(), Ordering::Relaxed);
        self.marks[place + 1].store(id << 2 | kind, Ordering::Relaxed);
        self.head.store(at + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_holds_what_was_marked_last() {
        let ring = Ring::new(64);
        (0..100).for_each(|id| ring.mark(id, 1));
        assert_eq!(ring.head.load(Ordering::Relaxed), 100);
        let ids: Vec<u64> = ring.marks.iter().skip(1).step_by(2).map(|word| word.load(Ordering::Relaxed) >> 2).collect();
        assert_eq!((ids[35], ids[36]), (99, 36));
    }

    #[test]
    fn a_price_is_in_order() {
        let price = mark_ns(1 << 12);
        assert!(price.low <= price.estimate && price.estimate <= price.high && price.high > 0.0, "{price:?}");
    }
}
