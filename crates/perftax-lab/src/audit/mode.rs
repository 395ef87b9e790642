//! Is what the kernel does for a program told apart from what the program does?

use perftax_doc::AuditRow;
use perftax_pmu::Result;
use perftax_pmu::event::{Retired, parse_one};

use super::case::{How, Ibs, Side, Watched};
use super::core_event::{CoreEvent, Overflow};
use super::{Experiment, Measurement, Name, Setting, Source, by_ibs, or_impossible};
use crate::stimulus::{KernelLocks, Loop, PageFaults, Sites, Stimulus};

/// Faults of user mode and of the kernel's, each sampled in either mode.
pub struct Mode;

/// Page faults of a run.
const FAULTS: usize = 20_000;
/// The period, events.
const PERIOD: u64 = 101;
/// Locked operations of a run, and their period: 100 periods and a quarter of one are left over for what the kernel locks besides.
const LOCKED_OPERATIONS: u64 = 1_002_600;
const LOCKED_PERIOD: u64 = 10_000;
/// The event: locked loads, by PEBS.
const LOCKED: CoreEvent = CoreEvent { counted: Retired::Locked, by: Overflow::Pebs };

impl Experiment for Mode {
    fn name(&self) -> Name {
        Name::Mode
    }

    fn question(&self) -> &'static str {
        "is what the kernel does for a program told apart from what the program does?"
    }

    fn method(&self) -> &'static str {
        "pages touched by the program, and pages that the kernel fills for it (read of /dev/zero), each sampled in user and in kernel mode: all \
         samples in one of them and none in the other; locked operations of the program's, and of the kernel's by perftax.ko, likewise"
    }

    fn figures(&self) -> &'static str {
        "the study's execution mode (prose alone; without a positive control there)"
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let mut rows = Vec::new();
        for (by, sites) in [(Side::Program, Sites::One), (Side::Kernel, Sites::Kernel)] {
            for sampled in setting.asked(&Source::PageFaults.name(), Side::ALL) {
                let case = Watched::from(Source::PageFaults).within(sampled).every(PERIOD).how(How::TouchedBy(by));
                let expected = if by == sampled { FAULTS as u64 / PERIOD } else { 0 };
                let row = touched(setting, case, sampled, sites, expected);
                rows.extend(or_impossible(case, row.map(|row| vec![row]))?);
            }
        }
        for by in Side::ALL {
            for sampled in setting.asked(&LOCKED.name(), Side::ALL) {
                let case = Watched::from(LOCKED).within(sampled).every(LOCKED_PERIOD).how(How::DoneBy(by));
                let row = locked(setting, case, by, sampled);
                rows.extend(or_impossible(case, row.map(|row| vec![row]))?);
            }
        }
        rows.extend(by_ibs(setting, |ibs, cpu| match ibs {
            // (perftax.ko is Intel's.) A fault and a cleared page take some hundred operations.
            Ibs::Op => super::ibs::mode(setting, cpu, &mut PageFaults::by(Sites::Kernel, FAULTS)?, 100 * FAULTS as u64),
            Ibs::Fetch => Ok(Vec::new()),
        })?);
        Ok(rows)
    }
}

/// Locked operations of the program's or, by perftax.ko, of the kernel's.
fn locked(setting: &Setting, case: Watched, by: Side, sampled: Side) -> Result<AuditRow> {
    let event = LOCKED.event(sampled == Side::Kernel, setting.catalog)?;
    let mut work: Box<dyn Stimulus> = if by == Side::Kernel {
        Box::new(KernelLocks::new(LOCKED_OPERATIONS)?)
    } else {
        Box::new(CoreEvent::work(LOCKED_OPERATIONS / Loop::Mix.turn().locked)?)
    };
    // What the kernel locks on the way in and out, and in interrupts, is less than a period.
    let expected = if by == sampled { LOCKED.samples(LOCKED_OPERATIONS, LOCKED_PERIOD) } else { 0 };
    let runs = Measurement::runs(setting, work.as_mut(), &event, Some(LOCKED_PERIOD))?;
    // What a run left undone is told by the next one's beginning.
    work.prepare()?;
    Ok(Measurement::row(case, expected as f64, &runs, 0.0))
}

fn touched(setting: &Setting, case: Watched, sampled: Side, sites: Sites, expected: u64) -> Result<AuditRow> {
    let event = parse_one(&format!("page-faults:{}", sampled.modifier()), setting.catalog)?;
    let mut work = PageFaults::by(sites, FAULTS)?;
    let runs = Measurement::runs(setting, &mut work, &event, Some(PERIOD))?;
    Ok(Measurement::row(case, expected as f64, &runs, 0.0))
}
