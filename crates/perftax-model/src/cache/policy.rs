//! Which line has to go.

use serde::{Deserialize, Serialize};

/// How a set chooses its victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The line not used for longest.
    Lru,
    /// The tree of bits that points away from what was used; ways must be a power of two.
    TreePlru,
    /// Any line.
    Random,
    /// Static re-reference interval prediction with two bits (Jaleel et al., ISCA'10): lines are expected late when filled, and
    /// soon once used.
    Srrip,
    /// Dynamic re-reference interval prediction (the same paper): sets duel whether fills are expected late or, mostly, never
    /// again, which keeps a part of a cycle that does not fit. Intel's last-level caches since Ivy Bridge adapt in this manner.
    Drrip,
}

/// What a policy remembers, beside the order of the lines.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// The lines stand in the order of their use.
    Order,
    /// One word of bits a set.
    Tree(Vec<u32>),
    /// A generator.
    Random(u32),
    /// Two bits a line.
    Ages { ages: Vec<u8>, duel: Option<Duel> },
}

/// Which insertion does better, counted in sets that always use one of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Duel {
    /// Above 0: fewer misses where fills are mostly expected never again.
    score: i32,
    fills: u32,
}

/// Age of a line expected late, and the age at which a line may go.
const LATE: u8 = 2;
const OLD: u8 = 3;
/// One set in so many leads for each side of the duel.
const LEADERS: usize = 64;
/// The score's range: ten bits, half of them each way.
const MAX_SCORE: i32 = 512;
/// One fill in so many is expected late where fills are mostly expected never again.
const BIMODAL: u32 = 32;

impl Duel {
    /// The age of a line filled into a set.
    fn age(&mut self, set: usize) -> u8 {
        let bimodal = match set % LEADERS {
            0 => {
                self.score = (self.score + 1).min(MAX_SCORE);
                false
            }
            33 => {
                self.score = (self.score - 1).max(-MAX_SCORE);
                true
            }
            _ => self.score > 0,
        };
        if !bimodal {
            return LATE;
        }
        self.fills += 1;
        if self.fills.is_multiple_of(BIMODAL) { LATE } else { OLD }
    }
}

impl State {
    pub(super) fn new(policy: Policy, sets: usize, ways: usize, seed: u32) -> Self {
        match policy {
            Policy::Lru => Self::Order,
            Policy::TreePlru => Self::Tree(vec![0; sets]),
            Policy::Random => Self::Random(seed | 1),
            Policy::Srrip => Self::Ages { ages: vec![OLD; sets * ways], duel: None },
            Policy::Drrip => Self::Ages { ages: vec![OLD; sets * ways], duel: Some(Duel::default()) },
        }
    }

    /// A line was used.
    pub(super) fn used(&mut self, set: usize, way: usize, ways: usize) {
        match self {
            Self::Order | Self::Random(_) => {}
            Self::Tree(bits) => {
                let (mut node, mut low, mut size) = (1, 0, ways);
                while size > 1 {
                    size /= 2;
                    let right = way >= low + size;
                    // The bit points to the half that was *not* used.
                    if right {
                        bits[set] &= !(1 << node);
                        low += size;
                    } else {
                        bits[set] |= 1 << node;
                    }
                    node = 2 * node + usize::from(right);
                }
            }
            Self::Ages { ages, .. } => ages[set * ways + way] = 0,
        }
    }

    /// The way whose line goes, where all are taken.
    pub(super) fn victim(&mut self, set: usize, ways: usize) -> usize {
        match self {
            Self::Order => ways - 1,
            Self::Tree(bits) => {
                let (mut node, mut low, mut size) = (1, 0, ways);
                while size > 1 {
                    size /= 2;
                    let right = bits[set] >> node & 1 == 1;
                    low += if right { size } else { 0 };
                    node = 2 * node + usize::from(right);
                }
                low
            }
            Self::Random(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 17;
                *state ^= *state << 5;
                ((u64::from(*state) * ways as u64) >> 32) as usize
            }
            Self::Ages { ages, .. } => loop {
                let ages = &mut ages[set * ways..(set + 1) * ways];
                if let Some(way) = ages.iter().position(|&age| age >= OLD) {
                    break way;
                }
                ages.iter_mut().for_each(|age| *age += 1);
            },
        }
    }

    /// A line was filled.
    pub(super) fn filled(&mut self, set: usize, way: usize, ways: usize) {
        match self {
            Self::Ages { ages, duel } => {
                ages[set * ways + way] = duel.as_mut().map_or(LATE, |duel| duel.age(set));
            }
            _ => self.used(set, way, ways),
        }
    }
}
