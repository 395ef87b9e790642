//! SIGINT, SIGTERM and SIGKILL at any moment of every command that measures: it ends, knobs are as they were, nothing is half written, no process is
//! left. `PERFTAX_MOMENTS` says at how many moments (3), `PERFTAX_ENDS_WITHIN` within how many seconds it must have ended (20, for busy machines).

#![allow(clippy::unwrap_used)] // tests may

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

const KNOBS: [&str; 2] = ["perf_event_max_sample_rate", "perf_cpu_time_max_percent"];
const LOCK: &str = "/run/lock/perftax-throttle";
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
/// From the start of a command to the last moment.
const LAST_MOMENT: Duration = Duration::from_millis(400);
/// How long others may take to restore what a killed command has left, or to be gone.
const LONG: Duration = Duration::from_secs(20);

/// Held to be written by tests in which no other perftax may start: any start repairs.
static STARTS: RwLock<()> = RwLock::new(());

fn nobody_else_starts() -> RwLockWriteGuard<'static, ()> {
    STARTS.write().unwrap_or_else(PoisonError::into_inner)
}

fn number(variable: &str, usual: u32) -> u32 {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap())
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap().split_whitespace().nth(1) == Some("0")
}

fn knobs() -> [String; 2] {
    KNOBS.map(|knob| std::fs::read_to_string(format!("/proc/sys/kernel/{knob}")).unwrap().trim().to_string())
}

/// The knobs while nobody measures, and nothing is left to be restored.
fn knobs_at_rest() -> [String; 2] {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(600) {
        let Ok(mut file) = File::open(LOCK) else { return knobs() };
        if file.try_lock().is_ok() {
            let mut note = String::new();
            std::io::Read::read_to_string(&mut file, &mut note).unwrap();
            if note.is_empty() {
                return knobs();
            }
            assert!(began.elapsed() < LONG, "what a killed command has changed is not restored: {note}");
        }
        drop(file);
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("another perftax has been measuring for ten minutes");
}

/// A process, and when it was started: its number may be given to another one. None where it is gone, or only its parent's memory.
fn process(pid: u32) -> Option<(u32, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    (!fields.starts_with(['Z', 'X'])).then(|| (pid, fields.split(' ').nth(19).unwrap().to_string()))
}

/// All that a process has started, directly or not.
fn descendants(pid: u32) -> BTreeSet<(u32, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok()).collect::<String>();
    let children = lists.split_whitespace().map(|child| child.parse::<u32>().unwrap());
    children.flat_map(|child| process(child).into_iter().chain(descendants(child))).collect()
}

/// What a test needs.
struct Place {
    folder: tempfile::TempDir,
    profile: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("profile.json");
        let machine = serde_json::json!({"name": "made up", "fingerprint": "0", "cpu": "made up", "microcode": "",
            "virtualisation": "none", "mitigations": "", "cpus": 2});
        let calibration = serde_json::json!({
            "schema": 1, "kind": "calibrate", "perftax": "0.1.0", "kernel": "6.1", "taken_at_s": 4e9, "command": [],
            "machine": machine, "mechanism": "cpu-clock", "event": "cpu-clock",
            "alpha_ns": {"estimate": 5000.0, "low": 4800.0, "high": 5200.0, "confidence": 0.95},
            "floor_ns": null, "samples": 1000, "expected_samples": 1000.0, "lost": 0, "throttled": 0, "terms": {},
            "linearity": null, "control": null, "witness": null, "drift": 0.02, "sessions": 30, "elapsed_s": 90.0,
            "stopped": "precision", "blocks": []
        });
        let all = serde_json::json!({"schema": 1, "machine": machine, "kernel": "6.1", "calibrations": [calibration]});
        std::fs::write(&profile, all.to_string()).unwrap();
        Self { folder, profile }
    }

    /// The program whose threads share a line, for `comm`.
    fn sharing(&self) -> String {
        let program = self.folder.path().join("sharing");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/sharing.c");
        let mut cc = Command::new("cc");
        assert!(cc.args(["-g", "-O1", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap().success());
        program.to_str().unwrap().into()
    }
}

/// A program that goes on for an hour, and one that takes a fraction of a second: for commands that run it many times.
const LASTING: [&str; 4] = ["--", "perl", "-e", "1 while 1"];
const SHORT: [&str; 4] = ["--", "perl", "-e", "my $i = 0; $i++ while $i < 3e6"];

/// What a plain user may sample, too.
fn clock() -> &'static str {
    if is_root() { "cpu-clock" } else { "cpu-clock:u" }
}

