//! `perftax record` on this machine: its recordings are read by perf and by ourselves, its programs are left alone, whatever becomes of it.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use perftax_doc::{ExpenseOn, Recorded};
use perftax_perfdata::recording::Recording;

use crate::common::{Running, is_root};
use crate::streams::Place;

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;

/// Uses so much CPU time, and ends with this code.
fn busy(seconds: f64, code: u32) -> Vec<String> {
    let script = format!("use POSIX; 1 while POSIX::clock() < {seconds} * 1e6; exit {code}");
    ["perl", "-e", &script].map(String::from).to_vec()
}

/// What a plain user may sample, too.
fn clock() -> &'static str {
    if is_root() { "cpu-clock" } else { "cpu-clock:u" }
}

fn arguments<'a>(options: &[&'a str], program: &'a [String]) -> Vec<&'a str> {
    let options = ["-e", clock()].into_iter().chain(options.iter().copied());
    let separator = if program.is_empty() { None } else { Some("--") };
    options.chain(separator).chain(program.iter().map(String::as_str)).collect()
}

fn document(path: &str) -> Recorded {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn samples_by_perf(path: &str) -> (u64, u64) {
    let output = Command::new("perf").args(["script", "-F", "period", "-i", path]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let periods = text.lines().map(|line| line.trim().trim_end_matches(':').parse::<u64>().unwrap());
    periods.fold((0, 0), |(count, weight), period| (count + 1, weight + period))
}

#[test]
fn what_was_recorded_is_what_is_said_and_within_the_budget() {
    let place = Place::bare_with_profile();
    let (data, json) = (place.path("a.data"), place.path("a.json"));
    let program = busy(1.5, 7);
    let ran = place.perftax("record", &arguments(&["--budget", "5%", "-o", &data, "--json", &json], &program));
    assert_eq!(ran.code, Some(7), "{}", ran.stderr);
    assert!(ran.stderr.contains("perf report -i"), "{}", ran.stderr);
    let said = document(&json);
    assert_eq!((said.code, said.lost), (Some(7), 0));
    let (count, weight) = samples_by_perf(&data);
    assert_eq!(said.samples, count);
    let read = Recording::open(Path::new(&data)).unwrap();
    assert_eq!(read.events.iter().map(|event| event.samples).sum::<u64>(), count);
    assert_eq!(read.features.program(), program);
    // 5 µs a sample and 5 % make one in some 105 µs: not fewer than a quarter of as many, where other things take their part.
    assert!(count > 3_000, "{count} samples: {}", ran.stderr);
    let counted_s = weight as f64 * 1e-9;
    assert!((counted_s / said.program_cpu_s - 1.0).abs() < 0.1 || !is_root(), "{counted_s} of {}", said.program_cpu_s);
    let share = said.spent_share.unwrap();
    assert!(share.high <= 0.05 + said.burst_s / said.program_cpu_s, "{share:?}");
    assert!(said.expenses.iter().any(|expense| expense.on == ExpenseOn::Samples && expense.count == Some(count)));
    let bill = place.perftax("bill", &[&data]);
    assert_eq!(bill.code, Some(0), "{}", bill.stderr);
}

#[test]
fn a_recording_that_is_there_is_kept() {
    let place = Place::bare_with_profile();
    let data = place.path("a.data");
    std::fs::write(&data, "somebody's").unwrap();
    let ran = place.perftax("record", &arguments(&["-o", &data], &busy(0.05, 0)));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(place.path("a.data.old")).unwrap(), "somebody's");
    // One that cannot begin takes nothing away.
    let ran = place.perftax("record", &arguments(&["-o", &data], &["/nowhere/to/be/found".to_string()]));
    assert_eq!(ran.code, Some(127), "{}", ran.stderr);
    assert!(Recording::open(Path::new(&data)).is_ok());
    assert_eq!(std::fs::read_to_string(place.path("a.data.old")).unwrap(), "somebody's");
    let left: Vec<_> =
        std::fs::read_dir(Path::new(&data).parent().unwrap()).unwrap().flatten().map(|it| it.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains(".partial-")), "{left:?}");
}

#[test]
fn a_process_goes_on_when_it_was_recorded() {
    let place = Place::bare_with_profile();
    let mut program = Running(Command::new("perl").args(["-e", "1 while 1"]).stdout(Stdio::null()).spawn().unwrap());
    program.until("using CPU time", |pid| perftax_pmu::sys::process_cpu_ns(pid).unwrap_or(0) > 10_000_000);
    let (data, json, pid) = (place.path("a.data"), place.path("a.json"), program.pid().to_string());
    let ran = place.perftax("record", &arguments(&["-o", &data, "--json", &json, "-p", &pid, "--for", "700ms"], &[]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(program.0.try_wait().unwrap().is_none(), "it goes on");
    let said = document(&json);
    assert!(said.code.is_none() && said.samples > 0, "{said:?}");
    assert!((0.3..20.0).contains(&said.elapsed_s), "{}", said.elapsed_s);
    // Who runs is known, though nobody saw it start.
    let output = Command::new("perf").args(["script", "-F", "comm,dso", "-i", &data]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().filter(|line| line.contains("perl") && !line.contains("[unknown]")).count() > 0, "{text}");
}

/// Whoever is killed has only looked: the program goes on, and what was recorded until then is there.
#[test]
fn a_program_survives_the_recorder() {
    let place = Place::bare_with_profile();
    let (data, done) = (place.path("a.data"), place.path("done"));
    let script = format!("my $end = time + 3; 1 while time < $end; open my $f, '>', '{done}'; print $f 'done'");
    let program = ["perl", "-e", &script].map(String::from);
    let mut recorder = place.command("record", &arguments(&["-o", &data], &program)).stderr(Stdio::null()).spawn().unwrap();
    let partial = || {
        let folder = std::fs::read_dir(Path::new(&data).parent().unwrap()).unwrap().flatten();
        let mut partials = folder.map(|it| it.path()).filter(|path| path.to_string_lossy().contains("a.data.partial-"));
        partials.next()
    };
    let began = Instant::now();
    // Until something is in it.
    let there = loop {
        let found =
            partial().filter(|path| Recording::open(path).is_ok_and(|read| read.events.iter().any(|event| event.samples > 0)));
        if let Some(path) = found {
            break path;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was written");
        std::thread::sleep(Duration::from_millis(20));
    };
    recorder.kill().unwrap();
    assert_eq!(recorder.wait().unwrap().signal(), Some(SIGKILL));
    while !Path::new(&done).exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the program is gone");
        std::thread::sleep(Duration::from_millis(20));
    }
    let read = Recording::open(&there).unwrap();
    assert!(read.events[0].samples > 0 && read.fault.is_none());
    assert_eq!(samples_by_perf(there.to_str().unwrap()).0, read.events[0].samples);
}

#[test]
fn an_interrupt_ends_the_program_and_keeps_the_recording() {
    let place = Place::bare_with_profile();
    let data = place.path("a.data");
    let program = ["perl", "-e", "1 while 1"].map(String::from);
    let mut recorder = place.command("record", &arguments(&["-o", &data], &program)).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(600));
    assert!(Command::new("kill").args(["-INT", &recorder.id().to_string()]).status().unwrap().success());
    let ended = recorder.wait().unwrap();
    assert_eq!(ended.code(), Some(128 + SIGINT), "{ended:?}");
    assert!(Recording::open(Path::new(&data)).is_ok());
}
