//! From a campaign's outcome to the document of a calibration.

use perftax_doc::{Calibration, DirectCost, Mechanism, Origin, PublishedSlope, StopReason, Warning};
use perftax_pmu::event::Catalog;

use super::campaign::{Goal, Outcome};
use super::cross_check::{Handler, conclude as conclude_cross_check};
use super::spec::Spec;
use crate::published::{Published, shipped};
use crate::refusal::{ControlFailed, commonest};
use crate::system::hidden_hits;

/// Share of the samples that come at least where nothing holds them back: a block's last one may be due behind it.
const CAME_AT_MIN: f64 = 0.9;

/// The document of an outcome, measured on this machine.
///
/// # Errors
/// Where the A/A control failed: a result whose two unmonitored arms differ is refused.
pub fn document(
    catalog: &Catalog,
    mut origin: Origin,
    spec: &Spec,
    goal: &Goal,
    outcome: Outcome,
) -> Result<Calibration, ControlFailed> {
    origin.warnings.extend(hidden_hits());
    let conclusion = outcome.conclusion;
    if let Some(control) = conclusion.control.filter(|control| !control.passed) {
        return Err(ControlFailed { of: String::new(), control, refused: "calibration", again: "calibrate" });
    }
    if outcome.stopped == StopReason::TimeLimit && conclusion.alpha_ns.relative_half_width() > goal.half_width {
        origin
            .warnings
            .push(Warning::PrecisionNotReached { wanted: goal.half_width, reached: conclusion.alpha_ns.relative_half_width() });
    }
    if conclusion.lost > 0 {
        origin.warnings.push(Warning::LostRecords { lost: conclusion.lost });
    }
    if conclusion.throttled > 0 {
        origin.warnings.push(Warning::Throttled { throttled: conclusion.throttled });
    }
    if (conclusion.samples as f64) < conclusion.expected_samples * CAME_AT_MIN {
        origin.warnings.push(Warning::MissingSamples { came: conclusion.samples, expected: conclusion.expected_samples });
    }
    if conclusion.discarded > 0 {
        let reasons = outcome.blocks.iter().filter_map(|b| b.discarded.clone());
        let reason = commonest(reasons).unwrap_or_default();
        origin.warnings.push(Warning::DiscardedRounds {
            discarded: conclusion.discarded,
            of: outcome.blocks.len() as u64,
            reason,
        });
    }
    if let Some(linearity) = conclusion.linearity.as_ref().filter(|l| !l.curvature.contains(0.0) && !l.curvature.contains(0.05)) {
        origin.warnings.push(Warning::NotLinear { curvature: linearity.curvature.estimate });
    }
    for skipped in &outcome.skipped {
        origin.warnings.push(Warning::Other {
            message: format!("not measured: {}: {}", skipped.arm, skipped.why),
            remedy: skipped.remedy.clone(),
        });
    }
    let cross_check = Handler::of(spec.mechanism, catalog).and_then(|h| conclude_cross_check(h.source(), &outcome.cross_check));
    let calibration = conclusion.calibration(origin, spec.mechanism, event_key(spec, &outcome.event.name), outcome.blocks);
    let direct = calibration.direct.map(|direct| DirectCost { published: published_slopes(), ..direct });
    Ok(Calibration { cross_check, direct, elapsed_s: outcome.elapsed_s, stopped: outcome.stopped, ..calibration })
}

/// Addresses of a watched variable or a probed function change from run to run: such events are known by their mechanism.
fn event_key(spec: &Spec, name: &str) -> String {
    match spec.mechanism {
        Mechanism::Breakpoint => "mem:ADDRESS/8:w:u".into(),
        Mechanism::Uprobe => "uprobe:PROGRAM+OFFSET".into(),
        _ => name.into(),
    }
}

/// What one record of PEBS was published to cost, by machine: those that were measured without perf.
fn published_slopes() -> Vec<PublishedSlope> {
    let slope = |published: Published| {
        let cost =
            published.costs.iter().find(|cost| cost.mechanism == Mechanism::Pebs && cost.condition.contains("no signal"))?;
        let machine = format!("{} ({})", published.microarchitecture, published.cpu);
        Some(PublishedSlope { machine, source: published.source.clone(), alpha_ns: cost.alpha_ns })
    };
    shipped().into_iter().filter_map(slope).filter(|slope| slope.source.contains("ROSS'17")).collect()
}
