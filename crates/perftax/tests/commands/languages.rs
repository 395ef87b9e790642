//! Marks from Go, Java, Python and Node on this machine: programs of bindings/truth, few delays each. What their packages' own tests say of rings is not said again: here a trace is
//! recorded of them, and messages that wait are where they wait, whatever else the machine does. Needs root, as the kernel's tracepoints do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use perftax_doc::{SlowMessage, TraceReport};

use crate::common::{perftax, said};

/// Delays of each of five ways.
const EACH: usize = 4;

fn bindings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings").canonicalize().unwrap()
}

fn built(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn gcc(arguments: &[&str], from: &Path, to: &Path) {
    built(Command::new("gcc").args(["-O2", "-Wall", "-Wextra", "-I"]).arg(header()).args(arguments).arg("-o").args([to, from]));
}

fn header() -> PathBuf {
    bindings().join("../crates/perftax-tag/include")
}

/// Runs a program that plants delays; returns the report, and each planted message with its way and nanoseconds asked for.
fn recorded(folder: &Path, program: &[&str]) -> (TraceReport, Vec<(SlowMessage, String, u64)>) {
    let [hog, truth, trace] = ["hog", "truth.csv", "trace"].map(|name| folder.join(name).to_str().unwrap().to_string());
    gcc(&[], &bindings().join("truth/hog.c"), Path::new(&hog));
    let each = EACH.to_string();
    let arguments = [&["trace", "record", "--no-price-check", "-o", &trace, "--"], program, &[&each, "7", &truth, &hog]].concat();
    let output = perftax(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let reported = perftax(&["trace", "report", &trace, "--slowest", "100000", "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&reported.stdout).unwrap_or_else(|_| panic!("{}", said(&reported)));
    assert_eq!((report.meta.dropped, &report.trouble), (0, &BTreeMap::new()), "{}", said(&output));
    let slow: BTreeMap<u64, &SlowMessage> = report.slowest.iter().map(|slow| (slow.id, slow)).collect();
    let lines = std::fs::read_to_string(&truth).unwrap();
    let planted: Vec<(SlowMessage, String, u64)> = lines
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (slow[&fields[0].parse().unwrap()].clone(), fields[1].to_string(), fields[2].parse().unwrap())
        })
        .collect();
    assert_eq!(planted.len(), 5 * EACH);
    for (slow, way, asked_ns) in &planted {
        // Of a collection nobody knows before how long it takes.
        assert!(way == "gc" || slow.latency_ns >= *asked_ns, "{way} of {asked_ns} ns: {slow:?}");
        let share = |cause: &str| slow.shares_ns.get(cause).copied().unwrap_or(0);
        // One that two threads work on for a moment, from one to the other, has more.
        let sum_ns = slow.shares_ns.values().sum::<u64>();
        assert!((slow.latency_ns..slow.latency_ns + slow.latency_ns / 10).contains(&sum_ns), "{slow:?}");
        let is_there = match way.as_str() {
            "faults" => slow.faults > 0,
            // The hog takes the CPU, whoever else does.
            "preempt" => share("preempted") + share("runnable") + share("steal") >= asked_ns / 2,
            _ => true,
        };
        assert!(is_there, "{way} of {asked_ns} ns: {slow:?}");
    }
    (report, planted)
}

/// What waits is where `causes` say, but for what the machine took of it: a timer runs on while its message is kept from coming to wait for it.
fn waits(planted: &[(SlowMessage, String, u64)], causes: &[&str]) {
    let share_ns =
        |slow: &SlowMessage, causes: &[&str]| causes.iter().filter_map(|cause| slow.shares_ns.get(*cause)).sum::<u64>();
    let blocks = || planted.iter().filter(|(_, way, _)| way == "block");
    for (slow, _, asked_ns) in blocks() {
        let taken: Vec<&str> = ["preempted", "runnable", "steal"].into_iter().filter(|cause| !causes.contains(cause)).collect();
        assert!(share_ns(slow, causes) + share_ns(slow, &taken) >= asked_ns * 9 / 10, "{asked_ns} ns: {slow:?}");
    }
    assert!(blocks().any(|(slow, _, asked_ns)| share_ns(slow, causes) >= asked_ns * 9 / 10));
}

fn are_named(report: &TraceReport, planted: &[(SlowMessage, String, u64)]) {
    for (slow, way, _) in planted {
        assert_eq!(slow.label.as_deref(), Some(format!("task {way}").as_str()), "{slow:?}");
    }
    assert!(
        report.labels.iter().any(|label| label.label == "task block" && label.messages >= EACH as u64),
        "{:?}",
        report.labels
    );
}

/// A goroutine that waits is on no thread, by the runtime's own word: the program is built with the overlay.
#[cfg(target_arch = "x86_64")]
#[test]
fn goroutines_carry_their_messages() {
    let folder = tempfile::tempdir().unwrap();
    let [overlay, program] = ["overlay", "planted"].map(|name| folder.path().join(name));
    let go = |arguments: &[&str], at: &str| {
        built(Command::new("go").args(arguments).current_dir(bindings().join(at)).env("GOFLAGS", "-mod=mod"));
    };
    go(&["run", "./cmd/perftax-overlay", overlay.to_str().unwrap()], "go");
    let list = overlay.join("overlay.json");
    go(&["build", "-tags", "perftax", "-overlay", list.to_str().unwrap(), "-o", program.to_str().unwrap(), "."], "truth/go");
    let (report, planted) = recorded(folder.path(), &[program.to_str().unwrap()]);
    waits(&planted, &["unattended"]);
    are_named(&report, &planted);
}

#[test]
fn python_s_threads_and_tasks_carry_their_messages() {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("perftax_tag");
    built(Command::new("cp").arg("-rL").arg(bindings().join("python/src/perftax_tag")).arg(&package));
    let output = Command::new("python3")
        .args(["-c", "import sysconfig as s; print(s.get_paths()['include']); print(s.get_config_var('EXT_SUFFIX'))"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let [include, suffix] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    gcc(&["-shared", "-fPIC", "-Wl,-z,nodelete", "-I", include], &package.join("_tag.c"), &package.join(format!("_tag{suffix}")));
    let program = bindings().join("truth/planted.py");
    let path = format!("PYTHONPATH={}", folder.path().display());
    for (how, waiting) in [("threads", &["blocked", "runnable"][..]), ("asyncio", &["unattended"])] {
        let program = ["env", &path, "python3", program.to_str().unwrap(), how];
        let (report, planted) = recorded(folder.path(), &program);
        waits(&planted, waiting);
        if how == "asyncio" {
            are_named(&report, &planted);
        }
        std::fs::remove_dir_all(folder.path().join("trace")).unwrap();
    }
}

#[test]
fn node_s_async_functions_carry_their_messages() {
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("node");
    std::fs::create_dir_all(module.join("build/Release")).unwrap();
    std::fs::create_dir(folder.path().join("truth")).unwrap();
    let native = module.join("build/Release/perftax_tag.node");
    gcc(&["-shared", "-fPIC", "-Wl,-z,nodelete", "-I/usr/include/node"], &bindings().join("node/src/tag.c"), &native);
    for name in ["node/index.js", "truth/planted.js"] {
        built(Command::new("cp").arg(bindings().join(name)).arg(folder.path().join(name)));
    }
    let program = folder.path().join("truth/planted.js");
    let (report, planted) = recorded(folder.path(), &["node", "--expose-gc", "--single-threaded-gc", program.to_str().unwrap()]);
    waits(&planted, &["unattended"]);
    are_named(&report, &planted);
}

#[test]
fn java_s_threads_carry_their_messages() {
    let folder = tempfile::tempdir().unwrap();
    let classes = folder.path().join("classes");
    let marks = bindings().join("java/marks/src/main");
    built(Command::new("javac").arg("-d").args([
        &classes,
        &marks.join("java/perftax/tag/Marks.java"),
        &bindings().join("truth/Planted.java"),
    ]));
    let home = Command::new("java").args(["-XshowSettings:properties", "-version"]).output().unwrap();
    let home = String::from_utf8_lossy(&home.stderr)
        .lines()
        .find_map(|line| Some(line.trim().strip_prefix("java.home = ")?.to_string()));
    let include = format!("{}/include", home.unwrap());
    let library = folder.path().join("libperftax_tag.so");
    gcc(
        &["-shared", "-fPIC", "-Wl,-z,nodelete", "-pthread", "-I", &include, "-I", &format!("{include}/linux")],
        &marks.join("native/marks.c"),
        &library,
    );
    let library = format!("-Dperftax.tag.library={}", library.display());
    let (_, planted) = recorded(folder.path(), &["java", &library, "-cp", classes.to_str().unwrap(), "Planted"]);
    waits(&planted, &["blocked", "runnable"]);
}
