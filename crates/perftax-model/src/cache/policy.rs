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
    /// Re-reference interval prediction with two bits (Jaleel et al., ISCA'10): near the quad-age policy that Intel's last-level
    /// caches were found to have.
    Srrip,
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
    Ages(Vec<u8>),
}

/// Age of a line just filled, and the age at which it may go.
const SRRIP_FILLED: u8 = 2;
const SRRIP_OLD: u8 = 3;

impl State {
    pub(super) fn new(policy: Policy, sets: usize, ways: usize, seed: u32) -> Self {
        match policy {
            Policy::Lru => Self::Order,
            Policy::TreePlru => Self::Tree(vec![0; sets]),
            Policy::Random => Self::Random(seed | 1),
            Policy::Srrip => Self::Ages(vec![SRRIP_OLD; sets * ways]),
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
            Self::Ages(ages) => ages[set * ways + way] = 0,
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
                (u64::from(*state) * ways as u64 >> 32) as usize
            }
            Self::Ages(ages) => loop {
                let ages = &mut ages[set * ways..(set + 1) * ways];
                if let Some(way) = ages.iter().position(|&age| age >= SRRIP_OLD) {
                    break way;
                }
                ages.iter_mut().for_each(|age| *age += 1);
            },
        }
    }

    /// A line was filled.
    pub(super) fn filled(&mut self, set: usize, way: usize, ways: usize) {
        match self {
            Self::Ages(ages) => ages[set * ways + way] = SRRIP_FILLED,
            _ => self.used(set, way, ways),
        }
    }
}
