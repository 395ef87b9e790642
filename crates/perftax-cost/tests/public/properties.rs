//! Properties that hold for all inputs.

use std::collections::BTreeMap;

use perftax_cost::drive::Drive;
use perftax_cost::period::PERIOD_MAX;
use perftax_cost::period::{Rule, is_prime, prime_at_least, prime_at_most};
use perftax_cost::planning::{Outcome, PlanError, PlanRequest, buffer_bytes, choose};
use perftax_cost::prediction::{Cost, PredictionError, Setting, row};
use perftax_doc::{Estimate, Mechanism};
use perftax_doc::{PeriodCost, WorkloadProfile};
use proptest::prelude::*;

/// An estimate about `value` with a relative half-width.
fn about(value: f64, relative: f64) -> Estimate {
    Estimate::exact(value).widened(relative)
}

fn workload(elapsed_s: f64, cpu_s: &[f64], events: f64, threads: u32) -> WorkloadProfile {
    let total: f64 = cpu_s.iter().sum();
    WorkloadProfile {
        command: vec!["true".into()],
        pid: None,
        elapsed_s: about(elapsed_s, 0.02),
        cpu_s: about(total, 0.02),
        cpu_s_per_cpu: cpu_s.iter().map(|&s| about(s, 0.03)).collect(),
        threads,
        tasks: None,
        code: None,
        switches: about(1000.0, 0.1),
        faults: Estimate::exact(0.0),
        max_rss_bytes: 0,
        counts: BTreeMap::from([("loads".into(), about(events, 0.01))]),
        variation: 0.02,
        runs: vec![],
    }
}

fn mechanism() -> impl Strategy<Value = Mechanism> {
    prop::sample::select(Mechanism::ALL.to_vec())
}

