//! Which debug registers watch what, and when: more places than registers take turns.
//!
//! A register watches 1, 2, 4 or 8 bytes that are aligned to themselves: a *piece*. Transfers of a line are seen where the accesses of all its
//! threads are seen at once, so the pieces of one line go into one *turn* together. A line with more pieces than registers has several turns such
//! that every two of its pieces are together in one.

use std::collections::BTreeMap;

use crate::{Bytes, Line};

use super::place::Place;

/// What one register watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Piece {
    /// First byte.
    pub address: u64,
    /// 1, 2, 4 or 8.
    pub bytes: u64,
}

impl Piece {
    /// The line that it lies in.
    pub fn line(self) -> Line {
        Line::of(self.address)
    }

    /// Its bytes of that line.
    pub fn bytes_of_line(self) -> Bytes {
        Bytes::new(self.address - self.line().address(), self.bytes)
    }
}

/// Pieces, and their turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// All of them, by address.
    pub pieces: Vec<Piece>,
    /// The pieces that are watched at once, by number; at least one turn.
    pub turns: Vec<Vec<usize>>,
}

impl Plan {
    /// The turns of some places, with so many registers (1 to 4).
    pub fn of(places: &[Place], registers: usize) -> Self {
        let registers = registers.max(1);
        let mut by_line: BTreeMap<Line, Vec<Piece>> = BTreeMap::new();
        for (from, to) in intervals(places) {
            split(from, to).for_each(|piece| by_line.entry(piece.line()).or_default().push(piece));
        }
        let mut pieces = Vec::new();
        let mut sets: Vec<Vec<usize>> = Vec::new();
        for of_line in by_line.into_values() {
            let of_line = if of_line.len() > registers { joined(&of_line) } else { of_line };
            let first = pieces.len();
            let numbers: Vec<usize> = (first..first + of_line.len()).collect();
            pieces.extend(of_line);
            sets.extend(pairwise(&numbers, registers));
        }
        // Lines with few pieces share a turn.
        let mut turns: Vec<Vec<usize>> = Vec::new();
        for set in sets {
            match turns.iter_mut().find(|turn| turn.len() + set.len() <= registers) {
                Some(turn) => turn.extend(set),
                None => turns.push(set),
            }
        }
        Self { pieces, turns }
    }

    /// The registers that it takes at once.
    pub fn registers(&self) -> usize {
        self.turns.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The turns that watch two pieces at once, ascending.
    pub fn turns_of(&self, one: usize, other: usize) -> Vec<usize> {
        let has = |turn: &Vec<usize>| turn.contains(&one) && turn.contains(&other);
        self.turns.iter().enumerate().filter(|(_, turn)| has(turn)).map(|(number, _)| number).collect()
    }

    /// The first piece of a line that any of these bytes lies in.
    pub fn piece_of(&self, line: Line, bytes: Bytes) -> Option<usize> {
        self.pieces.iter().position(|piece| piece.line() == line && piece.bytes_of_line().overlaps(bytes))
    }
}

/// The bytes of all places, each once, cut wherever one begins or ends.
fn intervals(places: &[Place]) -> Vec<(u64, u64)> {
    let end = |place: &Place| place.address + place.bytes;
    let mut cuts: Vec<u64> = places.iter().flat_map(|place| [place.address, end(place)]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let is_watched = |from: u64| places.iter().any(|place| (place.address..end(place)).contains(&from));
    cuts.windows(2).map(|two| (two[0], two[1])).filter(|(from, _)| is_watched(*from)).collect()
}

/// Pieces of a range: as large as alignment and what is left allow.
fn split(from: u64, to: u64) -> impl Iterator<Item = Piece> {
    let mut at = from;
    std::iter::from_fn(move || {
        let bytes = [8, 4, 2, 1].into_iter().find(|bytes| at.is_multiple_of(*bytes) && at + bytes <= to).filter(|_| at < to)?;
        at += bytes;
        Some(Piece { address: at - bytes, bytes })
    })
}

/// The same bytes in as few pieces as can be.
fn joined(pieces: &[Piece]) -> Vec<Piece> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for piece in pieces {
        match ranges.last_mut() {
            Some(last) if last.1 == piece.address => last.1 += piece.bytes,
            _ => ranges.push((piece.address, piece.address + piece.bytes)),
        }
    }
    ranges.into_iter().flat_map(|(from, to)| split(from, to)).collect()
}

/// Sets of at most so many, such that every two are in one of them (with one register: each by itself).
fn pairwise(numbers: &[usize], registers: usize) -> Vec<Vec<usize>> {
    if numbers.len() <= registers {
        return vec![numbers.to_vec()];
    }
    if registers < 2 {
        return numbers.iter().map(|number| vec![*number]).collect();
    }
    let blocks: Vec<&[usize]> = numbers.chunks(registers / 2).collect();
    let pairs = blocks.iter().enumerate().flat_map(|(i, a)| blocks[i + 1..].iter().map(move |b| [*a, *b].concat()));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: u64, bytes: u64) -> Place {
        Place { address, bytes, name: String::new(), is_shared: false }
    }

