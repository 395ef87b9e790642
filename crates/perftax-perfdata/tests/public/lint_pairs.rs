//! Every check of lint names one spoiled recording, and leaves a near miss of it alone.

use perftax_doc::Mechanism;
use perftax_doc::{LintVerdict, MachineProfile};
use perftax_perfdata::lint::{Limits, rules};

use crate::bill_built::{MS, SAMPLE_TYPE, TIMES};
use crate::bill_records::{calibration, profile};
use crate::lint_built::{
    BY_FREQUENCY, Built, CALLCHAIN, CODE, CPU_CLOCK, CYCLES, EXCLUDE_KERNEL, Event, INHERIT, PAGE_FAULTS, PERIOD, check_of,
    linted,
};

/// A spoiled recording, and one that just is not.
struct Pair {
    check: &'static str,
    spoiled: Vec<u8>,
    verdict: LintVerdict,
    /// What the evidence says.
    says: &'static str,
    twin: Vec<u8>,
    /// Prices for both.
    profiles: [Option<MachineProfile>; 2],
}

fn pair(check: &'static str, verdict: LintVerdict, says: &'static str, make: impl Fn(bool) -> Vec<u8>) -> Pair {
    Pair { check, spoiled: make(true), verdict, says, twin: make(false), profiles: [None, None] }
}

const END: u64 = 1002 * MS;
const PLAIN: &str = "perf record -e cpu-clock -- program";
use LintVerdict::{Error, Warning};

/// A healthy second, with the program's file.
fn second() -> Built {
    Built::of_clock().mapped("/bin/program").sampled(1000)
}

fn by_command(command: &str, event: Event) -> Vec<u8> {
    Built::new(command, "6.1.0", "elsewhere", event).mapped("/bin/program").sampled(1000).ended(END)
}

/// READ records: enabled and running.
fn with_times(event: Event, kernel: &str, running: u64) -> Vec<u8> {
    let event = Event { read_format: TIMES, flags: event.flags | INHERIT, ..event };
    let mut built = Built::new("perf record -s -e x -- program", kernel, "elsewhere", event).mapped("/bin/program").sampled(1000);
    let body = [built.pipe.halves(&[7, 7]), built.pipe.words(&[5, 1000, running])].concat();
    built.trailed(8, 0, body, END);
    built.ended(END)
}

/// Call chains with so many user frames.
fn with_chains(frames: u64) -> Vec<u8> {
    let event = Event { sample_type: SAMPLE_TYPE | PERIOD | CALLCHAIN, ..CPU_CLOCK };
    let mut built = Built::new("perf record -g -e cpu-clock -- program", "6.1.0", "elsewhere", event).mapped("/bin/program");
    const CONTEXT_USER: u64 = -512_i64 as u64;
    for i in 0..1000 {
        let ip = built.somewhere();
        let chain: Vec<u64> = [frames + 1, CONTEXT_USER, ip].into_iter().chain((1..frames).map(|frame| CODE + frame)).collect();
        let chain = built.pipe.words(&chain);
        built.sample(7, 2 * MS + i * MS, ip, 1_000_000, &chain);
    }
    built.ended(END)
}

fn faults_in_turn(every: u64) -> Vec<u8> {
    // Samples that carry their period would be of each event.
    let event = Event { rate: every, sample_type: SAMPLE_TYPE, ..PAGE_FAULTS };
    let command = "perf record -e page-faults -c 4 -- program";
    let mut built = Built::new(command, "6.1.0", "elsewhere", event).mapped("/bin/program");
    for i in 0..1000 {
        built.sample(7, 2 * MS + i * MS, CODE + i % 2 * 0x100, every, &[]);
    }
    built.ended(END)
}

