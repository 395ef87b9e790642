//! What must hold for every machine, period and program.

use perftax_model::cache::{Hierarchy, Policy, Who};
use perftax_model::machine::{Handler, Inclusion, LlcShare, Mechanism, Setup};
use perftax_model::{Core, Moment, Sample};
use proptest::prelude::*;

fn mechanisms() -> impl Strategy<Value = Mechanism> {
    prop_oneof![
        Just(Mechanism::Pebs),
        Just(Mechanism::IbsOp),
        Just(Mechanism::IbsFetch),
        Just(Mechanism::Interrupt),
        Just(Mechanism::Spe)
    ]
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::Lru), Just(Policy::TreePlru), Just(Policy::Random), Just(Policy::Srrip), Just(Policy::Drrip)]
}

fn inclusions() -> impl Strategy<Value = Inclusion> {
    prop_oneof![Just(Inclusion::Inclusive), Just(Inclusion::NonInclusive), Just(Inclusion::Victim)]
}

fn core(mechanism: Mechanism, period: u64, buffer_bytes: u64, seed: u64) -> Core {
    let machine = crate::common::machine(Policy::Lru, Inclusion::Inclusive);
    let setup = Setup { mechanism, period, buffer_bytes: Some(buffer_bytes), handler: Handler::Copies, seed };
    Core::new(0, machine.unit(&setup, 0).unwrap())
}

/// Runs chunks of events, each event's instruction being its number.
fn run(core: &mut Core, chunks: &[u64]) -> Vec<Sample> {
    let (mut samples, mut before) = (Vec::new(), 0);
    for &events in chunks {
        let at = |n| Moment { instructions: before + n, ip: before + n, cycle: before + n, ..Moment::default() };
        core.run(events, at, |sample| samples.push(sample));
        before += events;
    }
    samples
}

proptest! {
    /// Every event is counted once: in what way the stream is cut into blocks must not matter, and nothing goes missing.
    #[test]
    fn how_the_stream_is_cut_does_not_matter(
        mechanism in mechanisms(), period in 300u64..5000, seed: u64, chunks in prop::collection::vec(0u64..3000, 1..60),
    ) {
        let total: u64 = chunks.iter().sum();
        let (mut whole, mut cut) = (core(mechanism, period, 4096, seed), core(mechanism, period, 4096, seed));
        prop_assert_eq!(run(&mut whole, &[total]), run(&mut cut, &chunks));
        prop_assert_eq!((whole.samples, whole.lost, whole.interrupts), (cut.samples, cut.lost, cut.interrupts));
        prop_assert_eq!(whole.until_action(), cut.until_action());
    }

    /// PEBS samples are events / (period + 1), exactly.
    #[test]
    fn pebs_takes_one_in_period_plus_one(period in 1u64..100_000, events in 0u64..2_000_000, seed: u64) {
        let mut core = core(Mechanism::Pebs, period, 4096, seed);
        let samples = run(&mut core, &[events]);
        prop_assert_eq!(samples.len() as u64, events / (period + 1));
        prop_assert!(samples.len() as u64 * (period + 1) <= events);
        prop_assert_eq!(core.lost, 0);
        for (i, sample) in samples.iter().enumerate() {
            prop_assert_eq!(sample.ip, (i as u64 + 1) * (period + 1) - 1, "the event recorded is the one after the overflow");
        }
    }

    /// Interrupts sample one in period, whatever the skid.
    #[test]
    fn interrupts_take_one_in_period(period in 1u64..100_000, events in 0u64..2_000_000, seed: u64) {
        let mut core = core(Mechanism::Interrupt, period, 4096, seed);
        prop_assert_eq!(run(&mut core, &[events]).len() as u64, events / period);
        prop_assert_eq!(core.interrupts, events / period);
    }

    /// IBS: samples and discarded tags together are the events and the handlers' tails over the period, less its random part.
    #[test]
    fn ibs_counts_its_handlers_tail(period in 2000u64..50_000, seed: u64) {
        let mut core = core(Mechanism::IbsOp, period, 4096, seed);
        let events = 400 * period;
        let samples = run(&mut core, &[events]).len() as f64;
        let tags = samples + core.lost as f64;
        let programmed = (period / 16 * 16) as f64;
        let expected = (events as f64 + samples * 700.0) / (programmed - 63.5);
        prop_assert!((tags / expected - 1.0).abs() < 0.01, "{tags} tags, {expected} expected at {programmed}");
    }

    /// A run is the same for the same seed.
    #[test]
    fn a_seed_is_a_run(mechanism in mechanisms(), period in 300u64..3000, seed: u64) {
        let once = run(&mut core(mechanism, period, 1000, seed), &[100_000]);
        prop_assert_eq!(once, run(&mut core(mechanism, period, 1000, seed), &[100_000]));
    }

    /// The levels stay nested, traffic adds up, and what is written was read (write-allocate).
    #[test]
    fn caches_stay_nested(
        policy in policies(), inclusion in inclusions(), seed: u32,
        accesses in prop::collection::vec((0usize..2, 0u32..6000, any::<bool>()), 1..8000),
    ) {
        let machine = crate::common::machine(policy, inclusion);
        let mut caches: Hierarchy = machine.hierarchy(2, LlcShare::Whole, seed);
        for &(core, line, write) in &accesses {
            caches.access(core, line, write, Who::Program);
        }
        prop_assert!(caches.is_nested());
        for core in 0..2 {
            let t = caches.traffic(core);
            prop_assert!(t.l1_misses >= t.l2_misses && t.l2_misses >= t.llc_misses);
            prop_assert_eq!(t.memory_read_lines, t.llc_misses);
        }
        let total = |of: fn(&perftax_model::cache::Traffic) -> u64| (0..2).map(|core| of(caches.traffic(core))).sum::<u64>();
        prop_assert!(total(|t| t.memory_write_lines) <= total(|t| t.memory_read_lines));
    }
}

/// SPE drops an operation where the last one is still in flight, and counts it.
#[test]
fn spe_collides_with_slow_operations() {
    let collisions = |latency_cycles| {
        let mut core = core(Mechanism::Spe, 300, 65_536, 1);
        let at = |n| Moment { instructions: n, cycle: n, latency_cycles, ..Moment::default() };
        core.run(1_000_000, at, |_| ());
        (core.samples, core.lost)
    };
    let (samples, lost) = collisions(10);
    assert_eq!(lost, 0);
    assert!((samples as f64 / (1e6 / (300.0 + 127.5)) - 1.0).abs() < 0.02, "{samples}");
    let (fewer, lost) = collisions(600);
    assert!(lost > 0 && fewer + lost >= samples - 10 && fewer < samples, "{fewer} {lost}");
}

/// Four loads in a loop of exactly 4 loads an iteration: a period that the loop divides puts all samples on one load.
#[test]
fn a_period_that_the_loop_divides_sees_one_load() {
    let shares = |period| {
        let mut core = core(Mechanism::Pebs, period, 65_536, 1);
        let mut on = [0u64; 4];
        core.run(400_000_000, |n| Moment { ip: n % 4, ..Moment::default() }, |sample| on[sample.ip as usize] += 1);
        let total: u64 = on.iter().sum();
        on.map(|n| n as f64 / total as f64)
    };
    assert_eq!(shares(99_999).into_iter().filter(|&share| share == 1.0).count(), 1, "99999 + 1 is a multiple of 4");
    for share in shares(100_003 - 1) {
        assert!((share - 0.25).abs() < 0.01, "{share}");
    }
}
