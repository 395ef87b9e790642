//! Latencies in buckets that are everybody's: histograms of different hosts merge by adding up.

use std::collections::BTreeMap;

/// Below, each has a bucket of its own, ns.
const EXACT_NS: u64 = 256;
/// Beyond, so many buckets are in a doubling, as a power of two.
const BITS: u32 = 7;

/// How many messages took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// By the buckets' lower ends.
    buckets: BTreeMap<u64, u64>,
}

impl Histogram {
    /// The bucket of a latency: from its lower end to below its upper one, ns. What is longer than a signed number holds is in the last one.
    pub fn bucket(latency_ns: u64) -> (u64, u64) {
        let latency_ns = latency_ns.min(i64::MAX as u64);
        if latency_ns < EXACT_NS {
            return (latency_ns, latency_ns + 1);
        }
        let shift = latency_ns.ilog2() - BITS;
        let low = latency_ns >> shift << shift;
        (low, (low + (1 << shift)).min(i64::MAX as u64))
    }

    /// Adds messages that took so long.
    pub fn add(&mut self, latency_ns: u64, messages: u64) {
        *self.buckets.entry(Self::bucket(latency_ns).0).or_default() += messages;
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        other.buckets.iter().for_each(|(low, messages)| *self.buckets.entry(*low).or_default() += messages);
    }

    /// How many messages there are.
    pub fn messages(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// The buckets that hold any, in order: from, to below, how many.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.buckets.iter().map(|(low, messages)| (*low, Self::bucket(*low).1, *messages))
    }

    /// The latency that a share `q` of messages do not exceed, by nearest rank: the middle of that message's bucket, which is within 1/256 of its latency.
    /// None where there are no messages.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let all = self.messages();
        let rank = ((q * all as f64).ceil() as u64).clamp(1, all.max(1));
        let mut passed = 0;
        self.buckets().find_map(|(low, high, messages)| {
            passed += messages;
            (passed >= rank).then_some(low + (high - low) / 2)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_are_those_of_the_contract() {
        assert_eq!(Histogram::bucket(0), (0, 1));
        assert_eq!(Histogram::bucket(255), (255, 256));
        assert_eq!(
            (Histogram::bucket(256), Histogram::bucket(257), Histogram::bucket(258)),
            ((256, 258), (256, 258), (258, 260))
        );
        assert_eq!(Histogram::bucket(511), (510, 512));
        assert_eq!(Histogram::bucket(1_000_000), (999_424, 1_003_520));
        for power in 8..62u32 {
            let lows = (0..128u64).map(|at| (1u64 << power) + (at << (power - BITS)));
            lows.for_each(|low| assert_eq!(Histogram::bucket(low), (low, low + (1 << (power - BITS)))));
        }
        let last = Histogram::bucket(u64::MAX);
        assert!(last.1 == i64::MAX as u64 && last == Histogram::bucket(i64::MAX as u64), "{last:?}");
    }

    proptest! {
        #[test]
        fn the_middle_is_near(latency_ns in 1u64..1 << 62) {
            let (low, high) = Histogram::bucket(latency_ns);
            prop_assert!(low <= latency_ns && latency_ns < high);
            let middle = low + (high - low) / 2;
            prop_assert!(middle.abs_diff(latency_ns) as f64 <= latency_ns as f64 / 256.0, "{}", middle);
        }

        #[test]
        fn merging_is_adding(all in prop::collection::vec(0u64..1 << 40, 1..200), at in 0usize..200, q in 0.0f64..=1.0) {
            let of = |some: &[u64]| some.iter().fold(Histogram::default(), |mut sum, ns| { sum.add(*ns, 1); sum });
            let at = at.min(all.len());
            let (mut merged, whole) = (of(&all[..at]), of(&all));
            merged.merge(&of(&all[at..]));
            prop_assert_eq!(&merged, &whole);
            let mut sorted = all.clone();
            sorted.sort_unstable();
            let exact = sorted[((q * all.len() as f64).ceil() as usize).clamp(1, all.len()) - 1];
            let near = whole.quantile(q).unwrap();
            prop_assert!(near.abs_diff(exact) as f64 <= exact as f64 / 256.0, "{} {}", near, exact);
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
