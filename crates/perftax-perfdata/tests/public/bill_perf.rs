//! Recordings made here, now, by the installed perf: our counts are exactly those of `perf report --stats`.
//!
//! These tests need perf, perl and root, and fail without: a machine that cannot make a recording cannot show that `bill` reads
//! one. The same decoding is tested without perf on checked-in recordings (bill_fixtures.rs).

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{RwLock, RwLockReadGuard};

use crate::bill_support::{Stats, assert_same};
use perftax_doc::{Lint, LintVerdict};
use perftax_perfdata::lint;
use perftax_perfdata::recording::Recording;

/// Held for writing while a test changes the sampling limits of the machine.
static LIMITS: RwLock<()> = RwLock::new(());

fn limits_untouched() -> RwLockReadGuard<'static, ()> {
    LIMITS.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

const SPIN: &str = "my $x = 0; $x += $_ for 1..2000000";
const TOUCH: &str = "my $x = 'a' x 20000000";

fn perf(arguments: &[&str]) -> Output {
    let run = Command::new("perf").args(arguments).stdin(Stdio::null()).output();
    run.unwrap_or_else(|e| panic!("perf is needed by this test and cannot be run ({e}): apt-get install linux-perf"))
}

fn record(into: &Path, options: &[&str], program: &str) {
    let arguments = [&["record", "-q", "-o", into.to_str().unwrap()], options, &["--", "perl", "-e", program]].concat();
    let output = perf(&arguments);
    assert!(output.status.success(), "perf {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
}

fn stats_of(file: &Path) -> Stats {
    let output = perf(&["report", "--stats", "-i", file.to_str().unwrap()]);
    assert!(output.status.success(), "perf report: {}", String::from_utf8_lossy(&output.stderr));
    Stats::parse(&String::from_utf8_lossy(&output.stdout))
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("perf.data")
    }
}

/// Records, reads, compares.
fn check(options: &[&str], program: &str) -> Recording {
    let scratch = Scratch::new();
    record(&scratch.file(), options, program);
    let recording = Recording::open(&scratch.file()).unwrap();
    assert_same(&recording, &stats_of(&scratch.file()));
    recording
}

fn samples(recording: &Recording, event: &str) -> u64 {
    recording
        .events
        .iter()
        .find(|e| e.name == event)
        .unwrap_or_else(|| panic!("no event {event}: {:?}", recording.events))
        .samples
}

#[test]
fn cpu_clock() {
    let _limits = limits_untouched();
    assert!(samples(&check(&["-e", "cpu-clock", "-F", "2000"], SPIN), "cpu-clock") > 10);
}

#[test]
fn every_page_fault() {
    let _limits = limits_untouched();
    // 20 MB are 4,883 pages of 4 KiB, each faulted in once.
    assert!(samples(&check(&["-e", "page-faults", "-c", "1", "-m", "1024"], TOUCH), "page-faults") > 4_883);
}

#[test]
fn tracepoint() {
    let _limits = limits_untouched();
    let program = "select(undef, undef, undef, 0.001) for 1..50";
    let recording = check(&["-e", "sched:sched_switch"], program);
    assert!(samples(&recording, "sched:sched_switch") >= 50);
}

#[test]
fn several_events() {
    let _limits = limits_untouched();
    let recording = check(&["-e", "cpu-clock,page-faults,context-switches"], SPIN);
    assert_eq!(recording.events.len(), 3);
    assert!(samples(&recording, "page-faults") > 0);
}

#[test]
fn call_chains() {
    let _limits = limits_untouched();
    check(&["-g", "-e", "cpu-clock", "-F", "2000"], SPIN);
    check(&["--call-graph", "dwarf,4096", "-e", "page-faults", "-c", "50"], TOUCH);
}

#[test]
fn compressed() {
    let _limits = limits_untouched();
    let recording = check(&["-z", "-e", "cpu-clock,page-faults", "-F", "5000"], SPIN);
    assert!(recording.counts.records.contains_key(&81) || recording.counts.records.contains_key(&83), "perf has no zstd");
}

