//! `perftax sim` as its users meet it. Needs qemu-user and the plugin; `make test` sees to both.

use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Row, RowAccessor};
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
fn samples_are_written_as_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("samples.parquet");
    let sweep = ["--no-caches", "--sweep", "period=1009,10007", "--samples", table.to_str().unwrap(), "--", "ls", "/"];
    let result = json(&sweep, &folder.path().join("result.json"));
    let samples = |run: usize| result["sweep"][run]["samples"].as_i64().unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&table).unwrap()).unwrap();
    let rows: Vec<Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let of_run = |run: i32| rows.iter().filter(move |row| row.get_int(0).unwrap() == run);
    assert_eq!((of_run(0).count() as i64, of_run(1).count() as i64), (samples(0), samples(1)));
    let instructions: Vec<i64> = of_run(0).take(2).map(|row| row.get_long(3).unwrap()).collect();
    assert_eq!(instructions, [1009, 2019], "instructions before each sample");
    assert!(rows.iter().any(|row| row.get_string(8).is_ok_and(|name| name.contains("ld-linux"))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside the results");
}

/// A program that leaves no result leaves no table.
#[test]
fn an_incomplete_table_is_not_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("samples.parquet");
    sim(&["--no-caches", "--samples", table.to_str().unwrap(), "--", "sh", "-c", "kill -9 $$"]).code(137);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let outcome = sim(&["--samples", "/nowhere/samples.parquet", "--", "ls"]).code(1);
    assert!(stderr(&outcome).contains("cannot write /nowhere/samples.parquet"), "{}", stderr(&outcome));
}

/// Elapsed time, events and pollution come from the model, the cost of a sample from its publication.
#[test]
fn a_prediction_for_another_machine() {
    let predict = |arguments: &[&str]| Command::new(cargo_bin!("perftax")).args(arguments).env("NO_COLOR", "1").assert();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("prediction.json");
    let sample = ["predict", "--machine", "broadwell", "--counts-from", "sim", "-c", "2003,20011"];
    predict(&[&sample[..], &["--json", at.to_str().unwrap(), "--", "bzip2", "-kc", "/bin/ls"]].concat()).success();
    let result: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&at).unwrap()).unwrap();
    let simulated = json(&["-e", "uops", "-c", "2003", "--", "bzip2", "-kc", "/bin/ls"], &folder.path().join("sim.json"));
    assert_eq!(result["event"], "UOPS_RETIRED.ALL");
    let count = result["workload"]["counts"]["UOPS_RETIRED.ALL"]["estimate"].as_f64().unwrap();
    // The same program in the same model, but for where its output goes.
    let is_near = |a: f64, b: &serde_json::Value| (a / b.as_f64().unwrap() - 1.0).abs() < 1e-4;
    assert!(is_near(count, &simulated["counts"]["uops"]), "{count} {}", simulated["counts"]["uops"]);
    let elapsed_s = result["workload"]["elapsed_s"]["estimate"].as_f64().unwrap();
    assert!(is_near(elapsed_s, &simulated["elapsed_s"]), "{elapsed_s} {}", simulated["elapsed_s"]);
    let row = &result["rows"][0];
    let by_hand = count / 2004.0 * 286e-9 / elapsed_s;
    let sample = row["terms"]["sample"]["estimate"].as_f64().unwrap();
    assert!((sample / by_hand - 1.0).abs() < 1e-3, "{sample} {by_hand}");
    let pollution = row["terms"]["pollution"]["estimate"].as_f64().unwrap();
    let in_caches = simulated["pollution_predicted_s"].as_f64().unwrap() / elapsed_s;
    assert!(pollution > 0.0 && (pollution / in_caches - 1.0).abs() < 0.05, "{pollution} {in_caches}");
    let outcome = predict(&["predict", "--counts-from", "sim", "--", "ls"]).code(2);
    assert!(stderr(&outcome).contains("--machine"), "{}", stderr(&outcome));
    let plan = ["plan", "--machine", "skylake", "--counts-from", "sim", "--budget", "1%", "--", "ls", "/usr"];
    let outcome = predict(&plan).success();
    let text = String::from_utf8_lossy(&outcome.get_output().stdout);
    assert!(text.contains("UOPS_RETIRED.ALL"), "{text}");
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

#[test]
fn a_machine_of_another_version_is_in_nobodys_way() {
    let data = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(data.path().join("perftax/vm")).unwrap();
    std::fs::write(data.path().join("perftax/vm/manifest.json"), "{}").unwrap();
    let command = Command::new(cargo_bin!("perftax")).args(["sim", "--count", "--", "true"]);
    command.env("NO_COLOR", "1").env("XDG_DATA_HOME", data.path()).assert().success();
}
