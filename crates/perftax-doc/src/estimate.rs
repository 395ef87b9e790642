//! An estimate with its interval: the only form in which perftax publishes a number.

use serde::{Deserialize, Serialize};

/// The nominal confidence of every interval that perftax prints, unless a type says otherwise.
pub const CONFIDENCE: f64 = 0.95;

/// A point estimate with a two-sided confidence interval. The unit is in the name of the field that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The point estimate.
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Nominal coverage of the interval, a fraction (0.95).
    pub confidence: f64,
}

impl Estimate {
    /// The upper end of a 95 % interval for a count of which none was seen: -ln 0.025 (Garwood, Biometrika 28, 1936).
    pub const MAX_UNSEEN: f64 = 3.689;

    /// An estimate with the given ends at [`CONFIDENCE`].
    pub fn new(estimate: f64, low: f64, high: f64) -> Self {
        Self { estimate, low, high, confidence: CONFIDENCE }
    }

    /// A number that is known exactly (a count, a truth by construction): an interval of no width.
    pub fn exact(value: f64) -> Self {
        Self::new(value, value, value)
    }

    /// Half the width of the interval, in the estimate's own unit.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Half-width as a fraction of the absolute point estimate; infinite where the estimate is 0.
    pub fn relative_half_width(&self) -> f64 {
        if self.half_width() == 0.0 { 0.0 } else { self.half_width() / self.estimate.abs() }
    }

    /// Whether `value` lies in the closed interval.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The estimate in another unit: all three numbers times `factor` (ends swap when it is negative).
    pub fn scaled(&self, factor: f64) -> Self {
        let (a, b) = (self.low * factor, self.high * factor);
        Self { estimate: self.estimate * factor, low: a.min(b), high: a.max(b), confidence: self.confidence }
    }

    /// Sum of two *independent* estimates: half-widths add in quadrature, each side on its own.
    pub fn plus(&self, other: &Self) -> Self {
        let estimate = self.estimate + other.estimate;
        let below = (self.estimate - self.low).hypot(other.estimate - other.low);
        let above = (self.high - self.estimate).hypot(other.high - other.estimate);
        Self { estimate, low: estimate - below, high: estimate + above, confidence: self.confidence.min(other.confidence) }
    }

    /// Sum of two estimates that err together (of the same runs, with the same drift): the ends add, which is never too narrow.
    pub fn plus_dependent(&self, other: &Self) -> Self {
        Self {
            estimate: self.estimate + other.estimate,
            low: self.low + other.low,
            high: self.high + other.high,
            confidence: self.confidence.min(other.confidence),
        }
    }

    /// The part of it that a share makes: what is not known of either adds in quadrature, each side on its own.
    pub fn at_share(&self, share: &Self) -> Self {
        let of_share = Self::new(0.0, share.low - share.estimate, share.high - share.estimate).scaled(self.estimate);
        self.scaled(share.estimate).plus(&of_share)
    }

    /// The interval widened by a relative uncertainty (such as drift, 0.05 for 5 %), added in quadrature.
    pub fn widened(&self, relative: f64) -> Self {
        self.widened_apart(relative, relative)
    }

    /// The same with one uncertainty below and another above.
    pub fn widened_apart(&self, below: f64, above: f64) -> Self {
        let value = self.estimate.abs();
        Self {
            low: self.estimate - (self.estimate - self.low).hypot(value * below),
            high: self.estimate + (self.high - self.estimate).hypot(value * above),
            ..*self
        }
    }
}
