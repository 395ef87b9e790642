//! Figure 3 of the ROSS'17 study on the machines it was measured on: busy loops on all cores, memory traffic over the buffer.
//! Prints the table that stands in docs/guide/sim.md (`cargo test -p perftax-lab --test public figure_3 -- --ignored --nocapture`).

use perftax_lab::published::Published;
use perftax_model::cache::{Hierarchy, Traffic};
use perftax_model::machine::{Handler, LlcShare, Machine, Mechanism, Setup};
use perftax_model::{Core, Moment};

const MIB: u64 = 1 << 20;

/// Bytes read and written a record in the steady state, all cores in turns. How far apart the records are does not matter: a
/// busy loop touches no memory.
fn bytes_per_record(machine: &Machine, buffer_bytes: u64) -> (f64, f64) {
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

/// Records a second of one core: its time is that of its micro-operations and of the assists.
fn records_per_s(machine: &Machine, period: u64) -> f64 {
    let work_s = (period + 1) as f64 / (machine.uops_per_cycle * machine.base_ghz * 1e9);
    1.0 / (work_s + machine.pebs.unwrap().assist_ns * 1e-9)
}

#[test]
#[ignore = "a quarter of a minute for what perftax-model's figure3 shows smaller: scripts/acceptance sim-figure-3"]
fn memory_traffic_begins_where_the_buffers_leave_the_last_level() {
    for name in ["broadwell", "haswell"] {
        let machine = Published::load(name).unwrap().model().unwrap().clone();
        let sizes = [1, 2, 3, 4, 6, 8];
        let bytes = sizes.map(|mib| bytes_per_record(&machine, mib * MIB));
        for period in [2000, 4000, 8000] {
            let row = bytes.map(|(read, _)| format!("{:.1}", read * records_per_s(&machine, period) / 1e6));
            eprintln!("{name:10} R = {period}: MB/s read a core at {sizes:?} MiB: {}", row.join(" "));
        }
        let most = bytes[5].0;
        assert!(bytes[0].0 < 0.02 * most && bytes[1].0 < 0.02 * most, "nothing up to 2 MiB: {bytes:?}");
        assert!(bytes[2].0 > 0.1 * most, "prominent at 3 MiB: {bytes:?}");
        assert!(bytes[1..].windows(2).all(|pair| pair[1].0 > pair[0].0), "grows: {bytes:?}");
        for (read, write) in &bytes[2..] {
            assert!((read / write - 1.0).abs() < 0.05, "read {read}, write {write}");
        }
        assert!(records_per_s(&machine, 2000) > records_per_s(&machine, 8000), "shorter periods write more");
    }
}
