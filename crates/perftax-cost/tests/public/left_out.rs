//! Samples that a filter drops: what they cost beside those that it keeps.

use std::collections::BTreeMap;

use perftax_cost::prediction::{CACHED_WORK_TERM, Cost, OWN_TERM, SAMPLE_TERM, Setting, WIDE_CODE_TERM, row};
use perftax_doc::WorkloadProfile;
use perftax_doc::code::CodeFootprint;
use perftax_doc::left_out::EXCLUDED_KERNEL_TERM;
use perftax_doc::observation::Run;
use perftax_doc::{Estimate, LeftOut, Mechanism};

/// A second of CPU time, so much of it in the kernel.
fn workload(system_s: f64) -> WorkloadProfile {
    let run: Run = serde_json::from_value(serde_json::json!({
        "round": 0, "period": 0, "arm": "off", "elapsed_s": 1.0, "user_s": 1.0 - system_s, "system_s": system_s, "samples": 0,
        "samples_per_cpu": [], "cpu_s_per_cpu": [], "expected_samples": 0.0, "lost": 0, "throttled": 0, "voluntary_switches": 0,
        "involuntary_switches": 0, "minor_faults": 0, "major_faults": 0, "max_rss_bytes": 0, "steal_s": 0.0, "counts": {}, "yardsticks": [],
        "adjusted_s": null, "spoiled": null
    }))
    .unwrap();
    WorkloadProfile {
        command: vec!["true".into()],
        pid: None,
        elapsed_s: Estimate::exact(1.0),
        cpu_s: Estimate::exact(1.0),
        cpu_s_per_cpu: vec![Estimate::exact(1.0)],
        threads: 1,
        tasks: None,
        code: None,
        switches: Estimate::exact(0.0),
        faults: Estimate::exact(0.0),
        max_rss_bytes: 0,
        counts: BTreeMap::new(),
        variation: 0.0,
        runs: vec![run],
    }
}

fn cost(excluded_ns: Option<f64>) -> Cost {
    let mut cost = Cost::new(Estimate::exact(10_000.0), 0.0);
    cost.terms.extend(excluded_ns.map(|ns| (EXCLUDED_KERNEL_TERM.to_string(), Estimate::exact(ns))));
    cost
}

fn setting(left_out: LeftOut) -> Setting<'static> {
    Setting { left_out, ..Setting::new(Mechanism::CpuClock, "cpu-clock:u", 40.0) }
}

/// Each mode's time is driven by what an interrupt takes there: C·α/(P − α), and the samples are those of the mode that is kept.
#[test]
fn each_mode_has_its_own_equation() {
    // At P = 2 α, half of the time in the kernel, whose interrupts take a fifth: 1/2 · 1 + 1/2 · 1/9.
    let found = row(&workload(0.5), &cost(Some(2000.0)), &setting(LeftOut::KernelMode), 20_000).unwrap();
    assert!((found.overhead.estimate - (0.5 + 0.5 / 9.0)).abs() < 1e-9, "{found:#?}");
    assert!((found.samples - 0.5e9 / 10_000.0).abs() < 1e-6, "{found:#?}");
    assert!(
        (found.terms[SAMPLE_TERM].estimate - 0.5).abs() < 1e-9
            && (found.terms[EXCLUDED_KERNEL_TERM].estimate - 0.5 / 9.0).abs() < 1e-9
    );
}

