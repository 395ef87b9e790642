//! A buffer's terms from blocks whose truth is known by construction.

use perftax_cost::buffering::split;
use perftax_doc::observation::{Block, Settling};

const ASSIST_NS: u64 = 250;
const COPY_NS: u64 = 900;
const INTERRUPT_NS: u64 = 3000;
const CAPACITY: u64 = 323;
const STOP_NS: u64 = 7000;

/// A block of a machine in which everything takes what it says above.
fn block(session: u32, round: u32, arm: &str, samples: u64) -> Block {
    let interrupts = samples / CAPACITY;
    let waiting = samples - interrupts * CAPACITY;
    let drift = u64::from(session) * 700 + u64::from(round) * 90;
    let wall_ns = 2_500_000 + drift + samples * ASSIST_NS + interrupts * (INTERRUPT_NS + CAPACITY * COPY_NS);
    Block {
        session,
        round,
        arm: arm.into(),
        period: 0,
        samples,
        expected: samples as f64,
        lost: 0,
        throttled: 0,
        wall_ns,
        cpu_ns: wall_ns,
        involuntary_switches: 0,
        steal_ns: 0,
        settling: Some(Settling { waiting, stop_ns: STOP_NS + waiting * COPY_NS, interrupts, ..Settling::default() }),
        discarded: None,
    }
}

fn blocks(of: &[(&str, u64)]) -> Vec<Block> {
    let rounds = (0..8).flat_map(|session| (0..5).map(move |round| (session, round)));
    rounds.flat_map(|(session, round)| of.iter().map(move |(arm, samples)| block(session, round, arm, *samples))).collect()
}

fn on(b: &Block) -> bool {
    b.arm.starts_with("on")
}

#[test]
fn terms_are_told_apart() {
    let split = split(&blocks(&[("idle", 0), ("on", 76), ("on@2053", 1217)]), "idle", on).unwrap();
    let close = |found: perftax_doc::Estimate, truth: f64, off: f64| {
        assert!((found.estimate - truth).abs() < off && found.contains(truth), "{found:?} for {truth}");
    };
    close(split.assist_ns, ASSIST_NS as f64, 1e-6);
    close(split.copy_ns, COPY_NS as f64, 1e-6);
    close(split.interrupt_ns.unwrap(), INTERRUPT_NS as f64, 1e-6);
    assert_eq!(split.records_per_interrupt, Some(CAPACITY as f64));
    close(split.alpha_ns, ASSIST_NS as f64 + COPY_NS as f64 + INTERRUPT_NS as f64 / CAPACITY as f64, 1e-6);
}

#[test]
fn without_an_interrupt_that_term_is_not_known() {
    let split = split(&blocks(&[("idle", 0), ("on", 76)]), "idle", on).unwrap();
    assert_eq!((split.interrupt_ns, split.records_per_interrupt), (None, None));
    assert_eq!(split.alpha_ns.estimate.round(), (ASSIST_NS + COPY_NS) as f64);
}

#[test]
fn records_that_never_wait_are_not_split() {
    let single: Vec<Block> = blocks(&[("idle", 0), ("on", 76)])
        .into_iter()
        .map(|b| Block { settling: b.settling.map(|s| Settling { waiting: 0, interrupts: b.samples, ..s }), ..b })
        .collect();
    assert_eq!(split(&single, "idle", on), None, "an interrupt for each");
    assert_eq!(split(&blocks(&[("idle", 0), ("on", 1217)]), "idle", on), None, "no block whose buffer did not fill");
    assert_eq!(split(&blocks(&[("on", 76)]), "idle", on), None, "nothing to hold them against");
}
