//! `perftax comm` on four emulated processors with debug registers of their own, under the distribution's kernel. Needs the machine and
//! perftax built (`make build machine`); `make test` sees to that.

use crate::common;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use perftax_doc::Warning;
use perftax_doc::{Comm, CommAdvice, CommLine};

/// Lines that one thread fills and another reads, each time once: so many transfers by construction, whatever the schedule is. The debug
/// registers of all four processors see each of them.
#[test]
fn hand_overs_are_counted() {
    const EACH: u64 = 500;
    let comm = comm(&format!("perftax comm --watch mailbox/32 --json - -- ./sharing producer-consumer 1 4 {EACH}"));
    // Four words are stored and loaded each time.
    assert_eq!((comm.evidence.traps, comm.evidence.undecoded, comm.evidence.lost_traps), (8 * EACH, 0, 0));
    assert_eq!((comm.total.true_sharing.estimate, comm.total.false_sharing.estimate), (EACH as f64, 0.0));
    assert_eq!((comm.pairs.len(), comm.lines.len(), comm.lines[0].advice), (1, 1, CommAdvice::Move));
    assert!(comm.lines[0].sites.iter().all(|site| site.source.as_deref().is_some_and(|at| at.contains("sharing.c:"))));
}

/// Nobody named a line: samples do, and registers follow each for a few stores. Of each hand-over three transfers: the line that is filled, the
/// flag that says so, and the flag that says that it was read. The pairs are whoever was started first with whom. Threads that wait for each other
/// fall into step with the sampler, with each period at other places (docs/guide/comm.md): how near the number of transfers comes is a question for many
/// periods (`perftax-comm`'s tests ask it of emulated threads), here it is of the right size. A pair that the scheduler puts on one processor hands
/// nothing from one to another: which of the two pairs is seen is the scheduler's business, in all of these runs, too. What is seen is a pair's.
#[test]
fn sampled_lines_are_followed() {
    const EACH: f64 = 10_000.0;
    const PAIRS: [[&str; 2]; 2] = [["mailbox", "flag"], ["mailbox+0x40", "flag+0x40"]];
    // A name goes on with the type and the field.
    let is = |found: &str, name: &str| found == name || found.starts_with(&format!("{name} "));
    let mut found = BTreeSet::new();
    for period in [251, 379, 503, 997, 1999] {
        let comm = comm(&format!("perftax comm -m 1024 -c {period} --json - -- ./sharing producer-consumer 1 4 {EACH}"));
        let total = comm.total.total;
        assert!(comm.total.true_sharing.estimate > 0.95 * total.estimate, "{:?}", comm.total);
        assert!(comm.total.evidence >= 20 && comm.evidence.fetches >= 20, "{:?}", comm.evidence);
        let of_pairs = |line: &&CommLine| PAIRS.as_flattened().iter().any(|name| is(&line.name, name));
        let of_pairs: f64 = comm.lines.iter().filter(of_pairs).map(|line| line.share.total.estimate).sum();
        assert!(of_pairs > 0.9 * total.estimate, "{:?}", comm.lines);
        assert!((2.0 * EACH..15.0 * EACH).contains(&total.estimate), "{total:?}");
        found.extend(comm.lines.into_iter().take(4).map(|line| line.name));
        if PAIRS.iter().any(|pair| pair.iter().all(|name| found.iter().any(|found| is(found, name)))) {
            return;
        }
    }
    panic!("neither pair's two lines were found: {found:?}");
}

/// Lines that are fetched by stores alone, each the first of the vectors of 16 bytes that fill its line. So many transfers by construction.
#[test]
fn vectors_that_miss_are_seen() {
    const ROUNDS: f64 = 200.0;
    const LINES: f64 = 512.0;
    let comm = comm_of(
        "tests/guests/programs/vectors.c",
        &format!("perftax comm -m 1024 -c 251 --json - -- ./vectors {ROUNDS} {LINES}"),
    );
    let of_buffer = comm.lines.iter().filter(|line| line.name.starts_with("buffer"));
    let found: f64 = of_buffer.map(|line| line.share.total.estimate).sum();
    assert!((found / ((ROUNDS - 1.0) * LINES) - 1.0).abs() < 0.2, "{found}: {:?} {:?}", comm.total, comm.evidence);
    assert!(comm.evidence.missed_stores >= 200, "{:?}", comm.evidence);
}

/// Four threads on two processors, each of which stores to a word of its own under a register of its own: the kernel leaves the registers as they
/// are where it changes from one such thread to another, and what one has hit is not the next one's.
#[test]
fn a_trap_is_one_threads() {
    const STORES: u64 = 3000;
    let watched: String = (0..4).map(|word| format!("--watch apart+{:#x}/8 ", 8 * word)).collect();
    let comm = comm(&format!("taskset 3 perftax comm -m 2048 {watched} --json - -- ./sharing false 1 4 {STORES}"));
    assert_eq!((comm.evidence.traps, comm.evidence.undecoded, comm.evidence.lost_traps), (4 * STORES, 0, 0));
    assert_eq!(comm.total.true_sharing.estimate, 0.0, "{:?}", comm.total);
    assert!(comm.total.false_sharing.estimate > 0.0, "{:?}", comm.total);
}

