//! `perftax audit` on this machine. Needs root, or kernel.perf_event_paranoid of -1, for tracepoints.

use perftax_doc::{Audit, Verdict};

use crate::common::perftax;

fn audited(arguments: &[&str]) -> (Audit, i32) {
    let output = perftax(&[&["audit", "--quick", "--json", "-"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{}: {e}: {errors}", output.status));
    (document, output.status.code().unwrap())
}

/// What is counted is exact, every experiment, on this machine; the others are asked of all of them (below).
#[test]
fn what_is_counted_passes() {
    let all = ["count", "events", "mode", "address"];
    let (document, code) = audited(&["--runs", "1", "--only", &all.join(",")]);
    let names: Vec<&str> = document.experiments.iter().map(|experiment| experiment.name.as_str()).collect();
    assert_eq!(names, all);
    let failed: Vec<_> = document.failed().collect();
    assert!(failed.is_empty() && code == 0, "{code}: {failed:#?}");
    for experiment in &document.experiments {
        assert!(experiment.rows.iter().any(|row| row.verdict == Verdict::Passed), "{experiment:#?}");
    }
}

#[test]
#[ignore = "all experiments take more than a minute: scripts/acceptance long-tests"]
fn this_machine_passes() {
    let (document, code) = audited(&[]);
    let names: Vec<&str> = document.experiments.iter().map(|experiment| experiment.name.as_str()).collect();
    let all = [
        "count",
        "interval",
        "misses",
        "stability",
        "threads",
        "bias",
        "overhead",
        "memory",
        "events",
        "mode",
        "address",
        "generic",
    ];
    assert_eq!(names, all);
    // What takes time depends on who else uses the machine; that it is measured is what is asked here.
    let is_timed = |name: &str| name == "overhead" || name == "memory";
    // Misses take a PMU.
    let may_be_missing = |name: &str| is_timed(name) || name == "misses";
    let failed: Vec<_> = document.failed().filter(|(experiment, _)| !is_timed(&experiment.name)).map(|(_, row)| row).collect();
    let is_negative = document.failed().next().is_some();
    assert!(failed.is_empty() && code == if is_negative { 4 } else { 0 }, "{code}: {failed:#?}");
    for experiment in &document.experiments {
        let passed = experiment.rows.iter().filter(|row| row.verdict == Verdict::Passed).count();
        assert!(passed > 0 || may_be_missing(&experiment.name) && !experiment.rows.is_empty(), "{experiment:#?}");
    }
    // The same loop, biased at one period and fair at its neighbour, and said so in words.
    let bias = &document.experiments.iter().find(|experiment| experiment.name == "bias").unwrap().rows;
    assert_eq!((bias[0].found.estimate, bias[1].found.estimate.round()), (100.0, 25.0));
    assert!(bias[0].remark.as_ref().unwrap().contains("multiple"), "{bias:?}");
    // Every figure of the study has a verdict.
    for figure in (3..=12).map(|n| format!("figure {n}")).chain(["table III", "figure 14", "execution mode"].map(String::from)) {
        let verdict = document.comparisons.iter().find(|row| row.figure == figure);
        assert!(verdict.is_some_and(|row| !row.because.is_empty()), "{figure}: {:#?}", document.comparisons);
    }
}

/// Each planted fault is found by the experiment that is there for it.
fn is_found(fault: &str, experiment: &str) {
    let (document, code) = audited(&["--runs", "1", "--only", experiment, "--plant", fault]);
    let failed: Vec<&str> = document.failed().map(|(_, row)| row.case.as_str()).collect();
    assert!(!failed.is_empty() && code == 4, "{fault}: {code}, {document:#?}");
    assert!(document.origin.warnings.iter().any(|warning| warning.to_string().contains("planted")));
}

#[test]
fn planted_faults_are_found() {
    for (fault, experiment) in [("skid", "address"), ("mode", "mode"), ("address", "address"), ("alias", "bias")] {
        is_found(fault, experiment);
    }
}

/// Those of the intervals, which takes twenty seconds for each.
#[test]
#[ignore = "takes most of a minute: scripts/acceptance long-tests"]
fn planted_faults_of_intervals_are_found() {
    for fault in ["drop", "period"] {
        is_found(fault, "interval");
    }
}

#[test]
fn it_goes_on_where_it_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let state = state.to_str().unwrap();
    let (first, _) = audited(&["--only", "count", "--resume", state]);
    let output = perftax(&["audit", "--quick", "--only", "count,mode", "--resume", state, "--json", "-"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("mode: ") && !said.contains("count: "), "{said}");
    let second: Audit = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((second.experiments.len(), &second.experiments[0]), (2, &first.experiments[0]));
    // Of another kind of run nothing is taken over.
    let output = perftax(&["audit", "--only", "count", "--resume", state]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("--resume") && said.contains("rm "), "{said}");
}

#[test]
fn what_there_is_not_is_said() {
    let output = perftax(&["audit", "--only", "count,nothing"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("nothing") && said.contains("stability"), "{said}");
    let output = perftax(&["audit", "--source", "page,nothing"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("nothing") && said.contains("page-faults"), "{said}");
}
