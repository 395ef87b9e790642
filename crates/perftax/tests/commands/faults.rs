//! Bad input and faults of the commands that measure: clear message, documented exit code, nothing half done.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A profile with one calibration of cpu-clock and one of page faults, so that no test needs to calibrate.
fn profile(directory: &Path) -> PathBuf {
    let calibration = |mechanism: &str, event: &str, alpha: f64| {
        serde_json::json!({
            "schema": 1, "kind": "calibrate", "perftax": "0.1.0", "kernel": "6.1", "taken_at_s": 4e9, "command": [],
            "machine": machine(), "mechanism": mechanism, "event": event,
            "alpha_ns": {"estimate": alpha, "low": alpha * 0.95, "high": alpha * 1.05, "confidence": 0.95},
            "floor_ns": null, "samples": 1000, "expected_samples": 1000.0, "lost": 0, "throttled": 0, "terms": {},
            "linearity": null, "control": null, "witness": null, "drift": 0.02, "sessions": 30, "elapsed_s": 90.0,
            "stopped": "precision", "blocks": []
        })
    };
    let profile = serde_json::json!({
        "schema": 1, "machine": machine(), "kernel": "6.1",
        "calibrations": [calibration("cpu-clock", "cpu-clock", 5000.0), calibration("software", "page-faults", 300.0)]
    });
    let path = directory.join("profile.json");
    std::fs::write(&path, profile.to_string()).unwrap();
    path
}

fn machine() -> serde_json::Value {
    serde_json::json!({"name": "made up", "fingerprint": "0", "cpu": "made up", "microcode": "", "virtualisation": "none",
        "mitigations": "", "cpus": 2})
}

fn perftax(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
    command.args(arguments).env("XDG_DATA_HOME", directory).env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap()
}

/// Runs `plan` with the made-up profile and says how it ended and what it complained about.
fn plan(arguments: &[&str]) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let profile = profile(directory.path());
    let all = [&["plan", "--profile", profile.to_str().unwrap()], arguments].concat();
    let output = perftax(directory.path(), &all);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const BUSY: [&str; 4] = ["--", "perl", "-e", "my $i = 0; $i++ while $i < 4e6"];

#[test]
fn budgets_of_nothing_and_of_everything_are_usage_errors() {
    for budget in ["0%", "100%", "-3%", "nan%", "x"] {
        let (code, message) = plan(&[&["--budget", budget], BUSY.as_slice()].concat());
        assert_eq!(code, Some(2), "{budget}: {message}");
        assert!(message.contains("--budget") || message.contains("unexpected argument"), "{message}");
    }
}

#[test]
fn periods_that_cannot_be_are_usage_errors() {
    for period in ["0", "562949953421312", "9999"] {
        let directory = tempfile::tempdir().unwrap();
        let output = perftax(directory.path(), &["calibrate", "-e", "cpu-clock", "-c", period]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{period}: {message}");
        assert!(message.contains("-c is"), "{message}");
    }
}

#[test]
fn commands_that_cannot_run_keep_the_shells_codes() {
    let (code, message) = plan(&["--", "/no/such/program"]);
    assert_eq!(code, Some(127), "{message}");
    assert!(message.contains("/no/such/program"), "{message}");
    let (code, message) = plan(&["--", "/etc/passwd"]);
    assert_eq!(code, Some(126), "{message}");
}

#[test]
fn commands_that_fail_are_quoted() {
    let (code, message) = plan(&["--", "sh", "-c", "exit 7"]);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("exited with code 7"), "{message}");
    let (code, message) = plan(&["--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("killed by signal 9"), "{message}");
}

#[test]
fn a_command_too_short_to_measure_is_told_how_to_lengthen() {
    let (code, message) = plan(&["--", "true"]);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("too short") && message.contains("lengthen"), "{message}");
}

#[test]
fn an_event_that_never_comes_is_said() {
    let (code, message) = plan(&[&["-e", "alignment-faults"], BUSY.as_slice()].concat());
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("no alignment-faults at all"), "{message}");
}

