//! The floor: the cost of a sample when nothing else disturbs it.

use perftax_pmu::sys::Tsc;

/// Per-operation durations of one session, reduced to their 5th percentiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloorSample {
    off_ticks: f64,
    on_ticks: f64,
    samples: u64,
}

/// The percentile that stands for "undisturbed" (docs/explain/methods.md: it repeats within about 1 %, the minimum does not).
const UNDISTURBED: f64 = 0.05;

impl FloorSample {
    /// From operations timed without and with sampling. Where the work has a truth, every operation is one event and the floor
    /// is the difference of the two percentiles; else the entries are gaps in a tight loop, and the `samples` longest of the
    /// sampled pass are the samples.
    pub fn new(mut off: Vec<u32>, mut on: Vec<u32>, samples: u64, truth: Option<u64>) -> Self {
        match truth {
            Some(_) => Self { off_ticks: percentile(&mut off), on_ticks: percentile(&mut on), samples },
            None => {
                on.sort_unstable_by(|a, b| b.cmp(a));
                on.truncate(samples as usize);
                Self { off_ticks: 0.0, on_ticks: percentile(&mut on), samples }
            }
        }
    }

    /// Nanoseconds that one undisturbed sample took; none where there were too few samples.
    pub fn floor_ns(&self, tsc: Tsc) -> Option<f64> {
        (self.samples >= 20).then(|| tsc.ns(1) * (self.on_ticks - self.off_ticks))
    }
}

fn percentile(ticks: &mut [u32]) -> f64 {
    if ticks.is_empty() {
        return 0.0;
    }
    let rank = ((ticks.len() - 1) as f64 * UNDISTURBED).round() as usize;
    f64::from(*ticks.select_nth_unstable(rank).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_the_longest_entries() {
        // Three samples of about 30,000 ticks among many short gaps.
        let on = [vec![700; 200], vec![30_000, 31_000, 90_000]].concat();
        let floor = FloorSample::new(vec![700; 200], on, 3, None);
        assert_eq!((floor.on_ticks, floor.off_ticks), (30_000.0, 0.0));
    }

    #[test]
    fn operations_are_compared_at_their_percentile() {
        let floor = FloorSample::new((100..300).collect(), (1100..1300).collect(), 200, Some(200));
        assert_eq!(floor.on_ticks - floor.off_ticks, 1000.0);
    }

    #[test]
    fn too_few_samples_give_no_floor() {
        let floor = FloorSample::new(vec![1], vec![1], 3, Some(3));
        assert_eq!(floor.floor_ns(Tsc::calibrated()), None);
    }
}
