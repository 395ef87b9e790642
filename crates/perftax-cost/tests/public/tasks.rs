//! Programs whose threads and processes come and go: what of them is sampled, and what it costs.

use std::collections::BTreeMap;

use perftax_cost::period::Rule;
use perftax_cost::planning::{Outcome, PlanRequest, choose};
use perftax_cost::prediction::{Cost, Setting, Watched, row};
use perftax_doc::tasks::Busiest;
use perftax_doc::tasks::{Portions, Tasks};
use perftax_doc::{Estimate, Mechanism};
use perftax_doc::{WorkloadProfile, busiest_tells};

/// 20,000 threads of 40 µs one after the other, created by one that takes 0.2 s for it: a second in all.
fn churner() -> WorkloadProfile {
    let portions = || Portions::of(std::iter::repeat_n(40e-6, 20_000).chain([0.2]));
    WorkloadProfile {
        command: vec!["churner".into()],
        pid: None,
        elapsed_s: Estimate::exact(1.0),
        cpu_s: Estimate::exact(1.0),
        cpu_s_per_cpu: vec![Estimate::exact(0.5); 2],
        threads: 20_001,
        tasks: Some(Tasks { threads: 20_000, execs: 1, cpu_s: portions(), ..Tasks::default() }),
        code: None,
        switches: Estimate::exact(0.0),
        faults: Estimate::exact(0.0),
        max_rss_bytes: 0,
        counts: BTreeMap::new(),
        variation: 0.0,
        runs: Vec::new(),
    }
}

fn cost() -> Cost {
    let term = |name: &str, ns: f64| (name.to_string(), Estimate::new(ns, ns * 0.9, ns * 1.1));
    let mut cost = Cost::new(Estimate::exact(10_000.0), 0.0);
    cost.terms.extend([term("task", 15_000.0), term("task-event", 2_000.0), term("exec", 100_000.0)]);
    cost
}

fn setting(watched: Watched) -> Setting<'static> {
    Setting { watched, ..Setting::new(Mechanism::CpuClock, "cpu-clock", 40.0) }
}

#[test]
fn threads_shorter_than_a_period_are_not_promised_and_are_paid_for() {
    let one = row(&churner(), &cost(), &setting(Watched::Program { events: 1, cpus: 2 }), 1_010_000).unwrap();
    // 0.2 s of the first thread at 1 ms beside its samples' own 10 µs.
    assert!((one.samples - 199.5).abs() < 1.0, "{one:?}");
    // 20,000 × 15 µs, and 200 × 10 µs.
    assert!((one.terms["task"].estimate - 0.3).abs() < 1e-9 && (one.overhead.estimate - 0.302).abs() < 1e-3, "{one:?}");
    // Three events more on two CPUs: 6 × 2 µs.
    let four = row(&churner(), &cost(), &setting(Watched::Program { events: 4, cpus: 2 }), 1_010_000).unwrap();
    assert!((four.terms["task"].estimate - 0.54).abs() < 1e-9, "{four:?}");
    // Who watches CPUs pays for no copies, and sees everybody.
    let cpus = row(&churner(), &cost(), &setting(Watched::Cpus), 1_010_000).unwrap();
    assert!((cpus.samples - 1000.0).abs() < 1.0 && !cpus.terms.contains_key("task"), "{cpus:?}");
    assert!((cpus.overhead.estimate - 0.01).abs() < 1e-6, "{cpus:?}");
}

/// Who watches CPUs is told of each task, and pays for that.
#[test]
fn cpus_that_are_watched_tell_of_tasks() {
    let mut cost = cost();
    cost.terms
        .extend([("task-cpus", 2_000.0), ("exec-cpus", 20_000.0)].map(|(name, ns)| (name.to_string(), Estimate::exact(ns))));
    let mut build = churner();
    build.tasks = Some(Tasks { processes: 1_000, execs: 501, ..Tasks::default() });
    let found = row(&build, &cost, &setting(Watched::Cpus), 1_010_000).unwrap();
    assert!((found.terms["task"].estimate - (1_000.0 * 2e-6 + 500.0 * 20e-6)).abs() < 1e-9, "{found:?}");
}

