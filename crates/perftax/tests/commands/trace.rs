//! `perftax trace` on this machine: planted delays are found and named, and what cannot be done is said. Needs root (or CAP_PERFMON and
//! tracefs), as the kernel's tracepoints do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use perftax_doc::{SlowMessage, TraceDiff, TraceMessage, TraceReport};

use crate::common::{Running, copy_executable, one_at_a_time, perftax, said, traced};

fn delays(folder: &Path) -> PathBuf {
    traced("delays.c", "gcc", &[], folder)
}

/// The cause of each planted delay (delays.c).
fn planted(id: u64) -> Option<&'static str> {
    let causes = ["blocked", "system call", "on CPU", "unattended"];
    id.is_multiple_of(500).then(|| causes[((id / 500 - 1) % 4) as usize])
}

/// Whether a planted delay is named; what the machine did besides may be longer, and is then named instead, rightly.
fn is_named(slow: &SlowMessage, planted: &str) -> bool {
    let disturbances = ["steal", "preempted", "runnable", "irq", "softirq", "vector"];
    let share = |cause: &str| slow.shares_ns.get(cause).copied().unwrap_or(0);
    let disturbed_ns: u64 = disturbances.into_iter().map(share).sum();
    // The programs that spin look at a clock that goes on while they are disturbed.
    let is_there = share(planted) + disturbed_ns >= 2_500_000;
    is_there && (slow.cause == planted || disturbances.contains(&slow.cause.as_str()) && disturbed_ns > 500_000)
}

