//! What a trap of a debug register costs here, measured on ourselves in a fraction of a second: for who has not calibrated.

use perftax_cost::Estimate;
use perftax_cost::bootstrap::{REPLICATES, SEED, cluster_bootstrap};
use perftax_pmu::event::{Catalog, parse};
use perftax_pmu::sampler::{LiveSampler, Payload, Sampler, Sampling};
use perftax_pmu::sys::{Target, thread_cpu_ns};
use perftax_pmu::{Error, Result};

use crate::stimulus::{Stimulus, WatchedWrites};

/// Writes of a block: some 5 ms of traps.
const WRITES: u64 = 300;
/// Blocks with the register on, each beside one with it off.
const BLOCKS: usize = 24;
/// Pages of the ring: more than the samples of a block take.
const RING_PAGES: usize = 64;

/// The CPU time that a trap adds to what the program does, ns, its record included.
///
/// # Errors
/// Where the event cannot be opened on ourselves.
pub fn trap_ns(catalog: &Catalog) -> Result<Estimate> {
    let mut work = WatchedWrites::new(WRITES);
    let text = work.event_text();
    let event = parse(&text, catalog)?.pop().ok_or_else(|| Error::EventSyntax { text, why: "names no event".into() })?;
    let payload = Payload::BASIC.with_place().with_address().with_user_registers();
    let sampling = Sampling::every(1, RING_PAGES * rustix::param::page_size()).carrying(payload);
    let mut sampler = LiveSampler::open(&[(event, sampling)], &[Target::ThisThread], RING_PAGES)?;
    let timed = |work: &mut WatchedWrites| {
        // A trap is handled in its thread's own time, and what takes the CPU away meanwhile is not.
        let began_ns = thread_cpu_ns();
        work.run();
        (thread_cpu_ns() - began_ns) as f64 / WRITES as f64
    };
    timed(&mut work);
    let mut more_ns = Vec::with_capacity(BLOCKS);
    for _ in 0..BLOCKS {
        let off_ns = timed(&mut work);
        sampler.enable()?;
        let on_ns = timed(&mut work);
        sampler.disable()?;
        sampler.drain(&mut |_, _| {})?;
        more_ns.push(on_ns - off_ns);
    }
    // What else this machine did meanwhile lengthens some blocks, of either kind.
    let middle = |blocks: &[&f64]| perftax_cost::bootstrap::median(&mut blocks.iter().map(|block| **block).collect::<Vec<f64>>());
    cluster_bootstrap(&more_ns, middle, REPLICATES, SEED).ok_or_else(|| Error::Spoiled {
        why: "the price of a trap could not be measured".into(),
        remedy: "perftax calibrate --mechanism breakpoint on a quiet machine, then again".into(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn a_trap_costs_more_than_nothing() {
        let trap_ns = trap_ns(&Catalog::of_this_machine()).unwrap();
        assert!(trap_ns.estimate > 0.0 && trap_ns.low <= trap_ns.estimate, "{trap_ns:?}");
    }
}
