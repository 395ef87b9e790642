use perftax_doc::{AuditedExperiment, MachineId, Origin, SCHEMA};

use super::*;

fn origin() -> Origin {
    Origin {
        schema: SCHEMA,
        kind: "audit".into(),
        perftax: String::new(),
        machine: MachineId::default(),
        kernel: String::new(),
        taken_at_s: 0.0,
        command: Vec::new(),
        warnings: Vec::new(),
    }
}

fn audit(experiments: Vec<(&str, Vec<AuditRow>)>) -> Audit {
    let experiment = |(name, rows): (&str, Vec<AuditRow>)| AuditedExperiment {
        name: name.into(),
        question: String::new(),
        method: String::new(),
        figures: String::new(),
        rows,
        elapsed_s: 0.0,
    };
    let experiments = experiments.into_iter().map(experiment).collect();
    Audit { origin: origin(), is_quick: true, experiments, comparisons: Vec::new() }
}

fn compared(experiments: Vec<(&str, Vec<AuditRow>)>) -> Vec<Comparison> {
    compare(&Pes::shipped().unwrap(), &audit(experiments))
}

fn samples(case: &str, expected: f64, found: f64) -> AuditRow {
    AuditRow::of(case, "samples", expected, &[found, found, found], 0.0)
}

/// The one row of a figure, a mechanism's name and a place.
fn found<'a>(all: &'a [Comparison], figure: &str, asks: &str, place: MeasuredOn) -> &'a Comparison {
    let fits = |row: &&Comparison| row.figure == figure && row.asks.contains(asks) && row.place == place.text();
    let rows: Vec<&Comparison> = all.iter().filter(fits).collect();
    assert_eq!(rows.len(), 1, "{figure} {asks} {place:?}: {all:#?}");
    rows[0]
}

fn software() -> Vec<(&'static str, Vec<AuditRow>)> {
    let missing = || AuditRow::impossible("interrupt instructions", "cannot sample interrupt instructions: no core PMU");
    let row = |case: &str| vec![samples(case, 200.0, 200.0), missing()];
    vec![
        ("count", row("page-faults")),
        ("interval", row("page-faults every 100 (round)")),
        ("stability", row("page-faults every 201, 15 runs")),
        ("threads", row("page-faults every 201, 2 at once")),
        (
            "bias",
            vec![
                AuditRow::of("page-faults every 100, four stores in turn", "% of the samples", 100.0, &[100.0], 0.01),
                AuditRow::of("page-faults every 101, four stores in turn", "% of the samples", 25.0, &[25.0], 0.01),
            ],
        ),
        ("overhead", vec![AuditRow::impossible("perl", "cannot time perl: not installed")]),
        ("memory", vec![samples("16 rings of 512 pages, free memory", 32_832.0, 32_832.0)]),
        (
            "events",
            vec![
                samples("page-faults every 401, 16 at once", 49.0, 49.0),
                AuditRow::of("mem:VARIABLE/8:w every 21, 5 at once", "events opened", 0.0, &[0.0], 0.0),
            ],
        ),
        ("mode", row("page-faults:u every 101, touched by the program")),
        ("address", row("page-faults every 97: the address")),
    ]
}

#[test]
fn every_figure_has_a_verdict_without_a_pmu() {
    let all = compared(software());
    for figure in [
        "figure 3",
        "figure 4",
        "figure 5",
        "figure 6",
        "figure 7",
        "figure 8",
        "figure 9",
        "figure 10",
        "figure 11",
        "figure 12",
    ] {
        assert!(all.iter().any(|row| row.figure == figure), "{figure}");
    }
    for figure in ["table III", "figure 14", "execution mode"] {
        assert!(all.iter().any(|row| row.figure == figure), "{figure}");
    }
    for row in &all {
        let words = [&row.figure, &row.asks, &row.published, &row.ours, &row.place, &row.because];
        assert!(words.iter().all(|words| !words.is_empty() && !words.contains("NaN") && !words.contains("inf ")), "{row:#?}");
        assert!(
            row.place != MeasuredOn::Here.text() || row.verdict == ComparisonVerdict::NotHere,
            "no mechanism of the study is here: {row:#?}"
        );
    }
    let pebs = found(&all, "figure 3", "PEBS", MeasuredOn::Here);
    assert!(pebs.because == "no core PMU" && pebs.ours.contains("page-faults"), "{pebs:#?}");
    let bias = found(&all, "figure 7", "", MeasuredOn::Here);
    assert!(bias.ours.contains("100.0 %") && bias.ours.contains("25.0 %"), "{bias:#?}");
    assert!(found(&all, "table III", "", MeasuredOn::Here).ours.contains("5 watchpoints"));
}

