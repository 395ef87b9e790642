//! Whole programs on the live kernel: gates, exits, samples by CPU.

use std::ffi::OsString;

use perftax_doc::tasks::Tasks;
use perftax_lab::run::{Command, Look, Monitor, Watched, look_at_tasks, run_once};
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
fn undisturbed(monitor: &Monitor) -> perftax_doc::observation::Run {
    let runs = (0..40).map(|round| run_once(&command(&BUSY), Some(monitor), &watched(), "on", round).unwrap());
    let mut why = Vec::new();
    for run in runs {
        match &run.discarded {
            None => return run,
            Some(reason) => why.push(reason.clone()),
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    panic!("every run was discarded: {why:?}")
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

fn is_not_executed(error: &perftax_pmu::Error, why: std::io::ErrorKind) -> bool {
    matches!(error, perftax_pmu::Error::Exec { source, .. } if source.kind() == why)
}

#[test]
fn a_program_that_is_not_there_is_told_from_one_that_may_not_be_executed() {
    let error = run_once(&command(&["/no/such/program"]), None, &watched(), "off", 0).unwrap_err();
    assert!(is_not_executed(&error, std::io::ErrorKind::NotFound), "{error:?}");
    let error = run_once(&command(&["/etc/passwd"]), None, &watched(), "off", 0).unwrap_err();
    assert!(is_not_executed(&error, std::io::ErrorKind::PermissionDenied), "{error:?}");
}

#[test]
fn a_program_that_fails_is_quoted() {
    let error = run_once(&command(&["sh", "-c", "exit 7"]), None, &watched(), "off", 0).unwrap_err();
    assert!(matches!(error, Error::CommandFailed { .. }) && error.to_string().contains("exited with code 7"), "{error}");
    let error = run_once(&command(&["sh", "-c", "kill -9 $$"]), None, &watched(), "off", 0).unwrap_err();
    assert!(error.to_string().contains("killed by signal 9"), "{error}");
}

fn look(program: &Command) -> Tasks {
    let cpus = perftax_pmu::guard::allowed_cpus().unwrap();
    let (task_clock, dummy, faults) = (event("task-clock"), event("dummy:u"), [event("page-faults:u")]);
    look_at_tasks(program, &Look { cpus: &cpus, task_clock: &task_clock, dummy: &dummy, events: &faults, code: None })
        .unwrap()
        .tasks
}

/// Every task that comes is counted, and what each did, to the last of them.
#[test]
fn tasks_are_counted_and_weighed() {
    // 200 threads one after the other, and two that take as long as the first.
    const THREADS: &str = "
import threading
def spin(turns):
    x = 0
    for _ in range(turns): x += 1
for _ in range(200):
    t = threading.Thread(target=spin, args=(10,)); t.start(); t.join()
for _ in range(2):
    t = threading.Thread(target=spin, args=(3000000,)); t.start(); t.join()
spin(3000000)";
    let tasks = look(&command(&["python3", "-c", THREADS]));
    // What is called python3 may be a script that looks for it.
    assert_eq!((tasks.threads, tasks.lost), (202, 0), "{tasks:?}");
    // Each on one CPU at least.
    assert!(tasks.cpu_s.count() >= 203, "{tasks:?}");
    // Two thirds of all are in the two long ones: periods of a hundredth of the whole see them, the better the less they move from CPU to CPU. What the first thread does is cut by each that it creates.
    let total = tasks.cpu_s.total();
    let seen = tasks.cpu_s.share_in_whole_periods(100.0 / total);
    assert!((0.1..0.95).contains(&seen), "{seen} of {tasks:?}");
    // One of the three that take about a third each.
    let busiest = tasks.busiest.as_ref().unwrap();
    assert!((0.2..0.9).contains(&(busiest.cpu_s.total() / total)), "{busiest:?} of {total}");
    assert!(busiest.counts.contains_key("page-faults:u"), "{busiest:?}");
    let faults = &tasks.counts["page-faults:u"];
    assert!(faults.total() > 300.0 && faults.count() >= 200, "{faults:?}");

    // A shell's commands are processes; those that it does not know itself are executed.
    let tasks = look(&command(&["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do /bin/true; (:); done"]));
    assert_eq!((tasks.threads, tasks.processes, tasks.execs), (0, 16, 9), "{tasks:?}");
    let alone = look(&command(&["perl", "-e", "1"]));
    assert_eq!((alone.created(), alone.execs, &alone.busiest), (0, 1, &None), "{alone:?}");
}
