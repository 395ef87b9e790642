//! Generic events in the emulated machine: right ones pass, and one that a kernel's table has wrong is found and named. Needs the machine
//! and perftax built, and the headers of the machine's kernel (`make machine kmod`); `make test` sees to that.

use crate::common;
use std::path::Path;

use perftax_doc::{Audit, AuditRow, Verdict};
use perftax_vm::Generation;

/// The experiment's rows on a processor, and the exit code, after a command of the shell's.
fn rows(generation: Generation, share: Option<&Path>, before: &str) -> (Vec<AuditRow>, i32) {
    let script = format!("{before} perftax audit --quick --runs 1 --only generic --json -");
    let (output, errors, finished) = common::boot_with(&["sh".into(), "-c".into(), script], &common::perftax(), |guest| {
        guest.processor.generation = generation;
        guest.share = share.map(Path::to_path_buf);
    });
    let audit: Audit = serde_json::from_str(&output).unwrap_or_else(|e| panic!("{e}: {output}{errors}"));
    (audit.experiments.into_iter().flat_map(|experiment| experiment.rows).collect(), finished.code)
}

fn row<'a>(rows: &'a [AuditRow], case: &str) -> &'a AuditRow {
    rows.iter().find(|row| row.case == case).unwrap_or_else(|| panic!("no {case} in {rows:#?}"))
}

fn failed(rows: &[AuditRow]) -> Vec<&str> {
    rows.iter().filter(|row| row.verdict == Verdict::Failed).map(|row| row.case.as_str()).collect()
}

#[test]
fn generic_events_mean_what_their_names_say() {
    let (rows, code) = rows(Generation::Skylake, None, "");
    assert_eq!((failed(&rows), code), (vec![], 0), "{rows:#?}");
    for (case, expected) in [
        ("instructions:u, the mix", 440_000.0),
        ("branches:u, the mix", 160_000.0),
        ("branches:u, four loads", 40_000.0),
        ("L1-dcache-loads:u, the mix", 200_000.0),
        ("L1-dcache-stores:u, the mix", 160_000.0),
        ("dTLB-loads:u, the mix", 200_000.0),
        ("branch-loads:u, the mix", 160_000.0),
        ("cycles:u, a chain of multiplications", 880_000.0),
        ("page-faults:u, 5000 pages touched", 5000.0),
        ("context-switches, 200 sleeps", 200.0),
    ] {
        let row = row(&rows, case);
        assert_eq!((row.expected, row.found.low, row.found.high), (expected, expected, expected), "{row:#?}");
    }
    // Half of the tosses of a coin are foretold wrongly, whatever the predictor, and hardly a branch that always goes the same way.
    let coin = row(&rows, "branch-misses:u, a coin");
    assert!((99_000.0..101_000.0).contains(&coin.found.estimate) && coin.verdict == Verdict::Passed, "{coin:#?}");
    assert!(row(&rows, "branch-misses:u, the mix").found.high < 20.0);
    // What nobody knows, and what is not there, are two things; both are said. Without caches the last level's events are not there.
    assert!(row(&rows, "bpf-output").has_no_truth());
    let missing = row(&rows, "cache-references, cache-misses");
    assert!(!missing.has_no_truth() && missing.verdict == Verdict::Impossible, "{missing:#?}");
    assert!(missing.remark.as_ref().unwrap().contains("no such event"), "{missing:#?}");
}

/// AMD's table had `branches` at C4h, taken branches, until Linux 2.6.35: the same entry, put into the driver of the guest's kernel.
#[test]
fn the_branches_of_old_amd_kernels_are_found() {
    let folder = tempfile::tempdir().unwrap();
    common::compile_module(folder.path(), "wrong_branches");
    let (wrong, code) = rows(Generation::Zen2, Some(folder.path()), "insmod wrong_branches.ko || exit 9;");
    // LsDcAccesses, which AMD's table has for `L1-dcache-loads`, are loads and stores (PPR for family 17h models 31h, PMCx040).
    let always = "L1-dcache-loads:u, the mix";
    assert_eq!((failed(&wrong), code), (vec!["branches:u, the mix", always], 4), "{wrong:#?}");
    let loads = row(&wrong, always);
    assert_eq!((loads.expected, loads.found.low, loads.found.high), (200_000.0, 360_000.0, 360_000.0));
    assert!(loads.remark.as_ref().unwrap().contains("it counts like loads and stores"), "{loads:#?}");
    let branches = row(&wrong, "branches:u, the mix");
    assert_eq!((branches.expected, branches.found.low, branches.found.high), (160_000.0, 120_000.0, 120_000.0));
    let remark = branches.remark.as_ref().unwrap();
    assert!(remark.contains("it counts like taken branches"), "{remark}");
    assert!(remark.contains("event=0xc2") && remark.contains("the kernel's table of generic events is wrong"), "{remark}");
    // The cache event of the same name has a table of its own, which was left as it is.
    assert_eq!(row(&wrong, "branch-loads:u, the mix").verdict, Verdict::Passed);

    let (right, code) = rows(Generation::Zen2, None, "");
    assert_eq!((failed(&right), code), (vec![always], 4), "{right:#?}");
}
