//! Averages of whole-program runs, which a disturbance now and then makes much longer.
//!
//! Chosen by simulation (tests/public/verification.rs): with one run in ten disturbed by 15 % on average, a trimmed mean narrows the
//! interval of E two- to threefold against the plain mean and keeps its coverage; without disturbances it costs a tenth.

use perftax_doc::median;

/// How the runs of an arm are averaged. Monitored and unmonitored runs are treated alike, so what an average leaves out of the
/// one it leaves out of the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Average {
    /// All runs alike.
    Mean,
    /// Runs are ordered by their time, this share is left out at each end, and the rest averaged. 0.5 would be the median.
    Trimmed(f64),
    /// Runs further from the median of their arm than this many standard deviations (taken as 1.4826 times the median absolute
    /// deviation, of the logarithm of time) are left out as disturbed, and the rest averaged. Without such runs it is the mean.
    Rejecting(f64),
}

impl Average {
    /// Of plain values, `NaN` where there are none; those that reject by logarithm ([`Average::Rejecting`]) take positive ones.
    pub fn of(self, values: impl IntoIterator<Item = f64>) -> f64 {
        let runs = values.into_iter().map(|time_s| Taken { time_s, quantity: 0.0, switches: 0.0 }).collect();
        average(self, runs).time_s
    }
}

/// The average that `verify` uses. Chosen by simulation (tests/public/verification.rs): see docs/explain/cost-model.md.
pub const AVERAGE: Average = Average::Trimmed(0.2);

/// Standard deviation of a normal distribution over its median absolute deviation.
const MAD_TO_SD: f64 = 1.4826;

/// What one run brings: its time, and what the expectation needs of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub time_s: f64,
    /// Unmonitored CPU seconds (time-driven, unmonitored runs) or samples (event-driven, monitored runs).
    pub quantity: f64,
    pub switches: f64,
}

/// Averages the runs of one arm; the outermost runs kept count in part where a trimmed share asks so.
pub(crate) fn average(how: Average, mut runs: Vec<Taken>) -> Taken {
    let mut cut = 0.0;
    match how {
        Average::Mean => {}
        Average::Trimmed(share) => {
            runs.sort_unstable_by(|a, b| a.time_s.total_cmp(&b.time_s));
            cut = share.clamp(0.0, 0.49) * runs.len() as f64;
        }
        Average::Rejecting(deviations) => {
            let mut logs: Vec<f64> = runs.iter().map(|run| run.time_s.ln()).collect();
            let centre = median(&mut logs);
            let mut distances: Vec<f64> = logs.iter().map(|l| (l - centre).abs()).collect();
            let limit = deviations * MAD_TO_SD * median(&mut distances);
            runs.retain(|run| (run.time_s.ln() - centre).abs() <= limit);
        }
    }
    let n = runs.len() as f64;
    let (mut sum, mut total) = (Taken { time_s: 0.0, quantity: 0.0, switches: 0.0 }, 0.0);
    for (i, run) in runs.iter().enumerate() {
        let weight = ((i as f64 + 1.0).min(n - cut) - (i as f64).max(cut)).max(0.0);
        total += weight;
        sum.time_s += weight * run.time_s;
        sum.quantity += weight * run.quantity;
        sum.switches += weight * run.switches;
    }
    Taken { time_s: sum.time_s / total, quantity: sum.quantity / total, switches: sum.switches / total }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_time(how: Average, times: &[f64]) -> f64 {
        average(how, times.iter().map(|&time_s| Taken { time_s, quantity: 2.0 * time_s, switches: 1.0 }).collect()).time_s
    }

    #[test]
    fn averages_by_hand() {
        let times = [1.0, 2.0, 3.0, 4.0, 90.0];
        assert_eq!(mean_time(Average::Mean, &times), 20.0);
        assert_eq!(mean_time(Average::Trimmed(0.2), &times), 3.0);
        // A tenth of five runs is half a run at each end.
        assert_eq!(mean_time(Average::Trimmed(0.1), &times), (0.5 + 2.0 + 3.0 + 4.0 + 45.0) / 4.0);
        assert_eq!(mean_time(Average::Trimmed(0.9), &times), 3.0);
        assert_eq!(mean_time(Average::Rejecting(3.0), &times), 2.5);
        assert_eq!(mean_time(Average::Rejecting(3.0), &[5.0, 5.0]), 5.0);
    }

    #[test]
    fn what_goes_with_a_run_is_averaged_with_it() {
        let runs = [1.0, 3.0].map(|time_s| Taken { time_s, quantity: 10.0 * time_s, switches: time_s });
        let both = average(Average::Mean, runs.to_vec());
        assert_eq!((both.time_s, both.quantity, both.switches), (2.0, 20.0, 2.0));
    }
}
