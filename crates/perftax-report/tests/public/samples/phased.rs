//! Two runs under a pair of events.

use perftax_cost::stretches::{ratio, stretches};
use perftax_doc::Warning;
use perftax_doc::{Phase, PhaseInterval};

use super::origin;

/// A program of two kinds of work, by instructions.
pub fn phase() -> Phase {
    let mut rng = fastrand::Rng::with_seed(11);
    let mut until = 0;
    let interval = |i: u64| {
        let (first, second) = if (i / 40).is_multiple_of(2) { (50_000, 50_000) } else { (12_500, 50_000) };
        until += 100_000;
        let jitter = rng.u64(0..40);
        PhaseInterval { until, passed: 100_000, first: first + jitter, second: second + jitter, time_ns: 120_000 * i }
    };
    let intervals: Vec<PhaseInterval> = (0..160).map(interval).collect();
    of(&["./phases"], ["taken-branches", "branches:u"], "instructions:u", false, 100_000, intervals)
}

/// A program by time, with little to count and a lost sample.
pub fn phase_by_time() -> Phase {
    let interval = |i: u64| PhaseInterval {
        until: 1_000_000 * (i + 1),
        passed: 1_000_000,
        first: if i < 6 { 40 - 3 * i } else { 0 },
        second: u64::from(i.is_multiple_of(7)),
        time_ns: 1_000_000 * i,
    };
    let mut doc = of(
        &["gzip", "-kc", "a file"],
        ["page-faults", "context-switches"],
        "cpu-clock",
        true,
        1_000_000,
        (0..70).map(interval).collect(),
    );
    (doc.lost, doc.samples, doc.unwatched) = (1, 69, 2);
    doc.origin.warnings.push(Warning::Other {
        message: "2 threads and processes that the program created are not in the curves".into(),
        remedy: "one that does its work in its first thread".into(),
    });
    doc
}

fn of(program: &[&str], events: [&str; 2], every: &str, is_time: bool, period: u64, intervals: Vec<PhaseInterval>) -> Phase {
    let sum = |of: fn(&PhaseInterval) -> u64| intervals.iter().map(of).sum::<u64>();
    Phase {
        origin: origin("phase", &["perftax", "phase"]),
        program: program.iter().map(ToString::to_string).collect(),
        interval_event: every.into(),
        is_time,
        period,
        events: events.map(String::from),
        counted: [sum(|i| i.passed), sum(|i| i.first), sum(|i| i.second)],
        expected_samples: intervals.len() as u64,
        samples: intervals.len() as u64,
        lost: 0,
        throttled: 0,
        running: 1.0,
        unwatched: 0,
        ratio: ratio(&intervals),
        stretches: stretches(&intervals),
        intervals,
    }
}
