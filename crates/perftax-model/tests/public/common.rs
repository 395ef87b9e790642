//! A machine for tests: small caches, round numbers.

use perftax_model::cache::Policy;
use perftax_model::machine::{CacheSpec, IbsSpec, Inclusion, InterruptSpec, Machine, PebsSpec, SpeSpec};
use perftax_model::unit::RecordFormat;

/// Four cores of 4 KiB, 16 KiB and a shared 128 KiB.
pub fn machine(policy: Policy, inclusion: Inclusion) -> Machine {
    let cache = |kib: u64, ways, latency_cycles| CacheSpec { bytes: kib << 10, ways, policy, latency_cycles };
    Machine {
        cores: 4,
        base_ghz: 2.0,
        uops_per_cycle: 2.0,
        exposed_latency: 0.5,
        memory_latency_ns: 80.0,
        inclusion,
        l1: cache(4, 8, 4),
        l2: cache(16, 8, 12),
        llc: cache(128, 16, 40),
        counters: 4,
        interrupt: InterruptSpec { cost_ns: 2000.0, least_skid: 1, most_skid: 30 },
        pebs: Some(PebsSpec { format: RecordFormat::Fmt2, counters: 4, assist_ns: 286.0, drain_ns: 50.0, buffer_bytes: 65_536 }),
        ibs: Some(IbsSpec { handler_ops: 700, handler_fetches: 300, discarded: 0.01, op_ns: 2900.0, fetch_ns: 3100.0 }),
        spe: Some(SpeSpec { least_interval: 256, record_ns: 20.0, drain_ns: 20.0, buffer_bytes: 65_536 }),
        sources: vec!["made up".into()],
    }
}
