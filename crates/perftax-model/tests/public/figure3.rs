//! Figure 3 of the ROSS'17 study as a consequence: busy loops on all cores, records written round and round a buffer of each.

use perftax_model::cache::Policy;
use perftax_model::machine::{CacheSpec, Inclusion, Machine};

use crate::steady::bytes_per_record;

const MIB: u64 = 1 << 20;

fn broadwell_like(policy: Policy) -> Machine {
    let mut machine = crate::common::machine(Policy::Lru, Inclusion::Inclusive);
    machine.cores = 10;
    machine.l1.bytes = 32 << 10;
    machine.l2.bytes = 256 << 10;
    machine.llc = CacheSpec { bytes: 25 * MIB, ways: 20, policy, latency_cycles: 50 };
    machine
}

#[test]
fn memory_is_reached_beyond_the_share_of_the_last_level() {
    let machine = broadwell_like(Policy::Drrip);
    let at: Vec<(f64, f64)> = [1, 2, 3, 4, 6, 8].iter().map(|&mib| bytes_per_record(&machine, mib * MIB)).collect();
    eprintln!("{at:?}");
    assert!(at[0].0 < 2.0 && at[1].0 < 2.0, "nothing up to 2 MiB: {at:?}");
    assert!(at[2].0 > 20.0, "prominent at 3 MiB: {at:?}");
    assert!(at.windows(2).all(|pair| pair[1].0 >= pair[0].0 - 0.5), "grows: {at:?}");
    for (read, write) in &at[2..] {
        assert!((read / write - 1.0).abs() < 0.05, "read {read} = write {write}");
    }
}

/// True LRU over a cyclic buffer gives a step: all or nothing.
#[test]
fn the_policy_makes_the_step_a_curve() {
    let lru = broadwell_like(Policy::Lru);
    let at = |mib| bytes_per_record(&lru, mib * MIB).0;
    assert!(at(2) < 2.0);
    assert!(at(3) > 185.0, "{}", at(3));
}