/// The software PMU against the study: by the rule, within the runs, and where the study disagrees with itself.
#[test]
fn the_software_pmu_is_judged_by_its_numbers() {
    let all = compared(vec![("interval", Vec::new()), ("events", Vec::new())]);
    let verdict = |figure, asks| found(&all, figure, asks, MeasuredOn::SoftwarePmu).verdict;
    assert_eq!(verdict("figure 3", "PEBS"), ComparisonVerdict::Reproduced);
    assert_eq!(verdict("figure 3", "IBS op"), ComparisonVerdict::Reproduced);
    assert_eq!(verdict("figure 3", "IBS fetch"), ComparisonVerdict::Reproduced);
    assert_eq!(verdict("figure 4", "PEBS"), ComparisonVerdict::Reproduced);
    assert_eq!(verdict("figure 4", "IBS op"), ComparisonVerdict::Differs);
    assert_eq!(verdict("figure 6", "PEBS"), ComparisonVerdict::Reproduced);
    assert_eq!(verdict("figure 6", "IBS op"), ComparisonVerdict::Differs);
    assert!(found(&all, "figure 3", "PEBS", MeasuredOn::SoftwarePmu).because.contains("period + 1"));
    for asks in ["IBS op", "IBS fetch"] {
        assert!(
            found(&all, "figure 3", asks, MeasuredOn::SoftwarePmu).because.contains("fitted"),
            "what was fitted is said to be"
        );
    }
    assert!(found(&all, "figure 4", "IBS op", MeasuredOn::SoftwarePmu).because.contains("-3.86 to +18.7 %"));
    let rotation = found(&all, "figure 12", "PEBS", MeasuredOn::Rotation);
    assert_eq!(
        (rotation.verdict, rotation.ours.as_str()),
        (ComparisonVerdict::Reproduced, "100.0 % of 4, 80.0 % of 5, 66.7 % of 6")
    );
    // What was not asked has no row.
    assert!(!all.iter().any(|row| row.figure == "figure 5" || row.figure == "figure 14"), "{all:#?}");
}

#[test]
fn rows_by_hardware_are_judged() {
    let interval = |rows| compared(vec![("interval", rows)]);
    // 10^9 instructions every 100,003: one in 100,004 is 9999.6.
    let ruled = interval(vec![samples("pebs instructions every 100003 (prime)", 9999.0, 9999.0)]);
    assert_eq!(found(&ruled, "figure 3", "PEBS", MeasuredOn::Here).verdict, ComparisonVerdict::Reproduced);
    assert!(found(&ruled, "figure 4", "PEBS", MeasuredOn::Here).because.contains("misses"));
    // Of loads alone: figure 6 asks about the interval, figure 4 about misses.
    let loads = interval(vec![samples("pebs loads every 1000 (round)", 9990.0, 9990.0)]);
    let by_interval = found(&loads, "figure 6", "PEBS", MeasuredOn::Here);
    assert!(by_interval.verdict == ComparisonVerdict::Reproduced && by_interval.ours.contains("loads"), "{by_interval:#?}");
    assert!(found(&loads, "figure 3", "PEBS", MeasuredOn::Here).because.contains("instructions"));
    let misses = interval(vec![samples("pebs first-level misses every 100000 (round)", 9999.0, 9999.0)]);
    assert_eq!(found(&misses, "figure 4", "PEBS", MeasuredOn::Here).verdict, ComparisonVerdict::Reproduced);
    // Misses that are named by how rare they are among instructions are no instructions.
    let rare = "pebs first-level misses every 1000, one in 20 instructions";
    let both = interval(vec![samples("pebs instructions every 100003 (prime)", 9999.0, 9999.0), samples(rare, 9990.0, 5000.0)]);
    assert_eq!(found(&both, "figure 3", "PEBS", MeasuredOn::Here).verdict, ComparisonVerdict::Reproduced);
    let lost = interval(vec![samples("pebs instructions every 100003 (prime)", 9999.0, 9900.0)]);
    let lost = found(&lost, "figure 3", "PEBS", MeasuredOn::Here);
    assert!(lost.verdict == ComparisonVerdict::Differs && lost.because.contains("points outside"), "{lost:#?}");
    for (found_samples, verdict) in [(10_830.0, ComparisonVerdict::Reproduced), (10_000.0, ComparisonVerdict::Differs)] {
        let all = interval(vec![samples("ibs-op operations every 100000, with a signal", 10_000.0, found_samples)]);
        assert_eq!(found(&all, "figure 3", "IBS op", MeasuredOn::Here).verdict, verdict, "{found_samples}");
    }
}

