//! Documents with plausible numbers, the same on every run: for tests of the pages and for looking at them.
//!
//! The numbers are drawn from the model with noise like that of a small shared guest; they are no measurements.

#![allow(dead_code, unused_imports)] // each test uses a part

mod audited;
mod counted;
mod gridded;
mod linted;
mod phased;
mod priced;
mod recorded;
mod shared;
mod simulated;
pub mod traced;

use std::collections::BTreeMap;

use perftax_doc::observation::{Block, Run};
use perftax_doc::{ArmShift, Fit};
use perftax_doc::{
    Bill, BilledEvent, BilledSwitches, BilledTasks, Calibration, Cell, Control, CrossCheck, LeftOutRun, Linearity, MachineId,
    Origin, PeriodCost, Plan, Pollution, Prediction, PredictionRow, Reason, Regression, SCHEMA, SampleCount, SpanOf, StopReason,
    Totals, Verification, Work, WorkloadControl, WorkloadProfile, WorkloadReferenceLoop,
};
use perftax_doc::{Estimate, Mechanism, Warning};

pub use audited::audit;
pub use counted::{compared_stat, stat};
pub use gridded::{matrix, other_matrix};
pub use linted::lint;
pub use phased::{phase, phase_by_time};
pub use priced::{other_selfcost, selfcost};
pub use recorded::recorded;
pub use shared::{comm, comm_every, comm_many, comm_watched};
pub use simulated::{sensitivity, simulation, sweep};

const WORKLOADS: [(&str, f64); 8] = [
    ("perl", 2.31),
    ("bzip2", 1.20),
    ("gcc", 3.02),
    ("gnugo", 2.64),
    ("hmmer", 1.87),
    ("sjeng", 4.11),
    ("glpsol", 1.42),
    ("x264", 2.05),
];