/// What came of a signal.
struct Ended {
    status: ExitStatus,
    after: Duration,
}

/// Starts a command in a folder of its own, sends it a signal after a while, and looks at what is left. None where a plain user may not measure so.
fn interrupt(place: &Place, arguments: &[&str], signal: i32, moment: Duration) -> Option<Ended> {
    let _starts = STARTS.read().unwrap_or_else(PoisonError::into_inner);
    let before = knobs_at_rest();
    let folder = tempfile::tempdir().unwrap();
    let log = place.folder.path().join(format!("log-{:?}", std::thread::current().id()));
    let what = format!("perftax {} with signal {signal} after {moment:?}", arguments.join(" "));
    let mut child = Command::new(env!("CARGO_BIN_EXE_perftax"))
        .args(arguments)
        .current_dir(folder.path())
        .env("XDG_DATA_HOME", place.folder.path())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(&log).unwrap();
    std::thread::sleep(moment);
    // Whoever waits for the lock is not measuring yet.
    while said().lines().last().is_some_and(|line| line.contains("waiting for it")) {
        std::thread::sleep(moment.max(Duration::from_millis(20)));
    }
    if let Some(status) = child.try_wait().unwrap() {
        let is_refused = !is_root() && status.code() == Some(3) && said().contains("no permission");
        assert!(is_refused, "{what}: it ended by itself: {}", said());
        return None;
    }
    let started = descendants(child.id());
    let sent = Instant::now();
    assert!(Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap().success());
    let within = Duration::from_secs(number("PERFTAX_ENDS_WITHIN", 20).into());
    let status = end_of(&mut child, within).unwrap_or_else(|| panic!("{what}: it goes on: {}", said()));
    let ended = Ended { status, after: sent.elapsed() };
    assert_eq!(knobs_at_rest(), before, "{what}");
    let is_left = || started.iter().filter(|(pid, since)| process(*pid).is_some_and(|now| now.1 == *since)).collect::<Vec<_>>();
    while !is_left().is_empty() {
        assert!(sent.elapsed() < LONG, "{what}: these go on: {:?}", is_left());
        std::thread::sleep(Duration::from_millis(10));
    }
    for file in std::fs::read_dir(folder.path()).unwrap().flatten() {
        let (name, path) = (file.file_name().into_string().unwrap(), file.path());
        match name.as_str() {
            // What recording is broken off by is the way to end it.
            "result.json" => drop(serde_json::from_slice::<serde_json::Value>(&std::fs::read(&path).unwrap()).expect(&what)),
            "trace" => {
                drop(serde_json::from_slice::<serde_json::Value>(&std::fs::read(path.join("meta.json")).unwrap()).expect(&what))
            }
            // Nobody can take that away but who is killed; it bears no name that is read.
            partial if signal == SIGKILL && partial.contains("partial") => {}
            other => panic!("{what}: {other} is left"),
        }
    }
    Some(ended)
}

