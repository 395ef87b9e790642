//! Events that measuring itself raises: `calibrate` measures them, or refuses them with a remedy, and comes to an end.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use perftax_doc::Calibration;
use perftax_doc::Warning;

use crate::common::{is_root, is_the_machines_fault};

/// What was asked for (1 s), its grace (30 s), the start, and as much again for a busy machine. The lock is waited for beside it.
const LONGEST: Duration = Duration::from_secs(120);

/// For a moment in which others leave the machine alone.
const MAX_WAITED: Duration = Duration::from_secs(120);

/// Calibrates an event: its document, or the exit code and what was said. Tried again while others disturb it.
fn calibrate(event: &str) -> Result<Calibration, (Option<i32>, String)> {
    let began = Instant::now();
    loop {
        match calibrate_once(event) {
            Err((_, said)) if is_the_machines_fault(&said) && began.elapsed() < MAX_WAITED => {}
            result => return result,
        }
    }
}

fn calibrate_once(event: &str) -> Result<Calibration, (Option<i32>, String)> {
    let folder = tempfile::tempdir().unwrap();
    let (json, log) = (folder.path().join("cost.json"), folder.path().join("log"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_perftax"))
        .args([
            "calibrate",
            "-e",
            event,
            "--time",
            "1",
            "--spacing",
            "0",
            "--precision",
            "60",
            "--no-save",
            "-o",
            "/dev/null",
            "--json",
        ])
        .arg(&json)
        .env("XDG_DATA_HOME", folder.path())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(&log).unwrap();
    let mut began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if said().lines().last().is_some_and(|line| line.contains("waiting for it")) {
            began = Instant::now();
        }
        if began.elapsed() > LONGEST {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{event}: no end after {LONGEST:?}: {}", said());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    match status.code() {
        Some(0) => Ok(serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap()),
        code => {
            assert!(!json.exists(), "{event}: it failed, and wrote a result");
            Err((code, said()))
        }
    }
}

#[test]
fn events_that_measuring_raises_are_measured_without_the_arms_that_feed_them() {
    for event in ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"] {
        match calibrate(event) {
            Ok(document) => {
                let warnings: Vec<String> = document.origin.warnings.iter().map(ToString::to_string).collect();
                let is_said = |warning: &String| {
                    warning.contains("not measured: signal") && warning.contains(&format!("raises {event} itself"))
                };
                assert!(warnings.iter().any(is_said), "{event}: {warnings:?}");
                assert!(document.alpha_ns.estimate > 0.0 && !document.terms.contains_key("signal"), "{:?}", document.terms);
            }
            // A machine on which hardly a block is undisturbed; a plain user.
            Err((code, said)) => {
                assert!(matches!(code, Some(1 | 3)), "{event}: {code:?} {said}");
                let is_refused = said.contains("permission") || said.contains("unknown event");
                assert!(is_the_machines_fault(&said) || is_refused, "{said}");
            }
        }
    }
}

#[test]
fn a_fault_of_the_reader_is_none_of_the_works() {
    // As root, faults of the kernel's, too.
    let is_root = is_root();
    match calibrate(if is_root { "page-faults" } else { "page-faults:u" }) {
        Ok(document) => {
            let warnings: Vec<String> = document.origin.warnings.iter().map(ToString::to_string).collect();
            let is_left_out = warnings.iter().any(|warning| warning.contains("not measured: signal"));
            // On a busy machine there may be no undisturbed round of it.
            let is_disturbed = document.origin.warnings.iter().any(|warning| matches!(warning, Warning::DiscardedRounds { .. }));
            assert!(!is_left_out && (document.terms.contains_key("signal") || is_disturbed), "{:?} {warnings:?}", document.terms);
        }
        Err((code, said)) => assert!(code == Some(1) && is_the_machines_fault(&said), "{code:?} {said}"),
    }
}

#[test]
fn events_without_work_of_their_own_are_refused_with_a_remedy() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libc.so")).unwrap();
    let write = format!("uprobe:{libc}:write");
    for event in
        ["syscalls:sys_exit_rt_sigreturn", "sched:sched_switch", "sched:sched_wakeup", "irq_vectors:local_timer_entry", &write]
    {
        let (code, said) = calibrate(event).unwrap_err();
        assert_eq!(code, Some(3), "{event}: {said}");
        // One line says what is wrong, another what to do.
        assert!(said.trim_end().lines().count() >= 2 && said.contains(event.split(':').next().unwrap()), "{event}: {said}");
    }
}