#[test]
fn forks_cpus_addresses_and_counter_values() {
    let _limits = limits_untouched();
    // Each waits for its children: perf record ends with the first process.
    let program = "fork; fork; my $x = 0; $x += $_ for 1..1000000; 1 while wait > 0";
    let recording = check(&["-s", "-d", "--sample-cpu", "-e", "cpu-clock,page-faults", "-F", "2000"], program);
    let all: u64 = recording.events.iter().map(|e| e.samples).sum();
    assert_eq!(recording.counts.by_cpu.values().sum::<u64>(), all);
    let threads: std::collections::BTreeSet<_> = recording.counts.by_thread.keys().map(|k| k.0.tid).collect();
    assert!(threads.len() >= 4, "{threads:?}");
}

#[test]
fn events_with_different_layouts() {
    let _limits = limits_untouched();
    check(&["-e", "cpu-clock/call-graph=fp/,page-faults", "-c", "50021"], SPIN);
}

#[test]
fn whole_machine() {
    let _limits = limits_untouched();
    let recording = check(&["-a", "-e", "cpu-clock", "-F", "500"], SPIN);
    assert_eq!(recording.command_span_s(), None, "a recording of the whole machine is not one of a command");
    assert!(recording.sample_span_s().is_some());
}

#[test]
fn directory_of_record_threads() {
    let _limits = limits_untouched();
    check(&["--threads", "-e", "cpu-clock", "-F", "2000"], SPIN);
}

