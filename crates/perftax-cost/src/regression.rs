//! Straight lines through points: Theil–Sen (robust) and least squares.

use crate::bootstrap;
use crate::bootstrap::{SEED, cluster_bootstrap, student_quantile};
use perftax_doc::CONFIDENCE;
use perftax_doc::Estimate;
use perftax_doc::Regression;
use perftax_doc::median;

/// Appends the slopes of all pairs of points whose x differ.
pub fn paired_slopes(points: &[(f64, f64)], slopes: &mut Vec<f64>) {
    for (i, (x, y)) in points.iter().enumerate() {
        slopes.extend(points[i + 1..].iter().filter(|p| p.0 != *x).map(|(u, v)| (v - y) / (u - x)));
    }
}

/// Theil–Sen: the median slope over all pairs of points. Stands up to 29 % of bad points. `None` where all x are equal.
///
/// Takes n²/2 steps: meant for up to a few thousand points.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::new();
    paired_slopes(points, &mut slopes);
    (!slopes.is_empty()).then(|| median(&mut slopes))
}

/// Theil–Sen with a 95 % interval by resampling the points one by one; they must be independent.
pub fn theil_sen_estimate(points: &[(f64, f64)]) -> Option<Estimate> {
    let statistic = |sample: &[&(f64, f64)]| {
        let points: Vec<(f64, f64)> = sample.iter().map(|p| **p).collect();
        theil_sen(&points).unwrap_or(f64::NAN)
    };
    cluster_bootstrap(points, statistic, bootstrap::REPLICATES / 4, SEED)
}

/// Weighted least squares of y on x, with Student intervals for slope and intercept.
///
/// Weights are relative precisions (1/variance); the residuals give the scale, so their common factor does not matter. Points
/// with a weight that is not positive are left out. `None` with fewer than three points, or where all x are equal.
pub fn least_squares(points: &[(f64, f64, f64)]) -> Option<Regression> {
    let used: Vec<(f64, f64, f64)> =
        points.iter().copied().filter(|(x, y, w)| x.is_finite() && y.is_finite() && w.is_finite() && *w > 0.0).collect();
    if used.len() < 3 {
        return None;
    }
    let weight: f64 = used.iter().map(|p| p.2).sum();
    let mean_x = used.iter().map(|p| p.2 * p.0).sum::<f64>() / weight;
    let mean_y = used.iter().map(|p| p.2 * p.1).sum::<f64>() / weight;
    let sxx: f64 = used.iter().map(|p| p.2 * (p.0 - mean_x).powi(2)).sum();
    let sxy: f64 = used.iter().map(|p| p.2 * (p.0 - mean_x) * (p.1 - mean_y)).sum();
    if sxx <= 0.0 {
        return None;
    }
    let slope = sxy / sxx;
    let intercept = mean_y - slope * mean_x;
    let freedom = used.len() - 2;
    let residuals: f64 = used.iter().map(|(x, y, w)| w * (y - intercept - slope * x).powi(2)).sum();
    let scale = residuals / freedom as f64;
    let t = student_quantile(freedom, CONFIDENCE);
    let slope_half = t * (scale / sxx).sqrt();
    let intercept_half = t * (scale * (1.0 / weight + mean_x * mean_x / sxx)).sqrt();
    Some(Regression {
        slope: Estimate::new(slope, slope - slope_half, slope + slope_half),
        intercept_s: Estimate::new(intercept, intercept - intercept_half, intercept + intercept_half),
        cells: used.len() as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theil_sen_ignores_a_wild_point() {
        let mut points: Vec<(f64, f64)> = (0..20).map(|i| (f64::from(i), 3.0 * f64::from(i) + 1.0)).collect();
        points[7].1 = 1e9;
        assert!((theil_sen(&points).unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(theil_sen(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert!(theil_sen_estimate(&points).unwrap().contains(3.0));
    }

    #[test]
    fn least_squares_finds_the_line_and_its_textbook_interval() {
        // Worked by hand: x = 1..5, y = 2, 4, 5, 4, 5: slope 0.6, intercept 2.2, s² = 0.8, SE(slope) = √(0.8/10).
        let points: Vec<(f64, f64, f64)> =
            [2.0, 4.0, 5.0, 4.0, 5.0].iter().enumerate().map(|(i, &y)| (i as f64 + 1.0, y, 1.0)).collect();
        let line = least_squares(&points).unwrap();
        assert!((line.slope.estimate - 0.6).abs() < 1e-12);
        assert!((line.intercept_s.estimate - 2.2).abs() < 1e-12);
        assert!((line.slope.half_width() - 3.182_446 * 0.08_f64.sqrt()).abs() < 1e-4);
        assert_eq!(least_squares(&points[..2]), None);
    }
}
