//! `perftax predict --tool` and `perftax plan --like`: lines of other tools, on this machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use perftax_cost::tool::CALLS_OF_A_TASK;
use perftax_doc::{Plan, Prediction, PriceSource, ToolPrediction, TrialPlacement};
use serde_json::{Value, json};

use crate::common::{one_at_a_time, said};

/// A profile with a calibration of cpu-clock that has the terms of a recording's, so that no test needs to calibrate.
fn profile(folder: &Path) -> String {
    let about = |ns: f64| json!({"estimate": ns, "low": ns * 0.95, "high": ns * 1.05, "confidence": 0.95});
    let machine = json!({"name": "made up", "fingerprint": "0", "cpu": "made up", "microcode": "", "virtualisation": "none", "mitigations": "", "cpus": 2});
    let calibration = |mechanism: &str, event: &str, ns: f64, terms: Value| {
        json!({
            "schema": 1, "kind": "calibrate", "perftax": "0.1.0", "kernel": "6.1", "taken_at_s": 4e9, "command": [], "machine": machine,
            "mechanism": mechanism, "event": event, "alpha_ns": about(ns), "floor_ns": null, "samples": 1000, "expected_samples": 1000.0,
            "lost": 0, "throttled": 0, "terms": terms, "linearity": null, "control": null, "witness": null, "drift": 0.02, "sessions": 30,
            "elapsed_s": 90.0, "stopped": "precision", "blocks": []
        })
    };
    let terms = json!({"callchain": about(2_000.0), "user-regs": about(500.0), "user-stack": about(4_000.0), "excluded-kernel": about(9_000.0)});
    let faults = calibration("software", "page-faults", 1_000.0, json!({"callchain": about(2_000.0)}));
    let calls =
        calibration("tracepoint", "raw_syscalls:sys_enter", 500.0, json!({"raw": about(50.0), "callchain": about(2_000.0)}));
    let calibrations = [calibration("cpu-clock", "cpu-clock", 10_000.0, terms), faults, calls];
    let path = folder.join("profile.json");
    std::fs::write(&path, json!({"schema": 1, "machine": machine, "kernel": "6.1", "calibrations": calibrations}).to_string())
        .unwrap();
    path.display().to_string()
}

/// Runs perftax in a folder of its own, with that profile.
fn perftax(arguments: &[&str]) -> (Output, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let profile = profile(folder.path());
    let output = one_at_a_time(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
        command.args(&arguments[..1]).args(["--profile", &profile, "-r", "2"]).args(&arguments[1..]);
        command
            .current_dir(folder.path())
            .env("XDG_DATA_HOME", folder.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    });
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left = left.filter(|name| name != "profile.json").collect();
    (output, left)
}

