//! `perftax trace publish`, `perftax dataset`: broken off at any moment nothing is half there, twice is once, and what is corrupt is named. Needs root, as the kernel's tracepoints do.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use perftax_doc::{DatasetAdd, DatasetCheck, FieldStep, FieldTest, StepOutcome, TracePublish};

use crate::common::{perftax, said, traced};

/// Messages of a program that passes them on to another process.
fn recorded(folder: &Path) -> PathBuf {
    let program = traced("relay.c", "gcc", &[], folder);
    let trace = folder.join("relay.trace");
    let arguments =
        ["trace", "record", "--no-price-check", "-o", trace.to_str().unwrap(), "--", program.to_str().unwrap(), "500"];
    let output = perftax(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    trace
}

fn publish(trace: &Path, fleet: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
    command
        .args(["trace", "publish"])
        .arg(trace)
        .args(["--service", "relay", "--revision", "7", "--json", "-", "--to"])
        .arg(fleet);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn checked(fleet: &Path) -> (Option<i32>, DatasetCheck) {
    let output = perftax(&["dataset", "check", fleet.to_str().unwrap(), "--json", "-"]);
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    (output.status.code(), document)
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            all.extend(files(&entry.path()))
        } else {
            all.insert(entry.path());
        }
    }
    all
}

#[test]
fn what_is_published_is_there_once_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(folder.path());
    let whole = folder.path().join("whole");
    let began = Instant::now();
    let output = publish(&trace, &whole).output().unwrap();
    let took = began.elapsed();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let document: TracePublish = serde_json::from_slice(&output.stdout).unwrap();
    let first = &document.traces[0];
    assert!(first.messages >= 490 && first.whole > 5 && first.whole < first.messages && !first.was_there, "{first:?}");
    let (code, all) = checked(&whole);
    assert_eq!((code, all.publications, all.files, all.rows), (Some(0), 1, first.files, first.rows));
    let before = files(&whole);

    // Twice is once.
    let output = publish(&trace, &whole).output().unwrap();
    let document: TracePublish = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document.traces[0].was_there && document.traces[0].id == first.id && files(&whole) == before, "{document:?}");

    // Broken off: from the beginning until after its end.
    let (mut without, mut with) = (0, 0);
    for moment in 0..50u32 {
        let fleet = folder.path().join("killed");
        let _ = fs::remove_dir_all(&fleet);
        let mut running = publish(&trace, &fleet).spawn().unwrap();
        std::thread::sleep(took.mul_f64(f64::from(moment) / 40.0));
        let _ = running.kill();
        running.wait().unwrap();
        let markers = files(&fleet.join("publications"));
        let is_there = markers.iter().any(|path| path.extension().is_some_and(|extension| extension == "json"));
        if is_there {
            let (code, found) = checked(&fleet);
            assert_eq!((code, found.publications, found.rows, found.corrupt.len()), (Some(0), 1, first.rows, 0), "{moment}");
            with += 1;
        } else {
            without += 1;
        }
        // And what was broken off goes on.
        assert_eq!(publish(&trace, &fleet).output().unwrap().status.code(), Some(0));
        let (code, found) = checked(&fleet);
        assert_eq!((code, found.publications, found.rows, found.corrupt.len()), (Some(0), 1, first.rows, 0), "{moment}");
    }
    assert!(without > 0 && without + with == 50, "{without} {with}");
}

