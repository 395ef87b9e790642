//! Work whose code is wide: thousands of short functions in no order, as compilers and interpreters have it. An interrupt costs it what its instruction
//! caches, its instruction TLB and its branch predictors lose, which a loop has nothing of.
//!
//! On the machine where this was found (docs/results/tools.md), a sample of cpu-clock cost a loop 13 µs, sixteen of these functions too, a thousand 18 µs and
//! four thousand or more 29 µs; a compiler 30 µs.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use perftax_cost::code::effective_number;
use perftax_pmu::sampler::CODE_PAGE_SHIFT;

use super::{Stimulus, lasting, noted, under_frames};

/// Functions: together some 600 kB of code.
const FUNCTIONS: usize = 4096;
/// Calls of a first trial: each function is called a few times.
const FEW: u64 = 4 * FUNCTIONS as u64;
/// Calls of one pass of a noted run.
const CALLS_NOTED: u64 = 64;

/// Words that all functions share.
type Words = [u64; 64];
type Function = fn(u64, &mut Words) -> u64;

/// One of them: its constants make it a function of its own, its branches depend on what it is given.
fn function<const I: u64>(mut x: u64, words: &mut Words) -> u64 {
    x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(2 * I + 1);
    let word = &mut words[(I % 64) as usize];
    *word = word.wrapping_add(x);
    if x & (1 << (40 + I % 20)) != 0 {
        x = black_box(x ^ (x >> 29)).rotate_left((I % 61) as u32);
    }
    if x & (1 << (30 + I % 8)) != 0 {
        x = black_box(x).wrapping_add(words[((I + 3) % 64) as usize]);
    }
    if x & (1 << (20 + I % 9)) != 0 {
        words[((I + 7) % 64) as usize] ^= black_box(x).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (I << 17));
    }
    x.wrapping_mul(I | 1)
}

macro_rules! sixteen {
    ($of:ident, $each:literal, $first:expr) => {
        [
            $of!($first),
            $of!($first + $each),
            $of!($first + 2 * $each),
            $of!($first + 3 * $each),
            $of!($first + 4 * $each),
            $of!($first + 5 * $each),
            $of!($first + 6 * $each),
            $of!($first + 7 * $each),
            $of!($first + 8 * $each),
            $of!($first + 9 * $each),
            $of!($first + 10 * $each),
            $of!($first + 11 * $each),
            $of!($first + 12 * $each),
            $of!($first + 13 * $each),
            $of!($first + 14 * $each),
            $of!($first + 15 * $each),
        ]
    };
}

macro_rules! one {
    ($number:expr) => {
        function::<{ $number }>
    };
}

macro_rules! row {
    ($first:expr) => {
        sixteen!(one, 1, $first)
    };
}

macro_rules! square {
    ($first:expr) => {
        sixteen!(row, 16, $first)
    };
}

static TABLE: [[[Function; 16]; 16]; 16] = sixteen!(square, 256, 0);

/// Calls functions of a wide program in no order.
pub struct WideCode {
    calls: u64,
    state: u64,
    words: Words,
}

impl WideCode {
    /// Work that takes about `duration` on this machine, undisturbed.
    pub fn lasting(duration: Duration) -> Self {
        let mut code = Self::of(FEW);
        code.calls = lasting(&mut code, duration, FEW);
        code
    }

    /// Work of so many calls.
    pub fn of(calls: u64) -> Self {
        Self { calls, state: 1, words: [1; 64] }
    }

    /// Calls of a run.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// How many pages its code effectively has: each function is as likely as the other, so it is their addresses that tell. The page that they are called
    /// from is left out: it has an eighth of the time, so that samples of this work tell some forty pages.
    pub fn effective_pages() -> f64 {
        let mut by_page: BTreeMap<u64, f64> = BTreeMap::new();
        for function in TABLE.iter().flatten().flatten() {
            *by_page.entry(*function as usize as u64 >> CODE_PAGE_SHIFT).or_default() += 1.0;
        }
        effective_number(by_page.into_values())
    }

    fn call(&mut self, calls: u64) {
        let mut x = self.state;
        for _ in 0..calls {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let which = (self.state >> 33) as usize;
            x = TABLE[(which >> 8) % 16][(which >> 4) % 16][which % 16](x, &mut self.words);
        }
        black_box(x);
    }
}

impl Stimulus for WideCode {
    fn run(&mut self) {
        under_frames(|| self.call(self.calls));
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        for _ in 0..self.calls / CALLS_NOTED {
            noted(ticks, || self.call(CALLS_NOTED));
        }
    }

    fn truth(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_code_is_wide_and_all_of_it_is_run() {
        let pages = WideCode::effective_pages();
        assert!((60.0..600.0).contains(&pages), "{pages}");
        let mut code = WideCode::of(FEW);
        let before = code.words;
        code.run();
        assert!(code.words.iter().zip(&before).all(|(now, before)| now != before));
    }
}
