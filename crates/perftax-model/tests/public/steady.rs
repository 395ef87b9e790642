//! Records that are written round and round a buffer of each core, until it is always the same.

use perftax_model::cache::{Hierarchy, Traffic};
use perftax_model::machine::{Handler, LlcShare, Machine, Mechanism, Setup};
use perftax_model::{Core, Moment};

/// Bytes read and written a record in the steady state, all cores in turns. How far apart the records are does not matter: a
/// busy loop touches no memory.
pub fn bytes_per_record(machine: &Machine, buffer_bytes: u64) -> (f64, f64) {
    let setup =
        Setup { mechanism: Mechanism::Pebs, period: 2000, buffer_bytes: Some(buffer_bytes), handler: Handler::Discards, seed: 1 };
    let mut cores: Vec<Core> = (0..machine.cores).map(|n| Core::new(n, machine.unit(&setup, n).unwrap())).collect();
    let mut caches = machine.hierarchy(machine.cores, LlcShare::Whole, 1);
    let total = |caches: &Hierarchy| {
        let sum = |of: fn(&Traffic) -> u64| (0..machine.cores as usize).map(|core| of(caches.traffic(core))).sum::<u64>() as f64;
        (sum(Traffic::memory_read_bytes), sum(Traffic::memory_write_bytes))
    };
    let records = buffer_bytes / machine.pebs.unwrap().format.bytes();
    let mut turns = |caches: &mut Hierarchy, turns: u64| {
        for _ in 0..turns * records {
            for core in &mut cores {
                core.pass(core.until_action() - 1);
                core.act(&Moment::default()).1.go_through(caches);
            }
        }
    };
    turns(&mut caches, 3);
    let before = total(&caches);
    turns(&mut caches, 2);
    let after = total(&caches);
    let samples = (2 * records * u64::from(machine.cores)) as f64;
    ((after.0 - before.0) / samples, (after.1 - before.1) / samples)
}
