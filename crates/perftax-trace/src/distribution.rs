//! How times are distributed over messages: histograms that take any number of them.

use hdrhistogram::Histogram;

use crate::cause::{Cause, Shares};

/// Significant decimal digits that a histogram keeps: a quantile is within 0.1 % of some message's time.
const DIGITS: u8 = 3;
/// Where there are many of them.
const COARSE_DIGITS: u8 = 2;

/// A distribution of times, ns.
#[derive(Clone, Debug)]
pub struct Distribution(Histogram<u64>);

impl Default for Distribution {
    fn default() -> Self {
        // It grows; three digits are among those that it takes.
        Self(Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!("three digits are allowed")))
    }
}

impl Distribution {
    /// One that keeps two digits: a tenth of the memory.
    pub fn coarse() -> Self {
        Self(Histogram::new(COARSE_DIGITS).unwrap_or_else(|_| unreachable!("two digits are allowed")))
    }

    /// Adds all of another one.
    pub fn join(&mut self, other: &Self) {
        // It grows with what it takes; what it cannot grow to was saturated in the other one, too.
        if self.0.add(&other.0).is_err() {
            other.buckets().for_each(|(ns, times)| self.add_many(ns, times));
        }
    }

    /// The sum of all, within the histogram's precision, ns.
    pub fn sum_ns(&self) -> f64 {
        self.0.mean() * self.len() as f64
    }

    /// Adds a time.
    pub fn add(&mut self, ns: u64) {
        self.add_many(ns, 1);
    }

    /// Adds many of the same.
    pub fn add_many(&mut self, ns: u64, times: u64) {
        // `saturating_record_n` would not let it grow: what is beyond its first 2048 values would count as 2. What it cannot grow to, it can
        // saturate at.
        if self.0.record_n(ns, times).is_err() {
            self.0.saturating_record_n(ns, times);
        }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time that a share `q` of them do not exceed; 0 where there are none.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        if self.is_empty() { 0 } else { self.0.value_at_quantile(q) }
    }

    /// The least time that counts as that: whoever compares single times with a quantile wants those at it among the longer ones. Where so many are alike that these were more than
    /// twice as many as are asked for, the least time beyond it, if there is any.
    pub fn from_quantile_ns(&self, q: f64) -> u64 {
        let from_ns = self.0.lowest_equivalent(self.quantile_ns(q));
        let beyond_ns = self.0.next_non_equivalent(from_ns);
        let is_too_many = 1.0 - self.share_below(from_ns) > 2.0 * (1.0 - q);
        if is_too_many && beyond_ns <= self.max_ns() { beyond_ns } else { from_ns }
    }

    /// The share of them that are shorter.
    pub fn share_below(&self, ns: u64) -> f64 {
        if self.is_empty() { 0.0 } else { self.0.percentile_below(ns.saturating_sub(1)) / 100.0 }
    }

    /// How many are not longer, within the histogram's precision.
    pub fn count_to(&self, ns: u64) -> u64 {
        self.0.count_between(0, ns)
    }

    /// The longest.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// What is in it: times (the middle of their bucket) and how often, in order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
    }

    /// From what [`Distribution::buckets`] gave.
    pub fn from_buckets(buckets: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut distribution = Self::default();
        buckets.into_iter().for_each(|(ns, times)| distribution.add_many(ns, times));
        distribution
    }
}

/// Latencies and time by cause, over all messages that ended.
#[derive(Clone, Debug, Default)]
pub struct Population {
    /// From begin to end.
    pub latency: Distribution,
    /// By cause, in the order of [`Cause::ALL`]; messages without any of it are not in there.
    pub causes: [Distribution; Cause::COUNT],
    /// Messages whose time by cause is known.
    pub watched: u64,
}

impl Population {
    /// One of many: its causes are kept to two digits.
    pub fn coarse() -> Self {
        Self { causes: std::array::from_fn(|_| Distribution::coarse()), ..Self::default() }
    }

    /// Adds all of another one.
    pub fn join(&mut self, other: &Self) {
        self.latency.join(&other.latency);
        self.watched += other.watched;
        self.causes.iter_mut().zip(&other.causes).for_each(|(cause, other)| cause.join(other));
    }

    /// Adds a message.
    pub fn add(&mut self, latency_ns: u64, shares: &Shares) {
        self.latency.add(latency_ns);
        self.watched += 1;
        for (cause, ns) in self.causes.iter_mut().zip(shares.values()) {
            if *ns > 0 {
                cause.add(*ns);
            }
        }
    }

    /// What the median message spends on each cause.
    pub fn usual(&self) -> Shares {
        let all = self.watched;
        let median = |cause: &Distribution| match all - cause.len().min(all) {
            without if 2 * without >= all => 0,
            // The median of all lies further down among those that have any.
            without => cause.quantile_ns((all as f64 / 2.0 - without as f64) / cause.len() as f64),
        };
        Shares::from(std::array::from_fn(|at| median(&self.causes[at])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nine in ten take all but the same time, and a tenth much longer.
    #[test]
    fn a_quantile_among_many_that_are_alike_is_beyond_them() {
        let mut alike = Distribution::default();
        (0..900).for_each(|i| alike.add(200_030 + i % 20));
        (0..60).for_each(|i| alike.add(5_000_000 + 10_000 * i));
        let from_ns = alike.from_quantile_ns(0.9);
        assert!((200_050..5_000_000).contains(&from_ns), "{from_ns}");
        assert!(alike.from_quantile_ns(0.95) >= 4_990_000);
        // All are alike.
        let all = Distribution::from_buckets([(200_030, 1000)]);
        assert!(all.from_quantile_ns(0.9) <= 200_030);
        // None of many.
        let spread = Distribution::from_buckets((1..=1000).map(|i| (i * 1000, 1)));
        assert!((899_000..=900_000).contains(&spread.from_quantile_ns(0.9)));
    }

    #[test]
    fn it_takes_times_of_any_length() {
        let mut distribution = Distribution::default();
        for ns in [3, 2050, 100_000, 3_000_000_000, 1 << 62] {
            distribution.add(ns);
        }
        let middle = distribution.quantile_ns(0.5);
        assert!((99_900..=100_100).contains(&middle), "{middle}");
        assert!(distribution.max_ns() >= 1 << 62);
    }

    #[test]
    fn the_median_counts_those_without() {
        let mut population = Population::default();
        for i in 0..100u64 {
            let mut shares = Shares::default();
            shares.add(Cause::OnCpu, 1_000_000);
            shares.add(Cause::Irq, if i < 40 { 0 } else { i * 10 });
            shares.add(Cause::Blocked, if i < 60 { 0 } else { 500 });
            population.add(shares.total(), &shares);
        }
        let usual = population.usual();
        assert!((999_500..=1_000_500).contains(&usual.of(Cause::OnCpu)), "{usual:?}");
        assert!((480..=500).contains(&usual.of(Cause::Irq)), "{usual:?}");
        assert_eq!(usual.of(Cause::Blocked), 0);
        let again = Distribution::from_buckets(population.causes[Cause::Irq as usize].buckets());
        assert_eq!((again.len(), again.quantile_ns(0.5)), (60, population.causes[Cause::Irq as usize].quantile_ns(0.5)));
    }
}