/// Half of the samples are of a thread that has just woken up.
fn by_frequency(light: u64) -> Vec<u8> {
    let mut built = Built::new("perf record -e cycles -- program", "6.1.0", "elsewhere", CYCLES).mapped("/bin/program");
    for i in 0..1000 {
        let (tid, period) = if i % 2 == 0 { (8, light) } else { (7, 100_000 + i * 10) };
        let ip = built.somewhere();
        built.sample(tid, 2 * MS + i * MS, ip, period, &[]);
    }
    built.map(8, "/bin/program");
    built.ended(END)
}

/// Rounds of the rings, the last of which goes back in time.
fn in_rounds(back: u64) -> Vec<u8> {
    let mut built = Built::of_clock().mapped("/bin/program");
    for i in 0..1000 {
        if i % 100 == 0 {
            built.pipe.record(68, 0, &[]);
        }
        let ip = built.somewhere();
        let time = 2 * MS + i * MS;
        built.sample(7, if i % 100 == 50 && i > 500 { time - back } else { time }, ip, 1_000_000, &[]);
    }
    built.ended(END)
}

fn of_file(file: &str) -> Vec<u8> {
    let here = rustix::system::uname().nodename().to_str().unwrap().to_string();
    let mut built = Built::new(PLAIN, "6.1.0", &here, CPU_CLOCK);
    built.map(7, file);
    built.sampled(1000).ended(END)
}

