//! `perftax trace --tag usdt:…` on this machine: messages told apart by a program's static probes. Needs root, as the kernel's uprobe_events
//! does.

use std::path::Path;
use std::process::Command;

use perftax_doc::TraceReport;
use perftax_pmu::event::Catalog;
use perftax_symbols::static_probes;

use crate::common::{one_at_a_time, perftax, traced};

/// Definitions for this program that the kernel still has.
fn left_behind(program: &Path) -> Vec<String> {
    let program = program.to_str().unwrap();
    let catalog = Catalog::of_this_machine();
    let text = std::fs::read_to_string(catalog.tracefs().unwrap().join("uprobe_events")).unwrap();
    text.lines().filter(|line| line.contains("perftax_") && line.contains(program)).map(String::from).collect()
}

#[test]
fn notes_are_read_and_places_found() {
    for options in [&[][..], &["-no-pie"], &["-static"]] {
        let folder = tempfile::tempdir().unwrap();
        let program = traced("probes.c", "gcc", options, folder.path());
        let bytes = std::fs::read(&program).unwrap();
        let probes: Vec<_> = static_probes(&program).unwrap().into_iter().filter(|probe| probe.provider == "demo").collect();
        let names: Vec<(&str, usize)> = probes.iter().map(|probe| (probe.name.as_str(), probe.arguments.len())).collect();
        assert_eq!(names, [("request__start", 2), ("request__done", 1)], "{options:?}");
        for probe in &probes {
            // The nop is there, and a counter that starts at 0.
            assert_eq!(bytes[probe.offset as usize], 0x90, "{options:?} {probe:?}");
            let semaphore = probe.semaphore.unwrap() as usize;
            assert_eq!(bytes[semaphore..semaphore + 2], [0, 0], "{options:?} {probe:?}");
        }
        assert_eq!(probes[0].arguments[1], "4@$7");
    }
    assert!(static_probes(Path::new("/bin/true")).unwrap().is_empty());
}

/// The program says by its code that its semaphore was raised; every message is there, with its text.
fn recorded(children: u64) {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("probes.c", "gcc", &[], folder.path());
    let trace = folder.path().join("trace").to_str().unwrap().to_string();
    let tag = "usdt:demo:request__start@1,request__done";
    let (path, count) = (program.to_str().unwrap(), children.to_string());
    let output = perftax(&["trace", "record", "--tag", tag, "-o", &trace, "--", path, "1000", &count]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left_behind(&program), Vec::<String>::new());
    let output = perftax(&["trace", "report", &trace, "--slowest", "400", "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&output.stdout).unwrap();
    let programs = children.max(1);
    // Every seventieth never ends; a program's last message does.
    let probes = report.meta.probes.clone().unwrap();
    assert_eq!((probes.started, probes.done), (1000 * programs, 986 * programs), "{probes:?}");
    assert_eq!((probes.broken_off, probes.done_without_start, report.meta.lost), (14 * programs, 0, 0));
    assert_eq!((report.messages, report.trouble["never ended"]), (1000 * programs, 14 * programs));
    // 20 a program wait, 2 of them (350, 700) never end.
    let puts = report.labels.iter().find(|label| label.label == "PUT ?").unwrap();
    let gets = report.labels.iter().find(|label| label.label == "GET item ?").unwrap();
    assert_eq!((puts.messages, gets.messages, report.labels.len()), (18 * programs, 968 * programs, 2));
    assert!(puts.p50_ns >= 2_000_000 && gets.p50_ns < puts.p50_ns && puts.slow > gets.slow, "{:?}", report.labels);
    let slowest = report.slowest.iter().filter(|slow| slow.cause == "blocked" && slow.shares_ns["blocked"] >= 2_000_000);
    let labels: Vec<&str> = slowest.filter_map(|slow| slow.label.as_deref()).collect();
    assert!(!labels.is_empty() && labels.iter().all(|label| label.starts_with("PUT 'item ")), "{labels:?}");
    let output = perftax(&["trace", "report", &trace]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("PUT ?") && text.contains("GET item ?") && text.contains("broken off"), "{text}");
}

#[test]
fn messages_are_told_apart_with_their_texts() {
    recorded(0);
}

#[test]
fn so_are_those_of_children() {
    recorded(3);
}

/// ^C, and a perftax that was killed: its guardian removes what it left.
#[test]
fn definitions_go_whatever_happens() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("probes.c", "gcc", &[], folder.path());
    let record = |signal: &str, name: &str| {
        let mut timeout = Command::new("timeout");
        timeout.args([&format!("--signal={signal}"), "--kill-after=30", "1", env!("CARGO_BIN_EXE_perftax"), "trace", "record"]);
        timeout.args(["--tag", "usdt:demo:request__start,request__done", "-o"]).arg(folder.path().join(name));
        // Two seconds' worth: whoever outlives its perftax ends by itself.
        timeout.arg("--").arg(&program).arg("50000").output().unwrap()
    };
    // All in one turn: another one would remove what the killed one leaves.
    one_at_a_time(|| {
        record("INT", "interrupted");
        assert_eq!(left_behind(&program), Vec::<String>::new());
        record("KILL", "killed");
        // Its guardian hears of that, and removes them once the kernel has closed its files.
        let killed = std::time::Instant::now();
        while !left_behind(&program).is_empty() {
            assert!(killed.elapsed().as_secs() < 60, "{:?}", left_behind(&program));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        record("INT", "after");
        assert_eq!(left_behind(&program), Vec::<String>::new());
    });
}

#[test]
fn what_has_no_such_probes_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("probes.c", "gcc", &[], folder.path());
    let path = program.to_str().unwrap();
    let trace = folder.path().join("trace").to_str().unwrap().to_string();
    let said = |tag: &str, command: &str| {
        let output = perftax(&["trace", "record", "--tag", tag, "-o", &trace, "--", command]);
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = said("usdt:demo:request__begin,request__done", path);
    assert!(code == 2 && text.contains("it has demo:request__done, demo:request__start"), "{text}");
    let (code, text) = said("usdt:demo:request__start,request__done", "true");
    assert!(code == 2 && text.contains("no static probes at all") && text.contains("usdt:/PATH"), "{text}");
    let (code, text) = said("usdt:demo:request__start@2,request__done", path);
    assert!(code == 2 && text.contains("4 bytes wide"), "{text}");
    let (code, text) = said("usdt:demo:request__start@3,request__done", path);
    assert!(code == 2 && text.contains("request__start has 2"), "{text}");
    let (code, text) = said("usdt:/nonexistent/x:demo:request__start,request__done", "true");
    assert!(code == 1 && text.contains("/nonexistent/x"), "{text}");
    assert!(!Path::new(&trace).exists());
    assert_eq!(left_behind(&program), Vec::<String>::new());
}
