//! Is one sample taken in each period, whatever the period?

use perftax_cost::period::prime_at_least;
use perftax_doc::AuditRow;
use perftax_pmu::Result;

use super::case::{How, Watched};
use super::{Experiment, Measurement, Name, Setting, Source, Unit, by_ibs, each_source};

/// Samples by period: round, prime, jittered.
pub struct Interval;

/// Periods that are tried, events.
const PERIODS: [u64; 5] = [10, 100, 1000, 10_000, 100_000];
/// Pieces that a jittered run is cut into, each with a period of its own, and how far those lie around the middle one.
const PIECES: u64 = 10;
const JITTER: f64 = 0.1;
/// Seed of the jitter.
const SEED: u64 = 20_230_501;

impl Experiment for Interval {
    fn name(&self) -> Name {
        Name::Interval
    }

    fn question(&self) -> &'static str {
        "does each period bring one sample, at any period?"
    }

    fn method(&self) -> &'static str {
        "work of N events sampled every R: N/R samples, rounded down, must arrive; R round, prime, and another one in each tenth of the work"
    }

    fn figures(&self) -> &'static str {
        "figures 3, 4 and 6"
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let mut rows = each_source(setting, |source| {
            let (mut rows, own) = (Vec::new(), source.own(setting)?);
            for period in PERIODS.into_iter().filter(|period| (source.shortest()..=source.many() / 10).contains(period)) {
                for (kind, period) in [(How::Round, period), (How::Prime, prime_at_least(period + 1).unwrap_or(period))] {
                    rows.push(at(source, setting, own, kind, period)?);
                }
            }
            if let Some(middle) = middle_of_jitter(source) {
                rows.push(jittered(source, setting, own, middle)?);
            }
            Ok(rows)
        })?;
        rows.extend(by_ibs(setting, |ibs, cpu| ibs.intervals(setting, cpu))?);
        Ok(rows)
    }
}

fn at(source: &Source, setting: &Setting, own: u64, kind: How, period: u64) -> Result<AuditRow> {
    let (mut work, event) = source.work(source.many(), setting.catalog)?;
    let runs = Measurement::runs(setting, work.as_mut(), &event, Some(period))?;
    let expected = source.samples(source.many() + own, period);
    Ok(Measurement::row(Watched::from(*source).every(period).how(kind), expected as f64, &runs, source.allowed(setting)))
}

/// The period that the jittered ones lie around; none where a piece is shorter, and so has no sample to lose.
fn middle_of_jitter(source: &Source) -> Option<u64> {
    let middle = (source.many() / 100).max(source.shortest());
    (middle <= source.events(source.many() / PIECES)).then_some(middle)
}

/// Each piece begins a period anew, as a sampler that sets it at every wakeup does.
fn jittered(source: &Source, setting: &Setting, own: u64, middle: u64) -> Result<AuditRow> {
    let asked = source.many() / PIECES;
    let (mut work, event) = source.work(asked, setting.catalog)?;
    let piece = source.events(asked) + own;
    let mut rng = fastrand::Rng::with_seed(SEED);
    let periods: Vec<u64> =
        (0..PIECES).map(|_| (middle as f64 * (1.0 + JITTER * (2.0 * rng.f64() - 1.0))).round() as u64).collect();
    let expected: u64 = periods.iter().map(|period| source.samples(piece, *period)).sum();
    let mut samples = Vec::new();
    let mut all = Vec::new();
    for _ in 0..setting.runs {
        let runs: Vec<Measurement> =
            periods.iter().map(|period| Measurement::of(setting, work.as_mut(), &event, Some(*period))).collect::<Result<_>>()?;
        samples.push(runs.iter().map(|run| run.samples).sum::<u64>() as f64);
        all.extend(runs);
    }
    let case = Watched::from(*source).every(middle).how(How::Jittered);
    let row = AuditRow::of(case, Unit::Samples.text(), expected as f64, &samples, source.allowed(setting));
    Ok(Measurement::marked(row, &all))
}

#[cfg(test)]
mod tests {
    use perftax_pmu::event::Retired;

    use super::super::core_event::{CoreEvent, Overflow};
    use super::*;

    #[test]
    fn pieces_that_are_shorter_than_a_period_are_not_asked() {
        let core = |counted, by| middle_of_jitter(&Source::Core(CoreEvent { counted, by }));
        assert_eq!(core(Retired::Loads, Overflow::Interrupt), Some(10_000));
        assert_eq!(core(Retired::Returns, Overflow::Pebs), Some(1000));
        // 4,000 returns to a piece: each run would bring none, as it must, whatever is sampled.
        assert_eq!(core(Retired::Returns, Overflow::Interrupt), None);
        assert_eq!(Source::SOFTWARE.map(|source| middle_of_jitter(&source)), [Some(200), Some(1000), Some(10), Some(50)]);
    }
}
