//! `perftax audit` in the emulated machine, on the distribution's kernel: PEBS and interrupts against loops whose events are known, and
//! planted faults that only a PMU can have. Needs the machine, the module and perftax built (`make machine kmod`); `make test` sees to that.

use crate::common;
use perftax_doc::{Audit, AuditRow, Verdict};
use perftax_vm::Generation;

/// Runs a script that writes audits to the share's files, and returns those by name.
fn audits(script: &str, names: &[&str]) -> Vec<Audit> {
    audits_on(Generation::Skylake, &format!("insmod perftax.ko || exit 9\n{script}"), names)
}

/// The same on a processor, without the module.
fn audits_on(generation: Generation, script: &str, names: &[&str]) -> Vec<Audit> {
    let (output, errors, _) = common::module::boot(script, |guest| {
        guest.processor.assist_ns = 0;
        guest.processor.generation = generation;
    });
    let text = |name: &str| {
        let begin = format!("== {name}\n");
        let from = output.find(&begin).unwrap_or_else(|| panic!("no {name} in\n{output}{errors}")) + begin.len();
        let to = output[from..].find("\n== ").map_or(output.len(), |end| from + end);
        output[from..to].to_string()
    };
    let audit = |name: &&str| serde_json::from_str(&text(name)).unwrap_or_else(|error| panic!("{error}: {output}{errors}"));
    names.iter().map(audit).collect()
}

fn rows<'a>(audit: &'a Audit, experiment: &str) -> Vec<&'a AuditRow> {
    audit.experiments.iter().find(|one| one.name == experiment).unwrap().rows.iter().collect()
}

#[test]
fn samples_are_exact() {
    let audit = &audits(
        "echo == all; perftax audit --quick --runs 1 --source pebs,interrupt --only count,interval,bias,events,mode,address --json -",
        &["all"],
    )[0];
    let failed: Vec<_> = audit.failed().map(|(_, row)| row).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    for experiment in &audit.experiments {
        let is_missing = |row: &&AuditRow| row.verdict == Verdict::Impossible;
        let missing: Vec<_> = experiment.rows.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }
    let passed = |experiment: &str, case: &str| {
        let row = rows(audit, experiment).into_iter().find(|row| row.case == case);
        let row = row.unwrap_or_else(|| panic!("no {case} in {experiment}: {:#?}", rows(audit, experiment)));
        (row.expected, row.found.low, row.found.high)
    };
    // One in period + 1, and exactly so.
    assert_eq!(passed("interval", "pebs loads every 1000 (round)"), (199.0, 199.0, 199.0));
    assert_eq!(passed("mode", "pebs locked loads:u every 10000, done by the kernel"), (0.0, 0.0, 0.0));
    assert_eq!(passed("mode", "pebs locked loads:k every 10000, done by the kernel"), (100.0, 100.0, 100.0));
    assert_eq!(passed("events", "6 pinned on 4 counters: in error"), (2.0, 2.0, 2.0));
    assert_eq!(passed("events", "5 counted on 4 counters: unscaled").0, 80.0);
    let (aliased, fair) = ("pebs loads every 999, four loads in turn", "pebs loads every 1000, four loads in turn");
    assert_eq!((passed("bias", aliased).1, passed("bias", fair).2.round()), (100.0, 25.0));
}

/// AMD: operations and fetches, and what a signal to each sample adds: the surplus of the PES study's figure 3.
#[test]
fn ibs_is_exact_once_its_handler_is_known() {
    let audit = &audits_on(
        Generation::Zen2,
        "echo == all; perftax audit --quick --runs 1 --source ibs --only interval,bias,mode,address --json -",
        &["all"],
    )[0];
    let failed: Vec<_> = audit.failed().map(|(_, row)| row).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let row = |experiment: &str, case: &str| {
        let row = rows(audit, experiment).into_iter().find(|row| row.case == case);
        row.unwrap_or_else(|| panic!("no {case} in {experiment}: {:#?}", rows(audit, experiment))).clone()
    };
    let signalled = row("interval", "ibs-op operations every 100000, with a signal");
    assert!((0.06..0.1).contains(&signalled.error.estimate), "{signalled:#?}");
    assert_eq!(row("mode", "ibs-op operations every 10000, of the kernel's: in user mode").found.high, 0.0);
    assert_eq!(row("address", "ibs-op operations every 10000: the instruction").found.low, 100.0);
    assert_eq!(row("address", "ibs-op operations every 10000: the address").found.low, 100.0);
}

/// The newer ones, whose counters the driver starts, stops and samples by registers of their own: all that is asked of them but generic events
/// (`generic.rs`), which the kernel's table has the same for all.
#[test]
#[ignore = "minutes: part of make acceptance"]
fn zen_4_and_5_are_exact() {
    for generation in [Generation::Zen4, Generation::Zen5] {
        let audit = &audits_on(
            generation,
            "echo == all; perftax audit --quick --runs 1 --only count,interval,stability,threads,bias,events,mode,address --json -",
            &["all"],
        )[0];
        let failed: Vec<_> = audit.failed().map(|(_, row)| row).collect();
        assert!(failed.is_empty(), "{generation:?}: {failed:#?}");
        for (experiment, least) in [("count", 10), ("interval", 45), ("stability", 12), ("threads", 12), ("events", 40)] {
            let passed = rows(audit, experiment).into_iter().filter(|row| row.verdict == Verdict::Passed).count();
            assert!(passed >= least, "{generation:?}, {experiment}: {passed}");
        }
        // What is by PEBS is refused for the mechanism, whatever the event.
        let pebs = audit.experiments.iter().flat_map(|one| &one.rows).filter(|row| row.case.starts_with("pebs"));
        let remarks: Vec<_> = pebs.map(|row| row.remark.clone().unwrap_or_default()).collect();
        assert!(remarks.len() >= 7 && remarks.iter().all(|remark| remark.contains("is Intel's")), "{remarks:#?}");
    }
}

/// Faults that are the PMU's or the kernel's: each is found by a named row, with what happened in words.
#[test]
fn planted_faults_are_found() {
    let faults = [
        ("throttle", "threads", "interrupt instructions every 10000, 1 at once"),
        ("multiplex", "count", "pebs loads"),
        ("pinned", "count", "pebs loads"),
        ("skid", "address", "pebs loads every 999: the instruction"),
        ("address", "address", "pebs loads every 999: the address"),
        ("mode", "mode", "pebs locked loads:u every 10000, done by the kernel"),
        ("alias", "bias", "pebs loads every 999, four loads in turn"),
    ];
    let run = |(fault, experiment, _): &(&str, &str, &str)| {
        format!(
            "echo == {fault}; perftax audit --quick --runs 1 --source pebs,interrupt --only {experiment} --plant {fault} --json -; test $? = 4 || exit 8\n"
        )
    };
    let script: String = faults.iter().map(run).collect();
    let all = audits(&script, &faults.map(|(fault, _, _)| fault));
    for ((fault, experiment, case), audit) in faults.iter().zip(&all) {
        let rows = rows(audit, experiment);
        let row = rows.iter().find(|row| row.case == *case).unwrap_or_else(|| panic!("{fault}: no {case} in {rows:#?}"));
        assert_eq!(row.verdict, Verdict::Failed, "{fault}: {row:#?}");
        let remark = row.remark.clone().unwrap_or_default();
        match *fault {
            "throttle" => assert!(row.throttled > 0, "{row:#?}"),
            "multiplex" => assert!(remark.contains("multiplexed"), "{row:#?}"),
            "pinned" => assert!(remark.contains("error state"), "{row:#?}"),
            _ => {}
        }
    }
}