fn estimate() -> impl Strategy<Value = Estimate> {
    (-1e6..1e6_f64, 0.0..1e5_f64, 0.0..1e5_f64).prop_map(|(e, below, above)| Estimate::new(e, e - below, e + above))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn estimates_stay_ordered(a in estimate(), b in estimate(), factor in -10.0..10.0_f64, drift in 0.0..1.0_f64) {
        for made in [a.scaled(factor), a.plus(&b), a.widened(drift)] {
            prop_assert!(made.low <= made.estimate && made.estimate <= made.high);
        }
        prop_assert!(a.widened(drift).half_width() >= a.half_width() * (1.0 - 1e-12));
        let sum = a.plus(&b);
        prop_assert!(sum.half_width() <= a.half_width() + b.half_width() + 1e-6);
        prop_assert!((sum.estimate - b.plus(&a).estimate).abs() < 1e-6);
        prop_assert!((a.scaled(factor).half_width() - a.half_width() * factor.abs()).abs() < 1e-6);
    }

    #[test]
    fn primes_are_prime_and_none_lies_between(n in 2..4_000_000_u64) {
        let divisible = |n: u64| (2..).take_while(|d| d * d <= n).any(|d| n.is_multiple_of(d));
        prop_assert_eq!(is_prime(n), !divisible(n));
        let (above, below) = (prime_at_least(n).unwrap(), prime_at_most(n).unwrap());
        prop_assert!(below <= n && n <= above && !divisible(above) && !divisible(below));
        prop_assert!((below + 1..above).all(|m| divisible(m) || m == n));
    }

    #[test]
    fn products_of_large_primes_are_not_prime(a in 1_000_000..4_000_000_000_u64, b in 1_000_000..4_000_000_000_u64) {
        prop_assert!(!is_prime(prime_at_least(a).unwrap() * prime_at_least(b).unwrap()));
    }

    #[test]
    fn periods_obey_the_hardware(mechanism in mechanism(), wanted in 0..PERIOD_MAX, interval in prop::option::of(256..4096_u64)) {
        let rule = Rule::of(mechanism, interval);
        for period in [rule.at_least(wanted), rule.at_most(wanted)].into_iter().flatten() {
            prop_assert!(rule.allows(period), "{period}");
            prop_assert!(period == 1 || is_prime((period + rule.uncounted) / rule.granule));
        }
        if let Some(period) = rule.at_least(wanted) {
            prop_assert!(period >= wanted);
        }
        if let Some(period) = rule.at_most(wanted) {
            prop_assert!(period <= wanted);
        }
    }

    #[test]
    fn samples_and_extra_time_invert(cpu_s in 0.001..1e5_f64, alpha_ns in 100.0..1e5_f64, times in 2.01..1e4_f64) {
        let period = (alpha_ns * times).max(10_000.0).ceil() as u64;
        let samples = Drive::Time.samples(cpu_s, period, alpha_ns).unwrap();
        let extra_s = Drive::Time.extra_s(cpu_s, period, alpha_ns).unwrap();
        let monitored_s = cpu_s + extra_s;
        // A sample at each period of the monitored time; the extra time is the samples' cost; and back to the unmonitored.
        prop_assert!((samples * period as f64 * 1e-9 / monitored_s - 1.0).abs() < 1e-9);
        prop_assert!((monitored_s - samples * alpha_ns * 1e-9 - cpu_s).abs() < 1e-9 * cpu_s);
    }

    #[test]
    fn rows_add_up(
        alpha_ns in 50.0..50_000.0_f64,
        spread in 0.0..0.2_f64,
        drift in 0.0..0.2_f64,
        times in 2.5..1e4_f64,
        time_driven: bool,
        payload in 0.0..0.3_f64,
    ) {
        let mechanism = if time_driven { Mechanism::CpuClock } else { Mechanism::Pmi };
        let mut cost = Cost::new(about(alpha_ns, spread), drift);
        cost.terms.insert("callchain".into(), about(alpha_ns * payload, 0.1));
        cost.terms.insert("switch_per_thread".into(), about(12_000.0, 0.1));
        let mut setting = Setting::new(mechanism, "loads", 40.0);
        setting.payload = vec!["callchain"];
        setting.switch_term = Some("switch_per_thread");
        let program = workload(2.0, &[1.9], 1e9, 1);
        let period = (alpha_ns * times).max(10_000.0).ceil() as u64;
        let row = match row(&program, &cost, &setting, period) {
            Err(PredictionError::PeriodTooShort { needed, .. }) => {
                prop_assert!(time_driven && needed > period);
                return Ok(());
            }
            other => other.unwrap(),
        };
        let total: f64 = row.terms.values().map(|t| t.estimate).sum();
        prop_assert!((total / row.overhead.estimate - 1.0).abs() < 1e-9, "terms {:?}", row.terms);
        prop_assert!(row.overhead.low <= row.overhead.estimate && row.overhead.estimate <= row.overhead.high);
        prop_assert!((row.elapsed_s.estimate / (2.0 * (1.0 + row.overhead.estimate)) - 1.0).abs() < 1e-12);
        prop_assert!((row.bytes_per_s - 40.0 * row.samples_per_s).abs() < 1e-6 * row.bytes_per_s);
        prop_assert!((row.samples_per_s * row.elapsed_s.estimate / row.samples - 1.0).abs() < 1e-9);
        prop_assert!(row.elapsed_s.half_width() >= 0.02 * 2.0 * 0.999);
        // α·N of the row is the overhead without switches.
        let sampling = row.samples * alpha_ns * (1.0 + payload) * 1e-9 / 2.0;
        let without_switches = row.overhead.estimate - row.terms["switch"].estimate;
        prop_assert!((sampling / without_switches - 1.0).abs() < 1e-6);
    }

    #[test]
    fn plans_keep_the_budget_and_buy_all_that_it_pays_for(
        mechanism in mechanism(),
        alpha_ns in 200.0..50_000.0_f64,
        spread in 0.0..0.15_f64,
        budget in 0.001..0.9_f64,
        events in 1e5..1e12_f64,
    ) {
        let cost = Cost::new(about(alpha_ns, spread), 0.1);
        let program = workload(10.0, &[9.9], events, 1);
        let rule = Rule::of(mechanism, None);
        let setting = Setting::new(mechanism, "loads", 40.0);
        let request = PlanRequest {
            budget, workload: &program, cost: &cost, setting: setting.clone(), rule, resolve: None, samples_per_second: None,
        };
        let choice = match choose(&request).unwrap() {
            Outcome::Feasible(choice) => choice,
            Outcome::Infeasible { why, .. } => {
                prop_assert!(!why.is_empty());
                // IBS periods end where the counter does; a budget can ask for longer ones, or for less than a sample.
                let longest = row(&program, &cost, &setting, rule.at_most(rule.max).unwrap()).unwrap();
                prop_assert!(longest.most() > budget || budget / alpha_ns * 10e9 < 2.0);
                return Ok(());
            }
        };
        let row_ = &choice.row;
        prop_assert!(row_.most() <= budget);
        prop_assert!(rule.allows(row_.period));
        // The next shorter good period would break the budget, or is not legal.
        if let Some(shorter) = rule.at_most(row_.period - 1) {
            let within = row(&program, &cost, &setting, shorter).is_ok_and(|r| r.most() <= budget);
            prop_assert!(!within, "{shorter} would do as well as {}", row_.period);
        }
        prop_assert!(choice.buffer_bytes.is_power_of_two() && choice.buffer_bytes >= 16 * 4096);
        prop_assert!(rule.allows(choice.stoker_period) || choice.stoker_period == 0);
        // A larger budget never gives a longer period.
        let more = PlanRequest { budget: (budget * 1.5).min(0.95), ..request };
        if let Outcome::Feasible(more) = choose(&more).unwrap() {
            prop_assert!(more.row.period <= row_.period);
            prop_assert!(more.resolves_share <= choice.resolves_share);
        }
    }
}