#[test]
fn programs_that_are_executed_are_paid_for_but_the_first() {
    let mut build = churner();
    build.tasks = Some(Tasks { processes: 100, execs: 101, ..Tasks::default() });
    let found = row(&build, &cost(), &setting(Watched::Program { events: 1, cpus: 2 }), 1_010_000).unwrap();
    assert!((found.terms["task"].estimate - (100.0 * 15e-6 + 100.0 * 100e-6)).abs() < 1e-9, "{found:?}");
}

fn planned(workload: &WorkloadProfile, cost: &Cost, watched: Watched) -> Outcome {
    let request = PlanRequest {
        budget: 0.01,
        workload,
        cost,
        setting: setting(watched),
        rule: Rule::of(Mechanism::CpuClock, None),
        resolve: None,
        samples_per_second: None,
    };
    choose(&request).unwrap()
}

#[test]
fn no_period_makes_copies_cheap_and_the_plan_says_so() {
    let Outcome::Infeasible { why, .. } = planned(&churner(), &cost(), Watched::Program { events: 1, cpus: 2 }) else {
        panic!("copies alone cost 30 %");
    };
    assert!(why.contains("each thread and process") && why.contains("69.12 %"), "{why}");
    let Outcome::Feasible(choice) = planned(&churner(), &cost(), Watched::Cpus) else { panic!("it costs 1 % at 1 ms") };
    assert!(choice.row.samples > 900.0 && choice.row.most() <= 0.01, "{choice:?}");
}

/// 28 ms of work in 2 s: what one request takes longer is what sampling takes of CPU time, not of the two seconds.
#[test]
fn a_budget_is_of_cpu_time_where_a_program_waits() {
    let mut idle = churner();
    (idle.elapsed_s, idle.cpu_s, idle.threads, idle.tasks) = (Estimate::exact(2.0), Estimate::exact(0.028), 1, None);
    let Outcome::Feasible(choice) = planned(&idle, &cost(), Watched::Program { events: 1, cpus: 1 }) else { panic!("it fits") };
    let cpu = choice.row.cpu_overhead.unwrap();
    assert!((0.0095..=0.01).contains(&cpu.estimate) && choice.row.overhead.estimate < 0.0002, "{:?}", choice.row);
    assert!((1_000_000..1_100_000).contains(&choice.row.period), "{:?}", choice.row);
    let binds = choice.reasons.iter().find(|reason| reason.why.contains("of CPU time")).unwrap();
    assert_eq!(binds.setting, "period", "{:?}", choice.reasons);
}

/// Between its own tasks a program's events are swapped, to and from all others stopped and started: in between lies what a switch costs.
#[test]
fn switches_are_priced_from_swapped_to_stopped() {
    let mut busy = churner();
    (busy.tasks, busy.switches) = (None, Estimate::exact(10_000.0));
    let mut cost = cost();
    let term = |name: &str, ns: f64| (name.to_string(), Estimate::new(ns, ns - 100.0, ns + 100.0));
    cost.terms.extend([term("switch-inherited", 500.0), term("switch-separate", 6_500.0), term("switch-separate-rare", 2_500.0)]);
    let at = |period, watched| row(&busy, &cost, &setting(watched), period).unwrap().terms.get("switch").copied();
    let often = at(1_010_000, Watched::Program { events: 1, cpus: 2 }).unwrap();
    assert!(
        (often.estimate - 0.035).abs() < 1e-9 && (often.low - 0.004).abs() < 1e-9 && (often.high - 0.066).abs() < 1e-9,
        "{often:?}"
    );
    // A timer due after the next tick is not set in hardware.
    let rarely = at(20_000_003, Watched::Program { events: 1, cpus: 2 }).unwrap();
    assert!((rarely.estimate - 0.015).abs() < 1e-9, "{rarely:?}");
    assert_eq!(at(1_010_000, Watched::Cpus), None);
    // A task that is waited for brings two with it, which its own price has.
    busy.tasks = Some(Tasks { processes: 4_000, execs: 1, ..Tasks::default() });
    let beside = row(&busy, &cost, &setting(Watched::Program { events: 1, cpus: 2 }), 1_010_000).unwrap().terms["switch"];
    assert!((beside.estimate - 0.007).abs() < 1e-9 && (beside.high - (0.0132 + 4_000.0 * 6_600e-9)).abs() < 1e-9, "{beside:?}");
}