#[test]
fn planted_delays_are_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let (program, trace) = (delays(folder.path()), folder.path().join("trace"));
    let (program, trace) = (program.to_str().unwrap(), trace.to_str().unwrap());
    let recorded = perftax(&["trace", "record", "-m", "4096", "-o", trace, "--", program, "8000"]);
    assert_eq!(recorded.status.code(), Some(0), "{}", said(&recorded));
    assert!(recorded.stdout.is_empty());
    let reported = perftax(&["trace", "report", trace, "--slowest", "400", "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&reported.stdout).unwrap();
    assert_eq!((report.messages, report.meta.rings, report.meta.dropped, report.meta.lost), (8000, 1, 0, 0));
    assert_eq!(report.trouble, BTreeMap::new());
    let latency = report.latency.unwrap();
    assert!(latency.messages == 8000 && latency.p50_ns < latency.p99_ns && latency.p50_ns >= 2000, "{latency:?}");
    assert!(report.samples > 10, "{}", report.samples);
    // Sixteen are planted, of 3 ms each; a machine that is shared adds some of its own, hundreds never.
    let found: Vec<_> = report.slowest.iter().filter_map(|slow| Some((slow, planted(slow.id)?))).collect();
    assert_eq!(found.len(), 16, "{:?}", report.slowest);
    for (slow, cause) in &found {
        assert!(is_named(slow, cause), "{cause}: {slow:?}");
        assert_eq!(slow.shares_ns.values().sum::<u64>(), slow.latency_ns);
        assert!(slow.beyond_ns > 500_000, "{slow:?}");
    }
    let tail = &report.blames[0];
    // More messages are behind that quantile where their latencies are alike: together they have what was planted.
    let extra_ns = tail.extra_ns.high * tail.messages as f64;
    assert!(tail.from == 0.99 && tail.messages >= 80 && tail.extra_ns.low > 0.0 && extra_ns > 16.0 * 3e6 * 0.9, "{tail:?}");
}

/// A program of system calls alone gets several times slower: that is found on it, whatever a loop's prices say; of what goes on meanwhile no message is lost. Without the check
/// nothing is off.
#[test]
fn what_recording_costs_is_found_on_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("mixed.c", "gcc", &[], folder.path());
    let trace = folder.path().join("trace");
    let (program, trace) = (program.to_str().unwrap(), trace.to_str().unwrap());
    let record = |options: &[&str], messages: &str| {
        let record =
            [&["trace", "record", "-m", "4096", "--keep-slow", "p99.9", "-o", trace], options, &["--", program, messages]]
                .concat();
        let output = perftax(&[&record[..], &["50", "0"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let report = perftax(&["trace", "report", trace, "--json", "-"]);
        let text = perftax(&["trace", "report", trace]);
        std::fs::remove_dir_all(trace).unwrap();
        let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
        // Wherever lines are broken.
        (report, String::from_utf8_lossy(&text.stdout).split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (report, text) = record(&[], "500000");
    let checked = report.meta.checked.clone().unwrap_or_else(|| panic!("{} s: {text}", report.meta.elapsed_s));
    assert!(checked.pairs.len() >= 3 && checked.off_s > 0.2, "{checked:?}");
    assert!(checked.extra.low <= checked.extra.estimate && checked.extra.estimate > 0.5, "{checked:?}");
    assert_eq!((report.messages, report.trouble.len()), (500_000, 0), "{:?}", report.trouble);
    assert!(report.watched < 500_000 && report.watched > 200_000, "{}", report.watched);
    let share = report.cost.share.unwrap();
    assert!(share.estimate > 0.5, "{:?}", report.cost);
    assert!(text.contains("with nothing recorded") && text.contains("perftax itself used"), "{text}");
    let (report, text) = record(&["--no-price-check"], "100000");
    assert_eq!((report.meta.checked, report.watched), (None, 100_000), "{text}");
}

/// A clock that samples whatever runs keeps the program's own samples, and those of what it has started.
#[test]
fn samples_of_others_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let program = "$is_child = !fork; do { $x++ for 1 .. 100_000 } while (times)[0] < 0.6; wait unless $is_child";
    let recorded = one_at_a_time(|| {
        let spin = |_| Running(Command::new("perl").args(["-e", "1 while 1"]).spawn().unwrap());
        let _others: Vec<Running> = (0..2).map(spin).collect();
        let arguments = ["trace", "record", "-m", "4096", "-o", &path("trace"), "--", "perl", "-e", program];
        Command::new(env!("CARGO_BIN_EXE_perftax")).args(arguments).output().unwrap()
    });
    assert_eq!(recorded.status.code(), Some(0), "{}", said(&recorded));
    let report = perftax(&["trace", "report", &path("trace"), "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
    let (samples, cpu_ms) = (report.meta.recorded[1] as f64, report.meta.cpu_s * 1000.0);
    // The others took as much CPU time and more.
    assert!(report.meta.kernel_noise && report.meta.clock_of_cpus && report.meta.lost == 0, "{} lost", report.meta.lost);
    assert!(cpu_ms > 1000.0 && (0.75..1.25).contains(&(samples / cpu_ms)), "{samples} samples in {cpu_ms} ms");
}

/// Threads that follow each other on one CPU keep the events that they have inherited; what was found lacks something then, and that is said.
#[test]
fn threads_that_take_turns_are_not_made_slower_by_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("mixed.c", "gcc", &[], folder.path());
    let (program, trace) = (program.to_str().unwrap(), folder.path().join("trace"));
    let (trace, cpu) = (trace.to_str().unwrap(), perftax_pmu::guard::allowed_cpus().unwrap()[0].to_string());
    let record = [
        "trace",
        "record",
        "-m",
        "4096",
        "--keep-slow",
        "p99.9",
        "-o",
        trace,
        "--",
        "timeout",
        "12",
        "taskset",
        "-c",
        &cpu,
        program,
    ];
    let recorded = perftax(&[&record[..], &["1000000000", "0", "20000", "2"]].concat());
    assert_eq!(recorded.status.code(), Some(124), "{}", said(&recorded));
    let report = perftax(&["trace", "report", trace, "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
    let checked = report.meta.checked.clone().unwrap_or_else(|| panic!("{} s", report.meta.elapsed_s));
    assert!(checked.off_cpu_s > 0.0 && checked.off_cpu_s <= 2.0 * checked.off_s, "{checked:?}");
    let warnings = format!("{:?}", report.meta.origin.warnings);
    assert!(warnings.contains("follow each other on a CPU"), "{warnings}");
}

/// The slow messages alone reach the disk, whole, and what is said of all is the same.
#[test]
fn slow_messages_are_kept_alone() {
    let folder = tempfile::tempdir().unwrap();
    let program = delays(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let record = ["trace", "record", "--keep-slow", "p99.5", "-o", &path("kept"), "--"];
    let kept = perftax(&[&record[..], &[program.to_str().unwrap(), "60000"]].concat());
    assert_eq!(kept.status.code(), Some(0), "{}", said(&kept));
    let report = perftax(&["trace", "report", &path("kept"), "--slowest", "400", "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
    let what = report.meta.kept.unwrap();
    assert_eq!((report.messages, what.messages, what.not_whole), (60_000, 60_000, 0));
    // Two marks a message: of the first thousand, of the slow ones and of their neighbours.
    assert!(report.meta.rows[0] < 60_000, "{:?}", report.meta.rows);
    // A hundred and twenty are delayed, in four ways.
    let found: Vec<_> = report.slowest.iter().filter_map(|slow| Some((slow, planted(slow.id)?))).collect();
    assert_eq!(found.len(), 120, "{:?}", report.slowest);
    for (slow, cause) in &found {
        assert!(is_named(slow, cause), "{cause}: {slow:?}");
    }
    let latency = report.latency.unwrap();
    assert!(latency.p50_ns >= 2000 && latency.p999_ns > 1_000_000 && report.blames[0].from == 0.995, "{latency:?}");
    let refused = perftax(&["trace", "diff", &path("kept"), &path("kept")]);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("--keep-slow"), "{}", said(&refused));
}

/// Who waits for a lock is told whose message had it, as by whom it was woken.
#[test]
fn who_held_a_lock_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("lock.c", "gcc", &[], folder.path());
    let trace = folder.path().join("trace").to_str().unwrap().to_string();
    let recorded = perftax(&["trace", "record", "-m", "4096", "-o", &trace, "--", program.to_str().unwrap(), "2000"]);
    assert_eq!(recorded.status.code(), Some(0), "{}", said(&recorded));
    let report = perftax(&["trace", "report", &trace, "--slowest", "400", "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
    let waited =
        |slow: &&SlowMessage| slow.id.is_multiple_of(2) && slow.shares_ns.get("blocked").is_some_and(|ns| *ns > 2_000_000);
    let waited: Vec<&SlowMessage> = report.slowest.iter().filter(waited).collect();
    // Forty are held for 3 ms, and somebody comes for the lock meanwhile, but where the machine keeps him from it.
    assert!(waited.len() >= 10, "{:?}", report.slowest);
    let named = |slow: &&&SlowMessage| {
        let waker = slow.woken_by.as_ref();
        waker.and_then(|waker| waker.message).is_some_and(|id| id % 100 == 99)
            && slow.which.as_deref() == Some("futex at lock [lock]")
    };
    let right = waited.iter().filter(named).count();
    assert!(right * 10 >= waited.len() * 9, "{right} of {}: {waited:?}", waited.len());
    let one = waited.iter().find(|slow| named(slow)).unwrap();
    let shown = perftax(&["trace", "show", &trace, &one.id.to_string()]);
    // What is long goes on in the next line.
    let text = String::from_utf8_lossy(&shown.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let holder = one.woken_by.as_ref().and_then(|waker| waker.message).unwrap();
    assert!(text.contains(&format!("at message {holder}, in futex")), "{text}");
    // What it took its time for is what the holder did.
    let shown = perftax(&["trace", "show", &trace, &one.id.to_string(), "--json", "-"]);
    let shown: TraceMessage = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown.path.iter().map(|step| step.ns).sum::<u64>(), one.latency_ns);
    let of_holder = shown.path.iter().filter(|step| step.message == Some(holder) && step.depth == 1);
    assert!(of_holder.map(|step| step.ns).sum::<u64>() > 1_000_000, "{:?}", shown.path);
}

#[test]
fn a_regression_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let program = delays(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    // Between two and ten microseconds, as the machine goes.
    for (name, steps) in [("before", "0"), ("after", "6000")] {
        let program = program.to_str().unwrap();
        let recorded = perftax(&["trace", "record", "-c", "100003", "-o", &path(name), "--", program, "100000", "0", steps]);
        assert_eq!(recorded.status.code(), Some(0), "{}", said(&recorded));
    }
    let diff = perftax(&["trace", "diff", &path("before"), &path("after"), "--json", "-"]);
    let diff: TraceDiff = serde_json::from_slice(&diff.stdout).unwrap();
    // What the machine does besides may make the rest slower, too (the program's usual work is to read the clock): never from nothing.
    let is_new = |before_ns: f64| before_ns < 100.0;
    let mut changes = diff.changes.iter().filter(|change| change.is_sampled && change.is_resolved());
    let named = changes.find(|change| is_new(change.before_ns.estimate)).unwrap();
    assert_eq!(named.detail.as_deref(), Some("regressed [delays]"), "{:?}", &diff.changes[..8]);
    assert!(named.more_ns.low > 500.0, "{named:?}");
    let median = &diff.latency[0];
    assert!(median.quantile == 0.5 && median.after_ns.low > median.before_ns.high + 500.0, "{median:?}");
}

/// A program that runs already is listened to, left alone, and listened to again; within a budget what it cost is said.
#[test]
fn a_program_that_runs_is_joined_and_left() {
    let folder = tempfile::tempdir().unwrap();
    let program = delays(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    // It ends with the test, whatever becomes of that.
    let mut running = Running(Command::new(&program).arg("1000000000").spawn().unwrap());
    let pid = running.pid().to_string();
    let report = |name: &str, options: &[&str]| -> TraceReport {
        let joined = perftax(&[&["trace", "record", "-p", &pid, "-o", &path(name)], options].concat());
        assert_eq!(joined.status.code(), Some(0), "{}", said(&joined));
        // All that can be planted ones: a machine that others use has slower ones of its own.
        let slowest = ["trace", "report", &path(name), "--slowest", "10000", "--json", "-"];
        serde_json::from_slice(&perftax(&slowest).stdout).unwrap()
    };
    let first = report("first", &["--time", "1"]);
    assert!(first.messages > 1000 && first.samples > 100 && first.meta.spent.is_none(), "{} {}", first.messages, first.samples);
    assert!(first.meta.program.concat().contains("delays") && first.slowest.iter().any(|slow| planted(slow.id).is_some()));
    // What was mapped before is known by name.
    let named =
        |report: &TraceReport| report.slowest.iter().filter_map(|slow| slow.function.clone()).any(|f| f.name.contains("delays]"));
    assert!(named(&first) || first.blames.iter().flat_map(|blame| &blame.causes).any(|cause| !cause.functions.is_empty()));
    let second = report("second", &["--time", "4", "--budget", "5%"]);
    let spent = second.meta.spent.clone().unwrap();
    assert!(spent.slices > 50 && spent.on_slices > 2 && spent.in_all.estimate < 0.2, "{spent:?}");
    assert!(second.watched > 0 && second.watched < second.messages / 2, "{} {}", second.watched, second.messages);
    // Of few that recording was on for hardly any is among the slowest of all: the slowest of those are kept.
    let always_on = report("always on", &["--time", "4", "--budget", "5%", "--keep-slow", "p99.9"]);
    let kept = always_on.meta.kept.clone().unwrap();
    assert!(kept.kept >= 20 && kept.watched >= kept.kept && kept.trouble.is_some(), "{kept:?}");
    assert!(always_on.slowest.iter().any(|slow| slow.latency_ns >= kept.kept_from_ns), "{:?}", always_on.slowest);
    assert!(running.0.try_wait().unwrap().is_none());
    drop(running);
    let gone = perftax(&["trace", "record", "-p", &pid, "-o", &path("gone")]);
    assert!(gone.status.code() == Some(2) && said(&gone).contains("-p is"), "{}", said(&gone));
    // A program without marks is refused, with what to do.
    let mut silent = Command::new("sleep").arg("30").spawn().unwrap();
    let refused = perftax(&["trace", "record", "-p", &silent.id().to_string(), "-o", &path("silent")]);
    assert!(refused.status.code() == Some(3) && said(&refused).contains("perftax_tag_state"), "{}", said(&refused));
    silent.kill().unwrap();
    silent.wait().unwrap();
}

/// Of a program in a mount namespace of its own, where another build lies at its path here, and of one whose file was replaced: names are those of what runs.
#[test]
fn names_are_those_of_the_files_that_are_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    for name in ["runs", "lies"] {
        let built = folder.path().join(format!("of_{name}"));
        std::fs::create_dir(&built).unwrap();
        traced("delays.c", "gcc", &[&format!("-Dregressed=what_{name}")], &built);
    }
    let program = path("program");
    let put = |which: &str| {
        copy_executable(&folder.path().join(format!("of_{which}/delays")), Path::new(&path("new")));
        std::fs::rename(path("new"), &program).unwrap();
    };
    let names = |pid: u32, to: &str| {
        let joined = perftax(&["trace", "record", "-p", &pid.to_string(), "--time", "1", "-o", &path(to)]);
        assert_eq!(joined.status.code(), Some(0), "{}", said(&joined));
        // The tables are compressed: a name does not stand there as it is.
        let profile = perftax(&["trace", "export", &path(to), "--format", "firefox", "-o", "-"]);
        assert_eq!(profile.status.code(), Some(0), "{}", said(&profile));
        let text = String::from_utf8(profile.stdout).unwrap();
        ["what_runs", "what_lies"].map(|name| text.contains(name))
    };
    let is_there = |pid: u32| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        maps.contains("/program") && maps.contains("libc")
    };
    put("lies");
    let script = format!("mount --bind {} {program} && exec {program} 1000000000 0 2000", path("of_runs/delays"));
    let mut running = Running(Command::new("unshare").args(["-m", "sh", "-c", &script]).spawn().unwrap());
    running.until("in its namespace", is_there);
    assert_eq!(names(running.pid(), "namespace"), [true, false]);
    drop(running);

    put("runs");
    let mut running = Running(Command::new(&program).args(["1000000000", "0", "2000"]).spawn().unwrap());
    running.until("begun", is_there);
    put("lies");
    assert_eq!(names(running.pid(), "replaced"), [true, false]);
    std::fs::remove_file(&program).unwrap();
    assert_eq!(names(running.pid(), "deleted"), [true, false]);
}

/// Code that a runtime makes is called what that has written about it, in its own file systems, also when those are gone with it; where it has written nothing that is said.
#[test]
fn code_that_is_made_while_it_runs_has_its_names() {
    // A container has a /tmp of its own.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let program = traced("generated.c", "gcc", &[], folder.path());
    let trace = folder.path().join("trace").to_str().unwrap().to_string();
    let recorded = |how: &str, around: &[&str]| {
        std::fs::remove_dir_all(&trace).ok();
        let run = format!("cd {} && exec {} 60000 {how}", folder.path().display(), program.display());
        let run = if around.is_empty() { run } else { format!("mount -t tmpfs tmpfs /tmp && {run}") };
        let output = perftax(&[&["trace", "record", "-o", &trace, "--"], around, &["sh", "-c", &run]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let profile = perftax(&["trace", "export", &trace, "--format", "firefox", "-o", "-"]);
        let is_named = String::from_utf8(profile.stdout).unwrap().contains("int Made.whileItRuns(int)");
        let report = perftax(&["trace", "report", &trace, "--json", "-"]);
        let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
        assert!(report.messages == 60_000 && report.samples > 100, "{} {}", report.messages, report.samples);
        let warnings: Vec<String> = report.meta.origin.warnings.iter().map(ToString::to_string).collect();
        (is_named, warnings.iter().any(|warning| warning.contains("that its runtime made")))
    };
    let container = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let found = [recorded("map", &[]), recorded("dump", &[]), recorded("map", &container), recorded("nothing", &[])];
    let (named, unnamed) = ((true, false), (false, true));
    assert_eq!(found, [named, named, named, unnamed]);
    // One that runs already, which sees nothing of our file systems and knows itself as the second process of all.
    // It ends by itself, and its file systems with it.
    let run = format!("mount -t tmpfs tmpfs /tmp; mount -t tmpfs tmpfs /dev/shm; {} 70000 map & wait", program.display());
    let start = || {
        let mut shell = Command::new("unshare");
        let shell = shell.args(&container[1..]);
        Running(shell.args(["sh", "-c", &run]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let child = |pid: u32| {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().next().and_then(|child| child.parse::<u32>().ok())
    };
    let inner = |pid: u32| {
        let made = child(child(pid)?)?;
        std::fs::read_to_string(format!("/proc/{made}/comm")).is_ok_and(|name| name.trim() == "generated").then_some(made)
    };
    std::fs::remove_dir_all(&trace).ok();
    // Nobody else has its turn meanwhile: it would be over by then.
    let output = one_at_a_time(|| {
        let mut running = start();
        running.until("begun", |pid| inner(pid).is_some());
        let made = inner(running.pid()).unwrap().to_string();
        Command::new(env!("CARGO_BIN_EXE_perftax")).args(["trace", "record", "-o", &trace, "-p", &made]).output().unwrap()
    });
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = perftax(&["trace", "report", &trace, "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
    assert!(report.messages > 100 && report.samples > 20, "{} {}", report.messages, report.samples);
    assert!(report.meta.rings == 1 && report.meta.broken.is_empty(), "{:?}", report.meta);
    let left = std::fs::read_dir("/tmp").unwrap().flatten().filter_map(|entry| {
        let path = entry.path();
        let text = std::fs::read_to_string(&path).ok().filter(|text| text.contains("Made.whileItRuns"))?;
        drop(text);
        Some(path)
    });
    left.for_each(|path| std::fs::remove_file(path).unwrap());
}

/// In a time namespace our clock is another than the one that the kernel stamps records with.
#[test]
fn in_a_time_namespace_samples_are_of_their_messages() {
    let folder = tempfile::tempdir().unwrap();
    let program = delays(folder.path());
    let trace = folder.path().join("trace");
    for (option, seconds) in [("--monotonic", "100000"), ("--monotonic", "-1")] {
        std::fs::remove_dir_all(&trace).ok();
        let recorded = one_at_a_time(|| {
            let mut command = Command::new("unshare");
            command.args(["--time", option, seconds, "--fork", env!("CARGO_BIN_EXE_perftax"), "trace", "record", "-o"]);
            command.arg(&trace).arg("--").arg(&program).args(["20000", "0", "2000"]).output().unwrap()
        });
        assert_eq!(recorded.status.code(), Some(0), "{}", said(&recorded));
        let report = perftax(&["trace", "report", trace.to_str().unwrap(), "--json", "-"]);
        let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(report.messages, 20_000);
        // Nearly all of its time it works on some message.
        assert!(report.samples * 10 > report.meta.rows[1] * 5, "{} of {}", report.samples, report.meta.rows[1]);
    }
}

/// A process goes on when its first thread has ended: it is recorded on, and can be joined then.
#[test]
fn a_process_without_its_first_thread_is_recorded() {
    // In a path with spaces, as some are.
    let folder = tempfile::Builder::new().prefix("with two  spaces").tempdir().unwrap();
    let program = traced("leaderless.c", "gcc", &[], folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let run = |later: &str| Running(Command::new(&program).arg(later).stdin(Stdio::piped()).spawn().unwrap());
    one_at_a_time(|| {
        let mut running = run("5000");
        let mut record = Command::new(env!("CARGO_BIN_EXE_perftax"));
        record.args(["trace", "record", "-p", &running.pid().to_string(), "-o", &path("ends")]);
        let recording = record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        running.until("listened to", |pid| {
            let maps = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/maps")).unwrap_or_default();
            maps.contains("/perftax-marks-")
        });
        drop(running.0.stdin.take());
        let recorded = recording.wait_with_output().unwrap();
        assert_eq!(recorded.status.code(), Some(0), "{}", said(&recorded));
    });
    // Its last message, long after its first thread has ended.
    let shown = perftax(&["trace", "show", &path("ends"), "1005000"]);
    assert_eq!(shown.status.code(), Some(0), "{}", said(&shown));
    let text = String::from_utf8_lossy(&shown.stdout);
    let report = perftax(&["trace", "report", &path("ends"), "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
    assert!(text.contains("1005000") && report.meta.program.concat().contains("leaderless"), "{text} {:?}", report.meta.program);

    let mut running = run("1000000000");
    drop(running.0.stdin.take());
    running.until("without its first thread", |pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('Z')
    });
    let joined = perftax(&["trace", "record", "-p", &running.pid().to_string(), "--time", "1", "-o", &path("ended")]);
    assert_eq!(joined.status.code(), Some(0), "{}", said(&joined));
    let report = perftax(&["trace", "report", &path("ended"), "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
    assert!(report.messages > 0 && report.meta.program.concat().contains("leaderless"), "{:?}", report.meta);
    assert!(running.0.try_wait().unwrap().is_none(), "it is left alone");
}

/// What was written before the disk was full is a trace.
#[test]
fn a_full_disk_keeps_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let program = delays(folder.path());
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // In a mount namespace of its own: nothing is left mounted whatever happens.
    let script = format!(
        "mount -t tmpfs -o size=2m tmpfs {disk} && {perftax} trace record -o {disk}/t -- {program} 800000; code=$?; cp -r {disk}/t {copy}; exit $code",
        disk = disk.display(),
        perftax = env!("CARGO_BIN_EXE_perftax"),
        program = program.display(),
        copy = folder.path().join("copy").display()
    );
    let recorded = one_at_a_time(|| Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap());
    assert_eq!(recorded.status.code(), Some(0), "{}", said(&recorded));
    let copy = folder.path().join("copy");
    let report = perftax(&["trace", "report", copy.to_str().unwrap(), "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
    // How many marks come with a group of the kernel's records depends on what else runs; marks go first.
    assert!(report.meta.refused > 100_000 && report.meta.rows[0] >= 10_000, "{} {:?}", report.meta.refused, report.meta.rows);
    assert!(report.messages > 5_000, "{}", report.messages);
    let text = String::from_utf8_lossy(&perftax(&["trace", "report", copy.to_str().unwrap()]).stdout).into_owned();
    assert!(text.contains("the disk was full"), "{text}");
}

#[test]
fn the_programs_end_is_ours_and_what_it_left_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (program, trace) = (delays(folder.path()), folder.path().join("trace"));
    let (program, trace) = (program.to_str().unwrap(), trace.to_str().unwrap());
    let recorded = perftax(&["trace", "record", "--no-kernel-noise", "-o", trace, "--", program, "100", "7"]);
    assert_eq!(recorded.status.code(), Some(7), "{}", said(&recorded));
    let reported = perftax(&["trace", "report", trace]);
    let text = String::from_utf8_lossy(&reported.stdout).into_owned();
    assert!(text.contains("exit code 7") && text.contains("messages  100 by 1 thread"), "{text}");
    // It is not written over.
    let again = perftax(&["trace", "record", "-o", trace, "--", program, "1"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).contains("a folder that is not there yet"), "{}", said(&again));
}

/// Hundredths of a second of CPU time that a process has used; 0 where there is none.
fn ticks(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields.split(' ').collect::<Vec<_>>()).unwrap_or_default();
    fields.get(11..13).map_or(0, |times| times.iter().filter_map(|ticks| ticks.parse::<u64>().ok()).sum())
}

/// ^C ends the program, and what was recorded is kept.
#[test]
fn an_interrupted_recording_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (program, trace) = (delays(folder.path()), folder.path().join("trace"));
    let recorded = one_at_a_time(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
        command.args(["trace", "record", "-o"]).arg(&trace).arg("--").arg(&program).arg("100000000");
        let mut running = Running(command.stderr(Stdio::piped()).spawn().unwrap());
        // Its program has begun with its messages where it has used so much.
        let works = |pid: &String| Command::new("pgrep").args(["-P", pid, "delays"]).output().unwrap();
        let id = running.pid().to_string();
        running.until("recording", |_| ticks(String::from_utf8_lossy(&works(&id).stdout).trim()) > 20);
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        running.0.wait().unwrap()
    });
    assert_eq!(recorded.code(), Some(130));
    let reported = perftax(&["trace", "report", trace.to_str().unwrap(), "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&reported.stdout).unwrap();
    assert!(report.meta.code == Some(130) && report.messages > 1000, "{:?} {}", report.meta.code, report.messages);
}

#[test]
fn a_full_ring_is_counted_and_a_silent_program_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let program = delays(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let small =
        perftax(&["trace", "record", "--ring-marks", "64", "-o", &path("small"), "--", program.to_str().unwrap(), "20000"]);
    assert_eq!(small.status.code(), Some(0), "{}", said(&small));
    let text = perftax(&["trace", "report", &path("small")]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("marks found no room") && text.contains("--ring-marks"), "{text}");
    let silent = perftax(&["trace", "record", "-o", &path("silent"), "--", "true"]);
    assert_eq!(silent.status.code(), Some(0), "{}", said(&silent));
    let text = perftax(&["trace", "report", &path("silent")]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("the program marked nothing") && text.contains("no message ended"), "{text}");
}

#[test]
fn what_cannot_be_recorded_or_read_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let code = |arguments: &[&str]| {
        let output = perftax(arguments);
        (output.status.code().unwrap(), said(&output))
    };
    let (status, error) = code(&["trace", "record", "-o", &path("a"), "--", "/nonexistent/program"]);
    assert!(status == 127 && error.contains("/nonexistent/program"), "{error}");
    let (status, error) = code(&["trace", "record", "--ring-marks", "100", "-o", &path("b"), "--", "true"]);
    assert!(status == 2 && error.contains("--ring-marks is 100"), "{error}");
    let (status, error) = code(&["trace", "record", "-e", "no-such-event", "-o", &path("c"), "--", "true"]);
    assert!(status == 3 && error.contains("no-such-event"), "{error}");
    let (status, error) = code(&["trace", "record", "-o", "/nonexistent/folder/x", "--", "true"]);
    assert!(status == 1 && error.contains("/nonexistent/folder"), "{error}");
    let (status, error) = code(&["trace", "report", &path("missing")]);
    assert!(status == 1 && error.contains("meta.json"), "{error}");
    // Nothing is left behind.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    std::fs::create_dir(path("torn")).unwrap();
    std::fs::write(folder.path().join("torn/meta.json"), "{\"schema\": 1").unwrap();
    let (status, error) = code(&["trace", "report", &path("torn")]);
    assert!(status == 1 && error.contains("meta.json is malformed"), "{error}");
}