/// A normal deviate (sum of twelve uniform ones).
fn normal(rng: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

fn about(value: f64, half_width: f64) -> Estimate {
    Estimate::new(value, value - half_width, value + half_width)
}

/// The machine of most samples.
pub fn machine() -> MachineId {
    MachineId {
        name: "AMD EPYC guest (Zen 4), 2 cores".into(),
        fingerprint: "6f1c8a52d9e04b37".into(),
        cpu: "AMD EPYC 9R14".into(),
        microcode: "0xa101148".into(),
        virtualisation: "kvm".into(),
        mitigations: "spectre_v2: Enhanced IBRS; spec_store_bypass: Mitigation".into(),
        cpus: 2,
    }
}

/// The head of a document.
pub fn origin(kind: &str, command: &[&str]) -> Origin {
    // Texts are read as users have them.
    perftax_report::speak();
    Origin {
        schema: SCHEMA,
        kind: kind.into(),
        perftax: "0.1.0".into(),
        machine: machine(),
        kernel: "6.18.0".into(),
        taken_at_s: 1_778_311_740.0,
        command: command.iter().map(|s| s.to_string()).collect(),
        warnings: Vec::new(),
    }
}

/// A calibration of cpu-clock: 30 sessions of 8 rounds over five periods.
pub fn calibration() -> Calibration {
    calibration_of("cpu-clock", Mechanism::CpuClock, 17_200.0, 1)
}

/// A calibration with the given cost of a sample.
pub fn calibration_of(event: &str, mechanism: Mechanism, alpha_ns: f64, seed: u64) -> Calibration {
    let mut rng = fastrand::Rng::with_seed(seed);
    let periods: [u64; 5] = [50_021, 100_003, 200_003, 400_009, 800_011];
    let mut blocks = Vec::new();
    for session in 0..30 {
        let regime = alpha_ns * (1.0 + 0.06 * normal(&mut rng));
        for round in 0..8 {
            let base = 2.5e6 * (1.0 + 0.01 * normal(&mut rng));
            let discarded = (session == 11 && round == 3).then(|| "steal time above 1 % of the block".to_string());
            for (arm, period) in [("off", 0), ("off2", 0)].into_iter().chain(periods.iter().map(|&p| ("on", p))) {
                let samples = if period == 0 { 0 } else { (3.0e6 / period as f64).round() as u64 };
                let wall = base * (1.0 + 0.004 * normal(&mut rng)) + samples as f64 * regime * (1.0 + 0.05 * normal(&mut rng));
                blocks.push(Block {
                    session,
                    round,
                    arm: arm.into(),
                    period,
                    samples,
                    expected: samples as f64,
                    lost: 0,
                    throttled: 0,
                    wall_ns: wall as u64,
                    cpu_ns: (wall * 0.99) as u64,
                    involuntary_switches: 0,
                    steal_ns: 0,
                    settling: None,
                    discarded: discarded.clone(),
                });
            }
        }
    }
    let linearity = Linearity {
        periods: periods
            .iter()
            .enumerate()
            .map(|(i, &period)| PeriodCost {
                period,
                samples: blocks.iter().filter(|b| b.period == period).map(|b| b.samples).sum(),
                alpha_ns: about(alpha_ns * (1.0 + 0.012 * normal(&mut rng)), alpha_ns * 0.03 * (1.0 + i as f64 * 0.7)),
            })
            .collect(),
        theil_sen_ns: about(alpha_ns * 0.985, alpha_ns * 0.05),
        curvature: about(0.011, 0.034),
    };
    let us = alpha_ns / 17.2;
    let terms = [
        ("interrupt", 0.86, 0.03),
        ("record", 0.09, 0.03),
        ("drain", 0.05, 0.01),
        ("payload_callchain", 0.116, 0.02),
        ("payload_regs_user", 0.049, 0.011),
        ("payload_stack_user", 0.122, 0.02),
        ("signal", 0.21, 0.03),
        ("switch_inherited", 0.006, 0.004),
        ("switch_per_thread", 0.81, 0.12),
    ];
    let mut origin = origin("calibrate", &["perftax", "calibrate", "-e", event, "--json", "epyc.json"]);
    origin.warnings = vec![
        Warning::DiscardedRounds { discarded: 1, of: 240, reason: "steal time above 1 % of the block".into() },
        Warning::PrecisionNotReached { wanted: 0.03, reached: 0.041 },
    ];
    Calibration {
        origin,
        mechanism,
        event: event.into(),
        alpha_ns: about(alpha_ns, 0.7 * us),
        floor_ns: Some(about(14.9 * us, 0.15 * us)),
        samples: blocks.iter().map(|b| b.samples).sum(),
        expected_samples: blocks.iter().map(|b| b.expected).sum(),
        lost: 0,
        throttled: 0,
        terms: terms.iter().map(|&(n, v, h)| (n.to_string(), about(v * alpha_ns, h * alpha_ns))).collect(),
        wide_code_pages: None,
        linearity: Some(linearity),
        control: Some(Control { difference: about(0.0004, 0.0031), passed: true, detects: 0.0031 }),
        cross_check: Some(CrossCheck {
            source: "irq_vectors:local_timer_entry/exit".into(),
            handler_ns: about(alpha_ns * 0.62, alpha_ns * 0.01),
            samples: 18_204,
        }),
        direct: None,
        drift: 0.058,
        sessions: 30,
        elapsed_s: 96.0,
        stopped: StopReason::TimeLimit,
        blocks,
    }
}

/// A second machine's calibration, for comparisons.
pub fn other_calibration() -> Calibration {
    let mut doc = calibration_of("cpu-clock", Mechanism::CpuClock, 3_150.0, 2);
    doc.origin.machine = MachineId {
        name: "Intel Xeon E5-2630 v4 (Broadwell), 20 cores".into(),
        fingerprint: "a0b1c2d3e4f50617".into(),
        cpu: "Intel(R) Xeon(R) CPU E5-2630 v4 @ 2.20GHz".into(),
        cpus: 20,
        virtualisation: "none".into(),
        ..machine()
    };
    doc.origin.kernel = "6.1.0-18-amd64".into();
    doc.origin.warnings.clear();
    doc.terms.remove("signal");
    doc
}

fn run(round: u32, period: u64, arm: &str, elapsed_s: f64, samples: u64) -> Run {
    Run {
        round,
        period,
        arm: arm.into(),
        elapsed_s,
        adjusted_s: None,
        reference_loops: Vec::new(),
        user_s: elapsed_s * 0.95,
        system_s: elapsed_s * 0.03,
        samples,
        samples_per_cpu: vec![samples, 0],
        cpu_s_per_cpu: vec![elapsed_s * 0.97, 0.0],
        expected_samples: samples as f64,
        lost: 0,
        throttled: 0,
        voluntary_switches: 12,
        involuntary_switches: 200,
        minor_faults: 2_140,
        major_faults: 0,
        max_rss_bytes: 8_912_896,
        steal_s: 0.0,
        counts: BTreeMap::new(),
        discarded: None,
    }
}

/// A workload of one thread.
pub fn workload() -> WorkloadProfile {
    let mut rng = fastrand::Rng::with_seed(3);
    WorkloadProfile {
        command: ["bzip2", "-k", "big"].map(String::from).to_vec(),
        pid: None,
        elapsed_s: about(1.20, 0.03),
        cpu_s: about(1.18, 0.03),
        cpu_s_per_cpu: vec![about(1.18, 0.03), Estimate::exact(0.0)],
        threads: 1,
        tasks: None,
        code: None,
        switches: about(212.0, 14.0),
        faults: about(2_140.0, 3.0),
        max_rss_bytes: 8_912_896,
        counts: [("cpu-clock".to_string(), about(1.18e9, 0.03e9)), ("page-faults".to_string(), about(2_140.0, 3.0))].into(),
        variation: 0.054,
        runs: (0..6).map(|round| run(round, 0, "off", 1.2 * (1.0 + 0.03 * normal(&mut rng)), 0)).collect(),
    }
}

/// A prediction for a program of two threads.
pub fn prediction() -> Prediction {
    let alpha = about(17_200.0, 1_250.0);
    let mut workload = workload();
    workload.threads = 2;
    workload.cpu_s_per_cpu = vec![about(0.71, 0.02), about(0.47, 0.02)];
    let rows = [100_003u64, 200_003, 500_009, 1_000_003, 2_000_003, 5_000_011, 10_000_019]
        .into_iter()
        .map(|period| {
            let overhead = |a: f64| 0.983 * a / (period as f64 - a);
            let overhead = Estimate::new(overhead(alpha.estimate), overhead(alpha.low), overhead(alpha.high));
            let samples = 1.18e9 / (period as f64 - alpha.estimate);
            let elapsed = 1.2 * (1.0 + overhead.estimate);
            PredictionRow {
                period,
                samples,
                samples_per_s: samples / elapsed,
                bytes_per_s: samples * 40.0 / elapsed,
                overhead,
                cpu_overhead: Some(overhead.scaled(1.2 / 1.18)),
                busiest_overhead: Some(overhead.scaled(1.2 / 1.18)),
                elapsed_s: about(elapsed, 0.03 + 1.2 * overhead.half_width()),
                terms: [
                    ("interrupt".to_string(), overhead.scaled(0.86)),
                    ("record".to_string(), overhead.scaled(0.09)),
                    ("drain".to_string(), overhead.scaled(0.05)),
                    ("switch_inherited".to_string(), about(0.000_2, 0.000_1)),
                ]
                .into(),
                extra_s_per_cpu: vec![overhead.scaled(0.72), overhead.scaled(0.48)],
            }
        })
        .collect();
    let mut origin = origin("predict", &["perftax", "predict", "-e", "cpu-clock", "--", "bzip2", "-k", "big"]);
    origin.warnings = vec![Warning::OldCalibration { age_s: 2_460.0, drift: 0.058 }];
    Prediction {
        origin,
        mechanism: Mechanism::CpuClock,
        event: "cpu-clock".into(),
        alpha_ns: alpha,
        cost_machine: machine().name,
        workload,
        rows,
    }
}

/// A plan within 1 %.
pub fn plan() -> Plan {
    let reason = |setting: &str, why: &str| Reason { setting: setting.into(), why: why.into() };
    Plan {
        origin: origin("plan", &["perftax", "plan", "--budget", "1%", "--", "bzip2", "-k", "big"]),
        feasible: true,
        budget: 0.01,
        event: "cpu-clock".into(),
        mechanism: Mechanism::CpuClock,
        period: 2_340_061,
        buffer_bytes: 512 * 1024,
        alpha_ns: about(17_200.0, 1_250.0),
        expected_overhead: Estimate::new(0.0080, 0.0070, 0.0099),
        expected_cpu_overhead: None,
        expected_busiest_overhead: None,
        whole_cpus: false,
        samples: 510.0,
        resolves_share: 0.03,
        stoker_samples: 1_480.0,
        stoker_period: 806_393,
        work: Some(Work {
            event: "syscalls:sys_enter_read".into(),
            pieces: Estimate::exact(60_000.0),
            cpu_s: 19.7e-6,
            extra_cpu_s: Estimate::new(0.16e-6, 0.14e-6, 0.197e-6),
            samples: 0.0085,
        }),
        reasons: vec![
            reason("mechanism", "this kernel exposes no cpu PMU, so cpu-clock is the best that samples time"),
            reason("period", "the shortest prime whose interval stays below 1 %; a prime does not lock into step with loops"),
            reason("buffer", "holds ten seconds of samples at this rate, so that nothing is lost between two drains"),
        ],
        perf_record: ["perf", "record", "-e", "cpu-clock", "-c", "2340061", "-m", "128", "--", "bzip2", "-k", "big"]
            .map(String::from)
            .to_vec(),
        workload: workload(),
    }
}

/// A plan that cannot be.
pub fn infeasible_plan() -> Plan {
    Plan {
        feasible: false,
        budget: 0.000_01,
        period: 0,
        buffer_bytes: 0,
        samples: 0.0,
        resolves_share: 1.0,
        stoker_samples: 0.0,
        stoker_period: 0,
        expected_overhead: Estimate::exact(0.0),
        reasons: vec![Reason {
            setting: "feasible".into(),
            why: "a run of 1.20 s would get less than one sample; lengthen the run or raise the budget to 0.002 %".into(),
        }],
        perf_record: Vec::new(),
        ..plan()
    }
}

/// A verification of eight workloads at five periods.
pub fn verification() -> Verification {
    let mut rng = fastrand::Rng::with_seed(4);
    let mut cells = Vec::new();
    for (workload, t0) in WORKLOADS {
        for cost in [0.02, 0.05, 0.10, 0.20, 0.50] {
            let period = (17_200.0 * (1.0 + 1.0 / cost)) as u64 | 1;
            let expected = t0 * (1.0 + cost);
            let error = 0.006 * normal(&mut rng);
            let measured = expected * (1.0 + error);
            let width = 0.012 + 0.004 * rng.f64();
            let samples = t0 * 1e9 / (period as f64 - 17_200.0);
            cells.push(Cell {
                workload: workload.into(),
                event: "cpu-clock".into(),
                period,
                attach: "inherited".into(),
                cpu: None,
                unmonitored_s: about(t0, t0 * 0.008),
                expected_s: about(expected, t0 * (0.008f64).hypot(0.07 * cost)),
                measured_s: about(measured, measured * 0.008),
                error: about(error, width),
                covered: error.abs() <= width,
                predicted_overhead: about(cost, cost * 0.07),
                measured_overhead: about(measured / t0 - 1.0, 0.011),
                rounds: 22,
                samples,
                expected_samples: samples,
                lost: 0,
                throttled: 0,
                pollution: Some(Pollution {
                    extra_ns: about(1100.0, 700.0),
                    expected_without_s: about(expected / (1.0 + 0.06 * cost), t0 * (0.008f64).hypot(0.07 * cost)),
                    error_without: about((1.0 + error) * (1.0 + 0.06 * cost) - 1.0, width),
                }),
                runs: (0..4)
                    .flat_map(|round| {
                        let off = run(round, 0, "off", t0 * (1.0 + 0.01 * normal(&mut rng)), 0);
                        [off, run(round, period, "on", measured * (1.0 + 0.01 * normal(&mut rng)), samples as u64)]
                    })
                    .collect(),
            });
        }
    }
    let mut errors: Vec<f64> = cells.iter().map(|c| c.error.estimate.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let coverage = cells.iter().filter(|c| c.covered).count() as f64 / cells.len() as f64;
    let control = |w: &str, d: f64| WorkloadControl {
        workload: w.into(),
        control: Control { difference: about(d, 0.007), passed: true, detects: 0.007 },
    };
    Verification {
        origin: origin("verify", &["perftax", "verify", "--workloads", "workloads/", "--html", "verify.html"]),
        mechanism: Mechanism::CpuClock,
        event: "cpu-clock".into(),
        median_abs_error: errors[errors.len() / 2],
        coverage,
        regression: Some(Regression { slope: about(1.004, 0.021), intercept_s: about(0.0012, 0.0061), cells: 40 }),
        without_pollution: Some(Totals {
            median_abs_error: 0.009,
            coverage: 0.85,
            regression: Some(Regression { slope: about(1.06, 0.022), intercept_s: about(0.0012, 0.0061), cells: 40 }),
        }),
        controls: WORKLOADS.iter().map(|(w, _)| control(w, 0.002 * normal(&mut rng))).collect(),
        reference_loops: vec![WorkloadReferenceLoop {
            workload: "perl".into(),
            fit: Fit {
                exponent: 0.9,
                scatter_before: 0.14,
                scatter_after: 0.03,
                shift_by_arm: vec![ArmShift { period: 52_601, shift: 0.004 }],
            },
        }],
        left_out: vec![LeftOutRun {
            workload: "bzip2".into(),
            round: 2,
            arm: "on".into(),
            period: 200_003,
            why: "20 ms stolen by the hypervisor".into(),
        }],
        runs_made: 240,
        held: true,
        calibrations: vec![calibration()],
        cells,
    }
}

/// The bill of a recording of whatever ran on two CPUs, one of which idled most of the time.
pub fn bill_of_cpus() -> Bill {
    let paid = |key: &str, samples: u64, idle: u64| SampleCount {
        key: key.into(),
        samples,
        idle,
        cost_s: Some(about((samples - idle) as f64 * 9.5e-6, (samples - idle) as f64 * 0.8e-6)),
    };
    let mut bill = bill();
    bill.origin.warnings.clear();
    bill.recorded_command = ["perf", "record", "-a", "-e", "cpu-clock", "--", "sleep", "5"].map(String::from).to_vec();
    (bill.span_s, bill.span_of) = (5.0, SpanOf::Samples);
    bill.events.truncate(1);
    (bill.events[0].samples, bill.events[0].idle, bill.events[0].lost) = (10_000, 6_200, 0);
    (bill.cost_s, bill.elapsed_cost_s, bill.share_of_run, bill.tasks) = (Some(about(0.095, 0.008)), None, None, None);
    (bill.events[0].alpha_ns, bill.events[0].cost_s) = (Some(about(9500.0, 800.0)), bill.cost_s);
    bill.of_cpus = true;
    bill.switches = None;
    bill.by_cpu = vec![paid("0", 5000, 4900), paid("1", 5000, 1300)];
    bill.by_process = vec![paid("4711 cc1", 3700, 0), paid("12 kworker/1:0", 100, 0)];
    bill.by_thread = vec![SampleCount { key: "4711/4711 cc1".into(), samples: 3700, ..SampleCount::default() }];
    bill
}

/// The bill of a recording of two events.
pub fn bill() -> Bill {
    let count = |key: &str, samples| SampleCount { key: key.into(), samples, ..SampleCount::default() };
    let mut origin = origin("bill", &["perftax", "bill", "perf.data"]);
    origin.warnings = vec![Warning::LostRecords { lost: 41 }, Warning::Multiplexed { event: "cycles".into(), running: 0.62 }];
    Bill {
        origin,
        recording: "perf.data".into(),
        recorded_command: ["make", "-j2", "all"].map(String::from).to_vec(),
        recorded_on: "build-7, Linux 6.18.0".into(),
        recorded_by: "6.1.140".into(),
        span_s: 61.3,
        span_of: SpanOf::Command,
        of_cpus: false,
        by_process: Vec::new(),
        tasks: Some(BilledTasks { created: 2_113, executed: 1_744, events: 3, cost_s: Some(about(0.094, 0.021)) }),
        switches: Some(BilledSwitches { switches: 61_204, cost_s: Some(about(0.051, 0.012)) }),
        events: vec![
            BilledEvent {
                event: "cpu-clock".into(),
                mechanism: Some(Mechanism::CpuClock),
                period: Some(1_000_003),
                frequency: None,
                samples: 118_204,
                lost: 41,
                lost_in_ring: 0,
                lost_samples: 0,
                filtered: 0,
                throttled: 0,
                running: Some(1.0),
                dropped: None,
                idle: 0,
                synthesised: false,
                untold: None,
                alpha_ns: Some(about(17_200.0, 1_250.0)),
                cost_s: Some(about(2.034, 0.15)),
                calibrated_event: None,
                payload: Vec::new(),
                elapsed_cost_s: None,
            },
            BilledEvent {
                event: "page-faults".into(),
                mechanism: Some(Mechanism::Software),
                period: None,
                frequency: Some(999),
                samples: 31_877,
                lost: 0,
                lost_in_ring: 0,
                lost_samples: 0,
                filtered: 0,
                throttled: 3,
                running: Some(1.0),
                dropped: None,
                idle: 0,
                synthesised: false,
                untold: None,
                alpha_ns: Some(about(1_480.0, 90.0)),
                cost_s: Some(about(0.0472, 0.003)),
                calibrated_event: None,
                payload: Vec::new(),
                elapsed_cost_s: None,
            },
            BilledEvent {
                event: "cycles".into(),
                mechanism: Some(Mechanism::Pmi),
                period: Some(2_000_003),
                frequency: None,
                samples: 9_120,
                lost: 0,
                lost_in_ring: 0,
                lost_samples: 0,
                filtered: 0,
                throttled: 0,
                running: Some(0.62),
                dropped: None,
                idle: 0,
                synthesised: false,
                untold: None,
                alpha_ns: None,
                cost_s: None,
                calibrated_event: None,
                payload: Vec::new(),
                elapsed_cost_s: None,
            },
        ],
        cost_s: Some(about(2.081, 0.15)),
        elapsed_cost_s: Some(about(1.062, 0.08)),
        share_of_run: Some(Estimate::new(0.0176, 0.0162, 0.0190)),
        by_cpu: vec![count("0", 80_110), count("1", 79_091)],
        by_thread: vec![
            count("4122/4122 cc1", 70_113),
            count("4188/4188 cc1", 52_004),
            count("4101/4101 make", 1_204),
            count("4190/4190 as", 20_412),
            count("4191/4191 ld", 15_468),
        ],
    }
}
