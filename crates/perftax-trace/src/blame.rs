//! What the slow messages' extra time was spent on.

use perftax_cost::bootstrap::{SEED, joint_bootstrap, quantile};
use perftax_cost::{CONFIDENCE, Estimate};

use crate::cause::{Cause, Shares};

/// How much longer the slowest messages took than the median one, and what for.
#[derive(Clone, Debug, PartialEq)]
pub struct Blame {
    /// The quantile from which on a message is slow.
    pub from: f64,
    /// Slow messages.
    pub messages: usize,
    /// Mean time that each of them took beyond the median, ns.
    pub extra_ns: Estimate,
    /// By cause, the largest first: mean time beyond what the median message spent on it, ns. They add up to more or less than
    /// `extra_ns`, since medians do not add up; the difference is within the intervals where there are many messages.
    pub causes: Vec<(Cause, Estimate)>,
}

/// Replicates of the bootstrap over messages.
const REPLICATES: usize = 1000;

/// What one slow message had beyond the median: by cause, and in all.
type Excess = [f64; Cause::ALL.len() + 1];

/// Blames the messages from quantile `from` on; `None` with fewer than two of them.
pub fn blame(latencies_ns: &[u64], shares: &[Shares], from: f64) -> Option<Blame> {
    let median = |values: Vec<u64>| quantile(&mut values.into_iter().map(|ns| ns as f64).collect::<Vec<_>>(), 0.5);
    let usual = Cause::ALL.map(|cause| median(shares.iter().map(|of| of.of(cause)).collect()));
    let usual_ns = median(latencies_ns.to_vec());
    let threshold = quantile(&mut latencies_ns.iter().map(|ns| *ns as f64).collect::<Vec<_>>(), from);
    let excess = |(latency, of): (&u64, &Shares)| -> Excess {
        let mut excess = [0.0; Cause::ALL.len() + 1];
        for (cause, usual) in Cause::ALL.into_iter().zip(usual) {
            excess[cause as usize] = of.of(cause) as f64 - usual;
        }
        excess[Cause::ALL.len()] = *latency as f64 - usual_ns;
        excess
    };
    let slow: Vec<Excess> =
        latencies_ns.iter().zip(shares).filter(|(latency, _)| **latency as f64 >= threshold).map(excess).collect();
    let mean = |sample: &[&Excess]| {
        let mut means = [0.0; Cause::ALL.len() + 1];
        for excess in sample {
            means.iter_mut().zip(excess.iter()).for_each(|(mean, one)| *mean += one / sample.len() as f64);
        }
        means
    };
    let estimates = joint_bootstrap(&slow, mean, REPLICATES, CONFIDENCE, SEED)?;
    let mut causes: Vec<(Cause, Estimate)> = Cause::ALL.into_iter().zip(estimates).collect();
    causes.sort_by(|a, b| b.1.estimate.total_cmp(&a.1.estimate));
    Some(Blame { from, messages: slow.len(), extra_ns: estimates[Cause::ALL.len()], causes })
}

/// What one message spent most of its time beyond the median on, and how long.
pub fn foremost(shares: &Shares, usual: &[u64; Cause::ALL.len()]) -> (Cause, u64) {
    let beyond = |cause: Cause| shares.of(cause).saturating_sub(usual[cause as usize]);
    let foremost = Cause::ALL.into_iter().max_by_key(|cause| beyond(*cause)).unwrap_or(Cause::OnCpu);
    (foremost, beyond(foremost))
}

/// What the median message spends on each cause, ns.
pub fn usual(shares: &[Shares]) -> [u64; Cause::ALL.len()] {
    Cause::ALL.map(|cause| {
        let mut values: Vec<u64> = shares.iter().map(|of| of.of(cause)).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn a_planted_cause_is_named() {
        let mut shares = Vec::new();
        for i in 0..1000u64 {
            let mut of = Shares::default();
            of.add(Cause::OnCpu, 1000 + i % 7);
            if i % 50 == 0 {
                of.add(Cause::Blocked, 20_000 + i);
            } else if i % 100 == 1 {
                of.add(Cause::Softirq, 3000);
            }
            shares.push(of);
        }
        let latencies: Vec<u64> = shares.iter().map(Shares::total).collect();
        let blame = blame(&latencies, &shares, 0.98).unwrap();
        assert_eq!((blame.messages, blame.causes[0].0), (20, Cause::Blocked));
        assert!(blame.causes[0].1.contains(20_475.0) && blame.extra_ns.contains(20_475.0), "{blame:?}");
        assert!(blame.causes[1].1.estimate < 10.0, "{blame:?}");
        let usual = usual(&shares);
        assert_eq!(foremost(&shares[50], &usual), (Cause::Blocked, 20_050));
        assert_eq!(foremost(&shares[101], &usual).0, Cause::Softirq);
    }
}