/// A process and its child each add to a variable at the same address, which is two, and to one that they share. A handful of samples put a register on their
/// line before all are taken, and on which line chance decides: another period is another chance.
#[test]
fn a_childs_memory_is_its_own() {
    let mut seen = Vec::new();
    for period in [251, 379, 509, 263, 1009] {
        let comm =
            comm_of("tests/guests/programs/forks.c", &format!("perftax comm -m 1024 -c {period} --json - -- ./forks 1000000"));
        let transfers = |is: &dyn Fn(&str) -> bool| -> f64 {
            comm.lines.iter().filter(|line| is(&line.name)).map(|line| line.share.total.estimate).sum()
        };
        assert_eq!(transfers(&|name| name.starts_with("own")), 0.0, "{:?}", comm.lines);
        if comm.total.evidence >= 50 {
            assert!(transfers(&|name| name.contains("zero")) > 0.9 * comm.total.total.estimate, "{:?}", comm.lines);
            return;
        }
        seen.push((period, comm.total.evidence, comm.evidence));
    }
    panic!("the line that they share was not seen at any period: {seen:?}");
}

/// Lines that perf c2c finds here are watched in a run of its own: the program is linked statically, and its variables lie where they lay.
#[test]
fn lines_are_taken_from_perf_c2c() {
    let record = "perf c2c record -o /tmp/c2c.data -- --no-bpf-event -q -c 61 ./sharing read-write 0.5 4 20000 >/dev/null";
    let short = common::SHORT_PERF;
    let comm =
        comm(&format!("{short}{record} && perftax comm --lines-from /tmp/c2c.data --json - -- ./sharing read-write 0.5 4 20000"));
    // perf c2c may have seen another line change hands now and then, a lock of the library's.
    let common = comm.lines.iter().filter(|line| line.name.contains("common")).map(|line| line.share.total.estimate).sum::<f64>();
    assert!(common > 0.9 * comm.total.total.estimate && comm.total.true_sharing.estimate > 0.0, "{:?}", comm.lines);
}

/// Another profiler that has more events than there are counters takes turns with the sampled ones: said, with how long they had one. One
/// that leaves them none spoils the run.
#[test]
fn counters_that_are_shared_are_said() {
    let command = "perftax comm -m 1024 -c 251 --json - -- ./sharing producer-consumer 1 4 4000";
    let is_shared = |warning: &Warning| matches!(warning, Warning::Multiplexed { running, .. } if *running < 0.9);
    let alone = comm(command);
    assert!(!alone.origin.warnings.iter().any(is_shared), "{:?}", alone.origin.warnings);
    let beside = |event: &str, count: usize| {
        let events = vec![event; count].join(",");
        format!("{}perf stat -a -o /dev/null -e {events} sleep 1000 & sleep 1; {command}", common::SHORT_PERF)
    };
    let shared = comm(&beside("instructions:u", 4));
    assert!(shared.origin.warnings.iter().any(is_shared), "{:?}", shared.origin.warnings);
    // Pinned events take no turns.
    let (output, errors, code) = run_of(MICROBENCHMARK, &beside("instructions:uD", 16));
    assert_eq!((output.as_str(), code), ("", 1), "{errors}");
    assert!(errors.contains("never had a counter") && errors.contains("end other profilers"), "{errors}");
}

/// What a command with `perftax comm` says of the microbenchmark, on four processors.
fn comm(command: &str) -> Comm {
    comm_of(MICROBENCHMARK, command)
}

/// Its source.
const MICROBENCHMARK: &str = "../perftax-lab/workloads/sharing.c";

/// What it says of a program that is compiled from a source of this repository, by its file's name.
fn comm_of(source: &str, command: &str) -> Comm {
    let (output, errors, code) = run_of(source, command);
    assert_eq!(code, 0, "{output}{errors}");
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}{errors}"))
}

/// What a command prints, says besides, and ends with.
fn run_of(source: &str, command: &str) -> (String, String, i32) {
    let share = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let mut gcc = Command::new("gcc");
    let program = share.path().join(source.file_stem().unwrap());
    gcc.args(["-O2", "-g", "-static", "-pthread", "-o"]).arg(program).arg(source);
    assert!(gcc.status().unwrap().success());
    // Every access is to be seen, so that counts are exact.
    let command = command.replace("perftax comm ", "perftax comm --budget none ");
    std::fs::write(share.path().join("script"), format!("{command}\n")).unwrap();
    let (output, errors, finished) = common::boot_with(&["sh", "script"].map(String::from), &common::perftax(), |guest| {
        guest.share = Some(share.path().into());
        guest.processor.count = 4;
    });
    (output, errors, finished.code)
}
