//! Figure 3 of the ROSS'17 study on the machines it was measured on: busy loops on all cores, memory traffic over the buffer.
//! Prints the table that stands in docs/guide/sim.md (`cargo test -p perftax-lab --test public figure_3 -- --ignored --nocapture`).

use perftax_lab::published::Published;
use perftax_model::machine::Machine;

#[path = "../../../perftax-model/tests/public/steady.rs"]
mod steady;

use steady::bytes_per_record;

const MIB: u64 = 1 << 20;

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
