//! Whole programs on the live kernel: gates, exits, samples by CPU.

use std::ffi::OsString;

use perftax_lab::run::{Command, Monitor, Watched, run_once};
use perftax_pmu::Error;
use perftax_pmu::event::{Catalog, Event, parse};
use perftax_pmu::sys::Stdio;

use crate::alone;

fn command(words: &[&str]) -> Command {
    Command::from_argv(words.iter().map(OsString::from).collect(), Stdio::Discard)
}

fn event(name: &str) -> Event {
    parse(name, &Catalog::of_this_machine()).unwrap().pop().unwrap()
}

fn watched() -> Watched {
    Watched { cpus: perftax_pmu::guard::allowed_cpus().unwrap(), ..Watched::default() }
}

const BUSY: [&str; 3] = ["perl", "-e", "my $i = 0; $i++ while $i < 3e6"];

/// On a shared host a hypervisor may take the CPU away for most of a run. Such a run is marked, and the next one tried.
fn undisturbed(monitor: &Monitor) -> perftax_cost::observation::Run {
    let runs = (0..40).map(|round| run_once(&command(&BUSY), Some(monitor), &watched(), "on", round).unwrap());
    let mut why = Vec::new();
    for run in runs {
        match &run.spoiled {
            None => return run,
            Some(reason) => why.push(reason.clone()),
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    panic!("every run was spoiled: {why:?}")
}

#[test]
fn a_sampled_run_delivers_what_its_own_time_says() {
    let _alone = alone();
    let run = undisturbed(&Monitor::new(event("cpu-clock"), 400_009));
    // Some forty milliseconds on a fast processor.
    assert!(run.samples > 50, "{run:?}");
    assert!((run.samples as f64 / run.expected_samples - 1.0).abs() < 0.2, "{} of {}", run.samples, run.expected_samples);
    assert_eq!(run.samples, run.samples_per_cpu.iter().sum::<u64>());
    assert_eq!((run.lost, run.throttled), (0, 0));
}

#[test]
fn faults_sampled_one_by_one_are_the_faults_counted() {
    let _alone = alone();
    let watched = Watched { counting: vec![event("page-faults")], ..watched() };
    let monitor = Monitor::new(event("page-faults"), 1);
    let run = run_once(&command(&BUSY), Some(&monitor), &watched, "on", 0).unwrap();
    assert!(run.samples > 100);
    // Both are enabled by the same exec, one after the other: a fault or two may fall between.
    assert!(run.samples.abs_diff(run.counts["page-faults"]) <= 2, "{} {:?}", run.samples, run.counts);
}

#[test]
fn a_program_that_is_not_there_is_127() {
    let error = run_once(&command(&["/no/such/program"]), None, &watched(), "off", 0).unwrap_err();
    assert_eq!(error.exit_code(), 127, "{error}");
    let error = run_once(&command(&["/etc/passwd"]), None, &watched(), "off", 0).unwrap_err();
    assert_eq!(error.exit_code(), 126, "{error}");
}

#[test]
fn a_program_that_fails_is_quoted() {
    let error = run_once(&command(&["sh", "-c", "exit 7"]), None, &watched(), "off", 0).unwrap_err();
    assert!(matches!(error, Error::CommandFailed { .. }) && error.to_string().contains("exited with code 7"), "{error}");
    let error = run_once(&command(&["sh", "-c", "kill -9 $$"]), None, &watched(), "off", 0).unwrap_err();
    assert!(error.to_string().contains("killed by signal 9"), "{error}");
}