/// What a program itself loses to a sample is a term of its own with an interval of its own; without a calibration of it nothing is said.
#[test]
fn a_programs_own_loss_widens_and_is_a_term_of_its_own() {
    let mut cost = cost(None);
    let alpha_ns = Estimate::exact(10_000.0);
    assert_eq!(cost.own_ns(&alpha_ns, 350_000.0, None), None);
    let predicted = |cost: &Cost| row(&workload(0.0), cost, &setting(LeftOut::Nothing), 350_000).unwrap();
    let alone = predicted(&cost);
    cost.terms.insert(CACHED_WORK_TERM.into(), Estimate::new(30_000.0, 20_000.0, 40_000.0));
    let own_ns = cost.own_ns(&alpha_ns, 350_000.0, None).unwrap();
    // 36 % of the 20 µs to lose, at most 86 % of them, of which there may be 10 more; at least nothing but for two hundredths of α.
    let high_ns = 7200.0 + 10_000_f64.hypot(8600.0);
    assert!(
        (own_ns.estimate - 7200.0).abs() < 1e-6 && (own_ns.high - high_ns).abs() < 1e-6 && own_ns.low == -200.0,
        "{own_ns:?}"
    );
    // C·α/(P − α), at α and at what is added to it.
    let found = predicted(&cost);
    let extra = |ns: f64| ns / (350_000.0 - ns);
    let is_near = |found: f64, ns: f64| (found - extra(ns)).abs() < 1e-9;
    let overhead = found.overhead;
    assert!(
        is_near(overhead.estimate, 17_200.0) && is_near(overhead.high, 10_000.0 + high_ns) && is_near(overhead.low, 9800.0),
        "{found:#?}"
    );
    assert!((found.terms[OWN_TERM].estimate - extra(17_200.0) * 7.2 / 17.2).abs() < 1e-9, "{found:#?}");
    assert!(alone.overhead.half_width() < 1e-9 && !alone.terms.contains_key(OWN_TERM), "{alone:#?}");
    // Sampled more often it has less to lose, and never pays less for more.
    let by_gap: Vec<Estimate> =
        [20e3, 67e3, 350e3, 1e6, 3e6, 9e6].map(|gap_ns| cost.own_ns(&alpha_ns, gap_ns, None).unwrap()).to_vec();
    assert!(by_gap.windows(2).all(|w| w[0].estimate <= w[1].estimate && w[0].high <= w[1].high), "{by_gap:?}");
    // Work that pays no more than α is not known to better than two hundredths.
    cost.terms.insert(CACHED_WORK_TERM.into(), Estimate::exact(9000.0));
    assert_eq!(cost.own_ns(&alpha_ns, 1e6, None), Some(Estimate::new(0.0, -200.0, 200.0)));
}

/// Wide code loses more, in proportion to the pages that it goes through, and to how much of it was gone through again.
#[test]
fn a_program_s_own_loss_grows_with_its_code() {
    let mut cost = cost(None);
    let alpha_ns = Estimate::exact(10_000.0);
    cost.terms.insert(WIDE_CODE_TERM.into(), Estimate::exact(26_000.0));
    assert_eq!(cost.own_ns(&alpha_ns, 200_000.0, Some(&Estimate::exact(75.0))), None, "of how many pages nobody said");
    cost.wide_code_pages = Some(150.0);
    let of = |pages: f64, gap_ns: f64| cost.own_ns(&alpha_ns, gap_ns, Some(&Estimate::exact(pages))).unwrap();
    let half = of(75.0, 200_000.0);
    assert!((half.estimate - 8_000.0).abs() < 1e-6 && (half.high - 12_000.0).abs() < 1e-6 && half.low > 5_000.0, "{half:?}");
    // No more than that work, however wide; more, the longer the gap.
    assert_eq!(of(1500.0, 200_000.0), of(150.0, 200_000.0));
    let by_gap = [20e3, 71e3, 125e3, 250e3, 10e6].map(|gap_ns| of(150.0, gap_ns).estimate);
    assert!(by_gap.windows(2).all(|gaps| gaps[0] < gaps[1]) && by_gap[4] < 1.15 * 16_000.0, "{by_gap:?}");
    // Of code that nobody looked at, all is possible.
    let unseen = cost.own_ns(&alpha_ns, 200_000.0, None).unwrap();
    assert!(unseen.low <= 0.0 && unseen.high >= 16_000.0 && unseen.contains(of(2.0, 200_000.0).estimate), "{unseen:?}");
    // A prediction takes what the program's profile has.
    let predicted = |pages: Option<f64>| {
        let code = pages.map(|pages| CodeFootprint {
            pages: Estimate::exact(pages),
            is_of_user_mode: false,
            period_ns: 1_000_000,
            samples: vec![vec![1]],
        });
        row(&WorkloadProfile { code, ..workload(0.0) }, &cost, &setting(LeftOut::Nothing), 200_000).unwrap().overhead
    };
    assert!((predicted(Some(75.0)).estimate - 18_000.0 / 182_000.0).abs() < 1e-9);
    assert!(predicted(None).half_width() > predicted(Some(75.0)).half_width());
}

/// What is not known is not free: a dropped sample then costs a whole one, and all that is missing is the sample.
#[test]
fn without_a_price_of_its_own_a_dropped_sample_costs_a_whole_one() {
    let whole = row(&workload(0.75), &cost(None), &setting(LeftOut::Nothing), 200_000).unwrap();
    let filtered = row(&workload(0.75), &cost(None), &setting(LeftOut::KernelMode), 200_000).unwrap();
    assert!((whole.overhead.estimate - filtered.overhead.estimate).abs() < 1e-12);
    assert!((filtered.samples / whole.samples - 0.25).abs() < 1e-12);
}
