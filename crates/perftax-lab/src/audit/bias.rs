//! Is each of four equally frequent instructions sampled equally often?

use std::collections::BTreeMap;

use perftax_doc::AuditRow;
use perftax_pmu::Result;
use perftax_pmu::event::{Event, parse_one};
use perftax_pmu::sampler::Payload;

use super::case::{How, Ibs, Watched};
use super::core_event::LOADS;
use super::{Experiment, Measurement, Name, Setting, Source, Unit, by_ibs, or_impossible};
use crate::stimulus::{KnownLoop, Loop, PageFaults, Sites, Stimulus};

/// Four stores in turn, sampled at a period that four divides, and at its neighbour.
pub struct Bias;

/// Page faults of a run: whole turns of both periods, so that shares come out even.
const FAULTS: usize = 40_400;
/// A period that four divides, events.
const ALIASED: u64 = 100;
/// The same of loads that PEBS samples, one in period + 1; and turns of their loop: whole turns of both strides.
const ALIASED_LOADS: u64 = 999;
const TURNS: u64 = 100_100;
/// The largest distance from the share that arithmetic gives: what is left over at the end of the work.
const ALLOWED: f64 = 0.01;

impl Experiment for Bias {
    fn name(&self) -> Name {
        Name::Bias
    }

    fn question(&self) -> &'static str {
        "is each of four equally frequent instructions sampled equally often?"
    }

    fn method(&self) -> &'static str {
        "a loop whose four stores each fault once a turn, sampled at a period that four divides and at its neighbour: arithmetic says which share \
         of the samples the foremost store gets, and what differs from that is bias"
    }

    fn figures(&self) -> &'static str {
        "figure 7"
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let mut rows = Vec::new();
        let event = parse_one("page-faults:u", setting.catalog)?;
        let faults = FourInTurn { event: &event, instruction: "store", events: "faults", is_theirs: &|_| true };
        for period in setting.asked(&Source::PageFaults.name(), [ALIASED, ALIASED + 1]) {
            let case = Watched::from(Source::PageFaults).every(period).how(How::FourStores);
            let mut work = PageFaults::by(Sites::FourInTurn, FAULTS)?;
            rows.push(foremost(setting, &faults, &mut work, period, period, case)?);
        }
        for period in setting.asked(&LOADS.name(), [ALIASED_LOADS, ALIASED_LOADS + 1]) {
            let case = Watched::from(LOADS).every(period).how(How::FourLoads);
            rows.extend(or_impossible(case, of_loads(setting, period, case).map(|row| vec![row]))?);
        }
        rows.extend(by_ibs(setting, |ibs, cpu| if ibs == Ibs::Op { ibs.bias(setting, cpu) } else { Ok(Vec::new()) })?);
        Ok(rows)
    }
}

/// Loads, whose addresses are known.
fn of_loads(setting: &Setting, period: u64, case: Watched) -> Result<AuditRow> {
    let event = LOADS.event(false, setting.catalog)?;
    let mut work = KnownLoop::new(Loop::FourLoads, TURNS)?;
    let sites: Vec<u64> = work.load_sites().iter().map(|(instruction, _)| *instruction).collect();
    let loads = FourInTurn { event: &event, instruction: "load", events: "loads", is_theirs: &|ip| sites.contains(&ip) };
    foremost(setting, &loads, &mut work, period, LOADS.stride(period), case)
}

/// What four instructions in turn do, and how they are told from others.
struct FourInTurn<'a> {
    event: &'a Event,
    /// What one of them is, and what it makes.
    instruction: &'static str,
    events: &'static str,
    /// Whether an address is one of theirs.
    is_theirs: &'a dyn Fn(u64) -> bool,
}

/// The share of the samples that the foremost of four instructions gets, one sample in `stride` of their events.
fn foremost(
    setting: &Setting,
    of: &FourInTurn,
    work: &mut dyn Stimulus,
    period: u64,
    stride: u64,
    case: Watched,
) -> Result<AuditRow> {
    let (mut shares, mut all, mut seen) = (Vec::new(), Vec::new(), 0);
    for _ in 0..setting.runs {
        let mut by_instruction: BTreeMap<u64, u64> = BTreeMap::new();
        let run = Measurement::looking(setting, work, of.event, Some(period), Payload::BASIC, |sample| {
            if let Some(ip) = sample.ip.filter(|ip| (of.is_theirs)(*ip)) {
                *by_instruction.entry(ip).or_default() += 1;
            }
        })?;
        // Of all samples: one that is at none of the four makes every share too small.
        let foremost = by_instruction.values().copied().max().unwrap_or(0);
        shares.push(100.0 * foremost as f64 / run.samples.max(1) as f64);
        seen = seen.max(by_instruction.len());
        all.push(run);
    }
    let FourInTurn { instruction, events, .. } = of;
    let is_aliased = stride.is_multiple_of(4);
    let remark = if is_aliased {
        format!(
            "one sample in {stride} {events}, a multiple of the loop's four: every sample meets the same {instruction}, {seen} of 4 are seen. The \
             period's doing, not the mechanism's"
        )
    } else {
        format!(
            "one sample in {stride} {events}, which shares no factor with the loop's four: {seen} of 4 {instruction}s are seen"
        )
    };
    let row = AuditRow::of(case, Unit::ShareOfSamples.text(), if is_aliased { 100.0 } else { 25.0 }, &shares, ALLOWED);
    Ok(Measurement::marked(row.remarking(remark), &all))
}
