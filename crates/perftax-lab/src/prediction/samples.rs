//! A program for tests.

use perftax_doc::{Estimate, WorkloadProfile};

/// One second on one CPU, with these counts.
pub(super) fn workload(counts: &[(&str, f64)]) -> WorkloadProfile {
    let one = Estimate::exact(1.0);
    WorkloadProfile {
        command: Vec::new(),
        pid: None,
        elapsed_s: one,
        cpu_s: one,
        cpu_s_per_cpu: vec![one],
        threads: 1,
        tasks: None,
        code: None,
        switches: one,
        faults: one,
        max_rss_bytes: 0,
        counts: counts.iter().map(|(name, count)| (name.to_string(), Estimate::exact(*count))).collect(),
        variation: 0.0,
        runs: Vec::new(),
    }
}