#[test]
fn a_plan_keeps_its_upper_end_within_the_budget() {
    let directory = tempfile::tempdir().unwrap();
    let profile = profile(directory.path());
    let all =
        [&["plan", "--profile", profile.to_str().unwrap(), "--budget", "5%", "--json", "-", "-e", "cpu-clock"], BUSY.as_slice()]
            .concat();
    let output = perftax(directory.path(), &all);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["feasible"], true);
    assert_eq!((plan["event"].as_str(), plan["mechanism"].as_str()), (Some("cpu-clock"), Some("cpu-clock")));
    let overhead = &plan["expected_overhead"];
    // The budget binds the upper end, of elapsed time and of CPU time (less than elapsed where others want the processor), and nearly all of it is used.
    let (estimate, high) = (overhead["estimate"].as_f64().unwrap(), overhead["high"].as_f64().unwrap());
    let most = high.max(plan["expected_cpu_overhead"]["high"].as_f64().unwrap());
    assert!((0.045..=0.05).contains(&most) && estimate > 0.0 && estimate < high, "{plan}");
    // α of 5 µs, C0·α/(P − α) = estimate·T0.
    let period = plan["period"].as_u64().unwrap();
    let seconds = |name: &str| plan["workload"][name]["estimate"].as_f64().unwrap();
    let expected = 5000.0 * (1.0 + seconds("cpu_s") / (estimate * seconds("elapsed_s")));
    assert!((period as f64 / expected - 1.0).abs() < 0.02, "{period}, by hand {expected}");
    let command: Vec<&str> = plan["perf_record"].as_array().unwrap().iter().filter_map(|w| w.as_str()).collect();
    assert!(command.starts_with(&["perf", "record", "-e", "cpu-clock", "-c", &period.to_string()]), "{command:?}");
    assert!(plan["buffer_bytes"].as_u64().unwrap() > 0 && !plan["reasons"].as_array().unwrap().is_empty());
}

#[test]
fn a_budget_that_no_period_fits_is_a_negative_verdict() {
    let (code, message) = plan(&[&["--budget", "0.01%", "--resolve", "0.1%"], BUSY.as_slice()].concat());
    assert_eq!(code, Some(4), "{message}");
}

#[test]
fn predictions_have_a_row_for_every_period() {
    let directory = tempfile::tempdir().unwrap();
    let profile = profile(directory.path());
    let start = ["predict", "--profile", profile.to_str().unwrap(), "-e", "page-faults", "-c", "1,7,101", "--json", "-"];
    let output = perftax(directory.path(), &[start.as_slice(), BUSY.as_slice()].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let prediction: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = prediction["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|r| r["period"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 7, 101]);
    for row in rows {
        for key in ["samples", "samples_per_s", "bytes_per_s"] {
            assert!(row[key].as_f64().unwrap() > 0.0, "{key} {row}");
        }
        assert!(row["overhead"]["low"].as_f64() <= row["overhead"]["high"].as_f64());
    }
}

#[test]
fn an_output_that_cannot_be_written_is_found_before_anything_is_measured() {
    let start = std::time::Instant::now();
    let (code, message) = plan(&[&["--json", "/no/such/folder/plan.json"], BUSY.as_slice()].concat());
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("/no/such/folder/plan.json"), "{message}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_full_disk_is_an_error_and_the_device_survives() {
    let (code, message) = plan(&[&["--json", "/dev/full"], BUSY.as_slice()].concat());
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("/dev/full") && message.contains("No space left"), "{message}");
    use std::os::unix::fs::FileTypeExt;
    assert!(std::fs::metadata("/dev/full").unwrap().file_type().is_char_device());
}

#[test]
fn an_interrupt_does_not_wait_for_the_measured_program() {
    let directory = tempfile::tempdir().unwrap();
    let profile = profile(directory.path());
    let start = std::time::Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_perftax"))
        .args(["plan", "--profile", profile.to_str().unwrap(), "-e", "cpu-clock", "--", "sleep", "120"])
        .env("XDG_DATA_HOME", directory.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(60), "it waited for the program: {:?}", start.elapsed());
}

/// Rust programs ignore SIGPIPE; those that they start must not, or this pipeline never ends.
#[test]
fn a_pipeline_ends_as_it_does_in_a_shell() {
    let (code, message) = plan(&["-e", "cpu-clock", "--", "sh", "-c", "perl -e 'print qq(x\\n) while 1' | head -c 20000000 >&2"]);
    assert_eq!(code, Some(0), "{message}");
}
