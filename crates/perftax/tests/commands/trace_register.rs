//! `perftax trace --tag reg:r13` on this machine: messages that say who they are in a register alone. Needs root (or CAP_PERFMON and tracefs),
//! as the kernel's tracepoints do. Numbers: `scripts/trace-register`.

use std::collections::BTreeMap;

use std::process::Command;

use perftax_doc::{SlowMessage, TraceReport};

use crate::common::{perftax, traced};

const PERIOD_NS: u64 = 100_000;
const DELAY_NS: u64 = 500_000;
const MESSAGES: u64 = 4000;

/// Records register.c with these arguments and options, and reports all of its messages.
fn recorded(options: &[&str], arguments: &[&str]) -> TraceReport {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("register.c", "gcc", &["-ffixed-r13"], folder.path());
    let trace = folder.path().join("trace").to_str().unwrap().to_string();
    let (period, messages, delay) = (PERIOD_NS.to_string(), MESSAGES.to_string(), DELAY_NS.to_string());
    let mut command = vec!["trace", "record", "--tag", "reg:r13", "-c", &period, "-o", &trace];
    command.extend(options);
    command.extend(["--", program.to_str().unwrap(), &messages, &delay]);
    command.extend(arguments);
    let said = perftax(&command);
    assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stderr));
    let text = perftax(&["trace", "report", &trace]);
    // Lines break where they are full.
    let text = String::from_utf8_lossy(&text.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("below its sight") && text.contains("by reg:r13"), "{text}");
    let report = perftax(&["trace", "report", &trace, "--slowest", "100000", "--json", "-"]);
    serde_json::from_slice(&report.stdout).unwrap()
}

/// The planted messages (register.c) that were found, and how many there are.
fn found(report: &TraceReport) -> (Vec<&SlowMessage>, usize) {
    let slow: BTreeMap<u64, &SlowMessage> = report.slowest.iter().map(|slow| (slow.id, slow)).collect();
    let planted = (1..=MESSAGES).filter(|i| i.is_multiple_of(100)).flat_map(|i| [2 * i, 2 * i + 1]);
    let planted: Vec<u64> = planted.collect();
    // As long as it was, but for what may be missing at its ends.
    let is_found = |slow: &&&SlowMessage| slow.latency_ns + PERIOD_NS >= DELAY_NS;
    (planted.iter().filter_map(|id| slow.get(id)).filter(is_found).copied().collect(), planted.len())
}

/// Which cause was planted (register.c): 0 spinning, 1 waiting, 2 the kernel's work.
fn cause(id: u64) -> u64 {
    (id / 2 / 100 - 1) % 3
}

#[test]
fn delays_longer_than_three_periods_are_found() {
    let report = recorded(&[], &[]);
    let register = report.meta.register.clone().unwrap();
    assert!(register.samples_valid * 2 > register.samples, "{register:?}");
    assert!(register.shortest_ns >= 3 * PERIOD_NS && !register.is_late && report.meta.rings == 0, "{register:?}");
    assert!(register.gap_p99_ns >= PERIOD_NS / 2 && register.threads.len() >= 2, "{register:?}");
    let (found, planted) = found(&report);
    assert!(found.len() * 10 >= planted * 9, "{} of {planted}", found.len());
    // Who waits takes no samples, and its run spans the waiting; the kernel says where it waited. (An interrupt on the way to sleep
    // makes some waits shorter than what was asked for.)
    let waited: Vec<_> = found.iter().filter(|slow| cause(slow.id) == 1).collect();
    let told = waited.iter().filter(|slow| slow.shares_ns.get("blocked").is_some_and(|ns| ns * 10 >= DELAY_NS * 9)).count();
    assert!(!waited.is_empty() && told * 10 >= waited.len() * 9, "{told} of {}: {waited:?}", waited.len());
    let latency = report.latency.unwrap();
    let [least, most] = report.latency_between.unwrap();
    assert!(least.p99_ns <= latency.p99_ns && latency.p99_ns <= most.p99_ns + most.p99_ns / 500, "{least:?} {most:?}");
    for slow in &report.slowest {
        let (low, high) = slow.latency_between_ns.unwrap();
        assert!(low <= slow.latency_ns && slow.latency_ns <= high && slow.shares_ns.values().sum::<u64>() == slow.latency_ns);
    }
}

#[test]
fn what_a_library_hides_is_filled_in_and_told() {
    let report = recorded(&[], &["library"]);
    let register = report.meta.register.clone().unwrap();
    assert!(register.samples_valid < register.samples && register.looks_unknown > 0, "{register:?}");
    let (found, planted) = found(&report);
    assert!(found.len() * 10 >= planted * 9, "{} of {planted}", found.len());
}

#[test]
fn without_the_kernels_side_waiting_is_still_spanned() {
    let report = recorded(&["--no-kernel-noise"], &[]);
    let (found, planted) = found(&report);
    assert!(found.len() * 10 >= planted * 9, "{} of {planted}", found.len());
}

#[test]
fn a_program_without_tags_is_told_and_other_registers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace").to_str().unwrap().to_string();
    let said = perftax(&["trace", "record", "--tag", "reg:r13", "-o", &trace, "--", "true"]);
    assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stderr));
    let text = perftax(&["trace", "report", &trace]);
    let text = String::from_utf8_lossy(&text.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("r13 never held a tag") && text.contains("-ffixed-r13") && !text.contains("perftax-tag:"), "{text}");
    let said = perftax(&["trace", "record", "--tag", "reg:rax", "-o", "/nonexistent/x", "--", "true"]);
    assert_eq!(said.status.code(), Some(1));
    let said = perftax(&["trace", "record", "--tag", "reg:rax", "-o", &format!("{trace}2"), "--", "true"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.code() == Some(2) && text.contains("--tag is reg:rax") && text.contains("r12 to r15"), "{text}");
}

/// In C++, with the option and without: GCC keeps r13 free where it sees the header.
#[test]
fn the_header_is_cxx_too_and_guests_give_r13_back() {
    for options in [["-O0", "-ffixed-r13"], ["-O2", "-ffixed-r13"], ["-O0", "-std=c++17"], ["-O2", "-std=c++17"]] {
        let folder = tempfile::tempdir().unwrap();
        let program = traced("register.cpp", "g++", &options, folder.path());
        assert_eq!(Command::new(program).status().unwrap().code(), Some(0), "{options:?}");
    }
}
