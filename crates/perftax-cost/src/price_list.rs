//! What `perftax selfcost` publishes of its runs: medians by round, ratios, lines over the number of events.

use perftax_doc::{BoxOf, Cost, Price, PriceFit, PriceRatio, median, quantile};

use crate::order::{median_interval, median_of_rounds};
use crate::regression::least_squares;

/// The percentile that is published as floor.
const FLOOR: f64 = 0.05;

/// What each run of each round cost, in ticks, without what is taken off.
fn net_ticks(price: &Price, timer: &[f64]) -> Vec<Vec<f64>> {
    let own: Vec<f64> = price.subtracted_ticks.rounds.iter().map(|round| median_of(round)).collect();
    let taken_off = if own.is_empty() { timer } else { &own };
    let per_run = f64::from(price.per_run.max(1));
    let net = |(at, round): (usize, &Vec<u64>)| {
        let off = taken_off.get(at).copied().unwrap_or(0.0);
        round.iter().map(|&ticks| (ticks as f64 - off) / per_run).collect()
    };
    price.runs_ticks.rounds.iter().enumerate().map(net).collect()
}

/// The median of each round, in the unit, without what is taken off; rounds without runs are left out.
pub fn by_round(price: &Price, timer: &[f64], ticks_per_unit: f64) -> Vec<Option<f64>> {
    let medians = net_ticks(price, timer).into_iter();
    medians.map(|mut round| (!round.is_empty()).then(|| median(&mut round) / ticks_per_unit)).collect()
}

/// Estimates the cost from the runs. `timer` is the timer's own cost in each round.
pub fn estimated(mut price: Price, timer: &[f64], ticks_per_unit: f64) -> Price {
    let units = |ticks: f64| ticks / ticks_per_unit;
    let rounds: Vec<Vec<f64>> =
        net_ticks(&price, timer).into_iter().map(|round| round.into_iter().map(units).collect()).collect();
    let mut all: Vec<f64> = rounds.iter().flatten().copied().collect();
    let firsts = net_ticks(&Price { runs_ticks: price.first_ticks.clone(), ..price.clone() }, timer);
    let firsts: Vec<f64> = firsts.into_iter().flatten().map(units).collect();
    price.cost = median_of_rounds(&rounds).zip(BoxOf::of(&all)).map(|(median, spread)| Cost {
        median,
        floor: quantile(&mut all, FLOOR),
        first: median_interval(&firsts),
        spread,
    });
    price
}

fn median_of(ticks: &[u64]) -> f64 {
    let mut ticks: Vec<f64> = ticks.iter().map(|&t| t as f64).collect();
    if ticks.is_empty() { 0.0 } else { median(&mut ticks) }
}

/// The ratio of two prices' medians, round by round; `None` where they have no round in common.
pub fn ratio(names: (String, String), of: &[Option<f64>], to: &[Option<f64>], bound: Option<f64>) -> Option<PriceRatio> {
    let pairs = of.iter().zip(to).filter_map(|(of, to)| Some(((*of)?, (*to)?)));
    let rounds: Vec<f64> = pairs.filter(|(_, to)| *to > 0.0).map(|(of, to)| of / to).collect();
    Some(PriceRatio { of: names.0, to: names.1, ratio: median_interval(&rounds)?, bound, rounds })
}

