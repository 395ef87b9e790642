//! `perftax sim` as its users meet it. Needs qemu-user and the plugin; `make test` sees to both.

#![allow(clippy::unwrap_used)] // tests may

use std::path::Path;

use snapbox::cmd::{Command, OutputAssert, cargo_bin};

fn sim(arguments: &[&str]) -> OutputAssert {
    Command::new(cargo_bin!("perftax")).arg("sim").args(arguments).env("NO_COLOR", "1").assert()
}

fn stderr(outcome: &OutputAssert) -> String {
    String::from_utf8(outcome.get_output().stderr.clone()).unwrap()
}

/// The result as JSON.
fn json(arguments: &[&str], at: &Path) -> serde_json::Value {
    let at = at.to_str().unwrap();
    sim(&[&["--json", at], arguments].concat()).success();
    serde_json::from_str(&std::fs::read_to_string(at).unwrap()).unwrap()
}

#[test]
fn the_same_command_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("result.json");
    let bytes = || {
        sim(&["--json", at.to_str().unwrap(), "-e", "l1-misses", "-c", "101", "--", "ls", "/usr"]).success();
        std::fs::read(&at).unwrap()
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn the_contract_of_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let result = json(&["-c", "1009", "--", "ls", "/usr"], &folder.path().join("result.json"));
    let number = |key: &str| result[key].as_u64().unwrap_or_else(|| panic!("{key}: {}", result[key]));
    assert_eq!(number("samples"), number("events") / 1010);
    assert_eq!((number("events"), number("lost"), number("period")), (number("instructions"), 0, 1009));
    let by_address = result["by_address"].as_array().unwrap();
    assert_eq!(by_address.iter().map(|row| row["samples"].as_u64().unwrap()).sum::<u64>(), number("samples"));
    assert!(by_address.iter().any(|row| row["symbol"].as_str().unwrap().contains("ld-linux")), "{by_address:?}");
    for term in ["assist", "pmi", "drain", "pollution"] {
        assert!(result["terms_s"][term].is_number(), "{term}");
    }
    assert!(number("memory_read_bytes") > 0 && result["predicted_overhead"].as_f64().unwrap() > 0.0);
    assert_eq!((&result["mechanism"], &result["event"]), (&"pebs".into(), &"instructions".into()));
}

#[test]
fn the_program_keeps_its_output_and_its_code() {
    let outcome = sim(&["--no-caches", "--", "sh", "-c", "echo out; exit 7"]).code(7);
    assert_eq!(outcome.get_output().stdout, b"out\n");
    assert!(stderr(&outcome).contains("instructions on 1 thread"));
    let outcome = sim(&["--no-caches", "--", "sh", "-c", "kill -9 $$"]).code(137);
    assert!(stderr(&outcome).contains("killed by signal 9"), "{}", stderr(&outcome));
    let outcome = sim(&["--no-caches", "--", "sh", "-c", "ls / > /dev/null; true"]).success();
    assert!(stderr(&outcome).contains("forked"), "{}", stderr(&outcome));
}

#[test]
fn samples_are_written_as_rows() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("samples");
    let arguments = ["--no-caches", "-c", "1009", "--samples", rows.to_str().unwrap(), "--", "ls", "/"];
    let result = json(&arguments, &folder.path().join("result.json"));
    let bytes = std::fs::read(&rows).unwrap();
    assert_eq!(bytes.len() as u64, 40 * result["samples"].as_u64().unwrap());
    let word = |row: usize, i: usize| u64::from_le_bytes(bytes[40 * row + 8 * i..][..8].try_into().unwrap());
    assert_eq!((word(0, 0), word(1, 0)), (1009, 2019), "instructions before each sample");
}

#[test]
fn what_cannot_be_is_said() {
    for (arguments, code, words) in [
        (&["-e", "frobs", "--", "ls"][..], 2, "the model does not count frobs"),
        (&["--machine", "zen2", "--mechanism", "pebs", "--", "ls"], 3, "the machine has no pebs"),
        (&["--machine", "nowhere", "--", "ls"], 2, "broadwell, cascade-lake"),
        (&["--machine", "zen2", "-e", "loads", "--", "ls"], 2, "ibs-op samples nothing else"),
        (&["-e", "l1-misses", "--no-caches", "--", "ls"], 2, "leave --no-caches out"),
        (&["-c", "0", "--", "ls"], 2, "0 is not in 1.."),
        (&["--buffer", "9Q", "--", "ls"], 2, "it is K, M or G"),
        (&["--sweep", "seed=1", "--", "ls"], 2, "cannot sweep seed"),
        (&["--", "/nonexistent"], 127, "cannot run /nonexistent"),
        (&["--", "/usr/bin/ldd"], 126, "name its interpreter"),
        (&[], 2, "a command after --"),
    ] {
        let outcome = sim(arguments).code(code);
        assert!(stderr(&outcome).contains(words), "{arguments:?}: {}", stderr(&outcome));
    }
}
