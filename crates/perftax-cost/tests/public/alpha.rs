//! The estimators on blocks whose truth is known by construction.

use perftax_cost::alpha::{self, Clock, Unit};
use perftax_doc::observation::Block;

const BASE_NS: u64 = 2_500_000;

fn block(session: u32, round: u32, arm: &str, samples: u64, extra_ns: u64) -> Block {
    let wall_ns = BASE_NS + u64::from(session) * 1000 + u64::from(round) * 10 + extra_ns;
    Block {
        session,
        round,
        arm: arm.into(),
        period: if arm.starts_with("off") { 0 } else { 50_000 },
        samples,
        expected: 2.0 * samples as f64,
        lost: 0,
        throttled: 0,
        wall_ns,
        cpu_ns: wall_ns - extra_ns / 2,
        involuntary_switches: 0,
        steal_ns: 0,
        settling: None,
        discarded: None,
    }
}

/// Eight sessions of six rounds; a sample costs 20 µs, with a payload 23 µs, and the payload arm delivers other numbers.
fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for session in 0..8 {
        for round in 0..6 {
            let n = 50 + u64::from(round);
            blocks.push(block(session, round, "off", 0, 0));
            blocks.push(block(session, round, "off2", 0, 0));
            blocks.push(block(session, round, "on", n, n * 20_000));
            blocks.push(block(session, round, "callchain", n + 9, (n + 9) * 23_000));
        }
    }
    blocks
}

#[test]
fn exact_blocks_give_the_exact_cost() {
    let alpha_ns = alpha::ratio_of_sums(&blocks(), "off", "on", Unit::Samples, Clock::Wall).unwrap();
    // Nothing varies: what is left is the clock's unit, a nanosecond a pair.
    assert_eq!(alpha_ns.estimate, 20_000.0);
    assert!(alpha_ns.contains(20_000.0) && alpha_ns.half_width() > 0.0 && alpha_ns.half_width() < 0.1, "{alpha_ns:?}");
    let of = |unit, clock| alpha::ratio_of_sums(&blocks(), "off", "on", unit, clock).unwrap().estimate;
    assert_eq!(of(Unit::Expected, Clock::Wall), 10_000.0);
    assert_eq!(of(Unit::Samples, Clock::Cpu), 10_000.0);
    let term = alpha::difference_of(&blocks(), "off", "on", "callchain", Unit::Samples, Clock::Wall).unwrap();
    assert!((term.estimate - 3000.0).abs() < 1e-6 && term.half_width() < 0.1, "{term:?}");
    let floor = alpha::floor(&blocks(), "off", "on", Unit::Samples, Clock::Wall).unwrap();
    assert!((floor.estimate - 20_000.0).abs() < 50.0, "{floor:?}");
    assert!(alpha::drift(&blocks(), "off", "on", Unit::Samples, Clock::Wall).unwrap() < 1e-9);
}

#[test]
fn discarded_blocks_and_their_partners_do_not_count() {
    let mut blocks = blocks();
    let mut spoil = |arm: &str, round: u32, wall_ns: u64| {
        for block in blocks.iter_mut().filter(|b| b.arm == arm && b.round == round) {
            block.wall_ns = wall_ns;
            block.discarded = Some("throttled".into());
        }
    };
    spoil("on", 1, 1_000_000_000);
    spoil("off", 2, 5);
    let alpha_ns = alpha::ratio_of_sums(&blocks, "off", "on", Unit::Samples, Clock::Wall).unwrap();
    assert_eq!(alpha_ns.estimate, 20_000.0);
    let sums = alpha::session_sums(&blocks, "off", "on", Unit::Samples, Clock::Wall);
    assert!(sums.iter().all(|s| s.pairs == 4), "two of six rounds of each session are gone");
}

#[test]
fn too_little_gives_no_estimate() {
    let one_session: Vec<Block> = blocks().into_iter().filter(|b| b.session == 0).collect();
    assert_eq!(alpha::ratio_of_sums(&one_session, "off", "on", Unit::Samples, Clock::Wall), None);
    assert_eq!(alpha::ratio_of_sums(&blocks(), "off", "absent", Unit::Samples, Clock::Wall), None);
    assert_eq!(alpha::ratio_of_sums(&[], "off", "on", Unit::Samples, Clock::Wall), None);
    assert_eq!(alpha::linearity(&blocks(), "off", &["on"], Unit::Samples, Clock::Wall), None, "one period only");
    assert_eq!(alpha::control(&[], "off", "off2", Clock::Wall), None);
    let mut nothing_sampled = blocks();
    nothing_sampled.iter_mut().for_each(|b| b.samples = 0);
    assert_eq!(alpha::ratio_of_sums(&nothing_sampled, "off", "on", Unit::Samples, Clock::Wall), None);
}

/// Adds noise of 2 % a block, and slows arm `off2` by `bias`.
fn noisy(seed: u64, bias: f64) -> Vec<Block> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut blocks = blocks();
    for block in &mut blocks {
        let factor = 1.0 + 0.02 * (random.f64() + random.f64() + random.f64() - 1.5) * 2.0;
        let slower = if block.arm == "off2" { 1.0 + bias } else { 1.0 };
        block.wall_ns = (block.wall_ns as f64 * factor * slower) as u64;
    }
    blocks
}

#[test]
fn the_control_passes_an_honest_machine_and_catches_a_planted_bias() {
    let passed = (0..200).filter(|&seed| alpha::control(&noisy(seed, 0.0), "off", "off2", Clock::Wall).unwrap().passed).count();
    println!("honest machines passed: {passed} of 200");
    assert!(passed >= 194);
    for seed in 0..50 {
        let control = alpha::control(&noisy(seed, 0.03), "off", "off2", Clock::Wall).unwrap();
        assert!(!control.passed && control.detects < 0.03, "{control:?}");
        assert!((control.difference.estimate - 0.03).abs() < 0.02);
        assert_eq!(control.difference.confidence, 0.99);
    }
    let said = alpha::control_variation(&noisy(1, 0.0), "off", "off2", Clock::Wall).unwrap();
    let plan = alpha::rounds_needed(0.1, said, 0.1).unwrap();
    assert!(plan.detects < 0.03, "{plan:?}");
}