/// The line through prices that differ in their number of events alone: one for each round, and the medians of these.
///
/// `None` with fewer than three prices.
pub fn through(prices: &[&Price], timer: &[f64], ticks_per_unit: f64) -> Option<PriceFit> {
    let points: Vec<(&Price, Vec<Option<f64>>)> =
        prices.iter().filter(|p| p.cost.is_some()).map(|p| (*p, by_round(p, timer, ticks_per_unit))).collect();
    let (first, rounds) = (points.first()?.0, points.iter().map(|(_, rounds)| rounds.len()).min()?);
    let line_of = |round: usize| {
        let at = |(price, medians): &(&Price, Vec<Option<f64>>)| Some((f64::from(price.events), medians[round]?, 1.0));
        let points: Option<Vec<(f64, f64, f64)>> = points.iter().map(at).collect();
        least_squares(&points?)
    };
    let lines: Vec<_> = (0..rounds).filter_map(line_of).collect();
    let per_event = median_interval(&lines.iter().map(|line| line.slope.estimate).collect::<Vec<_>>())?;
    let fixed = median_interval(&lines.iter().map(|line| line.intercept_s.estimate).collect::<Vec<_>>())?;
    let residual = |(price, _): &(&Price, Vec<Option<f64>>)| {
        let line = fixed.estimate + per_event.estimate * f64::from(price.events);
        price.cost.map(|cost| (cost.median.estimate / line - 1.0).abs()).filter(|share| share.is_finite())
    };
    Some(PriceFit {
        operation: first.operation.clone(),
        method: first.method.clone(),
        set: first.set.clone(),
        fixed,
        per_event,
        worst_residual: points.iter().filter_map(residual).fold(0.0, f64::max),
        events: points.iter().map(|(price, _)| price.events).collect(),
    })
}

#[cfg(test)]
mod tests {
    use perftax_doc::{Estimate, PriceSection, Series};

    use super::*;

    fn price(events: u32, rounds: &[&[u64]]) -> Price {
        let mut price = Price::new(PriceSection::Measuring, "start", "ioctl", "software", events);
        price.runs_ticks = Series { rounds: rounds.iter().map(|round| round.to_vec()).collect() };
        price
    }

    #[test]
    fn the_timer_is_taken_off_and_ticks_become_units() {
        let rounds: Vec<&[u64]> = vec![&[1030, 1030, 5000]; 8];
        let cost = estimated(price(1, &rounds), &[30.0; 8], 2.0).cost.unwrap();
        assert_eq!((cost.median.estimate, cost.median.low, cost.median.high), (500.0, 500.0, 500.0));
        assert_eq!((cost.floor, cost.spread.most, cost.first), (500.0, 2485.0, None));
        assert_eq!(estimated(price(1, &[]), &[], 2.0).cost, None);
    }

    #[test]
    fn what_a_price_takes_off_by_itself_replaces_the_timer() {
        let mut switched = price(0, &[&[1000], &[1200]]);
        (switched.per_run, switched.subtracted_ticks) = (10, Series { rounds: vec![vec![500], vec![700]] });
        assert_eq!(by_round(&switched, &[30.0, 30.0], 1.0), [Some(50.0), Some(50.0)]);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let (of, to) = ([Some(110.0), Some(220.0), None], [Some(100.0), Some(200.0), Some(1.0)]);
        let ratio = ratio(("a".into(), "b".into()), &of, &to, Some(1.05)).unwrap();
        assert!((ratio.ratio.estimate - 1.1).abs() < 1e-12 && ratio.rounds.len() == 2);
        assert_eq!(ratio.is_kept(), Some(false));
        let wide = PriceRatio { ratio: Estimate::new(1.0, 0.9, 1.2), ..ratio };
        assert_eq!((wide.is_kept(), PriceRatio { bound: None, ..wide.clone() }.is_kept()), (None, None));
    }

    #[test]
    fn a_line_is_found_again() {
        let prices: Vec<Price> = [1, 2, 4, 8]
            .map(|n: u32| estimated(price(n, &[&[100 + 40 * u64::from(n)], &[100 + 40 * u64::from(n)]]), &[0.0, 0.0], 1.0))
            .to_vec();
        let fit = through(&prices.iter().collect::<Vec<_>>(), &[0.0, 0.0], 1.0).unwrap();
        assert!((fit.per_event.estimate - 40.0).abs() < 1e-9 && (fit.fixed.estimate - 100.0).abs() < 1e-9, "{fit:?}");
        assert!(fit.worst_residual < 1e-9);
        assert!(through(&[&prices[0], &prices[1]], &[0.0, 0.0], 1.0).is_none());
    }
}