#[test]
fn a_compaction_that_is_broken_off_counts_everything_once() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(folder.path());
    let two = folder.path().join("two");
    let mut rows = 0;
    for service in ["a", "b/ö"] {
        let output = perftax(&[
            "trace",
            "publish",
            trace.to_str().unwrap(),
            "--to",
            two.to_str().unwrap(),
            "--service",
            service,
            "--json",
            "-",
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        rows += serde_json::from_slice::<TracePublish>(&output.stdout).unwrap().traces[0].rows;
    }
    let (_, before) = checked(&two);
    assert_eq!((before.publications, before.rows), (2, rows));
    let mut took = Duration::ZERO;
    for moment in 0..21u32 {
        let fleet = folder.path().join("fleet");
        let _ = fs::remove_dir_all(&fleet);
        assert!(Command::new("cp").arg("-r").args([&two, &fleet]).status().unwrap().success());
        let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
        command.args(["dataset", "compact", fleet.to_str().unwrap()]).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let mut running = command.spawn().unwrap();
        if moment > 0 {
            std::thread::sleep(took.mul_f64(f64::from(moment) / 18.0));
            let _ = running.kill();
        }
        running.wait().unwrap();
        if moment == 0 {
            took = began.elapsed();
        }
        let (code, found) = checked(&fleet);
        assert_eq!((code, found.rows, found.corrupt.len()), (Some(0), rows, 0), "{moment}: {found:?}");
        // Published again it still counts once.
        let output = perftax(&["trace", "publish", trace.to_str().unwrap(), "--to", fleet.to_str().unwrap(), "--service", "a"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert_eq!(checked(&fleet).1.rows, rows, "{moment}");
    }
}

#[test]
fn what_is_corrupt_is_named_and_what_is_no_data_set_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recorded(folder.path());
    let fleet = folder.path().join("fleet");
    assert_eq!(publish(&trace, &fleet).output().unwrap().status.code(), Some(0));
    let victim = files(&fleet).into_iter().find(|path| path.to_string_lossy().contains("table=causes")).unwrap();
    let mut bytes = fs::read(&victim).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&victim, bytes).unwrap();
    let (code, found) = checked(&fleet);
    assert_eq!((code, found.corrupt.len()), (Some(4), 1), "{found:?}");
    assert!(victim.ends_with(&found.corrupt[0].path), "{found:?}");
    // A compaction does not hide it.
    perftax(&["dataset", "compact", fleet.to_str().unwrap()]);
    assert_eq!(checked(&fleet).1.corrupt, found.corrupt);

    let missing = folder.path().join("missing");
    for (arguments, needed) in [
        (["dataset", "check", missing.to_str().unwrap()], "missing"),
        (["dataset", "check", "ftp://x/y"], "ftp://x/y"),
        (["dataset", "compact", trace.to_str().unwrap()], "publications"),
    ] {
        let output = perftax(&arguments);
        assert!(!output.status.success() && said(&output).contains(needed), "{arguments:?}: {}", said(&output));
    }
}

/// `perftax dataset add`, and what it says.
fn add(fleet: &str, arguments: &[&str]) -> (Option<i32>, Option<DatasetAdd>, String) {
    let output = perftax(&[&["dataset", "add", fleet], arguments, &["--json", "-"]].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).ok(), said(&output))
}

#[test]
fn results_are_added_once_under_the_name_of_the_host_that_they_are_of() {
    let folder = tempfile::tempdir().unwrap();
    let (fleet, result) = (folder.path().join("fleet"), folder.path().join("selfcost.json"));
    let (fleet_text, result_text) = (fleet.to_str().unwrap(), result.to_str().unwrap());
    let output =
        perftax(&["selfcost", "--quick", "--only", "call", "--wait=120", "--json", result_text, "--publish", fleet_text]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let (_, measured) = checked(&fleet);
    assert!(measured.rows > 1, "{measured:?}");
    // What was published as it was measured is the same as what was saved.
    let (code, added, why) = add(fleet_text, &[result_text]);
    let added = added.unwrap_or_else(|| panic!("{why}"));
    assert_eq!((code, added.results[0].was_there, added.results[0].rows), (Some(0), true, 0), "{added:?}");
    assert_eq!(checked(&fleet).1.rows, measured.rows);

    // Of another host it is another one's, and of another machine it needs a name.
    let (code, added, why) = add(fleet_text, &[result_text, "--host", "web-17"]);
    let added = added.unwrap_or_else(|| panic!("{why}"));
    assert_eq!((code, added.results[0].host.as_str(), added.results[0].was_there), (Some(0), "web-17", false));
    assert_eq!(checked(&fleet).1.rows, 2 * measured.rows);
    let text = fs::read_to_string(&result).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&text).unwrap();
    other["machine"]["fingerprint"] = "0123456789abcdef".into();
    fs::write(&result, other.to_string()).unwrap();
    let (code, _, why) = add(fleet_text, &[result_text]);
    assert!(code == Some(2) && why.contains("--host"), "{code:?} {why}");

    // What tables have no place for is refused, and nothing of what stands before it is added.
    let plan = folder.path().join("plan.json");
    other["kind"] = "phase".into();
    fs::write(&plan, other.to_string()).unwrap();
    let (code, _, why) = add(fleet_text, &[result_text, plan.to_str().unwrap(), "--host", "web-18"]);
    assert!(code == Some(2) && why.contains("plan.json"), "{code:?} {why}");
    let (code, _, why) = add(fleet_text, &["--machine", "zen3"]);
    assert!(code == Some(2) && why.contains("zen3") && why.contains("[[cost]]"), "{code:?} {why}");
    assert_eq!(checked(&fleet).1.rows, 2 * measured.rows);
}