fn pipe(options: &[&str], program: &str, into: &Path) -> Recording {
    let output = perf(&[&["record", "-q", "-o", "-"], options, &["--", "perl", "-e", program]].concat());
    assert!(output.status.success(), "perf record -o -: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::write(into, &output.stdout).unwrap();
    let recording = Recording::read(&output.stdout[..], "-").unwrap();
    assert!(recording.piped);
    recording
}

#[test]
fn pipe_mode() {
    let _limits = limits_untouched();
    let scratch = Scratch::new();
    let recording = pipe(&["-e", "cpu-clock,page-faults", "-F", "2000"], SPIN, &scratch.file());
    assert_same(&recording, &stats_of(&scratch.file()));
}

/// perf 6.1's report stumbles over the tracing data in its own pipes, so `perf script` counts instead.
#[test]
fn pipe_mode_with_a_tracepoint() {
    let _limits = limits_untouched();
    let scratch = Scratch::new();
    let program = "select(undef, undef, undef, 0.001) for 1..20";
    let recording = pipe(&["-e", "sched:sched_switch,page-faults", "-c", "1"], program, &scratch.file());
    let output = perf(&["script", "-F", "event", "-i", scratch.file().to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for event in ["sched:sched_switch", "page-faults"] {
        let theirs = text.lines().filter(|l| l.trim().trim_end_matches(':') == event).count() as u64;
        assert!(theirs > 0);
        assert_eq!(samples(&recording, event), theirs, "{event}");
    }
}

/// The sum over LOST records, which the statistics do not show, out of perf's dump.
fn lost_in_dump(file: &Path) -> u64 {
    let output = perf(&["script", "-D", "-i", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lost =
        |line: &str| line.split_once("PERF_RECORD_LOST:").and_then(|l| l.1.split_once("lost:")?.1.trim().parse::<u64>().ok());
    text.lines().filter_map(lost).sum()
}

#[test]
fn forced_losses() {
    let _limits = limits_untouched();
    // A sample with 8 KiB of stack never fits a ring of one page: all are lost.
    let scratch = Scratch::new();
    record(&scratch.file(), &["-m", "1", "-e", "page-faults", "-c", "1", "--call-graph", "dwarf,8192"], "my $x = 'a' x 800000");
    let recording = Recording::open(&scratch.file()).unwrap();
    assert_same(&recording, &stats_of(&scratch.file()));
    let event = &recording.events[0];
    assert_eq!(event.lost_in_ring, lost_in_dump(&scratch.file()));
    // 195 pages are touched, and none of the losses after the last record that fitted is announced by the ring itself.
    assert!(event.lost() >= 195 && event.lost() >= event.lost_in_ring && event.lost_in_ring > 0, "{event:?}");
    // Two events that share a ring: each has its own loss in LOST_SAMPLES, the ring's LOST records are one sum.
    let scratch = Scratch::new();
    record(&scratch.file(), &["-m", "1", "-e", "page-faults,cpu-clock", "-c", "20011", "--call-graph", "dwarf,8192"], SPIN);
    let recording = Recording::open(&scratch.file()).unwrap();
    assert_same(&recording, &stats_of(&scratch.file()));
    assert_eq!(recording.events.iter().map(|e| e.lost_in_ring).sum::<u64>(), lost_in_dump(&scratch.file()));
}

/// Puts the kernel's sampling limits back, also when the test panics.
struct Limits {
    rate: String,
    share: String,
}

const RATE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
const SHARE: &str = "/proc/sys/kernel/perf_cpu_time_max_percent";

impl Limits {
    fn lower(rate: &str) -> Self {
        let read = |knob| std::fs::read_to_string(knob).unwrap().trim().to_string();
        let limits = Self { rate: read(RATE), share: read(SHARE) };
        // The rate cannot be written while the share is 0 or 100.
        std::fs::write(SHARE, "25").unwrap_or_else(|e| panic!("{SHARE} cannot be set ({e}): this test needs root"));
        std::fs::write(RATE, rate).unwrap();
        limits
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        std::fs::write(RATE, &self.rate).ok();
        std::fs::write(SHARE, &self.share).ok();
    }
}

#[test]
fn throttled() {
    let _alone = LIMITS.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    let scratch = Scratch::new();
    // Nobody else's measurement is to be throttled.
    let measuring = perftax_pmu::guard::ThrottleGuard::raise_within(std::time::Duration::from_secs(120), &mut || ()).unwrap();
    let limits = Limits::lower("1000");
    record(&scratch.file(), &["-e", "cpu-clock,page-faults", "-c", "20011"], SPIN);
    drop(limits);
    drop(measuring);
    let recording = Recording::open(&scratch.file()).unwrap();
    assert_same(&recording, &stats_of(&scratch.file()));
    let clock = recording.events.iter().find(|e| e.name == "cpu-clock").unwrap();
    assert!(clock.throttled > 0, "1000 samples a second are 4 a tick of 250 Hz; 20 µs is faster: {clock:?}");
}

/// What lint says of a recording made here.
fn linted(options: &[&str], program: &str) -> (Recording, Lint) {
    let scratch = Scratch::new();
    record(&scratch.file(), options, program);
    let lint = lint::lint(&scratch.file(), &lint::Limits::default(), None, crate::bill_built::origin(0.0)).unwrap();
    (Recording::open(&scratch.file()).unwrap(), lint)
}

fn verdict(lint: &Lint, check: &str) -> LintVerdict {
    crate::lint_built::check_of(lint, check).verdict
}

/// Silent fallbacks, rings that are too small, programs that sleep, periods that the kernel ignores: of perf itself, here.
#[test]
fn lint_names_what_perf_does_in_silence() {
    let _limits = limits_untouched();
    // Without a PMU perf takes the clock for cycles; with one it does not.
    let (recording, lint) = linted(&["-e", "cycles"], SPIN);
    let is_clock = recording.events.iter().any(|event| event.attribute.pmu_type == 1 && event.attribute.config <= 1);
    assert_eq!(verdict(&lint, "substituted"), if is_clock { LintVerdict::Error } else { LintVerdict::Passed }, "{lint:#?}");
    // A page of ring for stacks of 32 KiB.
    let (recording, lint) = linted(&["-e", "page-faults", "-c", "1", "--call-graph", "dwarf,32768", "-m", "1"], TOUCH);
    assert!(recording.events[0].lost() > 1000, "{:?}", recording.events);
    assert_eq!(verdict(&lint, "lost"), LintVerdict::Error, "{lint:#?}");
    let (_, lint) = linted(&["-e", "cpu-clock", "-F", "500"], "select(undef, undef, undef, 2)");
    assert!(verdict(&lint, "idle") >= LintVerdict::Warning, "{lint:#?}");
    // Of a tracepoint every hundredth is asked for, and each comes.
    let write = "open my $null, '>', '/dev/null'; syswrite $null, 'x' for 1..1000";
    let (recording, lint) = linted(&["-e", "raw_syscalls:sys_enter", "-c", "100", "-m", "1024"], write);
    assert!(recording.events[0].samples > 1000, "{:?}", recording.events);
    assert_eq!(verdict(&lint, "substituted"), LintVerdict::Warning, "{lint:#?}");
    let (recording, lint) = linted(&["-e", "raw_syscalls:sys_enter", "-c", "100", "--no-period", "-m", "1024"], write);
    assert!((10..200).contains(&recording.events[0].samples), "{:?}", recording.events);
    assert_eq!(verdict(&lint, "substituted"), LintVerdict::Passed, "{lint:#?}");
}