fn pairs() -> Vec<Pair> {
    let here = std::env::current_exe().unwrap().display().to_string();
    let priced = |alpha_ns: f64| Some(profile(vec![calibration(Mechanism::CpuClock, "cpu-clock", alpha_ns, 0.0)]));
    vec![
        pair("cut-off", Error, "ends inside a record", |is_spoiled| {
            let mut bytes = second().ended(END);
            bytes.truncate(bytes.len() - if is_spoiled { 5 } else { 0 });
            bytes
        }),
        pair("substituted", Error, "cycles was asked for, recorded was cpu-clock", |is_spoiled| {
            by_command(if is_spoiled { "perf record -e cycles:pp program" } else { PLAIN }, CPU_CLOCK)
        }),
        pair("narrowed", Warning, "left the kernel out", |is_spoiled| {
            let command = if is_spoiled { PLAIN } else { "perf record -e cpu-clock:u -- program" };
            by_command(command, Event { flags: EXCLUDE_KERNEL, ..CPU_CLOCK })
        }),
        pair("lost", Error, "200 of 1,200 samples were lost (17 %)", |is_spoiled| {
            let mut built = second();
            // One of a thousand is the threshold.
            let lost = if is_spoiled { 200 } else { 0 };
            let body = built.pipe.words(&[10, lost]);
            built.trailed(2, 0, body, 500 * MS);
            built.ended(END)
        }),
        pair("throttled", Error, "up to 10.0 % of the run without samples", |is_spoiled| {
            let mut built = second();
            let body = |built: &Built, time: u64| built.pipe.words(&[time, 10, 10]);
            for i in 0..10 {
                let from = (300 + i * 20) * MS;
                let (stop, go) = (body(&built, from), body(&built, from + 10 * MS));
                // What was stopped before the recording began goes on.
                if is_spoiled {
                    built.trailed(5, 0, stop, from);
                }
                built.trailed(6, 0, go, from + 10 * MS);
            }
            built.ended(END)
        }),
        pair("multiplexed", Error, "cycles was off for 70 % of its time", |is_spoiled| {
            with_times(CYCLES, "6.16.0", if is_spoiled { 300 } else { 995 })
        }),
        pair("filtered", Warning, "interrupts in the kernel, too", |is_spoiled| {
            let event = if is_spoiled { CPU_CLOCK } else { CYCLES };
            by_command("perf record -e x:u -- program", Event { flags: event.flags | EXCLUDE_KERNEL, ..event })
        }),
        pair("by-count", Error, "50 % of the samples of cycles and under 0.01 % of the events", |is_spoiled| {
            by_frequency(if is_spoiled { 1 } else { 110_000 })
        }),
        pair("in-step", Error, "in turn over 2 addresses", |is_spoiled| faults_in_turn(if is_spoiled { 4 } else { 5 })),
        pair("idle", Error, "8.0 ms of CPU time in a run of 1.001 s", |is_spoiled| {
            Built::of_clock().mapped("/bin/program").sampled(if is_spoiled { 8 } else { 110 }).ended(END)
        }),
        pair("few-samples", Warning, "90 samples of cpu-clock", |is_spoiled| {
            Built::of_clock().mapped("/bin/program").sampled(if is_spoiled { 90 } else { 100 }).ended(END)
        }),
        pair("short-tasks", Warning, "400 of 400 threads and processes lived shorter", |is_spoiled| {
            let event = Event { flags: INHERIT, ..CPU_CLOCK };
            let mut built = Built::new(PLAIN, "6.1.0", "elsewhere", event).mapped("/bin/program").sampled(1000);
            for i in 0..400 {
                let from = 2 * MS + u64::from(i) * 2 * MS;
                built.fork(100 + i, from, from + if is_spoiled { 400_000 } else { 1_100_000 });
            }
            built.ended(END)
        }),
        pair("stacks", Error, "1,000 of 1,000 call chains end at their first user frame", |is_spoiled| {
            with_chains(if is_spoiled { 1 } else { 2 })
        }),
        pair("build-ids", Warning, "no file has a build id", |is_spoiled| {
            let mut built = Built::of_clock();
            if is_spoiled {
                built.map(7, "/bin/program");
            } else {
                built = built.mapped("/bin/program");
            }
            built.sampled(1000).ended(END)
        }),
        pair("mappings", Warning, "200 of 1,200 samples in user mode (17 %) are in no mapping", |is_spoiled| {
            let mut built = second();
            for i in 0..200 {
                let ip = if is_spoiled { 0x7f00_0000_0000 } else { CODE };
                built.sample(7, 500 * MS + i, ip, 1_000_000, &[]);
            }
            built.ended(END)
        }),
        pair("symbols", Warning, "/nowhere/program cannot be found here any more", |is_spoiled| {
            of_file(if is_spoiled { "/nowhere/program" } else { &here })
        }),
        pair("clock", Warning, "older than what was read a round before, by up to", |is_spoiled| {
            in_rounds(if is_spoiled { 400 * MS } else { 40 * MS })
        }),
        pair("profilers", Warning, "strace (1)", |is_spoiled| {
            let mut built = second();
            // A thread may be called anything.
            built.comm(9, "strace", if is_spoiled { 1 << 13 } else { 0 }, 500 * MS);
            built.ended(END)
        }),
        pair("kernel", Warning, "leave the count of cpu-clock at 0", |is_spoiled| {
            with_times(CPU_CLOCK, if is_spoiled { "6.17.4-300.fc43" } else { "6.18.0" }, 1000)
        }),
        Pair {
            check: "own-cost",
            spoiled: second().ended(END),
            verdict: Warning,
            says: "sampling took 11 %",
            twin: second().ended(END),
            profiles: [priced(100_000.0), priced(40_000.0)],
        },
    ]
}