fn predicted(arguments: &[&str]) -> ToolPrediction {
    let (output, _) = perftax(&[&["predict", "--json", "-", "-o", "text"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

const BUSY: [&str; 4] = ["--", "perl", "-e", "my $i = 0; $i++ while $i < 4e6"];

#[test]
fn a_recordings_samples_bytes_and_terms_are_those_of_its_line() {
    let line = "perf record -e cpu-clock:u -F 999 -g --call-graph dwarf,1024 -z -o mine";
    let doc = predicted(&[&["--tool", line], &BUSY[..]].concat());
    let [sampler] = &doc.samplers[..] else { panic!("{:?}", doc.samplers) };
    assert_eq!((sampler.event.as_str(), sampler.period), ("cpu-clock:u", 1_001_001));
    // What the filter drops is none of the samples.
    let most = doc.workload.cpu_s.estimate * 999.0;
    assert!((0.6 * most..1.01 * most).contains(&sampler.samples.estimate), "{sampler:?} of {most}");
    // IP, TID, TIME, PERIOD; chain; registers; stack: linux/perf_event.h.
    assert_eq!(sampler.bytes_per_sample.low, 40.0 + 16.0 + 144.0 + 16.0);
    assert!(sampler.bytes_per_sample.contains(40.0 + 24.0 + 144.0 + 1040.0), "{sampler:?}");
    let whats: Vec<&str> = doc.terms.iter().map(|term| term.what.as_str()).collect();
    for what in ["samples of cpu-clock:u", "call chains", "registers", "copies of stacks"] {
        assert!(whats.contains(&what), "{what}: {whats:?}");
    }
    let sum: f64 = doc.terms.iter().map(|term| term.overhead.estimate).sum();
    assert!((sum - doc.priced_overhead.estimate).abs() < 1e-9 && doc.unpriced.is_empty() && doc.trial.is_none());
    assert_eq!(
        (doc.beside, doc.tool.as_str(), doc.line.last().unwrap().as_str()),
        (vec!["-z".to_owned()], "perf record", "mine")
    );
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    assert!(doc.opens.unwrap() >= cpus.min(1), "{:?}", doc.opens);
}

#[test]
fn a_lines_own_command_is_the_program_and_what_has_no_price_is_said() {
    let line = "perf record -e page-faults:u -c 10 --intr-regs=ax -- perl -e 'my $i = 0; $i++ while $i < 4e6'";
    let doc = predicted(&["--tool", line]);
    assert_eq!((doc.workload.command[0].as_str(), doc.line.last().unwrap().as_str()), ("perl", "--"));
    assert_eq!((doc.unpriced.len(), doc.unpriced[0].what.as_str()), (1, "--intr-regs=ax"));
    let samples = doc.workload.counts["page-faults:u"].estimate / 10.0;
    assert!((doc.samplers[0].samples.estimate / samples - 1.0).abs() < 0.05, "{:?}", doc.samplers);
    let (output, left) = perftax(&["predict", "--tool", line, "-o", "text"]);
    assert_eq!((output.status.code(), left), (Some(0), vec!["text".to_owned()]), "{}", said(&output));
    // An overhead that lacks a part is none of the whole.
    let (output, _) = perftax(&["predict", "--tool", line]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("\ncost      at least ") && text.contains("\nwithout   --intr-regs=ax: "), "{text}");
}

/// Whole CPUs pay for what runs on them: samples of what is busy, and no elapsed time of anybody's.
#[test]
fn whole_machines_are_looked_at() {
    let mut busy = Command::new("perl").args(["-e", "1 while 1"]).spawn().unwrap();
    let (output, _) = perftax(&[
        "predict",
        "--json",
        "-",
        "-o",
        "text",
        "--tool",
        "perf record -e cpu-clock:u -F 99 -a",
        "-a",
        "--for",
        "400ms",
    ]);
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let doc: ToolPrediction = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((doc.workload.command, doc.workload.pid), (vec!["(all CPUs)".to_owned()], None));
    assert!(
        doc.workload.cpu_s.estimate > 0.1 && (0.35..2.0).contains(&doc.workload.elapsed_s.estimate),
        "{:?}",
        doc.workload.runs
    );
    assert!(
        doc.samplers[0].samples.estimate <= doc.workload.cpu_s.estimate * 99.0 * 1.01
            && doc.priced_cpu_overhead.unwrap().estimate > 0.0
    );
    for wrong in [&["--tool", "perf record -g", "-a"][..], &["--tool", "perf record -a", "-a", "--", "true"]] {
        let (output, _) = perftax(&[&["predict"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("a line that watches whole CPUs"), "{}", said(&output));
    }
}

#[test]
fn what_cannot_be_read_is_named_and_nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made").display().to_string();
    for (line, says) in [
        ("perf record --frequent 99", "perf record has no option '--frequent' that is known here; --freq is one"),
        ("perf record -F 0", "-F is '0', needs a positive whole number"),
        ("perf record 'x", "a quote does not end"),
        ("gdb", "'gdb' is no tool whose command line is known here (perf record"),
        ("perf stat record", "needs a command to count"),
        ("bpftrace -e 'profile:hz:99 {'", "needs braces that belong together"),
    ] {
        let (output, left) = perftax(&["predict", "--tool", line, "--", "touch", &made]);
        assert_eq!((output.status.code(), left.len()), (Some(2), 0), "{line}: {}", said(&output));
        assert!(said(&output).contains(says) && output.stdout.is_empty(), "{line}: {}", said(&output));
    }
    let (output, _) = perftax(&["predict", "--tool", "perf record -e no-such-event", "--", "touch", &made]);
    assert_eq!(
        (output.status.code(), said(&output).contains("unknown event 'no-such-event'")),
        (Some(3), true),
        "{}",
        said(&output)
    );
    let (output, _) = perftax(&["predict", "--tool", "perf record -a -g"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("since 'perf record -a -g' names none: -- COMMAND, -w, -p PID, or -a for all that runs"),
        "{}",
        said(&output)
    );
    let (output, _) = perftax(&[&["predict", "--tool", "perf stat", "-e", "page-faults"], &BUSY[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(!Path::new(&made).exists());
}

/// strace stops a program at each of its system calls: those of the program are counted, and each costs what it costs on known work.
#[test]
fn a_tracer_is_tried_out_and_leaves_the_users_files_alone() {
    const CALLS: f64 = 30_000.0;
    let program = format!("getppid() for 1..{CALLS}; my $i = 0; $i++ while $i < 2e6");
    let (output, left) =
        perftax(&["predict", "--json", "-", "-o", "text", "--tool", "strace -fo mine", "--", "perl", "-e", &program]);
    assert_eq!((output.status.code(), left), (Some(0), vec!["text".to_owned()]), "{}", said(&output));
    let doc: ToolPrediction = serde_json::from_slice(&output.stdout).unwrap();
    // Those that take neither a path nor a buffer are nearly all the loop's.
    let calls = doc.terms.iter().find(|term| term.what == "other system calls").unwrap();
    let count = calls.count.unwrap().estimate;
    assert!((CALLS..CALLS * 1.05).contains(&count), "{count}");
    assert!(doc.terms.iter().any(|term| term.what == "system calls with a path"), "{:?}", doc.terms);
    // Two stops, each with a switch to another process and back, take some microseconds on any machine.
    assert!(calls.each_ns.unwrap().low > 1_000.0, "{calls:?}");
    let all = count * calls.each_ns.unwrap().estimate * 1e-9 / doc.workload.elapsed_s.estimate;
    assert!((calls.overhead.estimate / all - 1.0).abs() < 1e-6 && doc.unpriced.is_empty(), "{calls:?}");
    let trial = doc.trial.unwrap();
    let at = |placement| trial.runs.iter().filter(|run| run.with_tool && run.placement == placement).count();
    // Who decides where tracer and program run is the scheduler: its price has been seen, and those of both that it may choose.
    let placed = if std::thread::available_parallelism().unwrap().get() > 1 { 6 } else { 0 };
    assert_eq!([TrialPlacement::Free, TrialPlacement::Together, TrialPlacement::Apart].map(at), [9, placed, placed]);
    assert_eq!(trial.runs.len(), 2 * (9 + 2 * placed));
    assert_eq!(
        trial.line,
        ["strace", "-f", "-o"].map(String::from).to_vec().into_iter().chain([trial.line[3].clone()]).collect::<Vec<_>>()
    );
}

/// What a record of a system call costs depends on what the call does, which a calibration with a call that does nothing cannot tell.
#[test]
fn a_recording_of_every_system_call_is_tried_out() {
    const CALLS: f64 = 30_000.0;
    let program = format!("getppid() for 1..{CALLS}; my $i = 0; $i++ while $i < 2e6");
    let of = |line: &str| predicted(&["--tool", line, "--", "perl", "-e", &program]);
    let doc = of("perf record -e raw_syscalls:sys_enter -o mine");
    let (own, calls): (Vec<_>, Vec<_>) = doc
        .terms
        .iter()
        .filter(|term| term.what.contains("system calls"))
        .partition(|term| term.what.starts_with("what code loses"));
    assert!(calls.len() == 3 && own.len() == 1 && calls.iter().all(|term| term.source == PriceSource::Trial), "{:?}", doc.terms);
    let others = calls.iter().find(|term| term.what == "other system calls").unwrap();
    assert!((CALLS..CALLS * 1.05).contains(&others.count.unwrap().estimate), "{others:?}");
    // They are not paid for twice: by the calibration's price of half a microsecond besides.
    assert!(doc.terms.iter().all(|term| !term.what.contains("raw_syscalls") && !term.what.contains("carry")), "{:?}", doc.terms);
    let all: f64 = calls.iter().map(|term| term.count.unwrap().estimate).sum();
    assert!((doc.samplers[0].samples.estimate / all - 1.0).abs() < 0.02 && doc.samplers[0].period == 1, "{:?}", doc.samplers);
    assert!(doc.trial.unwrap().line.starts_with(&["perf".into(), "record".into(), "-eraw_syscalls:sys_enter".into()]));
    assert!(doc.unpriced.is_empty() && doc.around_s.is_some());
    // Of what the program alone tells, its callers' depth, a trial on known work tells nothing.
    let with_callers = of("perf record -g -e raw_syscalls:sys_enter");
    assert!(with_callers.trial.is_none(), "{:?}", with_callers.terms);
}

/// A loop goes through a page or a few, known wide code through many.
#[test]
fn a_prediction_says_how_much_code_a_program_goes_through() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let pages = |computing: &str, wide_code: &str| {
        let mut predict = Command::new(env!("CARGO_BIN_EXE_perftax"));
        // A published cost needs no calibration.
        predict.args([
            "predict",
            "--machine",
            "broadwell",
            "-e",
            "UOPS_RETIRED.ALL",
            "--count-of",
            "1e9",
            "-r",
            "2",
            "--json",
            "-",
        ]);
        predict.args(["--", env!("CARGO_BIN_EXE_perftax"), "perftax-battery", &out, "-", computing]);
        let output = predict.args(["1", "1", "1", "1", "2", "1", "0", "0", wide_code, "0"]).output().unwrap();
        let doc: Prediction = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
        doc.workload.code.unwrap()
    };
    let [narrow, wide] = [("20000000", "0"), ("64", "15000000")].map(|(computing, wide_code)| pages(computing, wide_code));
    assert!(narrow.total() > 50 && wide.total() > 50, "{narrow:?} {wide:?}");
    // Its calls come from one page, which has an eighth of its time: that alone is as if there were 64.
    assert!(narrow.pages.high < 8.0 && wide.pages.low > 16.0 && wide.pages.high < 500.0, "{:?} {:?}", narrow.pages, wide.pages);
}

/// What is taken off a task's price is what the known work does, in every run: counted by strace, as the difference of a hundred tasks.
#[test]
fn a_task_of_the_known_work_takes_the_calls_that_are_taken_off() {
    let folder = tempfile::tempdir().unwrap();
    let calls = |tasks: &str| -> BTreeMap<String, f64> {
        let [out, log] = ["out", "log"].map(|name| folder.path().join(name));
        let mut strace = Command::new("strace");
        strace.args(["-f", "-o"]).arg(&log).args([env!("CARGO_BIN_EXE_perftax"), "perftax-battery"]).arg(&out);
        assert!(strace.args(["-", "64", "1", "1", "1", "1", "2", tasks, "0", "0", "0", "0"]).status().unwrap().success());
        assert!(out.exists(), "the work was not done");
        let mut calls = BTreeMap::new();
        for line in std::fs::read_to_string(log).unwrap().lines() {
            // "PID call(...", "PID <... call resumed>", "PID --- SIGCHLD ---" and "PID +++ exited with 0 +++".
            let said = line.split_once(' ').unwrap().1.trim_start();
            if let Some((call, _)) = said.split_once('(').filter(|(call, _)| !call.contains(' ')) {
                *calls.entry(call.to_owned()).or_default() += 1.0;
            }
        }
        calls
    };
    let [fewer, more] = ["50", "150"].map(calls);
    let of_one: BTreeMap<&str, f64> = (more.iter())
        .map(|(call, times)| (call.as_str(), (times - fewer.get(call).unwrap_or(&0.0)) / 100.0))
        .filter(|(_, times)| times.abs() > 0.1)
        .collect();
    // A signal from outside repeats a call now and then.
    assert!((of_one.values().sum::<f64>() - CALLS_OF_A_TASK).abs() < 0.5, "{of_one:?}");
}

#[test]
fn a_plan_keeps_a_lines_options() {
    let plan = |line: &str| {
        let (output, _) =
            perftax(&[&["plan", "--budget", "5%", "--json", "-", "-o", "text", "--like", line], &BUSY[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        serde_json::from_slice::<Plan>(&output.stdout).unwrap()
    };
    let of = |line: &str| {
        let plan = plan(line);
        let words = plan.perf_record.join(" ");
        let period = format!(" -c {} -m {} -- perl", plan.period, plan.buffer_bytes / 4096);
        words.split_once(&period).unwrap_or_else(|| panic!("{words}")).0.to_owned()
    };
    assert_eq!(of("perf record -e cpu-clock:u -gF 99 -m 2 --per-thread"), "perf record -ecpu-clock:u -g --per-thread");
    let plain = plan("perf record -e cpu-clock:u");
    let with_stacks = plan("perf record -e cpu-clock:u --call-graph dwarf");
    // A sample costs 4.5 µs more on top of 10. Periods follow, but are each of a measurement of their own of a program that a busy machine lets vary.
    let each_ns = |plan: &Plan| plan.expected_overhead.estimate * plan.workload.elapsed_s.estimate / plan.samples * 1e9;
    let (plain_ns, with_stacks_ns) = (each_ns(&plain), each_ns(&with_stacks));
    assert!(with_stacks_ns > 1.2 * plain_ns, "{with_stacks_ns} {plain_ns}");
    for (line, says) in [("perf stat", "needs a perf record line"), ("perf record -e page-faults,cpu-clock", "needs one event")] {
        let (output, _) = perftax(&[&["plan", "--like", line], &BUSY[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(said(&output).contains(says), "{line}: {}", said(&output));
    }
}
