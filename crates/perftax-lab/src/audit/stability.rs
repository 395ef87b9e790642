//! Do runs of the same work bring the same?

use perftax_doc::AuditRow;
use perftax_pmu::Result;

use super::case::{How, Watched};
use super::{Experiment, Measurement, Name, Setting, by_ibs, each_source};

/// Many runs at one period.
pub struct Stability;

/// Runs for each that the setting asks for.
const TIMES: usize = 5;
/// Samples of a run.
const SAMPLES: u64 = 100;

impl Experiment for Stability {
    fn name(&self) -> Name {
        Name::Stability
    }

    fn question(&self) -> &'static str {
        "do runs of the same work bring the same number of samples?"
    }

    fn method(&self) -> &'static str {
        "many runs at one period; what lies between the least and the most of them, against their median, must be nothing"
    }

    fn figures(&self) -> &'static str {
        "figures 3, 4 and 6, from run to run and session to session"
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let mut rows = each_source(setting, |source| {
            let (mut work, event) = source.work(source.many(), setting.catalog)?;
            let period = source.period_for(SAMPLES);
            let one = |_| Measurement::of(setting, work.as_mut(), &event, Some(period));
            let runs: Vec<Measurement> = (0..TIMES * setting.runs).map(one).collect::<Result<_>>()?;
            let mut samples: Vec<f64> = runs.iter().map(|run| run.samples as f64).collect();
            let median = perftax_doc::quantile(&mut samples, 0.5);
            let case = Watched::from(*source).every(period).how(How::Runs(runs.len()));
            Ok(vec![Measurement::row(case, median, &runs, source.allowed(setting))])
        })?;
        rows.extend(by_ibs(setting, |ibs, cpu| ibs.stability(setting, cpu, TIMES * setting.runs))?);
        Ok(rows)
    }
}