    fn pieces(places: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let places: Vec<Place> = places.iter().map(|(address, bytes)| place(*address, *bytes)).collect();
        Plan::of(&places, 4).pieces.iter().map(|piece| (piece.address, piece.bytes)).collect()
    }

    #[test]
    fn places_become_aligned_pieces() {
        assert_eq!(pieces(&[(0x1000, 8)]), [(0x1000, 8)]);
        assert_eq!(pieces(&[(0x1003, 6)]), [(0x1003, 1), (0x1004, 4), (0x1008, 1)]);
        assert_eq!(pieces(&[(0x103c, 8)]), [(0x103c, 4), (0x1040, 4)], "of two lines");
        // What lies side by side stays apart while there are registers for it, and is watched once where it overlaps.
        assert_eq!(pieces(&[(0x1000, 4), (0x1004, 4)]), [(0x1000, 4), (0x1004, 4)]);
        assert_eq!(pieces(&[(0x1000, 8), (0x1004, 4)]), [(0x1000, 4), (0x1004, 4)]);
        assert_eq!(pieces(&[(0x1000, 8), (0x1000, 8)]), [(0x1000, 8)]);
        assert_eq!(pieces(&[(0x1000, 2), (0x1002, 2), (0x1004, 2), (0x1006, 2), (0x1008, 2)]), [(0x1000, 8), (0x1008, 2)]);
    }

    #[test]
    fn every_two_pieces_of_a_line_are_watched_at_once() {
        for registers in 2..=4 {
            for words in 1..=8 {
                let plan = Plan::of(&[place(0x1000, 8 * words), place(0x2000, 8)], registers);
                assert!(plan.registers() <= registers, "{plan:?}");
                for one in 0..words as usize {
                    for other in 0..words as usize {
                        assert!(!plan.turns_of(one, other).is_empty(), "{registers} {words} {one} {other} {plan:?}");
                    }
                }
            }
        }
        assert_eq!(Plan::of(&[place(0x1000, 64)], 4).turns.len(), 6);
        assert_eq!(Plan::of(&[place(0x1000, 16)], 1).turns, [[0], [1]]);
    }

    #[test]
    fn lines_with_few_pieces_share_a_turn() {
        let lines: Vec<Place> = (0..6).map(|i| place(0x1000 + 64 * i, 16)).collect();
        assert_eq!(Plan::of(&lines, 4).turns, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]);
        assert_eq!(Plan::of(&lines[..1], 4).turns.len(), 1);
        assert_eq!(Plan::of(&lines, 4).piece_of(Line::of(0x1040), Bytes::new(12, 8)), Some(3));
        assert_eq!(Plan::of(&lines, 4).piece_of(Line::of(0x1040), Bytes::new(32, 8)), None);
    }
}
