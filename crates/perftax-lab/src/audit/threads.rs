//! Does each thread get its own samples, however many run at once?

use perftax_doc::AuditRow;
use perftax_pmu::Result;

use super::case::{How, Watched};
use super::{Experiment, Measurement, Name, Setting, Source, by_ibs, each_source};

/// The same work on more and more CPUs.
pub struct Threads;

/// Samples of a thread.
const SAMPLES: u64 = 100;

impl Experiment for Threads {
    fn name(&self) -> Name {
        Name::Threads
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
            let events = source.many() + source.own(setting)?;
            let counts = (0..).map(|power| 1usize << power).take_while(|count| *count < setting.cpus.len());
            counts.chain([setting.cpus.len()]).map(|count| on(source, setting, events, count)).collect()
        })?;
        rows.extend(by_ibs(setting, |ibs, _| ibs.threads(setting))?);
        Ok(rows)
    }
}

/// Has a thread on each CPU do the same at once.
pub(super) fn on_each<T: Send>(cpus: &[u32], work: impl Fn(u32) -> Result<T> + Sync) -> Result<Vec<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        let start = |cpu: u32| scope.spawn(move || perftax_pmu::guard::pin_this_thread(cpu).and_then(|()| work(cpu)));
        let threads: Vec<_> = cpus.iter().map(|cpu| start(*cpu)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Each thread of each run is a run of the row.
fn on(source: &Source, setting: &Setting, events: u64, count: usize) -> Result<AuditRow> {
    let period = source.period_for(SAMPLES);
    let expected = source.samples(events, period);
    let mut all = Vec::new();
    for _ in 0..setting.runs {
        all.extend(on_each(&setting.cpus[..count], |_| {
            let (mut work, event) = source.work(source.many(), setting.catalog)?;
            Measurement::of(setting, work.as_mut(), &event, Some(period))
        })?);
    }
    Ok(Measurement::row(
        Watched::from(*source).every(period).how(How::AtOnce(count)),
        expected as f64,
        &all,
        source.allowed(setting),
    ))
}
