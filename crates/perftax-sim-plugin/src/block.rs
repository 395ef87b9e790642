// SPDX-License-Identifier: GPL-2.0-or-later
//! Blocks of guest code as QEMU translates them.

use std::cell::UnsafeCell;

use perftax_model::{Counts, Event};

use crate::decode::{Decoded, Few};

/// A translated block: made once a translation, never freed, since QEMU's code points to it.
///
/// What every pass touches comes first, in one line of the host's cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Block {
    /// Passes of the program's first thread while it was alone.
    pub passes: Passes,
    /// Events of the sampled class in one pass, as far as they do not depend on how it goes.
    pub events: i64,
    /// Instructions.
    pub instructions: u64,
    /// Position in the list of all blocks.
    pub number: usize,
    /// First address.
    pub start: u64,
    /// Address behind the last instruction.
    pub end: u64,
    /// Addresses of the instructions.
    pub ips: Box<[u64]>,
    /// For each event of the sampled class, the instruction it belongs to.
    pub event_at: Box<[u16]>,
    /// Events of all classes in one pass.
    pub counts: Few,
    /// The last instruction is a conditional branch.
    pub conditional: bool,
    /// The first instruction repeats.
    pub repeats_first: bool,
    /// The last instruction repeats.
    pub repeats_last: bool,
    /// The repeating instruction that it ends in.
    pub repeats: Option<&'static Repeat>,
    /// The repeating instruction that ends where it begins.
    pub follows: Option<&'static Repeat>,
    /// Events of every repetition of its first instruction.
    pub repetition: Few,
    /// Those of the sampled class.
    pub repeated_events: i64,
    /// 64-byte lines of code beyond the one that it begins in.
    pub further_lines: i64,
}

/// A repeating instruction (`rep stosq`): QEMU passes a block of it alone once for every repetition, and the code that jumps there
/// counts nothing else while its events are none of the sampled.
#[derive(Debug)]
pub struct Repeat {
    /// The instruction as a block; its passes are not counted in there.
    pub block: Block,
    /// Passes of it alone.
    pub passes: Passes,
    /// Those that were its first: it was jumped to. All others are repetitions.
    pub entries: Passes,
    /// Passes that were seen.
    seen: Passes,
}

impl Repeat {
    /// An instruction that repeats.
    pub fn new(block: Block) -> Self {
        Self { block, passes: Passes::default(), entries: Passes::default(), seen: Passes::default() }
    }

    /// Whether it passed since this was last asked.
    #[inline]
    pub fn has_passed_since(&self) -> bool {
        let passes = self.passes.get();
        let had = self.seen.get();
        self.seen.set(passes);
        passes != had
    }

    /// Adds what it did to totals.
    pub fn add_to(&self, totals: &mut Counts) {
        let entries = self.entries.get();
        self.block.counts.add_to(totals, entries);
        self.block.repetition.add_to(totals, self.passes.get().saturating_sub(entries));
    }
}

/// A number that QEMU's generated code, or a callback from it, adds to.
#[derive(Debug, Default)]
pub struct Passes(UnsafeCell<u64>);

// SAFETY: written by the code of one thread at a time (a second thread makes QEMU translate anew, and passes are then counted
// for each thread), read when the program has ended.
unsafe impl Sync for Passes {}

impl Passes {
    /// Where it is.
    pub fn as_ptr(&self) -> *mut u64 {
        self.0.get()
    }

    /// One more, by a callback.
    #[inline]
    pub fn one_more(&self) {
        // SAFETY: as above.
        unsafe { *self.0.get() += 1 };
    }

    /// Another value.
    #[inline]
    fn set(&self, value: u64) {
        // SAFETY: as above.
        unsafe { *self.0.get() = value };
    }

    /// Its value.
    #[inline]
    pub fn get(&self) -> u64 {
        // SAFETY: as above.
        unsafe { self.0.get().read_volatile() }
    }
}

impl Block {
    /// From its instructions, sampling one class.
    pub fn new(number: usize, instructions: &[(u64, usize, Decoded)], sampled: Option<Event>) -> Self {
        let mut counts = Few::default();
        let mut event_at = Vec::new();
        for (index, (_, _, decoded)) in instructions.iter().enumerate() {
            counts.add(&decoded.counts);
            if let Some(event) = sampled {
                event_at.extend(std::iter::repeat_n(index as u16, decoded.counts[event] as usize));
            }
        }
        let (start, end) = (
            instructions.first().map_or(0, |(ip, _, _)| *ip),
            instructions.last().map_or(0, |(ip, bytes, _)| ip + *bytes as u64),
        );
        let repeats_last = instructions.last().is_some_and(|(_, _, decoded)| decoded.repeats);
        let repetition = instructions.first().map(|(_, _, decoded)| decoded.repetition).unwrap_or_default();
        Self {
            number,
            events: event_at.len() as i64,
            instructions: instructions.len() as u64,
            start,
            end,
            ips: instructions.iter().map(|(ip, _, _)| *ip).collect(),
            event_at: event_at.into(),
            counts,
            conditional: instructions.last().is_some_and(|(_, _, decoded)| decoded.conditional),
            repeats_first: instructions.first().is_some_and(|(_, _, decoded)| decoded.repeats),
            repeated_events: sampled.map_or(0, |event| i64::from(repetition[event])),
            repetition,
            repeats_last,
            further_lines: (end.saturating_sub(1) / 64).saturating_sub(start / 64) as i64,
            passes: Passes::default(),
            repeats: None,
            follows: None,
        }
    }
}
