//! Events that counters were set to, and that are not modelled.

use std::collections::BTreeMap;

/// Event code and unit mask of a selector, and AMD's upper bits of the code.
const WHICH: u64 = 0xf_0000_ffff;

/// How often counters were set to what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unmodelled(BTreeMap<u64, u64>);

impl Unmodelled {
    /// A counter was set to count it.
    pub fn add(&mut self, selector: u64) {
        *self.0.entry(selector & WHICH).or_default() += 1;
    }

    /// Which (code in bits 7:0, unit mask in 15:8, AMD's upper bits of the code in 35:32), and how often, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(which, times)| (*which, *times))
    }
}