#[test]
fn what_others_published_has_the_day_of_its_publication() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = folder.path().join("fleet");
    let (code, added, why) = add(fleet.to_str().unwrap(), &["--machine", "all"]);
    let added = added.unwrap_or_else(|| panic!("{why}"));
    assert_eq!(code, Some(0));
    let hosts: BTreeSet<&str> = added.results.iter().map(|result| result.host.as_str()).collect();
    assert!(hosts.contains("published-broadwell") && !hosts.contains("published-zen3"), "{hosts:?}");
    let files = files(&fleet);
    let of_ross = files.iter().filter(|path| path.to_string_lossy().contains("table=prices/date=2017-01-01"));
    assert_eq!(of_ross.count(), 3, "{files:?}");
    let (_, again, _) = add(fleet.to_str().unwrap(), &["--machine", "all"]);
    assert!(again.unwrap().results.iter().all(|result| result.was_there));
}

/// A field test of this machine with one calibration, which is put where the test keeps what is done.
fn field_test(folder: &Path) -> PathBuf {
    let (kept, file) = (folder.join("kept"), folder.join("test.json"));
    let test = |more: &[&str]| {
        let output = perftax(&[&["field-test", "--quick", "--folder", kept.to_str().unwrap()], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    };
    test(&["--only", "doctor"]);
    let mut calibration: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(kept.join("doctor.json")).unwrap()).unwrap();
    let measured = serde_json::json!({
        "kind": "calibrate", "taken_at_s": 1_795_000_000.0, "command": ["perftax", "calibrate"], "warnings": [],
        "mechanism": "cpu-clock", "event": "cpu-clock", "terms": {"ip": {"estimate": 9.0, "low": 8.0, "high": 10.0, "confidence": 0.95}},
        "alpha_ns": {"estimate": 5000.0, "low": 4900.0, "high": 5100.0, "confidence": 0.95},
        "floor_ns": null, "samples": 1000, "expected_samples": 1000.0, "lost": 0, "throttled": 0,
        "linearity": null, "control": null, "witness": null, "drift": 0.02, "sessions": 30, "elapsed_s": 90.0,
        "stopped": "precision", "blocks": []
    });
    calibration.as_object_mut().unwrap().extend(measured.as_object().unwrap().clone());
    fs::write(kept.join("calibrate-cpu-clock.json"), calibration.to_string()).unwrap();
    let step = FieldStep { name: "calibrate-cpu-clock".into(), outcome: StepOutcome::Done, why: String::new(), elapsed_s: 1.0 };
    fs::write(kept.join("calibrate-cpu-clock.step"), serde_json::to_string(&step).unwrap()).unwrap();
    test(&["--only", "calibrate-cpu-clock", "--json", file.to_str().unwrap(), "--yes"]);
    file
}

#[test]
fn field_tests_are_added_without_a_name_that_they_do_not_have() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = folder.path().join("fleet");
    let fleet = fleet.to_str().unwrap();
    let file = field_test(folder.path());
    // Another machine's, and that of one that is like it.
    let text = fs::read_to_string(&file).unwrap();
    let test: FieldTest = serde_json::from_str(&text).unwrap();
    let (other, alike) = (folder.path().join("other.json"), folder.path().join("alike.json"));
    let others = text.replace(&test.origin.machine.fingerprint, "0123456789abcdef");
    fs::write(&other, &others).unwrap();
    let mut later: FieldTest = serde_json::from_str(&others).unwrap();
    later.calibrations[0].origin.taken_at_s += 86_400.0;
    fs::write(&alike, serde_json::to_string(&later).unwrap()).unwrap();
    let all = [&file, &other, &alike].map(|path| path.to_str().unwrap());
    let (code, added, why) = add(fleet, &all);
    let added = added.unwrap_or_else(|| panic!("{why}"));
    assert_eq!(code, Some(0));
    let found: Vec<(&str, &str)> = added.results.iter().map(|result| (result.kind.as_str(), result.host.as_str())).collect();
    let here = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (here, there) = (("calibrate", here.trim()), ("calibrate", "field-0123456789abcdef"));
    assert_eq!(found, [here, there, there]);
    assert!(added.results.iter().all(|result| !result.was_there && result.rows == 3), "{added:?}");
    // Twice is once; and who knows whose it is says so.
    let (_, again, _) = add(fleet, &all);
    assert!(again.unwrap().results.iter().all(|result| result.was_there));
    let (_, named, _) = add(fleet, &[other.to_str().unwrap(), "--host", "web-17"]);
    assert_eq!(named.unwrap().results[0].host, "web-17");
}
