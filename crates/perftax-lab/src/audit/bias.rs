//! Is each of four equally frequent instructions sampled equally often?

use std::collections::BTreeMap;

use perftax_cost::document::AuditRow;
use perftax_pmu::Result;
use perftax_pmu::sampler::Payload;

use super::{Experiment, Setting, Taking};
use crate::calibrate::single_event;
use crate::stimulus::{PageFaults, Sites};

/// Four stores in turn, sampled at a period that four divides, and at its neighbour.
pub struct Bias;

/// Page faults of a run: whole turns of both periods, so that shares come out even.
const FAULTS: usize = 40_400;
/// A period that four divides, events.
const ALIASED: u64 = 100;
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
        [ALIASED, ALIASED + 1].into_iter().map(|period| at(setting, &event, period)).collect()
    }
}

fn at(setting: &Setting, event: &perftax_pmu::event::Event, period: u64) -> Result<AuditRow> {
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
    let (lost, throttled) = Taking::losses(&all);
    let case = format!("page-faults every {period}, four stores in turn");
    Ok(AuditRow::of(case, "% of the samples", expected, &shares, ALLOWED).losing(lost, throttled).remarking(remark))
}