#[test]
fn sharing_by_hardware_is_judged() {
    let events = |share: f64| {
        let rows = [(5, share), (6, share * 5.0 / 6.0)].map(|(n, share)| {
            AuditRow::of(
                format!("pebs branches every 100003, {n} on 4 counters: unscaled"),
                "% of the samples",
                share,
                &[share],
                0.02,
            )
        });
        found(&compared(vec![("events", rows.to_vec())]), "figure 12", "PEBS", MeasuredOn::Here).clone()
    };
    assert_eq!(events(80.4).verdict, ComparisonVerdict::Reproduced);
    assert_eq!(events(100.0).verdict, ComparisonVerdict::Differs);
    let few = compared(vec![("events", vec![samples("pebs loads every 1009, 4 at once", 100.0, 100.0)])]);
    let few = found(&few, "figure 12", "PEBS", MeasuredOn::Here);
    assert!(few.verdict == ComparisonVerdict::NotHere && few.because.contains("more events"), "{few:#?}");

    let bias = |share: f64| {
        let row = AuditRow::of("pebs loads every 1000, four loads in turn", "% of the samples", 25.0, &[share], 0.01);
        found(&compared(vec![("bias", vec![row])]), "figure 7", "", MeasuredOn::Here).verdict
    };
    assert_eq!((bias(40.0), bias(25.0)), (ComparisonVerdict::Reproduced, ComparisonVerdict::Differs));

    let mode = |came: f64| {
        let row = samples("pebs locked loads:u every 10000, done by the kernel", 0.0, came);
        found(&compared(vec![("mode", vec![row])]), "execution mode", "", MeasuredOn::Here).verdict
    };
    assert_eq!((mode(0.0), mode(3.0)), (ComparisonVerdict::Reproduced, ComparisonVerdict::Differs));
}

#[test]
fn overhead_is_judged_by_the_cost_of_a_sample() {
    let cost = |us: f64| {
        let rows = vec![
            AuditRow::of("pebs instructions every 100003", "µs a sample", us, &[us - 0.01, us, us + 0.01], 1.0),
            AuditRow::of("mem:VARIABLE/8:w every 1", "µs a sample", 12.0, &[12.0], 1.0),
            AuditRow::of("mem:VARIABLE/8:w every 1, with a signal", "µs a sample", 60.0, &[60.0], 1.0),
        ];
        compared(vec![("overhead", rows)])
    };
    let near = cost(2.49);
    assert_eq!(found(&near, "figure 8", "instructions", MeasuredOn::Here).verdict, ComparisonVerdict::Reproduced);
    assert!(found(&near, "figure 8", "misses", MeasuredOn::Here).ours.contains("5.0 times"));
    assert_eq!(found(&cost(0.9), "figure 8", "instructions", MeasuredOn::Here).verdict, ComparisonVerdict::Differs);
}

#[test]
fn the_rows_come_in_the_studys_order() {
    let all = compared(software());
    let mut figures: Vec<&str> =
        all.iter().map(|row| row.figure.as_str()).filter(|figure| *figure != "figures 3, 4, 6").collect();
    figures.dedup();
    let numbers = (3..=12).map(|n| format!("figure {n}")).collect::<Vec<_>>();
    let (mut expected, rest) =
        (numbers.iter().map(String::as_str).collect::<Vec<_>>(), ["table III", "figure 14", "execution mode"]);
    expected.extend(rest);
    assert_eq!(figures, expected);
}

#[test]
fn a_row_is_called_by_its_first_word_alone() {
    for (case, word) in
        [("perl, by signal", "perl"), ("page-faults: counted", "page-faults"), ("faults every 3", "faults"), ("", "")]
    {
        assert_eq!(first_word(case), word);
    }
}
