//! Does E cover 0 when the model holds, and find a planted error when it does not? Tried on simulated rounds whose noise is
//! heavy-tailed and autocorrelated, as that of whole programs is (coefficient of variation about 5 %).

use perftax_cost::drive::Drive;
use perftax_cost::verification::{
    AVERAGE, Average, Count, Round, Spec, SwitchArms, TaskArms, cell, control, more_rounds, summarise,
    summarise_without_pollution,
};
use perftax_doc::observation::{Block, Run};
use perftax_doc::tasks::{Portions, Tasks};

const ALPHA_NS: f64 = 20_000.0;
const WORK_S: f64 = 2.0;
/// Periods at which a sample of 20 µs costs 2, 5, 10, 20 and 50 %.
const PERIODS_NS: [u64; 5] = [1_020_000, 420_000, 220_000, 120_000, 60_000];

/// A machine in a mood: slow regimes that last several runs, and now and then a run that something disturbed.
struct Machine {
    random: fastrand::Rng,
    slow: f64,
    mood: f64,
    /// Heavy tail: one run in ten takes this much longer on average (exponential).
    tail: f64,
}

impl Machine {
    fn new(seed: u64, tail: f64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), slow: 0.0, mood: 0.0, tail }
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.random.f64()).ln()).sqrt() * (std::f64::consts::TAU * self.random.f64()).cos()
    }

    /// The next run: how much longer than ideal its work takes, and what a sample costs during it.
    fn next(&mut self) -> (f64, f64) {
        let (a, b) = (self.normal(), self.normal());
        self.slow = 0.6 * self.slow + 0.8 * 0.025 * a;
        self.mood = 0.5 * self.mood + 0.87 * 0.12 * b;
        let jump = if self.random.f64() < 0.1 { -self.tail * (1.0 - self.random.f64()).ln() } else { 0.0 };
        ((self.slow + 0.01 * self.normal() + jump).exp(), ALPHA_NS * self.mood.exp())
    }
}

fn run(round: u32, arm: &str, period: u64, elapsed_s: f64) -> Run {
    Run {
        period,
        elapsed_s,
        user_s: elapsed_s,
        samples: if period == 0 { 0 } else { (elapsed_s * 1e9 / period as f64) as u64 },
        cpu_s_per_cpu: vec![elapsed_s],
        ..Run::nothing(arm, round)
    }
}

fn block(round: u32, arm: &str, samples: u64, wall_ns: f64) -> Block {
    Block {
        session: 0,
        round,
        arm: arm.into(),
        period: if arm == "on" { 50_000 } else { 0 },
        samples,
        expected: samples as f64,
        lost: 0,
        throttled: 0,
        wall_ns: wall_ns as u64,
        cpu_ns: wall_ns as u64,
        involuntary_switches: 0,
        steal_ns: 0,
        settling: None,
        discarded: None,
    }
}

/// Rounds of `off`, `off2` and all periods in random order; `wrong` multiplies the true cost in the programs only.
fn rounds(machine: &mut Machine, count: u32, wrong: f64) -> Vec<Round> {
    (0..count)
        .map(|number| {
            let mut arms: Vec<(&str, u64)> = vec![("off", 0), ("off2", 0)];
            arms.extend(PERIODS_NS.map(|p| ("on", p)));
            machine.random.shuffle(&mut arms);
            let mut round = Round::default();
            for (arm, period) in arms {
                let (slower, alpha_ns) = machine.next();
                let work_s = WORK_S * slower;
                let p = period as f64;
                let elapsed_s = if period == 0 { work_s } else { work_s * p / (p - alpha_ns * wrong) };
                round.runs.push(run(number, arm, period, elapsed_s));
                // Between runs: three pairs of blocks in the mood of the moment.
                for _ in 0..3 {
                    let pair = round.blocks.len() as u32;
                    let noise = 1.0 + 0.01 * machine.normal();
                    let samples = (2.5e6 / (50_000.0 - alpha_ns)).round();
                    round.blocks.push(block(pair, "off", 0, 2.5e6));
                    round.blocks.push(block(pair, "on", samples as u64, 2.5e6 * noise + samples * alpha_ns));
                }
            }
            round
        })
        .collect()
}

struct Score {
    covered: f64,
    half_width: f64,
    bias: f64,
    rms: f64,
}

