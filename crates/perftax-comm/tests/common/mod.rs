//! The truth, and how far an estimate is from it.

use std::collections::{BTreeMap, BTreeSet};

use perftax_comm::{Access, Census, Counts, Exact, Thread, Transfers};

/// The truth beside it.
#[derive(Default)]
pub struct Truth {
    exact: Exact,
    pub census: Census,
}

impl Truth {
    #[inline]
    pub fn take(&mut self, access: &Access) {
        if let Some(transfer) = self.exact.take(access) {
            self.census.add(&transfer);
        }
    }

    pub fn total(&self) -> Counts {
        self.census.total()
    }
}

/// Half the sum of how far shares of pairs differ.
#[allow(dead_code)] // not every test compares shares
pub fn total_variation(transfers: &Transfers, truth: &Truth) -> f64 {
    let pairs = truth.census.pairs();
    let all = truth.total().total() as f64;
    let estimates: BTreeMap<_, _> = transfers.pairs.iter().copied().collect();
    let keys: BTreeSet<(Thread, Thread)> = pairs.keys().chain(estimates.keys()).copied().collect();
    let share = |pair| {
        let estimated = estimates.get(pair).map_or(0.0, |shares| shares.total.estimate / transfers.total.total.estimate);
        let exact = pairs.get(pair).map_or(0.0, |counts| counts.total() as f64 / all);
        (estimated - exact).abs()
    };
    keys.iter().map(share).sum::<f64>() / 2.0
}
