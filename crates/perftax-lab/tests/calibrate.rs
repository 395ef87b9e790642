//! Calibration on the live kernel: counts that must equal truths known by construction, and a control that must catch a bias.

#![allow(clippy::unwrap_used)] // tests may

use std::time::Duration;

use perftax_cost::Mechanism;
use perftax_cost::document::StopReason;
use perftax_lab::calibrate::{Campaign, Depth, Goal, Spec, Worker};

fn spec(mechanism: Mechanism, depth: Depth) -> Spec {
    let cpu = *perftax_pmu::guard::allowed_cpus().unwrap().last().unwrap();
    Spec { event: None, mechanism, cpu, depth, period: None, planted_bias: 0.0 }
}

/// Every sampled block without loss delivers exactly events/period samples; counting arms deliver none.
fn counts_are_exact(mechanism: Mechanism) {
    let mut worker = Worker::start(&spec(mechanism, Depth::Full), 3).unwrap();
    let blocks = worker.session(3).unwrap().blocks;
    let sampled: Vec<_> = blocks.iter().filter(|b| b.period > 0).collect();
    assert!(sampled.iter().any(|b| b.arm == "on" && b.period == 1), "{mechanism}: no arm at period 1");
    for block in &sampled {
        assert_eq!((block.lost, block.throttled), (0, 0), "{mechanism} {}", block.arm);
        // The kernel counts up to the period from where the last block left off: a remainder may complete in this one.
        let (samples, expected) = (block.samples as f64, block.expected);
        let slack = if block.period == 1 { 0.0 } else { 1.0 };
        assert!((samples - expected).abs() <= slack, "{mechanism} {}: {samples} samples, {expected} by construction", block.arm);
    }
    for block in blocks.iter().filter(|b| b.period == 0) {
        assert_eq!(block.samples, 0, "{mechanism} {}", block.arm);
    }
}

#[test]
fn page_faults_are_counted_exactly() {
    counts_are_exact(Mechanism::Software);
}

#[test]
fn watchpoint_hits_are_counted_exactly() {
    counts_are_exact(Mechanism::Breakpoint);
}

#[test]
fn tracepoint_hits_are_counted_exactly() {
    counts_are_exact(Mechanism::Tracepoint);
}

#[test]
fn uprobe_hits_are_counted_exactly() {
    counts_are_exact(Mechanism::Uprobe);
}

#[test]
fn cpu_clock_delivers_about_what_the_period_says() {
    let mut worker = Worker::start(&spec(Mechanism::CpuClock, Depth::Alpha), 3).unwrap();
    let blocks = worker.session(10).unwrap().blocks;
    let on: Vec<_> = blocks.iter().filter(|b| b.arm == "on").collect();
    let samples: u64 = on.iter().map(|b| b.samples).sum();
    let expected: f64 = on.iter().map(|b| b.expected).sum();
    assert!(samples > 0 && (samples as f64 / expected - 1.0).abs() < 0.15, "{samples} of {expected}");
}

/// A bias far above any noise must be caught; that 3 % is caught is a matter of statistics, shown by `make acceptance`.
#[test]
fn the_control_catches_a_planted_bias() {
    let planted = Spec { planted_bias: 0.5, ..spec(Mechanism::CpuClock, Depth::Alpha) };
    let goal = Goal { spacing: Duration::ZERO, rounds: 8, ..Goal::QUICK };
    let mut campaign = Campaign::start(&planted, goal, 5).unwrap();
    for _ in 0..6 {
        campaign.session().unwrap();
    }
    let control = campaign.finish(StopReason::TimeLimit).unwrap().conclusion.control.unwrap();
    assert!(!control.passed, "{control:?}");
    assert!(control.difference.estimate > 0.2, "{control:?}");
}

#[test]
fn a_cpu_that_is_not_ours_is_an_error() {
    let message = Worker::start(&Spec { cpu: 4095, ..spec(Mechanism::CpuClock, Depth::Alpha) }, 1).err().unwrap().to_string();
    assert!(message.contains("--cpu is 4095"), "{message}");
}
