//! Does a sample hold the instruction and the address that it is about?

use std::collections::BTreeSet;

use perftax_doc::AuditRow;
use perftax_pmu::Result;
use perftax_pmu::event::parse_one;
use perftax_pmu::sampler::Payload;

use super::case::{How, Subject, Watched};
use super::core_event::LOADS;
use super::{Experiment, Measurement, Name, Setting, Source, Unit, by_ibs, or_impossible};
use crate::stimulus::{KnownLoop, Loop, PageFaults, ProbedCalls, Sites};

/// Faults whose addresses are known one by one, and calls of a function whose address is known.
pub struct Address;

/// Page faults, and calls, of a run.
const FAULTS: usize = 20_000;
const CALLS: u64 = 5_000;
/// Turns of the loop of four loads, and the period: what is left over at the end is half a period, so that no sample is taken outside of
/// the loop.
const TURNS: u64 = 100_250;
const PERIOD_OF_LOADS: u64 = 999;
/// The register that holds the address of the loop's memory (arch/x86/include/uapi/asm/perf_regs.h).
const SI: u32 = 4;
/// The period, events: each sample's page is the next period's last one.
const PERIOD: u64 = 97;

impl Experiment for Address {
    fn name(&self) -> Name {
        Name::Address
    }

    fn question(&self) -> &'static str {
        "does a sample hold the instruction and the address that it is about?"
    }

    fn method(&self) -> &'static str {
        "pages touched in order by one instruction: the address in each sample must be the page that ends its period, the instruction always the \
         same; calls of a probed function: the instruction must be its first"
    }

    fn figures(&self) -> &'static str {
        "section 4.2, correctness of what a sample holds"
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let mut rows = Vec::new();
        if setting.asks(&Source::PageFaults.name()) {
            rows.extend(faults(setting)?);
        }
        if setting.asks(&Source::Calls.name()) {
            rows.extend(or_impossible(Watched::from(Subject::Probe).how(How::Instruction), calls(setting).map(|row| vec![row]))?);
        }
        if setting.asks(&LOADS.name()) {
            rows.extend(or_impossible(Watched::from(LOADS).how(How::InstructionAddressRegister), loads(setting))?);
        }
        rows.extend(by_ibs(setting, |ibs, cpu| ibs.places(setting, cpu))?);
        Ok(rows)
    }
}

/// Pages whose order is known.
fn faults(setting: &Setting) -> Result<Vec<AuditRow>> {
    let (mut right, mut instructions, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let event = parse_one("page-faults:u", setting.catalog)?;
    let mut work = PageFaults::by(Sites::One, FAULTS)?;
    for _ in 0..setting.runs {
        let addresses: Vec<u64> = (1..=FAULTS as u64 / PERIOD).map(|n| work.address((n * PERIOD) as usize - 1)).collect();
        let (mut expected, mut at_right, mut by) = (addresses.iter(), 0u64, BTreeSet::new());
        let run = Measurement::looking(setting, &mut work, &event, Some(PERIOD), Payload::BASIC.with_address(), |sample| {
            at_right += u64::from(sample.address == expected.next().copied());
            by.extend(sample.ip);
        })?;
        right.push(at_right as f64);
        instructions.push(by.len() as f64);
        all.push(run);
    }
    let case = |how| Watched::from(Source::PageFaults).every(PERIOD).how(how);
    Ok(vec![
        Measurement::marked(
            AuditRow::of(case(How::Address), Unit::Samples.text(), (FAULTS as u64 / PERIOD) as f64, &right, 0.0),
            &all,
        ),
        AuditRow::of(case(How::Instruction), Unit::Instructions.text(), 1.0, &instructions, 0.0),
    ])
}

/// Loads whose instruction, address and registers are known.
fn loads(setting: &Setting) -> Result<Vec<AuditRow>> {
    let event = LOADS.event(false, setting.catalog)?;
    event.check_supported(setting.catalog)?;
    let mut work = KnownLoop::new(Loop::FourLoads, TURNS)?;
    let sites = work.load_sites();
    let (mut at_instruction, mut at_address, mut in_register, mut all) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let payload = Payload::BASIC.with_address().with_interrupt_register(SI);
    for _ in 0..setting.runs {
        let (mut instructions, mut addresses, mut registers) = (0u64, 0u64, 0u64);
        all.push(Measurement::looking(setting, &mut work, &event, Some(PERIOD_OF_LOADS), payload, |sample| {
            let site = sites.iter().find(|(instruction, _)| sample.ip == Some(*instruction));
            // A skid from one load to the next would still name a load: it must be the one whose datum it is.
            let owner = sites.iter().find(|(_, datum)| sample.address == Some(*datum));
            instructions += u64::from(owner.is_some_and(|(instruction, _)| sample.ip == Some(*instruction)));
            // A skid must not hide behind another one: the address is the one of that very instruction.
            addresses += u64::from(site.is_some_and(|(_, datum)| sample.address == Some(*datum)));
            let register = sample.interrupt_registers.as_ref().and_then(|registers| registers.get(SI));
            registers += u64::from(register == Some(sites[0].1));
        })?);
        at_instruction.push(instructions as f64);
        at_address.push(addresses as f64);
        in_register.push(registers as f64);
    }
    let expected = LOADS.samples(4 * TURNS, PERIOD_OF_LOADS) as f64;
    let row = |how, right: &[f64]| {
        let case = Watched::from(LOADS).every(PERIOD_OF_LOADS).how(how);
        Measurement::marked(AuditRow::of(case, Unit::Samples.text(), expected, right, 0.0), &all)
    };
    Ok(vec![row(How::Instruction, &at_instruction), row(How::Address, &at_address), row(How::Register, &in_register)])
}

fn calls(setting: &Setting) -> Result<AuditRow> {
    let event = parse_one(&ProbedCalls::event_text()?, setting.catalog)?;
    event.check_supported(setting.catalog)?;
    let mut work = ProbedCalls::new(CALLS);
    let (mut right, mut all) = (Vec::new(), Vec::new());
    for _ in 0..setting.runs {
        let mut at_right = 0u64;
        all.push(Measurement::looking(setting, &mut work, &event, Some(PERIOD), Payload::BASIC, |sample| {
            at_right += u64::from(sample.ip == Some(ProbedCalls::address()));
        })?);
        right.push(at_right as f64);
    }
    let case = Watched::from(Subject::Probe).every(PERIOD).how(How::Instruction);
    Ok(Measurement::marked(AuditRow::of(case, Unit::Samples.text(), (CALLS / PERIOD) as f64, &right, 0.0), &all))
}
