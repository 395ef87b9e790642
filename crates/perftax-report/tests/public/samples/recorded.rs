//! A recording within a budget.

use perftax_doc::{Estimate, EventsOn, Expense, ExpenseOn, Mechanism, RateUse, Recorded, Stretch, Witnessed};

use super::origin;

/// A server whose load jumps, sampled at two rates.
pub fn recorded() -> Recorded {
    let mut rng = fastrand::Rng::with_seed(23);
    let mut pairs = fastrand::Rng::with_seed(29);
    let mut stretch = |i: u32| {
        let used = if (i / 20).is_multiple_of(2) { 0.006 } else { 0.12 } * (0.95 + 0.1 * rng.f64());
        Stretch {
            from_s: f64::from(i) * 0.1,
            elapsed_s: 0.1,
            program_cpu_s: used,
            spent_high_s: used * 0.0095 * (0.9 + 0.2 * rng.f64()),
            samples: (used / 3.346_061e-3) as u64,
        }
    };
    let course: Vec<Stretch> = (0..300).map(&mut stretch).collect();
    let sum = |of: fn(&Stretch) -> f64| course.iter().map(of).sum::<f64>();
    let program_cpu_s = sum(|stretch| stretch.program_cpu_s);
    let samples = course.iter().map(|stretch| stretch.samples).sum::<u64>();
    let expense =
        |on, count, estimate: f64, low: f64, high: f64| Expense { on, count, cost_s: Some(Estimate::new(estimate, low, high)) };
    Recorded {
        origin: origin("record", &["perftax", "record", "--", "redis-server"]),
        program: vec!["redis-server".into()],
        code: Some(0),
        event: "cpu-clock".into(),
        mechanism: Mechanism::CpuClock,
        recording: "perf.data".into(),
        recording_bytes: 41_416,
        budget: 0.01,
        burst_s: 2e-3,
        elapsed_s: 30.0,
        program_cpu_s,
        spent_s: Estimate::new(0.012, 0.011, 0.0185),
        spent_share: Some(Estimate::new(0.0064, 0.0059, 0.0097)),
        expenses: vec![
            expense(ExpenseOn::Samples, Some(samples), 0.0118, 0.0109, 0.0174),
            expense(ExpenseOn::Switches, Some(5_210), 5e-5, 1e-5, 6e-4),
            Expense { on: ExpenseOn::Tasks, count: Some(4), cost_s: None },
            expense(ExpenseOn::Turns, None, 2e-4, 0.0, 4e-4),
            expense(ExpenseOn::Recorder, None, 1e-5, 0.0, 3e-5),
        ],
        most_overdrawn_s: 4e-4,
        recorder_cpu_s: 0.031,
        samples,
        lost: 0,
        unwritten: 0,
        dropped_segments: 3,
        throttled: 0,
        filtered: 0,
        resolves_share: 0.018,
        events_on: EventsOn::Cpus,
        went_over_s: Some(1.2),
        of_others: 1_422,
        cut: 0,
        represented: Some(0.93),
        rates: vec![
            RateUse { period: Some(3_346_061), program_cpu_s: program_cpu_s * 0.92, samples: samples - 11 },
            RateUse { period: Some(13_384_271), program_cpu_s: program_cpu_s * 0.08, samples: 11 },
        ],
        witness: Some(Witnessed {
            work: "probe:redis:commands".into(),
            pieces: 812_004,
            pauses: 37,
            loss: Some(Estimate::new(0.0071, -0.0009, 0.0154)),
            foreseen: Some(Estimate::new(0.0063, 0.0058, 0.0094)),
            agrees: Some(true),
            pairs: (0..37).map(|_| 0.0071 + 0.03 * (pairs.f64() - 0.5)).collect(),
        }),
        course,
    }
}
