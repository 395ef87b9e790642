//! A count over time, in a bounded number of slices that widen as the recording grows.

use std::collections::BTreeMap;

/// A count by slice of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    shift: u32,
    slices: BTreeMap<u64, u64>,
}

/// First width of a slice: 2^20 ns, about a millisecond.
const FIRST_SHIFT: u32 = 20;
const MAX_SLICES: usize = 512;

impl Timeline {
    /// Adds to the count of a time.
    pub(super) fn add(&mut self, time_ns: u64, many: u64) {
        let slice = self.slices.entry(time_ns >> (FIRST_SHIFT + self.shift)).or_default();
        *slice = slice.saturating_add(many);
        while self.slices.len() > MAX_SLICES {
            self.shift += 1;
            for (slice, count) in std::mem::take(&mut self.slices) {
                let into = self.slices.entry(slice >> 1).or_default();
                *into = into.saturating_add(count);
            }
        }
    }

    /// The shortest stretch that holds nine tenths of the count: from and to, ns.
    pub(super) fn densest(&self) -> Option<(u64, u64)> {
        // Wide sums: a damaged recording counts what it likes.
        let slices: Vec<(u64, u128)> = self.slices.iter().map(|(slice, count)| (*slice, (*count).into())).collect();
        let total: u128 = slices.iter().map(|slice| slice.1).sum();
        let wanted = total - total / 10;
        let (mut from, mut inside) = (0, 0);
        let mut best: Option<(u64, u64, u64)> = None;
        for to in 0..slices.len() {
            inside += slices[to].1;
            while inside - slices[from].1 >= wanted && from < to {
                inside -= slices[from].1;
                from += 1;
            }
            let width = slices[to].0 - slices[from].0;
            if total > 0 && inside >= wanted && best.is_none_or(|(least, ..)| width < least) {
                best = Some((width, slices[from].0, slices[to].0 + 1));
            }
        }
        let width = FIRST_SHIFT + self.shift;
        best.map(|(_, from, to)| (from << width, to.checked_shl(width).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stretch_that_holds_most_is_found() {
        let mut timeline = Timeline::default();
        for ms in 0..5_000_u64 {
            timeline.add(ms * 1_000_000, 0);
        }
        for ms in 2_000..2_100_u64 {
            timeline.add(ms * 1_000_000, 10);
        }
        timeline.add(0, 1);
        let (from, to) = timeline.densest().unwrap();
        assert!((1_950_000_000..=2_010_000_000).contains(&from) && (2_080_000_000..=2_150_000_000).contains(&to), "{from} {to}");
        assert!(timeline.slices.len() <= MAX_SLICES);
        assert_eq!(Timeline::default().densest(), None);
    }
}