#[test]
fn each_check_names_what_is_spoiled_and_leaves_its_near_miss_alone() {
    let limits = Limits::default();
    let pairs = pairs();
    let mut wrong = Vec::new();
    for Pair { check, spoiled, verdict, says, twin, profiles } in &pairs {
        let lint = linted(spoiled, &limits, profiles[0].as_ref());
        let found = check_of(&lint, check);
        let is_complete = found.evidence.contains(says) && !found.effect.is_empty() && !found.remedy.is_empty();
        let is_worst = lint.checks.iter().all(|check| check.verdict <= lint.verdict);
        if found.verdict != *verdict || !is_complete || !is_worst {
            wrong.push(format!("spoiled, needs {verdict:?} with {says}: {found:#?}"));
        }
        let twin = linted(twin, &limits, profiles[1].as_ref());
        let left_alone = check_of(&twin, check);
        if left_alone.verdict != LintVerdict::Passed || !left_alone.remedy.is_empty() {
            wrong.push(format!("a near miss, needs to pass: {left_alone:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let with_pairs: Vec<&str> = pairs.iter().map(|pair| pair.check).collect();
    let all: Vec<&str> = rules().iter().map(|rule| rule.name).collect();
    assert_eq!(with_pairs, all, "every check has a pair, in order");
}

#[test]
fn a_healthy_recording_has_nothing_found() {
    let lint = linted(&second().ended(END), &Limits::default(), None);
    let found: Vec<_> = lint.checks.iter().filter(|check| check.verdict >= Warning).collect();
    assert!(found.is_empty() && lint.verdict == LintVerdict::Passed, "{found:#?}");
    assert!(lint.samples == 1000 && lint.span_s.is_some_and(|span_s| (span_s - 1.001).abs() < 1e-9), "{lint:#?}");
}

#[test]
fn the_worst_stands_first_and_thresholds_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lint.toml");
    std::fs::write(&file, "[lost]\nwarning = 0.0001\nerror = 0.5\n[few-samples]\nwarning = 0.01\n[idle]\noff = true\n").unwrap();
    let limits = Limits::read(&file).unwrap();
    let mut built = second();
    let lost = built.pipe.words(&[10, 200]);
    built.trailed(2, 0, lost, 500 * MS);
    let bytes = built.ended(END);
    let lint = linted(&bytes, &limits, None);
    let verdicts: Vec<(&str, LintVerdict)> = lint.checks.iter().map(|check| (check.check.as_str(), check.verdict)).collect();
    // 1,667 times its threshold, and 3 times.
    assert_eq!(verdicts[..2], [("lost", Warning), ("few-samples", Warning)]);
    assert_eq!(verdicts.last(), Some(&("idle", LintVerdict::Off)));
    assert_eq!(lint.verdict, Warning);
    assert_eq!(linted(&bytes, &Limits::default(), None).verdict, Error);
}

#[test]
fn losses_are_told_by_place_and_time() {
    let mut built = second();
    for i in 0..50 {
        let body = built.pipe.words(&[10, 10]);
        built.trailed(2, 0, body, 500 * MS + i * MS);
    }
    let lint = linted(&built.ended(END), &Limits::default(), None);
    let lost = check_of(&lint, "lost");
    assert!(lost.evidence.contains("most while thread 7 program ran"), "{}", lost.evidence);
    assert!(lost.evidence.contains("nine of ten from 49") || lost.evidence.contains("nine of ten from 50"), "{}", lost.evidence);
}

#[test]
fn by_default_the_clock_is_a_warning_and_a_lower_rate_too() {
    let by_default = linted(&by_command("perf record -- program", CPU_CLOCK), &Limits::default(), None);
    assert_eq!(check_of(&by_default, "substituted").verdict, Warning);
    let lowered = Event { rate: 7000, flags: BY_FREQUENCY, ..CPU_CLOCK };
    let lowered = linted(&by_command("perf record -F 25000 -e cpu-clock -- program", lowered), &Limits::default(), None);
    let found = check_of(&lowered, "substituted");
    assert!(found.verdict == Warning && found.evidence.contains("25,000 samples a second were asked for"), "{found:#?}");
}

#[test]
fn copies_of_a_stack_that_goes_on_are_named() {
    // Registers and stack of user mode; the stack pointer is register 7.
    let sample_type = SAMPLE_TYPE | PERIOD | 1 << 12 | 1 << 13;
    let make = |deep: u64| {
        let mut pipe = crate::bill_built::Pipe::new(false);
        pipe.feature(8, "some processor");
        let flags = crate::bill_built::SAMPLE_ID_ALL | crate::bill_built::ENABLE_ON_EXEC;
        // An attribute of 112 bytes, with the registers' mask and the bytes of stack.
        let mut body = pipe.halves(&[1, 112]);
        body.extend(pipe.words(&[0, 1_000_000, sample_type, 0, flags, 0, 0, 0, 0, 1 << 7]));
        body.extend(pipe.halves(&[1024, 0]));
        body.extend(pipe.words(&[0]));
        body.extend(pipe.halves(&[0, 0]));
        body.extend(pipe.words(&[10]));
        pipe.record(64, 0, &body);
        for i in 0..1000_u64 {
            // Every other sample is deeper in calls.
            let pointer = 0x7fff_0000_0000 - if i % 2 == 0 { 0 } else { deep };
            let copy = vec![0; 1024];
            let body = [
                pipe.words(&[10, CODE]),
                pipe.halves(&[7, 7]),
                pipe.words(&[2 * MS + i * MS]),
                pipe.halves(&[0, 0]),
                pipe.words(&[1_000_000]),
                // ABI of 64 bits, the stack pointer; size of the copy, the copy, how much of it is valid
                pipe.words(&[2, pointer, 1024]),
                copy,
                pipe.words(&[1024]),
            ];
            pipe.record(9, 2, &body.concat());
        }
        linted(&pipe.bytes, &Limits::default(), None)
    };
    let cut = make(4096);
    let found = check_of(&cut, "stacks");
    assert!(found.verdict == Error && found.evidence.contains("copies of the stack end below"), "{found:#?}");
    let shallow = make(512);
    assert_eq!(check_of(&shallow, "stacks").verdict, LintVerdict::Passed, "{:#?}", check_of(&shallow, "stacks"));
}

/// The table of docs/guide/lint.md is that of the rules.
#[test]
fn the_page_names_every_rule_with_its_thresholds() {
    use perftax_perfdata::lint::Unit;
    let number = |number: Option<f64>, unit: Unit| match (number, unit) {
        (None, _) => "never".to_string(),
        (Some(share), Unit::Share) if share < 1e-5 => "any".to_string(),
        (Some(share), Unit::Share) => format!("{} %", (share * 1e4).round() / 1e2),
        (Some(count), Unit::Count) => count.to_string(),
    };
    let row = |rule: &&perftax_perfdata::lint::Rule| {
        let [warning, error] = [rule.warning, rule.error].map(|from| number(from, rule.unit));
        format!("| {} | {} | {warning} | {error} | {} |", rule.name, rule.measures, rule.source)
    };
    let table: Vec<String> = rules().iter().map(row).collect();
    let page = include_str!("../../../../docs/guide/lint.md");
    assert!(page.contains(&table.join("\n")), "docs/guide/lint.md needs this table:\n{}", table.join("\n"));
}

/// perf has the samples of tracepoints carry their period, and the kernel then takes each event for a sample.
#[test]
fn a_period_that_was_ignored_is_named() {
    let recorded = |sample_type: u64| {
        let event = Event { pmu_type: 2, config: 314, rate: 100, sample_type, ..CPU_CLOCK };
        let lint = linted(&by_command("perf record -e sched:sched_switch -c 100 -- program", event), &Limits::default(), None);
        check_of(&lint, "substituted").clone()
    };
    let ignored = recorded(SAMPLE_TYPE | PERIOD);
    assert!(ignored.verdict == Warning && ignored.remedy.contains("--no-period"), "{ignored:#?}");
    let kept = recorded(SAMPLE_TYPE | 1 << 3);
    assert_eq!(kept.verdict, LintVerdict::Passed, "{kept:#?}");
}

/// A member of a group has no samples of its own, and says nothing of CPU time.
#[test]
fn what_is_counted_and_not_sampled_tells_no_time() {
    let mut built = Built::new("perf record -e {page-faults,task-clock}:S -- x", "6.1.0", "elsewhere", PAGE_FAULTS);
    built.pipe.event(1, 1, 0, SAMPLE_TYPE | PERIOD, 0, 0, &[20]);
    let lint = linted(&built.mapped("/bin/program").sampled(1000).ended(END), &Limits::default(), None);
    assert_eq!(check_of(&lint, "idle").verdict, LintVerdict::Unknown, "{:#?}", check_of(&lint, "idle"));
}
