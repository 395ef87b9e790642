//! What slow requests' extra time was spent on, by service and cause.

use std::collections::{BTreeMap, BTreeSet};

use perftax_cost::bootstrap::{SEED, vector_bootstrap};
use perftax_doc::{CONFIDENCE, Estimate};

use super::charge::{Charge, Charges};
use crate::blame::REPLICATES;

/// Clusters that the bootstrap draws from: slow requests that follow each other are one where there are more.
const MAX_CLUSTERS: usize = 1000;

/// What requests that are not slow are like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsualRequests {
    /// How many the means are over.
    pub requests: u64,
    latency_ns: f64,
    sums_ns: BTreeMap<Charge, f64>,
}

impl UsualRequests {
    /// Adds one.
    pub fn add(&mut self, charges: &Charges) {
        self.requests += 1;
        self.latency_ns += charges.total_ns();
        charges.ns.iter().for_each(|(charge, ns)| *self.sums_ns.entry(*charge).or_default() += ns);
    }

    /// Mean time on one of them, ns; 0 where there are no requests.
    pub fn mean_ns(&self, charge: Charge) -> f64 {
        self.sums_ns.get(&charge).copied().unwrap_or(0.0) / self.requests.max(1) as f64
    }

    /// Mean latency, ns.
    pub fn mean_latency_ns(&self) -> f64 {
        self.latency_ns / self.requests.max(1) as f64
    }

    /// What a request spent most of its time beyond the usual on, and how long beyond.
    pub fn foremost(&self, charges: &Charges) -> Option<(Charge, f64)> {
        let beyond = charges.ns.iter().map(|(charge, ns)| (*charge, ns - self.mean_ns(*charge)));
        beyond.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// One charge's part in the extra time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlamedService {
    /// What.
    pub charge: Charge,
    /// Mean time of a slow request beyond the mean of those that are not slow, ns.
    pub extra_ns: Estimate,
}

/// What slow requests' extra time went to.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceBlame {
    /// Slow requests.
    pub requests: usize,
    /// Mean time that they took beyond the mean of those that are not slow, ns.
    pub extra_ns: Estimate,
    /// The largest first; they add up to it.
    pub charges: Vec<BlamedService>,
}

/// Blames slow requests, in order of time; none with fewer than two of them.
pub fn blame_services(slow: &[&Charges], usual: &UsualRequests) -> Option<ServiceBlame> {
    let known: BTreeSet<Charge> =
        slow.iter().flat_map(|charges| charges.ns.keys()).chain(usual.sums_ns.keys()).copied().collect();
    let known: Vec<Charge> = known.into_iter().collect();
    let place: BTreeMap<Charge, usize> = known.iter().enumerate().map(|(at, charge)| (*charge, at + 2)).collect();
    // How many, how long, and each charge.
    let row = |requests: &[&Charges]| {
        let mut row = vec![0.0; known.len() + 2];
        for charges in requests {
            row[0] += 1.0;
            row[1] += charges.total_ns();
            charges.ns.iter().for_each(|(charge, ns)| row[place[charge]] += ns);
        }
        row
    };
    let rows: Vec<Vec<f64>> = slow.chunks(slow.len().div_ceil(MAX_CLUSTERS).max(1)).map(row).collect();
    let usual_ns: Vec<f64> =
        std::iter::once(usual.mean_latency_ns()).chain(known.iter().map(|charge| usual.mean_ns(*charge))).collect();
    let statistic = |sample: &[&Vec<f64>]| {
        let mut sums = vec![0.0; known.len() + 2];
        sample.iter().for_each(|row| sums.iter_mut().zip(row.iter()).for_each(|(sum, ns)| *sum += ns));
        sums[1..].iter().zip(&usual_ns).map(|(sum, usual)| sum / sums[0] - usual).collect()
    };
    let all = vector_bootstrap(&rows, statistic, REPLICATES, CONFIDENCE, SEED)?;
    let blamed = known.iter().zip(&all[1..]).map(|(charge, extra_ns)| BlamedService { charge: *charge, extra_ns: *extra_ns });
    let mut charges: Vec<BlamedService> = blamed.collect();
    charges.sort_by(|a, b| b.extra_ns.estimate.total_cmp(&a.extra_ns.estimate));
    Some(ServiceBlame { requests: slow.len(), extra_ns: all[0], charges })
}
