//! Is each of four equally frequent instructions sampled equally often?

use std::collections::BTreeMap;

use perftax_cost::document::AuditRow;
use perftax_pmu::Result;
use perftax_pmu::event::Event;
use perftax_pmu::sampler::Payload;
use perftax_pmu::sys::Loop;

use super::core_event::{CoreEvent, Counted, Overflow};
use super::ibs::Ibs;
use super::{Experiment, Setting, Taking, by_ibs, or_impossible};
use crate::calibrate::single_event;
use crate::stimulus::{KnownLoop, PageFaults, Sites};

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
    fn name(&self) -> &'static str {
        "bias"
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
        let event = single_event("page-faults:u", setting.catalog)?;
        let mut rows: Vec<AuditRow> =
            [ALIASED, ALIASED + 1].into_iter().map(|period| at(setting, &event, period)).collect::<Result<_>>()?;
        let loads = CoreEvent { counted: Counted::Loads, by: Overflow::Pebs };
        for period in [ALIASED_LOADS, ALIASED_LOADS + 1] {
            let case = format!("{} every {period}, four loads in turn", loads.name());
            let row = loads.event(false, setting.catalog).and_then(|event| of_loads(setting, &event, loads, period, &case));
            rows.extend(or_impossible(&case, row.map(|row| vec![row]))?);
        }
        rows.extend(by_ibs(setting, |ibs, cpu| if ibs == Ibs::Op { ibs.bias(setting, cpu) } else { Ok(Vec::new()) })?);
        Ok(rows)
    }
}

/// Four loads, whose addresses are known: the foremost one's share, and whether all samples are at one of them.
fn of_loads(setting: &Setting, event: &Event, loads: CoreEvent, period: u64, case: &str) -> Result<AuditRow> {
    let mut work = KnownLoop::new(Loop::FourLoads, TURNS)?;
    let sites: Vec<u64> = work.load_sites().iter().map(|(instruction, _)| *instruction).collect();
    let (mut shares, mut all, mut seen) = (Vec::new(), Vec::new(), 0);
    for _ in 0..setting.runs {
        let mut by_site = vec![0u64; sites.len()];
        let run = Taking::looking(setting, &mut work, event, Some(period), Payload::BASIC, |sample| {
            if let Some(site) = sites.iter().position(|site| sample.ip == Some(*site)) {
                by_site[site] += 1;
            }
        })?;
        // Of all samples: one that is at none of the four makes every share too small.
        shares.push(100.0 * by_site.iter().max().copied().unwrap_or(0) as f64 / run.samples.max(1) as f64);
        seen = seen.max(by_site.iter().filter(|count| **count > 0).count());
        all.push(run);
    }
    // Events from one sample to the next.
    let stride = (1..=2 * period).find(|events| loads.samples(*events, period) == 1).unwrap_or(period);
    let is_aliased = stride.is_multiple_of(4);
    let remark = if is_aliased {
        format!(
            "one sample in {stride} loads, a multiple of the loop's four: every sample meets the same load, {seen} of 4 are seen. The period's doing, not the mechanism's"
        )
    } else {
        format!("one sample in {stride} loads, which shares no factor with the loop's four: {seen} of 4 loads are seen")
    };
    let row = AuditRow::of(case, "% of the samples", if is_aliased { 100.0 } else { 25.0 }, &shares, ALLOWED);
    Ok(Taking::marked(row.remarking(remark), &all))
}

fn at(setting: &Setting, event: &Event, period: u64) -> Result<AuditRow> {
    let mut work = PageFaults::by(Sites::FourInTurn, FAULTS)?;
    let (mut shares, mut all, mut seen) = (Vec::new(), Vec::new(), 0);
    for _ in 0..setting.runs {
        let mut by_instruction: BTreeMap<u64, u64> = BTreeMap::new();
        let each = |sample: &perftax_pmu::record::Sample| *by_instruction.entry(sample.ip.unwrap_or(0)).or_default() += 1;
        let run = Taking::looking(setting, &mut work, event, Some(period), Payload::BASIC, each)?;
        let foremost = by_instruction.values().copied().max().unwrap_or(0);
        shares.push(100.0 * foremost as f64 / run.samples.max(1) as f64);
        seen = seen.max(by_instruction.len());
        all.push(run);
    }
    let is_aliased = period.is_multiple_of(4);
    let expected = if is_aliased { 100.0 } else { 25.0 };
    let remark = if is_aliased {
        format!(
            "{period} is a multiple of the loop's four faults, so every sample meets the same store: {seen} of 4 are seen. The period's doing, not the mechanism's"
        )
    } else {
        format!("{period} shares no factor with the loop's four faults: {seen} of 4 stores are seen")
    };
    let case = format!("page-faults every {period}, four stores in turn");
    let row = AuditRow::of(case, "% of the samples", expected, &shares, ALLOWED);
    Ok(Taking::marked(row.remarking(remark), &all))
}