fn end_of(child: &mut Child, within: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < within {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// Every signal at every moment of each of the commands.
fn interrupt_all(place: &Place, commands: &[Vec<&str>]) {
    let moments = number("PERFTAX_MOMENTS", 3);
    let mut slowest = (Duration::ZERO, String::new());
    for arguments in commands {
        for moment in 0..moments {
            // Denser at the beginning, where things are opened and started.
            let share = f64::from(moment + 1) / f64::from(moments);
            let moment = LAST_MOMENT.mul_f64(share * share);
            for signal in [SIGINT, SIGTERM, SIGKILL] {
                let Some(Ended { status, after }) = interrupt(place, arguments, signal, moment) else {
                    println!("not allowed to a plain user here: perftax {}", arguments.join(" "));
                    continue;
                };
                // The command's own end where it is recorded until then; by the signal itself where it came before it was to be noticed.
                let is_right =
                    status.signal() == Some(signal) || matches!(status.code(), Some(130 | 137)) || arguments[0] == "trace";
                assert!(is_right, "{arguments:?} with signal {signal} after {moment:?}: {status}");
                if after > slowest.0 {
                    slowest = (after, format!("{} with signal {signal} after {moment:?}", arguments[0]));
                }
            }
        }
    }
    println!("the slowest to end of {} commands at {moments} moments: {} took {:?}", commands.len(), slowest.1, slowest.0);
}

/// Those that take the lock, one after another.
#[test]
fn what_measures_alone_ends_on_every_signal() {
    let place = Place::new();
    let sharing = place.sharing();
    let with = |arguments: &[&'static str], program: &[&'static str]| [arguments, program].concat();
    let mut commands = vec![
        with(&["calibrate", "-e", clock(), "--json", "result.json"], &[]),
        with(&["audit", "--quick", "--only", "count,interval,overhead", "--json", "result.json"], &[]),
        with(&["selfcost", "--json", "result.json"], &[]),
        with(&["verify", "-e", clock(), "--no-reference-loop", "--json", "result.json"], &SHORT),
        with(&["matrix", "-g", "clock", "--events", "1", "--no-reference-loop", "--json", "result.json"], &SHORT),
        with(&["phase", "-e", "page-faults,context-switches", "--every", "cpu-clock:1000000", "--json", "result.json"], &LASTING),
    ];
    if cfg!(target_arch = "x86_64") {
        commands.push(vec!["comm", "--watch", "counters", "--json", "result.json", "--", &sharing, "false", "100000000"]);
    }
    if is_root() {
        commands.push(with(&["calibrate", "-e", "raw_syscalls:sys_enter", "--json", "result.json"], &[]));
        commands.push(with(&["trace", "record", "-c", "20011", "-o", "trace"], &LASTING));
    }
    interrupt_all(&place, &commands);
}

/// Those that measure beside others.
#[test]
fn what_measures_beside_others_ends_on_every_signal() {
    let place = Place::new();
    let profile = place.profile.to_str().unwrap();
    let predict = |command| [&[command, "--profile", profile, "-e", clock(), "--json", "result.json"], &LASTING[..]].concat();
    let mut commands = vec![predict("plan"), predict("predict"), [&["sim", "--json", "result.json"], &LASTING[..]].concat()];
    if is_root() {
        commands.push([&["sensitivity", "--method", "eviction", "--json", "result.json"], &SHORT[..]].concat());
    }
    interrupt_all(&place, &commands);
}

fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// A calibration that has changed the knobs, its output in a pipe, and its guardian.
fn calibrating(place: &Place) -> (Child, u32) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_perftax"))
        .args(["calibrate", "-e", clock(), "--no-save"])
        .env("XDG_DATA_HOME", place.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(600) {
        for (pid, _) in descendants(child.id()) {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if line.starts_with(b"perftax-guardian")
                && std::fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|fds| fds.count() == 1)
            {
                return (child, pid);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    panic!("no guardian: {:?}", child.wait_with_output().unwrap());
}

#[test]
fn a_guardian_holds_nothing_and_restores_when_perftax_is_killed() {
    if !is_root() {
        return eprintln!("not tried: a plain user changes no knob");
    }
    let _alone = nobody_else_starts();
    let place = Place::new();
    let before = knobs_at_rest();
    let (child, guardian) = calibrating(&place);
    // It can do nothing for now: what perftax leaves is seen.
    send("-STOP", guardian);
    while knobs() == before {
        std::thread::sleep(Duration::from_millis(5));
    }
    send("-KILL", child.id());
    // Whoever reads perftax's output sees its end, although the guardian is there.
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(SIGKILL));
    let held = std::fs::read_link(format!("/proc/{guardian}/fd/0")).unwrap();
    assert!(held.to_string_lossy().starts_with("pipe:"), "{held:?}");
    assert_eq!(std::fs::read_link(format!("/proc/{guardian}/cwd")).unwrap(), Path::new("/"));
    send("-CONT", guardian);
    assert_eq!(knobs_at_rest(), before);
    let began = Instant::now();
    while process(guardian).is_some() {
        assert!(began.elapsed() < LONG, "the guardian goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn any_start_repairs_what_a_killed_command_and_its_guardian_have_left() {
    if !is_root() {
        return eprintln!("not tried: a plain user changes no knob");
    }
    let _alone = nobody_else_starts();
    let place = Place::new();
    let before = knobs_at_rest();
    let (child, guardian) = calibrating(&place);
    while knobs() == before {
        std::thread::sleep(Duration::from_millis(5));
    }
    send("-KILL", guardian);
    send("-KILL", child.id());
    assert_eq!(child.wait_with_output().unwrap().status.signal(), Some(SIGKILL));
    assert!(
        Command::new(env!("CARGO_BIN_EXE_perftax")).args(["report", "--help"]).stdout(Stdio::null()).status().unwrap().success()
    );
    assert_eq!(knobs_at_rest(), before);
}

#[test]
fn whoever_measures_is_waited_for_as_long_as_was_asked_for() {
    let Ok(lock) = File::options().read(true).write(true).create(true).truncate(false).open(LOCK) else {
        return eprintln!("not tried: {LOCK} is another user's, and locks nobody out");
    };
    let _alone = nobody_else_starts();
    knobs_at_rest();
    lock.lock().unwrap();
    let place = Place::new();
    let calibrate = |wait: &[&str], variable: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
        command.args(["calibrate", "-e", clock(), "--no-save"]).args(wait).env("XDG_DATA_HOME", place.folder.path());
        command.env_remove("PERFTAX_WAIT").envs(variable.map(|value| ("PERFTAX_WAIT", value))).stdin(Stdio::null());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = calibrate(&[], None);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("another perftax is measuring") && said.contains("--wait waits for it") && !said.contains("waiting"),
        "{said}"
    );
    for (wait, variable) in [(&["--wait=1"][..], None), (&[], Some("1")), (&["--wait=1"], Some("0"))] {
        let (code, said) = calibrate(wait, variable);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("waiting for it, 1 s at most") && said.contains("waited 1 s"), "{said}");
    }
    let (code, said) = calibrate(&[], Some("soon"));
    assert!(code == Some(2) && said.contains("PERFTAX_WAIT is 'soon'"), "{code:?} {said}");
}

/// What waits where no signal is looked at is ended by the watchdog: here, for a pipe that nobody writes.
#[test]
fn what_does_not_look_at_signals_is_ended_all_the_same() {
    let _starts = STARTS.read().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (pipe, log) = (folder.path().join("pipe"), folder.path().join("log"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::write(&log, "kept\n").unwrap();
    for signal in ["-INT", "-TERM"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_perftax"))
            .arg("report")
            .arg(&pipe)
            .stdin(Stdio::null())
            .stderr(File::options().append(true).open(&log).unwrap())
            .spawn()
            .unwrap();
        // Its watchdog is there: signals are noticed.
        let began = Instant::now();
        while std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count() < 2 {
            assert!(began.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(2));
        }
        send(signal, child.id());
        let status = end_of(&mut child, LONG).expect("it goes on");
        assert_eq!(status.code(), Some(130));
    }
    let said = std::fs::read_to_string(&log).unwrap();
    assert_eq!((said.starts_with("kept\n"), said.matches("it was ended in the middle").count()), (true, 2), "{said}");
}