fn score(average: Average, count: u32, period: u64, tail: f64) -> Score {
    const TRIALS: u32 = 80;
    let mut score = Score { covered: 0.0, half_width: 0.0, bias: 0.0, rms: 0.0 };
    let n = f64::from(TRIALS);
    for trial in 0..TRIALS {
        let rounds = rounds(&mut Machine::new(1000 + u64::from(trial), tail), count, 1.0);
        let spec = Spec { average, ..Spec::new("simulated", "cpu-clock", Drive::Time) };
        let cell = cell(&spec, period, &rounds).unwrap();
        assert_eq!(cell.covered, cell.error.contains(0.0));
        score.covered += f64::from(u8::from(cell.covered)) / n;
        score.half_width += cell.error.half_width() / n;
        score.bias += cell.error.estimate / n;
        score.rms += cell.error.estimate.powi(2) / n;
    }
    score.rms = score.rms.sqrt();
    println!(
        "{count} rounds, tail {tail}, period {period} ns, {average:?}: covered {:.1} %, half-width {:.2} %, bias {:+.2} %, rms {:.2} %",
        score.covered * 100.0,
        score.half_width * 100.0,
        score.bias * 100.0,
        score.rms * 100.0
    );
    score
}

#[test]
fn the_average_chosen_keeps_its_coverage_and_narrows_heavy_tails() {
    let (expensive, cheap) = (PERIODS_NS[4], PERIODS_NS[0]);
    for period in [cheap, expensive] {
        let calm = score(AVERAGE, 22, period, 0.0);
        let calm_mean = score(Average::Mean, 22, period, 0.0);
        assert!(calm.covered >= 0.9 && calm.half_width < 1.2 * calm_mean.half_width);
        let heavy = score(AVERAGE, 22, period, 0.15);
        let heavy_mean = score(Average::Mean, 22, period, 0.15);
        assert!(heavy.covered >= 0.9 && heavy.half_width < 0.9 * heavy_mean.half_width);
        assert!(heavy.rms < heavy_mean.rms && heavy.bias.abs() < 0.01 && calm.bias.abs() < 0.01);
    }
    let few = score(AVERAGE, 8, cheap, 0.15);
    assert!(few.covered >= 0.9);
}

#[test]
fn a_wrong_model_is_found_out() {
    let mut slopes = Vec::new();
    for wrong in [1.0, 1.4] {
        let rounds = rounds(&mut Machine::new(7, 0.05), 30, wrong);
        let spec = Spec::new("simulated", "cpu-clock", Drive::Time);
        let cells: Vec<_> = PERIODS_NS.iter().map(|&p| cell(&spec, p, &rounds).unwrap()).collect();
        let summary = summarise(&cells);
        println!("{wrong}: {summary:?}");
        assert_eq!(summary.coverage, cells.iter().filter(|c| c.covered).count() as f64 / 5.0);
        slopes.push(summary.regression.unwrap().slope);
        assert_eq!(wrong == 1.0, cells[4].covered, "at 50 % overhead: {:?}", cells[4].error);
    }
    assert!(slopes[0].contains(1.0) && !slopes[1].contains(1.0), "{slopes:?}");
}

/// A program whose samples cost more than the calibrated work's, the more so the longer it is left alone between them.
#[test]
fn probes_find_what_a_program_pays_beyond_alpha() {
    const PROBES_NS: [u64; 2] = [80_000, 270_000];
    let true_ns = |period: u64| ALPHA_NS * (1.1 + 0.1 * (period as f64 / 80_000.0).ln());
    let mut rounds = rounds(&mut Machine::new(21, 0.0), 40, 1.0);
    for round in &mut rounds {
        let number = round.runs[0].round;
        round.runs.retain(|run| run.period == 0);
        let base = round.runs[0].clone();
        for (arm, period) in PERIODS_NS.map(|p| ("on", p)).into_iter().chain(PROBES_NS.map(|p| ("probe", p))) {
            let (p, cost_ns) = (period as f64, true_ns(period));
            round.runs.push(run(number, arm, period, base.elapsed_s * p / (p - cost_ns)));
        }
    }
    let alone = Spec::new("simulated", "cpu-clock", Drive::Time);
    let probed = Spec { probes: &PROBES_NS, ..alone };
    let cells: Vec<_> = PERIODS_NS[2..].iter().map(|&p| cell(&probed, p, &rounds).unwrap()).collect();
    for found in &cells {
        let pollution = found.pollution.unwrap();
        let clamped = found.period.clamp(PROBES_NS[0], PROBES_NS[1]);
        let extra_ns = true_ns(clamped) - ALPHA_NS;
        assert!((pollution.extra_ns.estimate - extra_ns).abs() < 0.06 * ALPHA_NS, "{} ns: {pollution:?}", found.period);
        let without = cell(&alone, found.period, &rounds).unwrap();
        assert_eq!((without.error, without.pollution), (pollution.error_without, None));
        assert!(found.error.estimate.abs() < pollution.error_without.estimate.abs(), "{:?} {pollution:?}", found.error);
    }
    let (with, without) = (summarise(&cells), summarise_without_pollution(&cells).unwrap());
    assert!(with.median_abs_error < 0.02 && without.median_abs_error > with.median_abs_error, "{with:?} {without:?}");
    assert!(summarise_without_pollution(&[cell(&alone, PERIODS_NS[4], &rounds).unwrap()]).is_none());
}

