//! What a trap of a debug register costs here: as calibrated, or, for who has not, measured on ourselves in a fraction of a second.

use perf_event_open_sys::bindings as abi;
use perftax_comm::live::trap_payload;
use perftax_cost::bootstrap::{REPLICATES, SEED, cluster_bootstrap};
use perftax_cost::prediction::FRESH_S;
use perftax_doc::MachineProfile;
use perftax_doc::steps::{Calibrated, Operation};
use perftax_doc::{Estimate, Mechanism};
use perftax_pmu::event::{Catalog, parse_one};
use perftax_pmu::sampler::{LiveSampler, Sampler, Sampling};
use perftax_pmu::sys::{Target, thread_cpu_ns};
use perftax_pmu::{Error, Result};

use crate::stimulus::{Stimulus, WatchedWrites};
use perftax_perfdata::bill::price_of;
use perftax_perfdata::recording::{Attribute, Carried};

/// What calibrate calls the event of a debug register.
const CALIBRATED: &str = "mem:ADDRESS/8:w:u";

/// Writes of a block: some 1.5 ms of traps in a guest.
const WRITES: u64 = 150;
/// Blocks with the register on, each beside one with it off: some 20 ms in all, which a program that is to be watched waits for.
const BLOCKS: usize = 12;
/// Pages of the ring: more than the samples of a block take.
const RING_PAGES: usize = 64;

/// The same as [`trap_ns`], as it was calibrated: α and what registers cost on top of it. None where it was not, by a calibration that
/// knows no price of registers, or one of more than an hour ago (`now_s`, seconds since 1970): costs were seen to change by half since.
pub fn calibrated_trap_ns(profile: &MachineProfile, now_s: f64) -> Option<Estimate> {
    let (pmu_type, sample_type) = (abi::PERF_TYPE_BREAKPOINT, trap_payload().sample_type);
    let attribute = Attribute { pmu_type, period: Some(1), sample_type, ..Attribute::default() };
    let price = price_of(profile, Mechanism::Breakpoint, CALIBRATED, &attribute, Carried::default(), None, now_s)?;
    // One of the future was taken before a clock was set back: how long ago, nobody knows.
    let is_fresh = (0.0..=FRESH_S).contains(&(now_s - price.calibration.origin.taken_at_s));
    (is_fresh && price.exact && price.unpriced_payload.is_empty()).then_some(price.alpha_ns)
}

/// The CPU time that a trap adds to what the program does, ns, its record included.
///
/// # Errors
/// Where the event cannot be opened on ourselves.
pub fn trap_ns(catalog: &Catalog) -> Result<Estimate> {
    let mut work = WatchedWrites::new(WRITES);
    let event = parse_one(&work.event_text(), catalog)?;
    let sampling = Sampling::every(1, RING_PAGES * rustix::param::page_size()).carrying(trap_payload());
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
    let middle = |blocks: &[&f64]| perftax_doc::median(&mut blocks.iter().map(|block| **block).collect::<Vec<f64>>());
    cluster_bootstrap(&more_ns, middle, REPLICATES, SEED).ok_or_else(|| Error::Discarded {
        why: "the price of a trap could not be measured".into(),
        remedy: format!("{} on a quiet machine, then again", Operation::Calibrate(Calibrated::Mechanism(Mechanism::Breakpoint))),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::collections::BTreeMap;

    use perftax_doc::{Calibration, MachineId, Origin, SCHEMA, StopReason};

    use super::*;

    const TAKEN_AT_S: f64 = 1_000.0;

    fn profile(event: &str, terms: &[(&str, f64)]) -> MachineProfile {
        let origin = Origin {
            schema: SCHEMA,
            perftax: String::new(),
            kind: String::new(),
            machine: MachineId::default(),
            kernel: String::new(),
            taken_at_s: TAKEN_AT_S,
            command: Vec::new(),
            warnings: Vec::new(),
        };
        let calibration = Calibration {
            origin,
            mechanism: Mechanism::Breakpoint,
            event: event.into(),
            alpha_ns: Estimate::new(9_300.0, 9_200.0, 9_400.0),
            floor_ns: None,
            samples: 1,
            expected_samples: 1.0,
            lost: 0,
            throttled: 0,
            terms: terms.iter().map(|(name, ns)| (name.to_string(), Estimate::exact(*ns))).collect::<BTreeMap<_, _>>(),
            wide_code_pages: None,
            linearity: None,
            control: None,
            cross_check: None,
            direct: None,
            drift: 0.0,
            sessions: 1,
            elapsed_s: 1.0,
            stopped: StopReason::Precision,
            blocks: Vec::new(),
        };
        MachineProfile { schema: SCHEMA, machine: MachineId::default(), kernel: String::new(), calibrations: vec![calibration] }
    }

    #[test]
    fn a_traps_registers_are_in_its_price() {
        let known = profile(CALIBRATED, &[("user-regs", 1_000.0), ("user-stack", 4_000.0)]);
        let trap_ns = calibrated_trap_ns(&known, TAKEN_AT_S).unwrap();
        assert_eq!((trap_ns.estimate, trap_ns.low, trap_ns.high), (10_300.0, 10_200.0, 10_400.0));
    }

    #[test]
    fn what_does_not_price_a_trap_is_not_taken() {
        let known = profile(CALIBRATED, &[("user-regs", 1_000.0)]);
        assert_eq!(calibrated_trap_ns(&known, TAKEN_AT_S + FRESH_S + 1.0), None, "of yesterday");
        assert_eq!(calibrated_trap_ns(&known, TAKEN_AT_S - 1.0), None, "of tomorrow");
        assert_eq!(calibrated_trap_ns(&profile(CALIBRATED, &[]), TAKEN_AT_S), None, "without registers");
        assert_eq!(calibrated_trap_ns(&profile("mem:0x1000:x", &[("user-regs", 1_000.0)]), TAKEN_AT_S), None, "of another event");
    }

    #[test]
    fn a_trap_costs_more_than_nothing() {
        let trap_ns = trap_ns(&Catalog::of_this_machine()).unwrap();
        assert!(trap_ns.estimate > 0.0 && trap_ns.low <= trap_ns.estimate, "{trap_ns:?}");
    }
}
