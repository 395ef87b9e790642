//! A loop that misses the first-level cache once in so many instructions.

use std::fmt::Write;

use super::{EXIT, EXIT_INSTRUCTIONS, Microbench};

/// The accuracy benchmark of the PES study (TPDS'23, section 4.1; loop as in its public artifact): a pointer chase over 1000
/// elements that lie 128 bytes apart, in one shuffled cycle, each step followed by additions in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accuracy {
    /// Instructions of one step, 6 or more: the miss ratio is one in so many.
    pub step: u64,
    /// Rounds over all elements; the study's is 1,000,000.
    pub rounds: u64,
    /// Seed of the cycle.
    pub seed: u64,
}

/// Elements of the cycle.
const ELEMENTS: u64 = 1000;
/// Distance between them, bytes: 128 KB in all, beyond any first-level cache.
const APART: u64 = 128;
/// Instructions of a step beside the additions: load, scale, add, decrement, jump.
const STEP_FRAME: u64 = 5;
/// Instructions of a round beside its steps.
const ROUND_FRAME: u64 = 4;
/// Instructions before the first round.
const START: u64 = 4;
/// Where in a 64-byte line a step begins. The study's fetch counts (2, 4, 5, 6 and 7 lines for its five lengths) leave 40 to 55.
const STEP_OFFSET: u64 = 48;

impl Accuracy {
    /// The study's five miss ratios: 1/20 to 1/100.
    pub const STEPS: [u64; 5] = [20, 40, 60, 80, 100];
    /// The study's rounds.
    pub const ROUNDS: u64 = 1_000_000;

    /// Instructions that it executes.
    pub fn instructions(&self) -> u64 {
        START + self.rounds * (ELEMENTS * self.step + ROUND_FRAME) + EXIT_INSTRUCTIONS
    }

    /// Loads that miss the first-level cache (in a cache of fewer than 31 ways: each set holds 31 or 32 of the elements).
    pub fn l1_misses(&self) -> u64 {
        self.rounds * ELEMENTS
    }

    /// 64-byte lines of code fetched by the steps.
    pub fn fetches(&self) -> u64 {
        // Load 2 bytes, scale 4, add 3, additions 4 each, decrement 3, jump 2 or 6.
        let without_jump = 2 + 4 + 3 + 4 * (self.step - STEP_FRAME) + 3;
        let bytes = without_jump + if without_jump + 2 <= 128 { 2 } else { 6 };
        self.rounds * ELEMENTS * ((STEP_OFFSET + bytes - 1) / 64 + 1)
    }
}

impl Microbench for Accuracy {
    fn name(&self) -> String {
        format!("accuracy-1-{}", self.step)
    }

    fn assembly(&self) -> String {
        let additions = "    addq $1, %r8\n".repeat(self.step.saturating_sub(STEP_FRAME) as usize);
        let mut text = format!(
            "\
    .globl _start
    .text
_start:
    movl $elements, %ecx
    movq %rcx, %rbx
    xorl %r8d, %r8d
    movl ${rounds}, %r10d
round:
    movl ${ELEMENTS}, %r9d
    jmp step
    .balign 64
    .skip {STEP_OFFSET}
step:
    movl (%rbx), %ebx
    shlq $7, %rbx
    addq %rcx, %rbx
{additions}    decl %r9d
    jnz step
    decl %r10d
    jnz round
{EXIT}
    .data
    .balign 4096
elements:
",
            rounds = self.rounds
        );
        for next in self.cycle() {
            let _ = writeln!(text, "    .long {next}\n    .skip {}", APART - 4);
        }
        text
    }
}

impl Accuracy {
    /// For each element the one that follows: one cycle through all, by Sattolo's shuffle.
    fn cycle(&self) -> Vec<u64> {
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let mut next: Vec<u64> = (0..ELEMENTS).collect();
        for i in (1..next.len()).rev() {
            next.swap(i, rng.usize(0..i));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_visits_every_element() {
        let cycle = Accuracy { step: 20, rounds: 1, seed: 3 }.cycle();
        let mut at = 0;
        for visited in 1..=ELEMENTS {
            at = cycle[at as usize];
            assert_eq!(at == 0, visited == ELEMENTS);
        }
    }

    /// The study's expectations: instructions / 100,000 and fetches of 2, 4, 5, 6 and 7 lines a step.
    #[test]
    fn truths_are_the_studys() {
        let of = |step| Accuracy { step, rounds: Accuracy::ROUNDS, seed: 1 };
        assert_eq!(Accuracy::STEPS.map(|s| of(s).instructions() / 100_000), [200_040, 400_040, 600_040, 800_040, 1_000_040]);
        assert_eq!(Accuracy::STEPS.map(|s| of(s).fetches() / of(s).l1_misses()), [2, 4, 5, 6, 7]);
    }
}
