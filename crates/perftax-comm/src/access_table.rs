//! What is known of how threads use lines: from samples, and from traps.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::access::{Access, Kind, Thread};
use crate::line::{Bytes, Line};

/// Words of a line that one debug register can watch each.
pub const WORDS: u32 = 8;
/// Bytes of such a word: the longest that x86 watches (SDM volume 3, 18.2.5).
pub const WORD_BYTES: u64 = 8;
/// Lines that are remembered. A line takes some hundred bytes.
const MAX_LINES: usize = 1 << 18;

/// Words of a line: bit `i` for bytes `8 i` to `8 i + 7`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Words(pub u8);

impl Words {
    /// Those that hold any of the bytes.
    pub fn of(bytes: Bytes) -> Self {
        Self((0..WORDS).filter(|word| Self::bytes_of(*word).overlaps(bytes)).fold(0, |all, word| all | 1 << word))
    }

    /// The bytes of one.
    pub fn bytes_of(word: u32) -> Bytes {
        Bytes::new(u64::from(word) * WORD_BYTES, WORD_BYTES)
    }

    /// All bytes.
    pub fn bytes(self) -> Bytes {
        self.iter().fold(Bytes::default(), |all, word| all.with(Self::bytes_of(word)))
    }

    /// Their numbers.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..WORDS).filter(move |word| self.has(*word))
    }

    /// The first one's; 0 where there is none.
    pub fn first(self) -> u32 {
        self.iter().next().unwrap_or(0)
    }

    /// Whether a word is among them.
    pub fn has(self, word: u32) -> bool {
        self.0 & 1 << word != 0
    }

    /// With one more.
    pub fn and(self, word: u32) -> Self {
        Self(self.0 | 1 << word)
    }

    /// How many.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether all of the others are among them.
    pub fn cover(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }
}

/// How an instruction of one thread uses a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The thread.
    pub thread: Thread,
    /// The instruction.
    pub ip: u64,
    /// What it does.
    pub kind: Kind,
    /// Bytes of the line that it touches.
    pub bytes: Bytes,
    /// Samples of it.
    pub samples: u64,
    /// Traps of it.
    pub traps: u64,
}

/// The board: lines by number, the oldest dropped where there are too many.
#[derive(Clone, Debug)]
pub struct AccessTable {
    lines: FxHashMap<Line, Vec<Use>>,
    /// Lines in the order in which they came.
    order: VecDeque<Line>,
    most: usize,
    evicted: u64,
}

impl Default for AccessTable {
    fn default() -> Self {
        Self::holding(MAX_LINES)
    }
}

impl AccessTable {
    /// For so many lines.
    pub fn holding(most: usize) -> Self {
        Self { lines: FxHashMap::default(), order: VecDeque::new(), most: most.max(1), evicted: 0 }
    }

    /// Notes a sample.
    pub fn sampled(&mut self, access: &Access) {
        self.entry(access).samples += 1;
    }

    /// Notes a trap.
    pub fn trapped(&mut self, access: &Access) {
        self.entry(access).traps += 1;
    }

    fn entry(&mut self, access: &Access) -> &mut Use {
        if !self.lines.contains_key(&access.line) {
            self.order.push_back(access.line);
            if self.order.len() > self.most {
                // Its samples stay counted elsewhere; what is lost is which words its threads use.
                let oldest = self.order.pop_front();
                self.evicted += u64::from(oldest.and_then(|line| self.lines.remove(&line)).is_some());
            }
        }
        let uses = self.lines.entry(access.line).or_default();
        let same = |u: &Use| (u.thread, u.ip, u.kind, u.bytes) == (access.thread, access.ip, access.kind, access.bytes);
        let at = uses.iter().position(same).unwrap_or_else(|| {
            let Access { thread, ip, kind, bytes, .. } = *access;
            uses.push(Use { thread, ip, kind, bytes, samples: 0, traps: 0 });
            uses.len() - 1
        });
        &mut uses[at]
    }

    /// How a line is used, as far as it is known.
    pub fn uses(&self, line: Line) -> &[Use] {
        self.lines.get(&line).map_or(&[], Vec::as_slice)
    }

    /// All lines, with how each is used.
    pub fn lines(&self) -> impl Iterator<Item = (Line, &[Use])> {
        self.lines.iter().map(|(line, uses)| (*line, uses.as_slice()))
    }

    /// Words of a line that a thread is known to touch.
    pub fn words(&self, line: Line, thread: Thread) -> Words {
        let own = self.uses(line).iter().filter(|u| u.thread == thread);
        Words(own.fold(0, |words, u| words | Words::of(u.bytes).0))
    }

    /// Words that anybody is known to touch.
    pub fn all_words(&self, line: Line) -> Words {
        Words(self.uses(line).iter().fold(0, |words, u| words | Words::of(u.bytes).0))
    }

    /// The bytes that an instruction touched in a word, where a sample told: a trap names the word alone.
    pub fn bytes_of(&self, line: Line, ip: u64, word: Bytes) -> Option<Bytes> {
        let known = self.uses(line).iter().find(|u| u.ip == ip && u.samples > 0 && u.bytes.overlaps(word));
        known.map(|u| u.bytes)
    }

    /// Lines dropped for want of room.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(thread: Thread, line: u64, offset: u64) -> Access {
        Access { thread, line: Line(line), bytes: Bytes::new(offset, 8), kind: Kind::Store, ip: 1 }
    }

    #[test]
    fn the_oldest_line_goes_and_is_counted() {
        let mut board = AccessTable::holding(2);
        for line in 1..=3 {
            board.sampled(&access(0, line, 0));
            board.sampled(&access(0, line, 0));
        }
        assert_eq!((board.evicted(), board.uses(Line(1)).len(), board.uses(Line(3))[0].samples), (1, 0, 2));
    }

    #[test]
    fn words_are_each_threads_own() {
        let mut board = AccessTable::default();
        board.sampled(&access(0, 1, 8));
        board.trapped(&access(1, 1, 20));
        assert_eq!(board.words(Line(1), 0), Words(0b10));
        assert_eq!(board.words(Line(1), 1), Words(0b1100), "bytes 20 to 27");
        assert_eq!(board.all_words(Line(1)), Words(0b1110));
        assert!(Words(0b111).cover(Words(0b101)) && !Words(0b101).cover(Words(0b111)));
        assert_eq!(board.bytes_of(Line(1), 1, Words::bytes_of(1)), Some(Bytes::new(8, 8)));
        assert_eq!(board.bytes_of(Line(1), 1, Words::bytes_of(3)), None, "a trap's bytes are no sample's");
    }
}
