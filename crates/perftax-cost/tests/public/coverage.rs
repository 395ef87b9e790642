//! Do the intervals cover what they claim? Tried on a recorded log of 27,600 timed blocks (90 s of one noisy guest).
//!
//! "True" is the ratio of sums over the whole log. Run with `--nocapture` to see the coverage of every variant.

use std::io::Read;

use perftax_cost::alpha::{self, Clock, Sums, Unit};
use perftax_cost::bootstrap;
use perftax_doc::observation::Block;

const ROUNDS: usize = 5523;
/// Rounds are 16.3 ms apart.
const ROUNDS_PER_S: f64 = ROUNDS as f64 / 90.0;
const TRIALS: usize = 200;
/// The fastest rate's period, and the one that costs are best measured at.
const FAST_NS: u64 = 50_000;

/// The log's rounds, each with its five blocks.
fn log() -> Vec<Vec<Block>> {
    let packed = include_bytes!("../data/alpha-rounds.csv.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    let mut rounds: Vec<Vec<Block>> = vec![Vec::new(); ROUNDS];
    for line in text.lines().skip(1) {
        let fields: Vec<f64> = line.split(',').map(|field| field.parse().unwrap()).collect();
        let [round, _, rate_hz, samples, wall_s, cpu_s, _] = fields[..] else { panic!("{line}") };
        let off = rate_hz == 0.0;
        rounds[round as usize].push(Block {
            session: round as u32,
            round: 0,
            arm: if off { "off".into() } else { "on".into() },
            period: if off { 0 } else { (1e9 / rate_hz) as u64 },
            samples: samples as u64,
            expected: cpu_s * rate_hz,
            lost: 0,
            throttled: 0,
            wall_ns: (wall_s * 1e9) as u64,
            cpu_ns: (cpu_s * 1e9) as u64,
            involuntary_switches: 0,
            steal_ns: 0,
            settling: None,
            discarded: None,
        });
    }
    rounds
}

/// A calibration as it would have been made: `count` sessions of ten rounds at random times, starts at least `gap_s` apart.
fn sessions(log: &[Vec<Block>], count: usize, gap_s: f64, random: &mut fastrand::Rng) -> Vec<Block> {
    const LENGTH: usize = 10;
    let gap = gap_s * ROUNDS_PER_S;
    let slack = (ROUNDS - LENGTH) as f64 - (count - 1) as f64 * gap;
    assert!(slack >= 0.0, "the log is too short for {count} sessions {gap_s} s apart");
    let mut offsets: Vec<f64> = (0..count).map(|_| random.f64() * slack).collect();
    offsets.sort_by(f64::total_cmp);
    let mut blocks = Vec::new();
    for (session, offset) in (0_u32..).zip(offsets) {
        let start = (offset + f64::from(session) * gap) as usize;
        for (round, source) in (0_u32..).zip(&log[start..start + LENGTH]) {
            blocks.extend(source.iter().cloned().map(|b| Block { session, round, ..b }));
        }
    }
    blocks
}

fn truth(log: &[Vec<Block>], period: u64, clock: Clock) -> f64 {
    let blocks: Vec<Block> = log.iter().flatten().filter(|b| b.period == 0 || b.period == period).cloned().collect();
    Sums::total(&alpha::session_sums(&blocks, "off", "on", Unit::Samples, clock)).cost_ns()
}

/// Covered trials, and the mean relative half-width.
fn cover(log: &[Vec<Block>], count: usize, gap_s: f64, period: u64, clock: Clock) -> (usize, f64) {
    let truth = truth(log, period, clock);
    let mut random = fastrand::Rng::with_seed(20_260_731 + count as u64 + period);
    let (mut covered, mut half_width) = (0, 0.0);
    for _ in 0..TRIALS {
        let blocks = sessions(log, count, gap_s, &mut random);
        let estimate = alpha::ratio_of_sums_at(&blocks, "off", "on", period, Unit::Samples, clock).unwrap();
        covered += usize::from(estimate.contains(truth));
        half_width += estimate.relative_half_width() / TRIALS as f64;
    }
    println!(
        "{count} sessions at least {gap_s} s apart, period {period} ns, {clock:?}: true {truth:.0} ns, covered {:.1} %, half-width {:.1} %",
        covered as f64 / TRIALS as f64 * 100.0,
        half_width * 100.0
    );
    (covered, half_width)
}

/// Sessions at random, no two overlapping: the sampling that the interval supposes.
#[test]
fn the_cluster_bootstrap_covers_what_it_claims() {
    let log = log();
    for (period, clock) in [(FAST_NS, Clock::Cpu), (FAST_NS, Clock::Wall), (2 * FAST_NS, Clock::Cpu), (2 * FAST_NS, Clock::Wall)]
    {
        let (covered, _) = cover(&log, 30, 0.3, period, clock);
        assert!((180..=198).contains(&covered), "30 sessions, {period} ns, {clock:?}: {covered} of {TRIALS}");
    }
    assert!(cover(&log, 30, 0.3, FAST_NS, Clock::Cpu).1 < 0.055);
}

/// Starts at least 3 s apart, as a calibration makes them. 12 sessions are still nearly at random over 90 s.
#[test]
fn few_sessions_cover_too_thanks_to_the_small_sample_correction() {
    let log = log();
    for clock in [Clock::Cpu, Clock::Wall] {
        let (covered, _) = cover(&log, 12, 3.0, FAST_NS, clock);
        assert!((180..=198).contains(&covered), "12 sessions, {clock:?}: {covered} of {TRIALS}");
    }
}

/// 30 sessions at least 3 s apart fill the log evenly. Even spacing estimates better than chance would, which the interval
/// cannot know: it is on the safe side.
#[test]
fn evenly_spread_sessions_cover_at_least_what_is_claimed() {
    let log = log();
    for clock in [Clock::Cpu, Clock::Wall] {
        let (covered, half_width) = cover(&log, 30, 3.0, FAST_NS, clock);
        assert!(covered >= 180, "{covered} of {TRIALS}");
        assert!(half_width < 0.07);
    }
}

#[test]
fn the_naive_bootstrap_over_adjacent_rounds_does_not_cover() {
    let log = log();
    let ratio = |pairs: &[&(f64, f64)]| {
        let (extra, samples) = pairs.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
        extra / samples
    };
    for (period, clock) in [(FAST_NS, Clock::Cpu), (FAST_NS, Clock::Wall), (2 * FAST_NS, Clock::Cpu)] {
        let pair = |round: &Vec<Block>| {
            let off = round.iter().find(|b| b.period == 0)?;
            let on = round.iter().find(|b| b.period == period)?;
            Some((clock.of(on) - clock.of(off), on.samples as f64))
        };
        let pairs: Vec<(f64, f64)> = log.iter().filter_map(pair).collect();
        let truth = ratio(&pairs.iter().collect::<Vec<_>>());
        let mut random = fastrand::Rng::with_seed(5);
        let mut covered = 0;
        for seed in 0..TRIALS as u64 {
            let start = random.usize(..pairs.len() - 120);
            let interval = bootstrap::iid_bootstrap(&pairs[start..start + 120], ratio, 500, seed).unwrap();
            covered += usize::from(interval.contains(truth));
        }
        println!("naive, 120 adjacent rounds, {period} ns, {clock:?}: covered {:.1} %", covered as f64 / TRIALS as f64 * 100.0);
        assert!(covered < TRIALS / 2, "{covered} of {TRIALS}");
    }
}

#[test]
fn floor_drift_linearity_and_foresight_agree_with_what_is_known_of_the_log() {
    let log = log();
    let mut random = fastrand::Rng::with_seed(5);
    let blocks = sessions(&log, 30, 2.0, &mut random);
    let fast: Vec<Block> = blocks.iter().filter(|b| b.period == 0 || b.period == FAST_NS).cloned().collect();
    let alpha_ns = alpha::ratio_of_sums(&fast, "off", "on", Unit::Samples, Clock::Cpu).unwrap();
    let floor_ns = alpha::floor(&fast, "off", "on", Unit::Samples, Clock::Cpu).unwrap();
    println!("α {alpha_ns:?}\nfloor {floor_ns:?}");
    assert!(floor_ns.high < alpha_ns.low, "the floor lies below the ambient cost");
    assert!(floor_ns.estimate > 0.7 * alpha_ns.estimate && floor_ns.relative_half_width() < 0.03);
    let drift = alpha::drift(&fast, "off", "on", Unit::Samples, Clock::Cpu).unwrap();
    assert!((0.03..0.3).contains(&drift), "drift {drift}");

    let line = alpha::linearity(&blocks, "off", &["on"], Unit::Samples, Clock::Cpu).unwrap();
    println!("{line:?}");
    assert_eq!(line.periods.iter().map(|p| p.period).collect::<Vec<_>>(), [50_000, 100_000, 200_000, 400_000]);
    assert!(line.curvature.high < 0.0, "in this log a sample costs more at lower rates");
    assert!((line.theil_sen_ns.estimate / alpha_ns.estimate - 1.0).abs() < 0.12);

    let sums = alpha::session_sums(&fast, "off", "on", Unit::Samples, Clock::Cpu);
    let variation = alpha::session_variation(&sums).unwrap();
    let plan = alpha::rounds_needed(variation, 0.01, 0.05).unwrap();
    println!("between sessions {:.1} %: {plan:?}", variation * 100.0);
    assert!((15..60).contains(&plan.rounds), "{plan:?}");
}
