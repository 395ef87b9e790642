//! `perftax phase` in the emulated machine: a program whose phases are known, and real ones. Needs the machine and perftax built (`make
//! machine`); `make test` sees to that.

use crate::common;
use perftax_doc::Phase;
use perftax_vm::Generation;

/// Turns of each kind in `phases.S`: of two instructions, and of eight.
const TURNS: u64 = 500_000;
/// Instructions of an interval.
const INTERVAL: u64 = 50_000;

/// The documents that a script prints.
fn phases(generation: Generation, script: &str) -> Vec<Phase> {
    let folder = tempfile::tempdir().unwrap();
    let source = common::source("phases.S").display().to_string();
    common::assemble(folder.path(), "phases", &[&format!("-DTURNS={TURNS}"), &source]);
    std::fs::write(folder.path().join("data"), text()).unwrap();
    std::fs::write(folder.path().join("script"), script).unwrap();
    let (output, errors, finished) = common::boot_with(&["sh", "script"].map(String::from), &common::perftax(), |guest| {
        guest.processor.generation = generation;
        guest.share = Some(folder.path().into());
        guest.with = ["bzip2", "gzip"].map(String::from).to_vec();
    });
    assert_eq!(finished.code, 0, "{output}{errors}");
    let documents = serde_json::Deserializer::from_str(&output).into_iter();
    documents.map(|document| document.unwrap_or_else(|e| panic!("{e}: {output}{errors}"))).collect()
}

/// Words in a random order, the same each time.
fn text() -> String {
    let words = ["period", "sample", "counter", "branch", "taken", "interval", "event", "kernel"];
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words[(state >> 61) as usize]
    };
    (0..12_000).map(|_| next()).collect::<Vec<_>>().join(" ")
}

fn is_whole(phase: &Phase) {
    assert_eq!((phase.samples, phase.lost, phase.throttled), (phase.expected_samples, 0, 0));
    assert_eq!((phase.running, phase.unwatched), (1.0, 0));
    // The intervals are all there is.
    let sum = |of: fn(&perftax_doc::PhaseInterval) -> u64| phase.intervals.iter().map(of).sum::<u64>();
    assert_eq!([sum(|i| i.passed), sum(|i| i.first), sum(|i| i.second)], phase.counted);
}

/// A: of each two instructions one is a branch, and taken; B: of each eight four are branches, one of them taken. Twice A, B.
fn is_the_known_program(phase: &Phase) {
    is_whole(phase);
    // Four instructions more for each pair of phases, one before and three behind; each phase's branch back falls through once; the system
    // call at the end is a far branch.
    assert_eq!(phase.counted[0], 2 * (10 * TURNS + 4) + 4);
    assert_eq!(phase.counted[2], 2 * (5 * TURNS + 1) + 1);
    assert_eq!(phase.counted[1], 2 * (2 * TURNS - 2) + 2);
    assert!(
        phase.intervals.iter().rev().skip(1).all(|interval| interval.passed.abs_diff(INTERVAL) <= 1),
        "{:?}",
        phase.intervals
    );
    let (a, b) = (2 * TURNS / INTERVAL, 8 * TURNS / INTERVAL);
    let edges: Vec<u64> = phase.stretches.iter().map(|stretch| stretch.from).collect();
    assert_eq!(edges, [0, a, a + b, 2 * a + b]);
    for (stretch, known) in phase.stretches.iter().zip([1.0, 0.25, 1.0, 0.25]) {
        assert!((stretch.ratio.unwrap().estimate - known).abs() < 1e-4, "{stretch:?}");
        assert!((stretch.second_rate.unwrap().estimate - 0.5).abs() < 1e-4, "{stretch:?}");
    }
}

#[test]
fn known_phases_are_found_and_two_programs_are_two_curves() {
    let script = format!(
        "phase='perftax phase -e taken-branches:u,branches:u --json -'\n\
         $phase -i {INTERVAL} -- ./phases && $phase -i 200000 -- bzip2 -kc data && $phase -i 200000 -- gzip -nkc data"
    );
    let all = phases(Generation::Skylake, &script);
    let [known, bzip2, gzip] = all.as_slice() else { panic!("{} documents", all.len()) };
    is_the_known_program(known);
    assert_eq!((known.interval_event.as_str(), known.events[0].as_str()), ("instructions:u", "taken-branches"));
    for real in [bzip2, gzip] {
        is_whole(real);
        assert!(real.intervals.len() > 30 && real.stretches.len() > 1, "{:?}", real.stretches);
        // No program takes more branches than it has.
        assert!(real.intervals.iter().all(|interval| interval.first <= interval.second), "{:?}", real.intervals);
    }
    let [one, other] = [bzip2, gzip].map(|phase| phase.ratio.unwrap());
    assert!(one.low > other.high || other.low > one.high, "{one:?} {other:?}");
}

/// On AMD the vendor's own event for taken branches is another number.
#[test]
fn taken_branches_are_each_vendors_own() {
    let all =
        phases(Generation::Zen2, &format!("perftax phase -e taken-branches:u,branches:u -i {INTERVAL} --json - -- ./phases"));
    is_the_known_program(&all[0]);
}