/// A program of one task, however long: near its own length a period may give one sample or none, and the plan is found all the same.
#[test]
fn programs_of_any_length_are_planned_for() {
    for step in 0..120 {
        let cpu_s = 0.05 * 1.05_f64.powi(step);
        let mut program = churner();
        (program.elapsed_s, program.cpu_s, program.threads) = (Estimate::exact(cpu_s), Estimate::exact(cpu_s), 1);
        program.tasks = Some(Tasks { execs: 1, cpu_s: Portions::of([cpu_s]), ..Tasks::default() });
        let watched = Watched::Program { events: 1, cpus: 2 };
        let Outcome::Feasible(choice) = planned(&program, &cost(), watched) else { panic!("{cpu_s} s hold samples at 1 %") };
        assert!((1_000_000..1_100_000).contains(&choice.row.period), "{cpu_s}: {choice:?}");
        for period in [20_000, 1_000_000, 50_000_000, 200_000_000, 1_073_741_824, 3_000_000_000, 1 << 40] {
            let row = row(&program, &cost(), &setting(watched), period).unwrap();
            for number in [row.overhead, row.cpu_overhead.unwrap(), row.elapsed_s].into_iter().chain(row.terms.values().copied())
            {
                let is_ordered = number.low <= number.estimate && number.estimate <= number.high;
                assert!(is_ordered && number.low.is_finite() && number.high.is_finite(), "{cpu_s} at {period}: {row:?}");
            }
        }
    }
}

/// A thousand children of 0.9 ms, and a parent of a tenth of a second.
fn build() -> WorkloadProfile {
    let tasks = Tasks {
        processes: 1000,
        execs: 1,
        cpu_s: Portions::of(std::iter::repeat_n(0.9e-3, 1000).chain([0.1])),
        ..Tasks::default()
    };
    WorkloadProfile { tasks: Some(tasks), ..churner() }
}

/// Children that are hardly as long as the period may all be sampled when they take a little longer: the upper end says so.
#[test]
fn what_may_be_seen_is_in_the_upper_end() {
    let build = build();
    let cost = Cost::new(Estimate::exact(10_000.0), 0.0);
    let found = row(&build, &cost, &setting(Watched::Program { events: 1, cpus: 2 }), 1_010_000).unwrap();
    // A tenth of a second is seen for certain: 0.1 %; with the children, nearly all of one.
    assert!(found.samples < 110.0 && found.overhead.estimate < 0.0012, "{found:?}");
    assert!(found.overhead.high > 0.008 && found.overhead.high <= 0.0101 && found.overhead.low >= 0.0, "{found:?}");
}

