//! `perftax phase` on this machine, by events that need no PMU; with one the same in the emulated machine (perftax-vm's tests).

use perftax_doc::Phase;

use crate::common::perftax;

fn phase(arguments: &[&str]) -> Phase {
    let output = perftax(&[&["phase", "--json", "-"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {errors}"))
}

/// How it fails: the exit code, and what it says.
fn failure(arguments: &[&str]) -> (i32, String) {
    let output = perftax(&[&["phase"], arguments].concat());
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A program that touches two thousand pages and more.
const TOUCHES: [&str; 5] = ["dd", "if=/dev/zero", "of=/dev/null", "bs=8M", "count=1"];

#[test]
fn an_interval_of_faults_holds_as_many_of_its_own_event() {
    let arguments = [&["-e", "page-faults:u,minor-faults:u", "--every", "page-faults:u:20", "--"], &TOUCHES[..]].concat();
    let phase = phase(&arguments);
    assert!(phase.samples >= 3, "{phase:#?}");
    assert_eq!((phase.samples, phase.lost, phase.throttled, phase.running), (phase.expected_samples, 0, 0, 1.0));
    let (tail, whole) = phase.intervals.split_last().unwrap();
    assert!(whole.iter().all(|interval| (interval.passed, interval.first) == (20, 20)), "{whole:?}");
    assert!(tail.passed < 20, "{tail:?}");
    let sum: u64 = phase.intervals.iter().map(|interval| interval.first).sum();
    assert_eq!((sum, phase.counted[0]), (phase.counted[1], phase.counted[1]));
    // No page of these waits for a disk the second time that the program runs: minor faults are all there are, or nearly.
    assert!(
        phase.counted[2] <= phase.counted[1] && phase.stretches.iter().all(|stretch| stretch.first_rate.unwrap().estimate == 1.0)
    );
}

#[test]
fn by_a_clock_it_shows_the_run_over_time() {
    let phase =
        phase(&["-e", "page-faults,context-switches", "--every", "cpu-clock:1000000", "--", "gzip", "-c", "/usr/bin/perl"]);
    assert!(phase.is_time && phase.samples >= 10, "{phase:#?}");
    assert!(phase.intervals.windows(2).all(|pair| pair[0].until < pair[1].until && pair[0].time_ns <= pair[1].time_ns));
    assert_eq!(phase.stretches.last().unwrap().to, phase.intervals.len() as u64);
    let text = perftax(&["phase", "-e", "page-faults,cs", "--every", "task-clock:1000000", "--", "gzip", "-c", "/usr/bin/perl"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("per ms of task-clock") && text.contains("none lost") && text.contains('█'), "{text}");
}

#[test]
fn what_the_program_creates_is_not_in_it_and_it_is_said() {
    let phase = phase(&["-e", "page-faults,cs", "--every", "page-faults:10", "--", "sh", "-c", "/bin/true; /bin/true; exit 0"]);
    assert_eq!(phase.unwatched, 2, "{phase:#?}");
    assert!(phase.origin.warnings.iter().any(|warning| warning.to_string().contains("2 threads and processes")), "{phase:#?}");
}

#[test]
fn where_there_is_no_pmu_it_says_what_works() {
    if std::path::Path::new("/sys/bus/event_source/devices/cpu").exists() {
        let phase = phase(&["-e", "instructions:u,branches:u", "-i", "10000", "--", "true"]);
        assert!(phase.samples > 0 && phase.intervals.iter().all(|interval| interval.second <= interval.first));
        return;
    }
    for arguments in [["-e", "page-faults,cs", "--", "true"], ["-e", "branches,cycles", "--", "true"]] {
        let (code, said) = failure(&arguments);
        assert!(code == 3 && said.contains("instructions:u") && said.contains("--every cpu-clock:1000000"), "{code}: {said}");
    }
    let (code, said) = failure(&["-e", "taken-branches,branches", "--every", "cpu-clock:1000000", "--", "true"]);
    assert!(code == 3 && said.contains("taken-branches") && said.contains("perftax vm run"), "{code}: {said}");
}

#[test]
fn wrong_arguments_are_named() {
    for (arguments, named, exit) in [
        (&["-e", "page-faults", "--every", "cpu-clock:1000000", "--", "true"][..], "needs two events", 2),
        (&["-e", "page-faults,cs,minor-faults", "--every", "cpu-clock:1000000", "--", "true"], "needs two events", 2),
        (&["-e", "page-faults,cs", "--every", "cpu-clock:9999", "--", "true"], "at least 10000", 2),
        (&["-e", "page-faults,cs", "--every", "page-faults", "--", "true"], "--every is page-faults, needs EVENT:PERIOD", 2),
        (&["-e", "page-faults,cs", "--every", "page-faults:0", "--", "true"], "EVENT:PERIOD", 2),
        (&["-e", "page-faults,cs", "--every", "page-faults:u:10", "-i", "5000", "--", "true"], "cannot be used with", 2),
        (&["-e", "page-faults,cs", "--every", "page-faults:10"], "a command after --", 2),
        (&["-e", "page-faults,cs", "--every", "page-faults:10", "--", "false"], "exited with code 1", 1),
        (&["-e", "page-faults,cs", "--every", "page-faults:10", "--", "no-such-program"], "no-such-program", 127),
    ] {
        let (code, said) = failure(arguments);
        assert!(code == exit && said.contains(named), "{arguments:?}: {code}: {said}");
    }
}
