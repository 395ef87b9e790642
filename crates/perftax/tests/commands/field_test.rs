//! `perftax field-test`: killed, gone on with, anonymous, and read again.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use perftax_doc::{FieldTest, StepOutcome};

use crate::common::{one_at_a_time, said};

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
    command.args(["field-test", "--quick", "--folder", "kept"]).args(arguments).current_dir(folder);
    command.env("XDG_DATA_HOME", folder).env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

/// Until a file is there.
fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_is_done_stays_done_and_the_file_names_nobody() {
    let folder = tempfile::Builder::new().prefix("somebodys-own-").tempdir().unwrap();
    let only = ["--only", "doctor,calibrate-spe,selfcost"];
    let (kept, file) = (folder.path().join("kept"), folder.path().join("test.json"));
    one_at_a_time(|| {
        // Killed as often as somebody likes: what was whole is kept.
        for _ in 0..3 {
            let mut killed = command(folder.path(), &only).spawn().unwrap();
            wait_for(&kept.join("calibrate-spe.step"));
            killed.kill().unwrap();
            killed.wait().unwrap();
        }
        let doctor = std::fs::metadata(kept.join("doctor.step")).unwrap().modified().unwrap();
        let output = run(folder.path(), &[&only[..], &["--json", "test.json", "--yes"]].concat());
        assert!(matches!(output.status.code(), Some(0 | 4)), "{}", said(&output));
        assert!(!said(&output).contains(": doctor"), "{}", said(&output));
        assert_eq!(std::fs::metadata(kept.join("doctor.step")).unwrap().modified().unwrap(), doctor);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("claims confirmed") && text.contains("calibrate-spe: impossible here"), "{text}");
    });
    let text = std::fs::read_to_string(&file).unwrap();
    let test: FieldTest = serde_json::from_str(&text).unwrap();
    let outcomes: Vec<(&str, StepOutcome)> = test.steps.iter().map(|step| (step.name.as_str(), step.outcome)).collect();
    let expected = [("doctor", StepOutcome::Done), ("calibrate-spe", StepOutcome::Impossible), ("selfcost", StepOutcome::Done)];
    assert_eq!(outcomes, expected);
    // Neither where it ran nor on which machine.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for private in [folder.path().file_name().unwrap().to_str().unwrap(), host.trim()] {
        assert!(private.len() < 3 || private == "localhost" || !text.contains(private), "{private} is in the file");
    }
    assert!(test.origin.command.is_empty() && test.selfcost.is_some() && test.calibrations.is_empty());
    let read = Command::new(env!("CARGO_BIN_EXE_perftax"))
        .args(["report", "test.json", "test.json"])
        .current_dir(folder.path())
        .output();
    let read = read.unwrap();
    assert_eq!(read.status.code(), Some(0), "{}", said(&read));
}

#[test]
fn what_cannot_go_on_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["--json", "test.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--yes beside it"), "{}", said(&output));
    let output = run(folder.path(), &["--only", "calibrate-tea"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--only is calibrate-tea, needs a part of doctor, calibrate-pebs"), "{}", said(&output));
    std::fs::write(folder.path().join("kept/field-test"), "another machine\n").unwrap();
    let output = run(folder.path(), &["--only", "doctor"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("a test of 'another machine'"), "{}", said(&output));
}
