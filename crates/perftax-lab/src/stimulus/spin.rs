//! Work that behaves as programs do: what an interrupt takes time away from.
//!
//! A tight arithmetic loop gives too low a cost: it loses nothing but the time of the interrupt itself. Real programs also lose
//! what their branch predictors, instruction caches and data caches had learned (on the machine where this was found, an
//! interpreter under 50 kHz of samples lost a quarter more than a loop in registers did). So the work is a small interpreter: a
//! long program of mixed operations, dispatched one by one, over data of the size of a second-level cache.

use std::hint::black_box;
use std::time::Duration;

use perftax_pmu::sys::Tsc;

use super::{Stimulus, lasting, under_frames};

/// Words of data: 512 KiB.
const DATA_WORDS: usize = 65_536;
/// Operations of the interpreted program; it repeats, so that predictors can learn it.
const PROGRAM_LENGTH: usize = 6_000;
/// Operations of a first trial.
const FEW: u64 = 60_000;
/// Kinds of operation.
const KINDS: u8 = 24;

/// One operation: its kind and an operand.
#[derive(Clone, Copy)]
struct Operation {
    kind: u8,
    operand: u32,
}

/// An interpreter that executes a fixed number of operations.
pub struct Spin {
    operations: u64,
    program: Vec<Operation>,
    data: Vec<u64>,
}

impl Spin {
    /// Work that takes about `duration` on this machine, undisturbed.
    pub fn lasting(duration: Duration) -> Self {
        let mut spin = Self::of(FEW);
        spin.operations = lasting(&mut spin, duration, FEW);
        spin
    }

    /// Work of so many operations.
    pub fn of(operations: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(0x5eed);
        let program = (0..PROGRAM_LENGTH).map(|_| Operation { kind: rng.u8(0..KINDS), operand: rng.u32(..) }).collect();
        Self { operations, program, data: (0..DATA_WORDS as u64).collect() }
    }

    /// Operations of a run.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    #[inline]
    fn interpret(&mut self) {
        let data = self.data.as_mut_slice();
        let (mut a, mut b) = (0x9e37_79b9_7f4a_7c15_u64, 1_u64);
        let mut at = 0;
        for _ in 0..self.operations {
            let Operation { kind, operand } = self.program[at];
            at = if at + 1 == PROGRAM_LENGTH { 0 } else { at + 1 };
            let operand = u64::from(operand);
            let slot = (operand as usize) % DATA_WORDS;
            // Every arm does something else, so that each has code and branches of its own.
            match kind {
                0 => a = a.wrapping_add(operand),
                1 => b ^= a.rotate_left(5),
                2 => a = a.wrapping_mul(operand | 1),
                3 => b = b.wrapping_sub(data[slot]),
                4 => data[slot] = a,
                5 => a ^= data[(a as usize) % DATA_WORDS],
                6 => b = b.swap_bytes().wrapping_add(operand),
                7 => a = if operand & 64 == 0 { a >> 3 } else { a << 1 },
                8 => b = b.wrapping_add(u64::from(a.count_ones())),
                9 => data[slot] = data[slot].wrapping_add(b),
                10 => a = a.max(operand).wrapping_add(b & 15),
                11 => b = (b | operand).wrapping_mul(3),
                12 => a = a.reverse_bits() ^ operand,
                13 => b = b.wrapping_add(data[(operand as usize + 17) % DATA_WORDS] & 0xff),
                14 => a = a.wrapping_sub(b).rotate_right(9),
                15 => {
                    for step in 0..operand % 5 {
                        b = b.wrapping_add(data[(slot + step as usize) % DATA_WORDS]);
                    }
                }
                16 => a ^= b.wrapping_mul(operand),
                17 => b = if b & 1024 == 0 { b.wrapping_add(7) } else { b ^ 0x55 },
                18 => data[slot] ^= operand,
                19 => a = a.wrapping_add(u64::from(operand.leading_zeros())),
                20 => b = b.abs_diff(a),
                21 => a = (a & !0xff) | (operand & 0xff),
                22 => b = b.rotate_left((operand & 31) as u32),
                _ => std::mem::swap(&mut a, &mut b),
            }
        }
        black_box((a, b));
    }
}

impl Stimulus for Spin {
    fn run(&mut self) {
        under_frames(|| self.interpret());
    }

    /// A gap detector: successive readings of the clock lie tens of ticks apart unless something took the CPU away.
    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        let until = Tsc::now().wrapping_add(GAP_DETECTOR_TICKS);
        let mut last = Tsc::now();
        while last < until {
            let now = Tsc::now();
            let gap = now.wrapping_sub(last);
            if gap > GAP_TICKS {
                ticks.push(u32::try_from(gap).unwrap_or(u32::MAX));
            }
            last = now;
        }
    }

    fn truth(&self) -> Option<u64> {
        None
    }
}

/// How long the gap detector looks: 2 to 5 ms at the rates of today's time stamp counters.
const GAP_DETECTOR_TICKS: u64 = 10_000_000;
/// A gap between two clock readings that is no longer explained by the reading itself: about 0.3 µs at common rates.
const GAP_TICKS: u64 = 600;
