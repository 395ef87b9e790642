//! By how much spending went beyond the budget, at every scale of time.

use std::collections::VecDeque;

/// The shortest time that a budget is a share of, ns.
const SHORTEST_NS: u64 = 1_000_000_000;

/// Follows what was spent beyond what was earned, and knows the most of it over any stretch of a second or longer. Needs memory for one second.
#[derive(Clone, Debug)]
pub(super) struct Overdraft {
    now_ns: u64,
    beyond_ns: f64,
    /// Where the last second's windows ended, and what was beyond by then.
    recent: VecDeque<(u64, f64)>,
    /// The least that was beyond at any time that lies a second back.
    least_ns: f64,
    most_ns: f64,
}

impl Overdraft {
    pub(super) fn new() -> Self {
        Self {
            now_ns: 0,
            beyond_ns: 0.0,
            recent: VecDeque::from([(0, 0.0)]),
            least_ns: f64::INFINITY,
            most_ns: f64::NEG_INFINITY,
        }
    }

    /// A window is over, in which so much was spent and so much earned, ns.
    pub(super) fn add(&mut self, elapsed_ns: u64, spent_ns: f64, earned_ns: f64) {
        self.now_ns += elapsed_ns;
        self.beyond_ns += spent_ns - earned_ns;
        while let Some(&(ended_ns, beyond_ns)) = self.recent.front()
            && ended_ns + SHORTEST_NS <= self.now_ns
        {
            self.least_ns = self.least_ns.min(beyond_ns);
            self.recent.pop_front();
        }
        self.recent.push_back((self.now_ns, self.beyond_ns));
        if self.least_ns.is_finite() {
            self.most_ns = self.most_ns.max(self.beyond_ns - self.least_ns);
        }
    }

    /// The most over any stretch; of a recording that is shorter than the shortest, over all of it, ns.
    pub(super) fn most_ns(&self) -> f64 {
        if self.most_ns.is_finite() { self.most_ns } else { self.beyond_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over all pairs of ends, as it is defined.
    fn by_pairs(windows: &[(u64, f64, f64)]) -> f64 {
        let mut ends = vec![(0, 0.0)];
        for (elapsed_ns, spent_ns, earned_ns) in windows {
            let (now_ns, beyond_ns) = ends[ends.len() - 1];
            ends.push((now_ns + elapsed_ns, beyond_ns + spent_ns - earned_ns));
        }
        let pairs = ends.iter().flat_map(|from| ends.iter().map(move |to| (from, to)));
        pairs.filter(|(from, to)| to.0 >= from.0 + SHORTEST_NS).map(|(from, to)| to.1 - from.1).fold(f64::NEG_INFINITY, f64::max)
    }

    #[test]
    fn the_most_is_that_of_all_stretches() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..50 {
            let windows: Vec<(u64, f64, f64)> =
                (0..60).map(|_| (random.u64(20_000_000..400_000_000), 100.0 * random.f64(), 100.0 * random.f64())).collect();
            let mut overdraft = Overdraft::new();
            windows.iter().for_each(|(elapsed_ns, spent_ns, earned_ns)| overdraft.add(*elapsed_ns, *spent_ns, *earned_ns));
            assert!((overdraft.most_ns() - by_pairs(&windows)).abs() < 1e-6);
        }
    }

    #[test]
    fn what_is_shorter_than_a_second_counts_as_a_whole() {
        let mut overdraft = Overdraft::new();
        overdraft.add(100_000_000, 5.0, 2.0);
        overdraft.add(100_000_000, 0.0, 1.0);
        assert!((overdraft.most_ns() - 2.0).abs() < 1e-9);
    }
}
