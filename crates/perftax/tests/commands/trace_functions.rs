//! `perftax trace --tag func:…` on this machine: messages told apart by any functions of a program. Needs root, as the kernel's uprobe_events does.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use perftax_doc::{ProbeSight, TraceReport};

use crate::common::{Running, child, perftax, traced};

fn report(trace: &str) -> TraceReport {
    let output = perftax(&["trace", "report", trace, "--slowest", "400", "--json", "-"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// The report, how well probes did, and the trace with all its names.
fn recorded(tag: &str, program: &[&str]) -> (TraceReport, ProbeSight, String) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace").to_str().unwrap().to_string();
    let output = perftax(&[&["trace", "record", "-c", "200003", "--tag", tag, "-o", &trace, "--"], program].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report = report(&trace);
    let sight = report.meta.probes.clone().unwrap();
    assert_eq!(report.meta.lost, 0);
    let exported = perftax(&["trace", "export", &trace, "--format", "firefox", "-o", "-"]);
    (report, sight, String::from_utf8_lossy(&exported.stdout).into_owned())
}

fn counts(sight: &ProbeSight) -> (u64, u64, u64, u64) {
    (sight.started, sight.done, sight.broken_off, sight.done_without_start)
}

#[test]
fn messages_are_told_by_what_lies_behind_a_pointer_by_address_and_by_thread() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("functions.c", "gcc", &["-fno-optimize-sibling-calls", "-fno-ipa-icf"], folder.path());
    let path = program.to_str().unwrap();
    // Each has its own number: every twentieth is never ended, and nothing breaks it off.
    let (report, sight, _) = recorded("func:begin@1+0x10:u32,finish@2+16:u32", &[path, "1000"]);
    assert_eq!(counts(&sight), (2000, 1900, 0, 0));
    assert_eq!((report.messages, report.trouble["never ended"]), (2000, 100));
    assert_eq!(sight.binary, path);
    // The same two addresses again and again: what was never ended is broken off by the next.
    let (_, sight, _) = recorded(&format!("func:{path}:begin@1,finish@2"), &["sh", "-c", &format!("{path} 1000")]);
    assert_eq!(counts(&sight), (2000, 1900, 99, 0));
    // A call that calls itself is one message.
    let (report, sight, _) = recorded("func:handle", &[path, "1000"]);
    assert_eq!(counts(&sight), (1000, 1000, 0, 0));
    assert_eq!((report.messages, report.trouble.len()), (1000, 0), "{:?}", report.trouble);
}

/// In a mount namespace of its own another build lies at the path: probes stand in what the process has mapped.
#[test]
fn a_container_is_probed_where_its_own_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("functions.c", "gcc", &[], folder.path());
    let inside = folder.path().join("inside");
    std::fs::rename(&program, &inside).unwrap();
    let here = folder.path().join("a.c");
    std::fs::write(&here, "int main(void) { return 0; }\n").unwrap();
    assert!(Command::new("gcc").arg("-o").args([&program, &here]).status().unwrap().success());
    let script = format!("mount --bind {} {} && {} 100000000; :", inside.display(), program.display(), program.display());
    let mut command = Command::new("unshare");
    command.args(["-m", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", &script]).stdin(Stdio::null());
    let mut running = Running(command.spawn().unwrap());
    let program_of = |pid: u32| child(child(pid)?.parse().ok()?);
    let is_there = |pid: u32| {
        let maps = program_of(pid).map(|pid| std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default());
        maps.is_some_and(|maps| maps.contains("/functions") && maps.contains("libc"))
    };
    running.until("executed in its namespace", is_there);
    let pid = program_of(running.pid()).unwrap();
    let record = |name: &str, tag: &str| {
        let trace = folder.path().join(name).to_str().unwrap().to_string();
        let output = perftax(&["trace", "record", "--tag", tag, "-o", &trace, "-p", &pid, "--time", "0.3"]);
        (output.status.code(), trace, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (name, tag) in [
        ("its own", "func:begin@1,finish@2".to_string()),
        ("by its path", format!("func:{}:begin@1,finish@2", program.display())),
    ] {
        let (code, trace, said) = record(name, &tag);
        assert_eq!(code, Some(0), "{said}");
        let report = report(&trace);
        let sight = report.meta.probes.clone().unwrap();
        assert!(sight.done > 100 && sight.binary == program.to_str().unwrap(), "{name}: {sight:?}");
    }
    let (code, _, said) = record("elsewhere", "func:/bin/true:main");
    drop(running);
    assert!(code == Some(2) && said.contains("has mapped as code") && said.contains("/functions"), "{said}");
}

fn go(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../perftax-trace/tests/programs/functions.go");
    let program = folder.join(name);
    let mut command = Command::new("go");
    command.arg("build").args(options).arg("-o").arg(&program).arg(source).env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
    assert!(command.status().unwrap().success(), "go build {options:?}");
    program
}

/// A message follows its goroutine from thread to thread, and ends where its function does, on whichever of its ways out; also where nothing but the runtime's own table has names.
#[test]
fn messages_of_go_follow_their_goroutines() {
    let folder = tempfile::tempdir().unwrap();
    for (name, options) in
        [("functions", &[][..]), ("stripped", &["-ldflags=-s -w"]), ("pie", &["-buildmode=pie", "-ldflags=-s -w"])]
    {
        let program = go(folder.path(), name, options);
        let (report, sight, exported) = recorded("func:main.handle", &[program.to_str().unwrap(), "700"]);
        // Of 700 ten panic, five times; the last one of all is followed by none, and the program ends.
        assert_eq!((counts(&sight).0, counts(&sight).1, counts(&sight).3), (3500, 3450, 0), "{name}");
        assert!((49..=50).contains(&sight.broken_off), "{name}: {sight:?}");
        assert_eq!((report.messages, report.trouble["never ended"]), (3500, 50), "{name}");
        // Some forty sleep, those that call themselves do not: nobody is at them meanwhile.
        let slept = report.slowest.iter().filter(|slow| slow.shares_ns.get("unattended").is_some_and(|ns| *ns >= 2_900_000));
        assert!(slept.count() >= 3, "{name}: {:?}", report.slowest);
        assert!(report.latency.unwrap().p50_ns < 3_000_000, "{name}: {:?}", report.latency);
        assert!(exported.contains("main.handle"), "{name}");
    }
}

/// What is thrown through a probed function is caught behind it.
#[test]
fn exceptions_go_through_probed_functions() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("a.cpp"), folder.path().join("a"));
    let text = r#"
        #include <stdexcept>
        static volatile long seen;
        __attribute__((noinline)) void deep(int i) { seen += i; if (i % 10 == 9) throw std::runtime_error("no"); }
        __attribute__((noinline)) int handle(int i) { deep(i); seen += 1; return i; }
        int main() {
            int caught = 0;
            for (int i = 0; i < 1000; i++) { try { handle(i); } catch (const std::exception &) { caught++; } }
            return caught == 100 ? 0 : 1;
        }
    "#;
    std::fs::write(&source, text).unwrap();
    assert!(Command::new("g++").args(["-O1", "-o"]).args([&program, &source]).status().unwrap().success());
    let (report, sight, _) = recorded("func:handle", &[program.to_str().unwrap()]);
    // The last one is followed by none.
    assert_eq!(counts(&sight), (1000, 900, 99, 0));
    assert_eq!((report.messages, report.trouble["never ended"]), (1000, 100));
}

#[test]
fn what_cannot_be_probed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("functions.c", "gcc", &[], folder.path());
    let path = program.to_str().unwrap();
    let trace = folder.path().join("trace").to_str().unwrap().to_string();
    let said = |tag: &str, command: &str| {
        let output = perftax(&["trace", "record", "--tag", tag, "-o", &trace, "--", command]);
        assert!(!Path::new(&trace).exists());
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (tag, why) in [
        ("func:finsh", "nearest: finish"),
        ("func:begin@7,finish", "first 6 arguments"),
        ("func:begin,begin", "begin%return is where it returns"),
        ("func:begin@1,finish@1@1", "nearest: finish"),
        ("func:work_that_is_inlined", "a function of"),
    ] {
        let (code, text) = said(tag, path);
        assert!(code == 2 && text.contains(why), "{tag}: {text}");
    }
    let (code, text) = said("func:/nonexistent/x:f", path);
    assert!(code == 1 && text.contains("/nonexistent/x"), "{text}");
    let (code, text) = said("func:/etc/passwd:f", path);
    assert!(code == 1 && text.contains("ELF"), "{text}");
    // What is never passed is said, and the trace is there.
    let output = perftax(&["trace", "record", "--tag", &format!("func:{path}:handle"), "-o", &trace, "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&perftax(&["trace", "report", &trace]).stdout).into_owned();
    assert!(text.contains("were never passed") && text.contains("func:/PATH"), "{text}");
}
