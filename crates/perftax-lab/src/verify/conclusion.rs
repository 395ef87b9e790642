//! Whether the prediction held.

use perftax_cost::verification::{summarise, summarise_without_pollution};
use perftax_doc::steps::Setting;
use perftax_doc::{Calibration, Control, Origin, Verification, Warning, WorkloadControl};

use super::{Finished, Request};
use crate::calibrate::conclude as conclude_blocks;
use crate::refusal::{ControlFailed, commonest, difference};

/// Why there is nothing to judge.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// Most of what was run was discarded.
    #[error(
        "the measurement was discarded: no cell has two usable rounds: {discarded} of {of} {what} were discarded, most often: {reason}"
    )]
    Discarded {
        /// `runs`, or `blocks of the calibration`.
        what: &'static str,
        /// How many were discarded.
        discarded: usize,
        /// Of how many.
        of: usize,
        /// Why, mostly.
        reason: String,
    },
    /// No cell was run often enough, or samples are as expensive as their period.
    #[error("no cell has two usable rounds: the time was too short, or samples are as expensive as their period")]
    TooShort,
    /// The unmonitored arms of every program differ.
    #[error("{0}")]
    Control(#[from] ControlFailed),
}

/// Share of cells whose interval must cover 0 for the prediction to hold (DESIGN's acceptance: 85 %).
const COVERAGE_NEEDED: f64 = 0.85;
/// Median |E| up to which it holds, a fraction.
const MEDIAN_ERROR_ALLOWED: f64 = 0.02;

/// The document of a verification, and whether the prediction held.
///
/// # Errors
/// Where nothing is left to judge: [`Unusable`].
pub fn conclude(mut origin: Origin, request: &Request, finished: Finished) -> Result<Verification, Unusable> {
    if finished.cells.is_empty() {
        return Err(nothing_usable(&finished));
    }
    let refused: Vec<&(String, Control)> = finished.controls.iter().filter(|(_, c)| !c.passed).collect();
    for (workload, control) in &refused {
        origin.warnings.push(Warning::Other {
            message: format!("{workload}: its two unmonitored arms differ by {}: its cells are refused", difference(control)),
            remedy: "quieten the machine and verify again".into(),
        });
    }
    let usable: Vec<_> =
        finished.cells.iter().filter(|cell| !refused.iter().any(|(workload, _)| *workload == cell.workload)).cloned().collect();
    if usable.is_empty() {
        let (of, control) = refused[0].clone();
        return Err(ControlFailed { of, control, refused: "verification", again: "verify" }.into());
    }
    if finished.missing > 0 {
        origin.warnings.push(Warning::Other {
            message: format!(
                "{} cells could not be computed: too few usable rounds, or samples as expensive as their period",
                finished.missing
            ),
            remedy: format!("give it more time ({}), or leave out the largest {}", Setting::Time, Setting::Overheads),
        });
    }
    if finished.unreachable > 0 {
        origin.warnings.push(Warning::Other {
            message: format!(
                "{} of the overheads asked for are left out: a sample is too cheap here to cost so much",
                finished.unreachable
            ),
            remedy: format!("choose smaller {} and {}", Setting::Overheads, Setting::Probe),
        });
    }
    if let Some(reason) = commonest(finished.left_out.iter().map(|run| run.why.clone())) {
        let (discarded, of) = (finished.left_out.len() as u64, finished.made as u64);
        origin.warnings.push(Warning::DiscardedRounds { discarded, of, reason });
    }
    let wide = usable.iter().map(|c| c.error.half_width()).fold(0.0, f64::max);
    if wide > request.half_width {
        origin.warnings.push(Warning::PrecisionNotReached { wanted: request.half_width, reached: wide });
    }
    let summary = summarise(&usable);
    let calibration = calibration_of(&origin, request, &finished);
    Ok(Verification {
        origin,
        mechanism: request.mechanism(),
        event: request.event.name.clone(),
        median_abs_error: summary.median_abs_error,
        coverage: summary.coverage,
        regression: summary.regression,
        without_pollution: summarise_without_pollution(&usable),
        controls: finished
            .controls
            .iter()
            .map(|(workload, control)| WorkloadControl { workload: workload.clone(), control: *control })
            .collect(),
        reference_loops: finished.fits,
        left_out: finished.left_out,
        runs_made: finished.made as u64,
        held: refused.is_empty()
            && finished.missing == 0
            && summary.coverage >= COVERAGE_NEEDED
            && summary.median_abs_error <= MEDIAN_ERROR_ALLOWED,
        cells: finished.cells,
        calibrations: calibration.into_iter().collect(),
    })
}

fn calibration_of(origin: &Origin, request: &Request, finished: &Finished) -> Option<Calibration> {
    let conclusion = conclude_blocks(&finished.blocks, request.mechanism(), &[])?;
    let origin = Origin { kind: "calibrate".into(), warnings: Vec::new(), ..origin.clone() };
    Some(conclusion.calibration(origin, request.mechanism(), request.event.name.clone(), finished.blocks.clone()))
}

/// Of runs and of blocks a round needs some: what was discarded more is the reason.
fn nothing_usable(finished: &Finished) -> Unusable {
    let of_blocks = finished.blocks.iter().filter_map(|block| block.discarded.clone());
    let of_runs = finished.left_out.iter().map(|run| run.why.clone());
    let runs = ("runs", finished.left_out.len(), finished.made, commonest(of_runs));
    let blocks = ("blocks of the calibration", of_blocks.clone().count(), finished.blocks.len(), commonest(of_blocks));
    let share = |(_, discarded, of, _): &(&str, usize, usize, Option<String>)| *discarded as f64 / (*of).max(1) as f64;
    match if share(&blocks) > share(&runs) { blocks } else { runs } {
        (what, discarded, of, Some(reason)) => Unusable::Discarded { what, discarded, of, reason },
        _ => Unusable::TooShort,
    }
}