/// A thread that touches memory anew all the time, beside one that computes: of the first one's time sampling by faults takes all that it takes.
#[test]
fn a_budget_is_of_the_busiest_threads_time() {
    let mut program = churner();
    let counts = |faults: f64| BTreeMap::from([("page-faults".to_string(), Portions::of([faults]))]);
    (program.elapsed_s, program.cpu_s, program.threads) = (Estimate::exact(1.0), Estimate::exact(1.9), 2);
    program.counts = BTreeMap::from([("page-faults".to_string(), Estimate::exact(100_000.0))]);
    program.tasks = Some(Tasks {
        threads: 1,
        execs: 1,
        cpu_s: Portions::of([0.9, 1.0]),
        counts: BTreeMap::from([("page-faults".to_string(), Portions::of([99_000.0, 1_000.0]))]),
        busiest: Some(Busiest { cpu_s: Portions::of([1.0]), counts: counts(99_000.0) }),
        ..Tasks::default()
    });
    let cost = Cost::new(Estimate::exact(10_000.0), 0.0);
    let setting =
        Setting { watched: Watched::Program { events: 1, cpus: 2 }, ..Setting::new(Mechanism::Software, "page-faults", 40.0) };
    let at_100 = row(&program, &cost, &setting, 101).unwrap();
    // 990 samples of 10 µs in a second of its own, and 1,000 in the 1.9 s of both.
    let busiest = at_100.busiest_overhead.unwrap();
    assert!((busiest.estimate - 99_000.0 / 101.0 * 10e-6).abs() < 1e-4, "{at_100:?}");
    assert!((at_100.cpu_overhead.unwrap().estimate - 100_000.0 / 101.0 * 10e-6 / 1.9).abs() < 1e-4, "{at_100:?}");
    assert!(at_100.most() >= busiest.high && busiest_tells(&at_100.overhead, at_100.cpu_overhead, Some(busiest)).is_some());
    // Each fault takes some, whether it gives a sample or not: nearly all of that is the first one's, too.
    let mut counted = cost.clone();
    counted.terms.insert("counting".into(), Estimate::exact(1_000.0));
    let at_1_000_003 = row(&program, &counted, &setting, 1_000_003).unwrap();
    assert!((at_1_000_003.busiest_overhead.unwrap().estimate - 0.099).abs() < 1e-3, "{at_1_000_003:?}");
    // Whose events nobody counted by itself is not known.
    program.tasks.as_mut().unwrap().busiest = Some(Busiest { cpu_s: Portions::of([1.0]), counts: BTreeMap::new() });
    assert_eq!(row(&program, &cost, &setting, 101).unwrap().busiest_overhead, None);

    // Where time drives the samples, it pays for what it is sampled, and its many short children pay nothing.
    let mut parent = churner();
    parent.cpu_s = Estimate::exact(1.0);
    parent.tasks = Some(Tasks {
        processes: 20_000,
        execs: 1,
        cpu_s: Portions::of(std::iter::repeat_n(40e-6, 20_000).chain([0.2])),
        busiest: Some(Busiest { cpu_s: Portions::of([0.2]), counts: BTreeMap::new() }),
        ..Tasks::default()
    });
    let found = row(
        &parent,
        &Cost::new(Estimate::exact(10_000.0), 0.0),
        &self::setting(Watched::Program { events: 1, cpus: 2 }),
        1_010_000,
    )
    .unwrap();
    let (all, busiest) = (found.cpu_overhead.unwrap(), found.busiest_overhead.unwrap());
    assert!((all.estimate - 0.002).abs() < 2e-4 && (busiest.estimate - 0.01).abs() < 2e-4, "{found:?}");
    let Outcome::Feasible(choice) =
        planned(&parent, &Cost::new(Estimate::exact(10_000.0), 0.0), Watched::Program { events: 1, cpus: 2 })
    else {
        panic!("it fits");
    };
    assert!(choice.row.busiest_overhead.unwrap().high <= 0.01 && choice.row.most() <= 0.01, "{choice:?}");
    let why = choice.reasons.iter().find(|reason| reason.setting == "period").unwrap();
    assert!(why.why.contains("busiest thread"), "{why:?}");
}

/// The optimum is of samples that come: where children get none at a long period, one that is shorter than their time over the samples wanted is needed.
#[test]
fn the_optimum_counts_with_samples_that_come() {
    let build = build();
    let cost = Cost::new(Estimate::exact(20_000.0), 0.0);
    let setting = setting(Watched::Program { events: 1, cpus: 2 });
    let request = PlanRequest {
        budget: 0.3,
        workload: &build,
        cost: &cost,
        setting: setting.clone(),
        rule: Rule::of(Mechanism::CpuClock, None),
        resolve: Some(0.2),
        samples_per_second: None,
    };
    let Outcome::Feasible(choice) = choose(&request).unwrap() else { panic!("it fits") };
    let at = row(&build, &cost, &setting, choice.stoker_period).unwrap();
    let share = at.samples / choice.stoker_samples;
    assert!((0.8..=1.001).contains(&share), "{} of {}: {choice:?}", at.samples, choice.stoker_samples);
}