/// Rounds without noise, but different from each other: every number is known.
fn exact_rounds(switches: u64) -> Vec<Round> {
    (0..6)
        .map(|number| {
            let work_s = 1.0 + 0.1 * f64::from(number % 3);
            let extra_s = switches as f64 * 4e-6;
            let mut round = Round::default();
            for arm in ["off", "off2"] {
                let mut run = run(number, arm, 0, work_s);
                run.voluntary_switches = switches;
                round.runs.push(run);
            }
            let mut monitored = run(number, "on", 100_000, work_s * 100.0 / 80.0 + extra_s);
            monitored.cpu_s_per_cpu = vec![0.0, monitored.elapsed_s];
            monitored.samples_per_cpu = vec![0, monitored.samples];
            round.runs.push(monitored);
            round.runs.push(Run { discarded: Some("lost".into()), ..run(number, "on", 100_000, 99.0) });
            for pair in 0..3 {
                round.blocks.push(block(pair, "off", 0, 2.5e6));
                round.blocks.push(block(pair, "on", 80, 2.5e6 + 80.0 * ALPHA_NS));
                let switching = |arm: &str, samples, wall_ns| Block { expected: 500.0, ..block(pair, arm, samples, wall_ns) };
                round.blocks.push(switching("switch_off", 0, 3e6));
                round.blocks.push(switching("switch_on", 5, 3e6 + 5.0 * ALPHA_NS + 500.0 * 4000.0));
            }
            round
        })
        .collect()
}

#[test]
fn noiseless_rounds_have_no_error_at_all() {
    let spec = Spec::new("exact", "cpu-clock", Drive::Time);
    let found = cell(&spec, 100_000, &exact_rounds(0)).unwrap();
    assert!(found.error.estimate.abs() < 1e-9 && found.error.half_width() < 1e-9, "{:?}", found.error);
    assert!((found.predicted_overhead.estimate - 0.25).abs() < 1e-9);
    assert!((found.expected_s.estimate - 1.1 * 1.25).abs() < 1e-9);
    assert_eq!((found.rounds, found.runs.len()), (6, 24), "the discarded runs are kept among the raw observations");
    assert_eq!(more_rounds(&found, 0.02), 0);

    let events = Spec::new("exact", "faults", Drive::Event { record_after_overflow: false });
    let found = cell(&events, 100_000, &exact_rounds(0)).unwrap();
    assert!(found.error.estimate.abs() < 1e-4, "N·α with the samples delivered: {:?}", found.error);
    let predicted = Spec { count: Count::Predicted, ..events };
    let found = cell(&predicted, 100_000, &exact_rounds(0)).unwrap();
    assert!((found.error.estimate - 0.25).abs() < 1e-9, "no sample was said to come, so all of the extra is error");
}

#[test]
fn the_switch_term_explains_what_samples_do_not() {
    let rounds = exact_rounds(50_000);
    let without = Spec::new("ping-pong", "cpu-clock", Drive::Time);
    let error = cell(&without, 100_000, &rounds).unwrap().error;
    assert!((error.estimate - 0.2 / (1.1 * 1.25)).abs() < 1e-6, "{error:?}");
    let with = Spec { switch: Some(SwitchArms { off: "switch_off", on: "switch_on" }), ..without };
    let error = cell(&with, 100_000, &rounds).unwrap().error;
    assert!(error.estimate.abs() < 1e-9, "{error:?}");
}

/// 4,000 threads and 300 programs that each inherit the event: what they take beyond the samples is expected, and so is what they are not sampled for.
#[test]
fn the_task_term_explains_what_samples_do_not() {
    let (created_ns, executed_ns) = (15_000.0, 100_000.0);
    let tasks = Tasks {
        threads: 3_700,
        processes: 300,
        execs: 301,
        // Half of the time is in pieces shorter than a period.
        cpu_s: Portions::of(std::iter::repeat_n(5e-5, 10_000).chain([0.5])),
        ..Tasks::default()
    };
    let seen = tasks.cpu_s.share_in_whole_periods(1.0 / 80e-6);
    assert!((seen - 0.5).abs() < 0.01, "{seen}");
    let mut rounds = exact_rounds(0);
    for round in &mut rounds {
        let extra_s = (4_000.0 * created_ns + 300.0 * executed_ns) * 1e-9;
        for run in round.runs.iter_mut().filter(|run| run.arm == "on" && run.discarded.is_none()) {
            let work_s = run.elapsed_s * 80.0 / 100.0;
            run.elapsed_s = work_s * (1.0 + 0.25 * seen) + extra_s;
        }
        let mut beside = |arm: &str, times: f64, each_ns: f64| {
            round.blocks.push(Block { expected: times, ..block(0, arm, 0, times * each_ns) });
        };
        beside("task-off", 40.0, 45_000.0);
        beside("task-on", 40.0, 45_000.0 + created_ns);
        beside("exec-off", 6.0, 600_000.0);
        beside("exec-on", 6.0, 600_000.0 + created_ns + executed_ns);
    }
    let without = Spec::new("churner", "cpu-clock", Drive::Time);
    assert!(cell(&without, 100_000, &rounds).unwrap().error.estimate.abs() > 0.02);
    let arms = TaskArms { tasks: &tasks, created: ("task-off", "task-on"), executed: ("exec-off", "exec-on") };
    let error = cell(&Spec { tasks: Some(arms), ..without }, 100_000, &rounds).unwrap().error;
    assert!(error.estimate.abs() < 1e-6, "{error:?}");
}

