//! An audit with a row of each kind.

use perftax_doc::{Audit, AuditRow, AuditedExperiment, Comparison, ComparisonVerdict};

use super::origin;

/// One experiment that passed, one that failed, one with what this machine lacks; a comparison of each verdict.
pub fn audit() -> Audit {
    let experiment = |name: &str, question: &str, method: &str, figures: &str, rows: Vec<AuditRow>| AuditedExperiment {
        name: name.into(),
        question: question.into(),
        method: method.into(),
        figures: figures.into(),
        rows,
        elapsed_s: 0.8,
    };
    let samples = |case: &str, expected: f64, runs: &[f64]| AuditRow::of(case, "samples", expected, runs, 0.0);
    Audit {
        origin: origin("audit", &["perftax", "audit", "--quick"]),
        is_quick: true,
        experiments: vec![
            experiment(
                "interval",
                "does each period bring one sample, at any period?",
                "work of N events sampled every R: N/R samples, rounded down, must arrive",
                "figures 3, 4, 6 and table III",
                vec![
                    samples("page-faults every 100 (round)", 1000.0, &[1000.0, 1000.0, 1000.0]),
                    samples("page-faults every 101 (prime)", 990.0, &[990.0, 988.0, 990.0]).losing(2, 0),
                    samples("raw_syscalls:sys_enter every 1000 (round)", 100.0, &[99.0, 99.0, 99.0]),
                    AuditRow::impossible("uprobe:FUNCTION", "cannot sample a uprobe: the kernel has none"),
                ],
            ),
            experiment(
                "bias",
                "is each of four equally frequent instructions sampled equally often?",
                "a loop whose four stores each fault once a turn, sampled at a period that four divides and at its neighbour",
                "figures 7 and 8",
                vec![
                    AuditRow::of("page-faults every 100", "% of the samples", 100.0, &[100.0, 100.0], 0.01)
                        .remarking("100 is a multiple of the loop's four faults: 1 of 4 stores is seen"),
                    AuditRow::of("page-faults every 101", "% of the samples", 25.0, &[25.02, 25.01], 0.01),
                ],
            ),
            experiment(
                "mode",
                "is what the kernel does for a program told apart from what the program does?",
                "pages touched by the program, and pages that the kernel fills for it",
                "the study's execution mode",
                vec![
                    samples("page-faults:u, touched by the program", 198.0, &[198.0, 198.0]),
                    samples("page-faults:k, touched by the program", 0.0, &[0.0, 3.0]),
                ],
            ),
        ],
        comparisons: comparisons(),
    }
}

fn comparisons() -> Vec<Comparison> {
    let comparison =
        |figure: &str, asks: &str, published: &str, (ours, place): (&str, &str), verdict, because: &str| Comparison {
            figure: figure.into(),
            asks: asks.into(),
            published: published.into(),
            ours: ours.into(),
            place: place.into(),
            verdict,
            because: because.into(),
        };
    let here = "this machine";
    vec![
        comparison(
            "figure 3",
            "accuracy, PEBS of instructions, every 100,000",
            "+0.020 to +0.024 % on Cascade Lake (5 ratios of 5 runs)",
            ("instructions: -0.001 % (5 cells, every 100,000)", "software PMU"),
            ComparisonVerdict::Reproduced,
            "one sample in period + 1 events, to within one here",
        ),
        comparison(
            "figure 3",
            "accuracy, IBS op of operations, every 100,000",
            "+7.82 to +8.68 % on Zen 2 (5 ratios of 5 runs)",
            ("nothing", here),
            ComparisonVerdict::NotHere,
            "the kernel exposes no core PMU",
        ),
        comparison(
            "figure 12",
            "samples of several events at once, PEBS",
            "79.9 to 80.0 % of 5 on Cascade Lake",
            ("100.0 % of 5 on 8 counters", here),
            ComparisonVerdict::Differs,
            "there are counters for eight events here",
        ),
    ]
}