#[test]
fn budgets_shares_and_rates_that_cannot_be_are_argument_errors() {
    let cost = Cost::new(about(20_000.0, 0.05), 0.0);
    let program = workload(2.0, &[2.0], 1e9, 1);
    let request = PlanRequest {
        budget: 0.01,
        workload: &program,
        cost: &cost,
        setting: Setting::new(Mechanism::CpuClock, "cpu-clock", 40.0),
        rule: Rule::of(Mechanism::CpuClock, None),
        resolve: None,
        samples_per_second: None,
    };
    for budget in [0.0, -0.1, 1.0, 3.0, f64::NAN] {
        assert!(matches!(choose(&PlanRequest { budget, ..request.clone() }), Err(PlanError::Budget { .. })), "{budget}");
    }
    for share in [0.0, 1.0, f64::NAN] {
        assert!(matches!(choose(&PlanRequest { resolve: Some(share), ..request.clone() }), Err(PlanError::Share { .. })));
    }
    let rate = PlanRequest { samples_per_second: Some(0.0), ..request.clone() };
    assert!(matches!(choose(&rate), Err(PlanError::Rate { .. })));

    // 1 % of 2 s at 20 µs pays for about 950 samples: 5 % of the run can be told, 0.1 % cannot.
    assert!(matches!(choose(&PlanRequest { resolve: Some(0.05), ..request.clone() }), Ok(Outcome::Feasible(_))));
    let Ok(Outcome::Infeasible { why, nearest }) = choose(&PlanRequest { resolve: Some(0.001), ..request.clone() }) else {
        panic!("0.1 % takes 15,000 samples");
    };
    assert!(why.contains("samples") && nearest.unwrap().row.overhead.high <= 0.01);
    let fast = PlanRequest { samples_per_second: Some(1e6), ..request.clone() };
    assert!(matches!(choose(&fast), Ok(Outcome::Infeasible { .. })));
    let tiny = PlanRequest { budget: 1e-9, ..request.clone() };
    assert!(matches!(choose(&tiny), Ok(Outcome::Infeasible { nearest: Some(_), .. })));

    let mut switching = cost.clone();
    switching.terms.insert("switch_per_thread".into(), about(14_000.0, 0.1));
    let mut setting = request.setting.clone();
    setting.switch_term = Some("switch_per_thread");
    let mut busy = program.clone();
    busy.switches = about(50_000.0, 0.02);
    let Ok(Outcome::Infeasible { why, .. }) = choose(&PlanRequest { cost: &switching, setting, workload: &busy, ..request })
    else {
        panic!("the switches alone cost 35 %");
    };
    assert!(why.contains("context switches alone"), "{why}");
}

