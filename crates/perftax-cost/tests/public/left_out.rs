//! Samples that a filter drops: what they cost beside those that it keeps.

use std::collections::BTreeMap;

use perftax_cost::document::WorkloadProfile;
use perftax_cost::observation::Run;
use perftax_cost::prediction::{Cost, EXCLUDED_TERM, SAMPLE_TERM, Setting, row};
use perftax_cost::{Estimate, LeftOut, Mechanism};

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
        elapsed_s: Estimate::exact(1.0),
        cpu_s: Estimate::exact(1.0),
        cpu_s_per_cpu: vec![Estimate::exact(1.0)],
        threads: 1,
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
    cost.terms.extend(excluded_ns.map(|ns| (EXCLUDED_TERM.to_string(), Estimate::exact(ns))));
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
        (found.terms[SAMPLE_TERM].estimate - 0.5).abs() < 1e-9 && (found.terms[EXCLUDED_TERM].estimate - 0.5 / 9.0).abs() < 1e-9
    );
}

/// What is not known is not free: a dropped sample then costs a whole one, and all that is missing is the sample.
#[test]
fn without_a_price_of_its_own_a_dropped_sample_costs_a_whole_one() {
    let whole = row(&workload(0.75), &cost(None), &setting(LeftOut::Nothing), 200_000).unwrap();
    let filtered = row(&workload(0.75), &cost(None), &setting(LeftOut::KernelMode), 200_000).unwrap();
    assert!((whole.overhead.estimate - filtered.overhead.estimate).abs() < 1e-12);
    assert!((filtered.samples / whole.samples - 0.25).abs() < 1e-12);
}