#[test]
fn a_cell_of_one_cpu_takes_that_cpus_time_and_samples() {
    let mut rounds = exact_rounds(0);
    for run in rounds.iter_mut().flat_map(|r| &mut r.runs) {
        run.cpu_s_per_cpu = vec![7.0, run.elapsed_s];
        run.elapsed_s *= 3.0;
    }
    let spec = Spec { cpu: Some(1), ..Spec::new("parallel", "cpu-clock", Drive::Time) };
    let found = cell(&spec, 100_000, &rounds).unwrap();
    assert!(found.error.estimate.abs() < 1e-9 && (found.unmonitored_s.estimate - 1.1).abs() < 1e-9);
    assert_eq!(found.cpu, Some(1));
}

#[test]
fn too_little_gives_no_cell() {
    let spec = Spec::new("exact", "cpu-clock", Drive::Time);
    let rounds = exact_rounds(0);
    assert!(cell(&spec, 100_000, &rounds[..1]).is_none());
    assert!(cell(&spec, 99_999, &rounds).is_none(), "a period that was not run");
    assert!(cell(&spec, 100_000, &[]).is_none());
    let bare: Vec<Round> = rounds.iter().map(|r| Round { runs: r.runs.clone(), blocks: vec![] }).collect();
    assert!(cell(&spec, 100_000, &bare).is_none(), "without calibration blocks");
    assert!(summarise(&[]).median_abs_error.is_nan());
}

#[test]
fn the_control_of_whole_runs_catches_a_planted_bias() {
    let mut machine = Machine::new(3, 0.0);
    let mut rounds = rounds(&mut machine, 30, 1.0);
    let honest = control(&rounds, 1).unwrap();
    assert!(honest.passed, "{honest:?}");
    for run in rounds.iter_mut().flat_map(|r| &mut r.runs).filter(|r| r.arm == "off2") {
        run.elapsed_s *= 1.03;
    }
    let biased = control(&rounds, 1).unwrap();
    let among_eight = control(&rounds, 8).unwrap();
    assert!(
        among_eight.detects > biased.detects && (among_eight.difference.confidence - 0.99875).abs() < 1e-9,
        "{among_eight:?}"
    );
    assert!(!biased.passed && biased.detects < 0.03, "{biased:?}");
}

/// Without noise every difference is certain; one that changes no verdict refuses none.
#[test]
fn a_certain_but_negligible_bias_passes() {
    let mut rounds = exact_rounds(0);
    let mut biased_by = |share: f64| {
        for round in &mut rounds {
            let off_s = round.runs.iter().find(|r| r.arm == "off").unwrap().elapsed_s;
            round.runs.retain(|r| r.arm != "off2");
            let off2 = round.runs.iter().find(|r| r.arm == "off").unwrap().clone();
            round.runs.push(Run { arm: "off2".into(), elapsed_s: off_s * (1.0 + share), ..off2 });
        }
        control(&rounds, 1).unwrap()
    };
    let (small, large) = (biased_by(0.0001), biased_by(0.001));
    assert!(small.passed && !small.difference.contains(0.0), "{small:?}");
    assert!(!large.passed, "{large:?}");
}

#[test]
fn more_rounds_are_asked_for_until_the_interval_is_narrow() {
    let rounds = rounds(&mut Machine::new(11, 0.05), 6, 1.0);
    let spec = Spec::new("simulated", "cpu-clock", Drive::Time);
    let first = cell(&spec, PERIODS_NS[2], &rounds).unwrap();
    let asked = more_rounds(&first, first.error.half_width() / 2.0);
    assert_eq!(asked, 18, "half the half-width takes four times the rounds");
    assert_eq!(more_rounds(&first, first.error.half_width()), 0);
}
