//! How much must be measured: said before it is measured.

use crate::bootstrap::{normal_quantile, student_quantile};
use crate::sums::{Clock, Sums, Unit, session_sums};
use perftax_doc::CONFIDENCE;
use perftax_doc::observation::Block;

/// The confidence of the A/A control. 99 %, not 95 %: an honest machine is then refused once in a hundred times, not in twenty.
pub const CONTROL_CONFIDENCE: f64 = 0.99;

/// What a measurement of `rounds` independent rounds (sessions) is good for, said before it is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foresight {
    /// Rounds (sessions) needed.
    pub rounds: u32,
    /// The relative half-width of the 95 % interval that they should give, a fraction.
    pub half_width: f64,
    /// The least relative A/A bias that they can tell from 0 at 99 %, a fraction of the unmonitored time.
    pub detects: f64,
}

/// Most rounds that [`rounds_needed`] will ask for.
pub const ROUNDS_MAX: u32 = 100_000;

/// How many independent rounds (sessions) bring the relative half-width down to `wanted`, and what A/A bias they detect.
///
/// `variation` is the pilot's SD between rounds (sessions) of the quantity sought, relative to it; `control_variation` that of
/// the A/A difference (b − a)/a. Student's t is used, so few rounds are not flattered. `None` where `wanted` is not positive,
/// a variation is not a number, or more than [`ROUNDS_MAX`] rounds were needed.
pub fn rounds_needed(variation: f64, control_variation: f64, wanted: f64) -> Option<Foresight> {
    let usable = wanted > 0.0 && variation >= 0.0 && control_variation >= 0.0;
    if !usable || !variation.is_finite() || !control_variation.is_finite() {
        return None;
    }
    let half_width =
        |n: u32, spread: f64, confidence: f64| student_quantile(n as usize - 1, confidence) * spread / f64::from(n).sqrt();
    // The normal quantile gives a lower bound to start from; t only asks for a few more.
    let start = (normal_quantile(CONFIDENCE) * variation / wanted).powi(2).floor();
    if start > f64::from(ROUNDS_MAX) {
        return None;
    }
    let rounds = ((start as u32).max(2)..=ROUNDS_MAX).find(|&n| half_width(n, variation, CONFIDENCE) <= wanted)?;
    Some(Foresight {
        rounds,
        half_width: half_width(rounds, variation, CONFIDENCE),
        detects: half_width(rounds, control_variation, CONTROL_CONFIDENCE),
    })
}

/// SD between sessions of their α, relative to α: the pilot's `variation` for [`rounds_needed`]. `None` below two sessions.
pub fn session_variation(sessions: &[Sums]) -> Option<f64> {
    let alpha = Sums::total(sessions).cost_ns();
    let costs: Vec<f64> = sessions.iter().map(Sums::cost_ns).filter(|c| c.is_finite()).collect();
    relative_spread(&costs, alpha)
}

/// SD between sessions of the A/A difference relative to the unmonitored time: `control_variation` for [`rounds_needed`].
pub fn control_variation(blocks: &[Block], a: &str, b: &str, clock: Clock) -> Option<f64> {
    let sessions = session_sums(blocks, a, b, Unit::Expected, clock);
    relative_spread(&sessions.iter().map(|s| s.extra_ns / s.off_ns).collect::<Vec<_>>(), 1.0)
}

fn relative_spread(values: &[f64], scale: f64) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
    let relative = variance.sqrt() / scale.abs();
    relative.is_finite().then_some(relative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_spread_or_more_precision_needs_more_rounds() {
        let plan = rounds_needed(0.134, 0.02, 0.05).unwrap();
        // t(29) = 2.045: 2.045 × 0.134/√30 = 5.0 %.
        assert_eq!(plan.rounds, 31);
        assert!(plan.half_width <= 0.05 && plan.half_width > 0.048);
        // t(30) at 99 % = 2.75: 2.75 × 0.02/√31 = 1 %.
        assert!((plan.detects - 0.009_88).abs() < 1e-4);
        assert!(rounds_needed(0.134, 0.02, 0.01).unwrap().rounds > 600);
        assert_eq!(rounds_needed(0.0, 0.0, 0.05).unwrap().rounds, 2);
    }

    #[test]
    fn what_cannot_be_reached_is_not_promised() {
        assert_eq!(rounds_needed(0.1, 0.1, 0.0), None);
        assert_eq!(rounds_needed(f64::NAN, 0.1, 0.1), None);
        assert_eq!(rounds_needed(10.0, 0.1, 1e-4), None);
    }
}
