//! A recording that lint finds something in.

use perftax_doc::{Lint, LintCheck, LintUnit, LintVerdict};

/// Samples that were lost, few left, and what nobody knows.
pub fn lint() -> Lint {
    let check = |name: &str, verdict, measured, thresholds: (Option<f64>, Option<f64>), texts: [&str; 4]| LintCheck {
        check: name.into(),
        verdict,
        measures: texts[0].into(),
        unit: if thresholds.1 == Some(1.0) { LintUnit::Count } else { LintUnit::Share },
        measured,
        warning_from: thresholds.0,
        error_from: thresholds.1,
        evidence: texts[1].into(),
        effect: texts[2].into(),
        remedy: texts[3].into(),
    };
    let checks = vec![
        check(
            "lost",
            LintVerdict::Error,
            Some(0.44),
            (Some(0.001), Some(0.05)),
            [
                "samples lost, of all samples",
                "4,310 of 13,722 samples were lost (31 %, 44 % on CPU 1), nine of ten from 0.2 ms to 1.180 s after the first sample",
                "what ran then and there has too small a share, by as much as was lost",
                "larger rings (perf record -m 1024), or fewer samples (-F, -c)",
            ],
        ),
        check(
            "few-samples",
            LintVerdict::Warning,
            Some(0.12),
            (Some(0.1), None),
            [
                "half-width of the 95 % interval of a share of one half",
                "67 samples of \u{1b}[31mcpu-clock: a share of 50 % is known to ± 12 points",
                "which of two functions takes longer is chance unless they differ by more than that",
                "a longer run",
            ],
        ),
        check(
            "own-cost",
            LintVerdict::Unknown,
            None,
            (Some(0.05), Some(0.5)),
            ["time that sampling took, of the run", "no price", "", ""],
        ),
        check(
            "cut-off",
            LintVerdict::Passed,
            Some(0.0),
            (None, Some(1.0)),
            ["places where it ends early", "read to its end", "", ""],
        ),
        check("idle", LintVerdict::Off, None, (Some(0.9), Some(0.99)), ["time without CPU, of the run", "", "", ""]),
    ];
    Lint {
        origin: super::origin("lint", &["perftax", "lint", "perf.data"]),
        recording: "perf.data".into(),
        recorded_command: ["perf", "record", "-g", "--", "./threads"].map(String::from).to_vec(),
        recorded_on: "build-7, Linux 6.18.0".into(),
        recorded_by: "6.1.140".into(),
        samples: 9_412,
        span_s: Some(1.21),
        verdict: LintVerdict::Error,
        checks,
    }
}
