//! Does each thread get its own samples, however many run at once?

use perftax_cost::document::AuditRow;
use perftax_pmu::Result;

use super::{Experiment, Setting, Source, Taking, by_ibs, each_source};

/// The same work on more and more CPUs.
pub struct Threads;

/// Samples of a thread.
const SAMPLES: u64 = 100;

impl Experiment for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn question(&self) -> &'static str {
        "does each thread get its own samples, however many run at once?"
    }

    fn method(&self) -> &'static str {
        "threads on CPUs of their own do the same work at once, each watched by its own event; each must get N/R samples"
    }

    fn figures(&self) -> &'static str {
        "figure 5 (prose alone)"
    }

    fn is_pinned(&self) -> bool {
        false
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let mut rows = each_source(setting, |source| {
            let counts = (0..).map(|power| 1usize << power).take_while(|count| *count < setting.cpus.len());
            counts.chain([setting.cpus.len()]).map(|count| on(source, setting, count)).collect()
        })?;
        rows.extend(by_ibs(setting, |ibs, _| ibs.threads(setting))?);
        Ok(rows)
    }
}

/// Each thread of each run is a run of the row.
fn on(source: &Source, setting: &Setting, count: usize) -> Result<AuditRow> {
    let period = (source.many() / SAMPLES + 1).max(source.shortest());
    let expected = source.samples(source.many() + source.own(setting)?, period);
    let mut all = Vec::new();
    for _ in 0..setting.runs {
        let runs: Vec<Taking> = std::thread::scope(|scope| {
            let start = |cpu: u32| {
                scope.spawn(move || {
                    perftax_pmu::guard::pin_this_thread(cpu)?;
                    let (mut work, event) = source.work(source.many(), setting.catalog)?;
                    Taking::of(setting, work.as_mut(), &event, Some(period))
                })
            };
            let threads: Vec<_> = setting.cpus.iter().take(count).map(|cpu| start(*cpu)).collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.collect::<Result<_>>()
        })?;
        all.extend(runs);
    }
    Ok(Taking::row(format!("{} every {period}, {count} at once", source.name()), expected as f64, &all, source.allowed(setting)))
}
