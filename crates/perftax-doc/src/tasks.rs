//! Which tasks a program creates, and how its time and its events are spread over them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Estimate;

/// What a program created during one run, and what each task did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tasks {
    /// Threads created, the first of each process not among them.
    pub threads: u64,
    /// Processes created, the first not among them.
    pub processes: u64,
    /// Programs executed, the first among them.
    pub execs: u64,
    /// Records of tasks that were lost: where there are any, the numbers above are the least that there were.
    pub lost: u64,
    /// CPU time of each task on each CPU, s.
    pub cpu_s: Portions,
    /// The same of events that were counted, by their names.
    pub counts: BTreeMap<String, Portions>,
    /// The one that uses the most CPU time; none where nobody told it from the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest: Option<Busiest>,
}

impl Tasks {
    /// Tasks created.
    pub fn created(&self) -> u64 {
        self.threads + self.processes
    }
}

/// How something is spread over tasks and CPUs: that of each task on each CPU, alike ones (within 2 %) together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Portions(Vec<Portion>);

/// Portions of about the same size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Portion {
    /// How many there are.
    pub portions: u64,
    /// How large each is on average.
    pub mean: f64,
}

/// Classes of portions to a doubling of their size.
const CLASSES_TO_A_DOUBLING: f64 = 32.0;

/// From run to run a portion varies by about this, a fraction: so much of a period's end is a matter of chance.
const VARIES_BY: f64 = 0.05;

impl Portions {
    /// From the amount of each; those of nothing are left out.
    pub fn of(amounts: impl IntoIterator<Item = f64>) -> Self {
        Self::of_pieces(amounts.into_iter().map(|amount| (amount, 1)))
    }

    /// From amounts that each come in so many pieces of the same size.
    pub fn of_pieces(amounts: impl IntoIterator<Item = (f64, u64)>) -> Self {
        let mut classes: BTreeMap<i64, (u64, f64)> = BTreeMap::new();
        for (amount, pieces) in amounts.into_iter().filter(|(amount, pieces)| *amount > 0.0 && *pieces > 0) {
            let size = amount / pieces as f64;
            let class = classes.entry((size.log2() * CLASSES_TO_A_DOUBLING).floor() as i64).or_default();
            *class = (class.0 + pieces, class.1 + amount);
        }
        let portion = |(portions, sum): (u64, f64)| Portion { portions, mean: sum / portions as f64 };
        Self(classes.into_values().map(portion).collect())
    }

    /// All together.
    pub fn total(&self) -> f64 {
        self.0.iter().map(|class| class.portions as f64 * class.mean).sum()
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|class| class.portions).sum()
    }

    /// The share of it that gives samples where each portion begins a period anew: whole periods, of 1/`rate` each. The interval is that of portions that are a
    /// fifth larger or smaller than in the run that was looked at.
    pub fn seen(&self, rate: f64) -> Estimate {
        const VARY_BY: f64 = 1.2;
        let [low, share, high] = [rate / VARY_BY, rate, rate * VARY_BY].map(|rate| self.share_in_whole_periods(rate));
        Estimate::new(share, low.min(share), high.max(share))
    }

    /// The share of all of it that whole periods are made of, where a period is 1/`rate` of it: the others give no sample. 1 where there is nothing.
    pub fn share_in_whole_periods(&self, rate: f64) -> f64 {
        let total = self.total() * rate;
        if total <= 0.0 || !rate.is_finite() {
            return 1.0;
        }
        self.0.iter().map(|class| class.portions as f64 * whole_periods(class.mean * rate)).sum::<f64>() / total
    }
}

/// Whole periods in so many of them, on average over what chance makes of it.
fn whole_periods(periods: f64) -> f64 {
    // The integral of the floor from 0 on.
    let integral = |t: f64| t.floor() * (t.floor() - 1.0) / 2.0 + t.floor() * (t - t.floor());
    let (low, high) = (periods * (1.0 - VARIES_BY), periods * (1.0 + VARIES_BY));
    (integral(high) - integral(low)) / (high - low)
}

/// The task of a program that uses the most CPU time: what it did during one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Busiest {
    /// CPU time on each CPU, in the pieces that its events begin anew in, s.
    pub cpu_s: Portions,
    /// The same of events that were counted, by their names.
    pub counts: BTreeMap<String, Portions>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shorter_than_a_period_is_not_seen() {
        // 20,000 threads of 20 µs and one of 10 s, every 1 ms.
        let portions = Portions::of(std::iter::repeat_n(20e-6, 20_000).chain([10.0]));
        assert_eq!(portions.count(), 20_001);
        assert!((portions.total() - 10.4).abs() < 1e-9);
        let samples = |period_s: f64| portions.share_in_whole_periods(1.0 / period_s) * portions.total() / period_s;
        assert!((samples(1e-3) - 9_999.5).abs() < 1.0, "{}", samples(1e-3));
        // Periods that fit twice into each are seen, and lose half a period each at the most.
        assert!((samples(8e-6) - (2.0 * 20_000.0 + 1_250_000.0)).abs() < 10.0, "{}", samples(8e-6));
        assert_eq!(Portions::default().share_in_whole_periods(1.0), 1.0);
    }

    #[test]
    fn portions_of_one_size_are_one() {
        let portions = Portions::of([1.0, 1.0, 1.0, 2.0, 0.0]);
        assert_eq!(portions.0, [Portion { portions: 3, mean: 1.0 }, Portion { portions: 1, mean: 2.0 }]);
        assert_eq!(Portions::of_pieces([(3.0, 3), (2.0, 1)]), portions);
        let text = serde_json::to_string(&portions).unwrap();
        assert_eq!(text, r#"[{"portions":3,"mean":1.0},{"portions":1,"mean":2.0}]"#);
    }
}
