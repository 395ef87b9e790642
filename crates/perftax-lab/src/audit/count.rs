//! Are events counted to the last one?

use perftax_doc::AuditRow;
use perftax_pmu::Result;

use super::case::Watched;
use super::{Experiment, Measurement, Name, Setting, Unit, each_source};

/// Counts, without a sample, against work whose events are known.
pub struct Count;

impl Experiment for Count {
    fn name(&self) -> Name {
        Name::Count
    }

    fn question(&self) -> &'static str {
        "does a counter that takes no sample count every event?"
    }

    fn method(&self) -> &'static str {
        "work of so many events by construction, counted by the kernel; the counts must be equal"
    }

    fn figures(&self) -> &'static str {
        "section 4.1: what figures 3 and 4 are measured against"
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        each_source(setting, |source| {
            let (mut work, event) = source.work(source.many(), setting.catalog)?;
            let runs = Measurement::runs(setting, work.as_mut(), &event, None)?;
            let counted: Vec<f64> = runs.iter().map(|run| run.counted as f64).collect();
            let expected = (source.many() + source.own(setting)?) as f64;
            let row = AuditRow::of(Watched::from(*source), Unit::Events.text(), expected, &counted, source.allowed(setting));
            Ok(vec![Measurement::marked(row, &runs)])
        })
    }
}
