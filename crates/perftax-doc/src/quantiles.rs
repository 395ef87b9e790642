//! What is published of raw observations as they are: quantiles, nothing estimated.

/// The median of the values. Reorders them. NaN when empty.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// The `q` quantile of the values, linear between neighbours (type 7 of Hyndman & Fan). Reorders them. NaN when empty.
pub fn quantile(values: &mut [f64], q: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let position = q.clamp(0.0, 1.0) * (values.len() - 1) as f64;
    let (index, fraction) = (position.floor() as usize, position.fract());
    let (_, &mut lower, above) = values.select_nth_unstable_by(index, f64::total_cmp);
    if fraction == 0.0 {
        return lower;
    }
    let upper = above.iter().copied().fold(f64::INFINITY, f64::min);
    lower + (upper - lower) * fraction
}

/// What a box plot shows of observations: quartiles, and the outermost within 1.5 times their distance (Tukey).
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoxOf {
    /// The lowest observation that is no outlier.
    pub low: f64,
    /// A quarter lies below.
    pub q1: f64,
    /// The median of all observations, whatever their round.
    pub median: f64,
    /// A quarter lies above.
    pub q3: f64,
    /// The highest that is no outlier.
    pub high: f64,
    /// Outliers below and above.
    pub outliers: u64,
    /// The largest of all.
    pub most: f64,
}

impl BoxOf {
    /// The box of these; `None` where there are none.
    pub fn of(observations: &[f64]) -> Option<Self> {
        let mut sorted = observations.to_vec();
        sorted.sort_by(f64::total_cmp);
        let &most = sorted.last()?;
        let [q1, median, q3] = [0.25, 0.5, 0.75].map(|q| quantile(&mut sorted.clone(), q));
        let reach = 1.5 * (q3 - q1);
        let inside = |x: &&f64| (q1 - reach..=q3 + reach).contains(*x);
        let low = sorted.iter().find(inside).copied().unwrap_or(q1);
        let high = sorted.iter().rev().find(inside).copied().unwrap_or(q3);
        let outliers = sorted.iter().filter(|x| !inside(x)).count() as u64;
        Some(Self { low, q1, median, q3, high, outliers, most })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0, 10.0]), 2.5);
        assert_eq!(quantile(&mut [0.0, 10.0], 0.25), 2.5);
        assert!(median(&mut []).is_nan());
    }

    #[test]
    fn a_box_leaves_outliers_outside() {
        let one = BoxOf::of(&[1.0, 2.0, 3.0, 4.0, 100.0]).unwrap();
        assert_eq!((one.low, one.q1, one.median, one.q3, one.high), (1.0, 2.0, 3.0, 4.0, 4.0));
        assert_eq!((one.outliers, one.most), (1, 100.0));
        assert_eq!(BoxOf::of(&[]), None);
    }
}