#[test]
fn predictions_that_cannot_be_made_say_why() {
    let program = workload(2.0, &[2.0], 1e9, 1);
    let cost = Cost::new(about(20_000.0, 0.05), 0.0);
    let time = Setting::new(Mechanism::CpuClock, "cpu-clock", 40.0);
    assert!(matches!(row(&program, &cost, &time, 39_000), Err(PredictionError::PeriodTooShort { needed: 40_000, .. })));
    assert!(matches!(row(&program, &cost, &time, 0), Err(PredictionError::PeriodOutOfRange { period: 0 })));
    assert!(matches!(row(&program, &cost, &time, PERIOD_MAX + 1), Err(PredictionError::PeriodOutOfRange { .. })));
    let wide = Cost::new(Estimate::new(20_000.0, 15_000.0, 60_000.0), 0.0);
    assert!(matches!(row(&program, &wide, &time, 50_000), Err(PredictionError::PeriodTooShort { needed: 60_001, .. })));
    let stores = Setting::new(Mechanism::Pmi, "stores", 40.0);
    assert!(matches!(row(&program, &cost, &stores, 10_007), Err(PredictionError::NotMeasured { .. })));
    let zero = Cost::new(Estimate::exact(0.0), 0.0);
    assert!(matches!(row(&program, &zero, &time, 100_003), Err(PredictionError::NoCost { .. })));
    let mut payload = time.clone();
    payload.payload = vec!["stack"];
    assert!(matches!(row(&program, &cost, &payload, 100_003), Err(PredictionError::UnknownTerm { .. })));
}

#[test]
fn a_parallel_program_pays_what_its_busiest_cpu_pays() {
    let cost = Cost::new(Estimate::exact(20_000.0), 0.0);
    let setting = Setting::new(Mechanism::CpuClock, "cpu-clock", 40.0);
    let parallel = workload(2.0, &[1.8, 1.2], 1e9, 4);
    let found = row(&parallel, &cost, &setting, 220_000).unwrap();
    // α/(P − α) = 0.1: 0.18 s on the busiest CPU, of 2 s.
    assert!((found.overhead.estimate - 0.09).abs() < 1e-9);
    assert!((found.extra_s_per_cpu[0].estimate - 0.18).abs() < 1e-9 && (found.extra_s_per_cpu[1].estimate - 0.12).abs() < 1e-9);
    // The same CPU time in turns, on two CPUs one after the other, is all felt.
    let in_turns = workload(3.1, &[1.8, 1.2], 1e9, 4);
    assert!((row(&in_turns, &cost, &setting, 220_000).unwrap().overhead.estimate - 0.3 / 3.1).abs() < 1e-9);
}

#[test]
fn costs_by_period_are_interpolated() {
    let at = |period, ns| PeriodCost { period, samples: 1, alpha_ns: Estimate::exact(ns) };
    let cost = Cost { by_period: vec![at(50_000, 20_000.0), at(200_000, 22_000.0)], ..Cost::new(Estimate::exact(20_400.0), 0.0) };
    for (period, ns) in [(10_000, 20_000.0), (50_000, 20_000.0), (100_000, 21_000.0), (200_000, 22_000.0), (10_000_000, 22_000.0)]
    {
        assert!((cost.alpha_at_ns(period).estimate - ns).abs() < 1e-6, "{period}");
    }
    assert_eq!(Cost::new(Estimate::exact(20_400.0), 0.0).alpha_at_ns(7).estimate, 20_400.0);
}

#[test]
fn buffers_are_powers_of_two_pages_that_hold_a_second() {
    assert_eq!(buffer_bytes(0.0), 64 * 1024);
    assert_eq!(buffer_bytes(100_000.0), 128 * 1024);
    assert_eq!(buffer_bytes(1e12), 64 * 1024 * 1024);
}
