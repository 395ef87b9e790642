//! The audit: whether samples tell the truth, by experiments whose truth is known by construction.
//!
//! One file an experiment, one line in [`ALL`]. What all of them share: [`Source`], events that a piece of work makes so many of, and
//! [`Measurement`], which has the work done while an event watches.

mod address;
mod bias;
mod cannot;
mod case;
mod compare;
mod core_event;
mod count;
mod events;
mod fault;
mod generic;
mod ibs;
mod interval;
mod measurement;
mod memory;
mod misses;
mod mode;
mod name;
mod overhead;
mod programs;
mod source;
mod stability;
mod threads;
mod unit;

use std::time::Instant;

use perftax_doc::{AuditRow, AuditedExperiment};
use perftax_pmu::event::{Catalog, Vendor};
use perftax_pmu::{Error, Result};

use cannot::Cannot;
use case::{Ibs, Subject, Watched};
pub use compare::compare;
pub use fault::Fault;
pub use measurement::Measurement;
pub use name::Name;
pub use source::Source;
use unit::Unit;

/// What an experiment is given.
pub struct Setting<'a> {
    /// Names of events.
    pub catalog: &'a Catalog,
    /// CPUs that may be used; what runs on one alone runs on the last one.
    pub cpus: &'a [u32],
    /// Runs of everything.
    pub runs: usize,
    /// Whether what takes minutes is cut short.
    pub is_quick: bool,
    /// Whether a core's PMU counts without error by its making: an emulated one does.
    pub is_exact: bool,
    /// Whether loads can miss: an emulated machine has caches only where it was asked to.
    pub has_caches: bool,
    /// Whether IBS starts its counts at random, as the hardware does: an emulated one does where it was asked to.
    pub has_random_starts: bool,
    /// Counters of a core for events of the program's choice, where it has any.
    pub counters: Option<usize>,
    /// What is wrong with the sampler, where that is to be shown.
    pub fault: Option<Fault>,
    /// Parts of the names of those sources that are asked; empty where all are.
    pub sources: &'a [String],
}

impl Setting<'_> {
    /// The same with a sampler that is in order: for what rows are held against.
    fn without_fault(&self) -> Self {
        Self { fault: None, ..*self }
    }

    /// Whether a source of this name is asked.
    fn asks(&self, name: &str) -> bool {
        self.sources.is_empty() || self.sources.iter().any(|part| name.contains(part.as_str()))
    }

    /// These where a source of this name is asked, else none.
    fn asked<T, const N: usize>(&self, name: &str, these: [T; N]) -> impl Iterator<Item = T> {
        let is_asked = self.asks(name);
        these.into_iter().filter(move |_| is_asked)
    }

    /// Rounds of a program, which takes seconds: two where that is to be quick, and never fewer.
    fn rounds(&self) -> usize {
        if self.is_quick { 2 } else { self.runs.max(2) }
    }
}

/// An experiment of the audit.
pub trait Experiment: Sync {
    /// What `--only` calls it.
    fn name(&self) -> Name;

    /// What it asks.
    fn question(&self) -> &'static str;

    /// How it is answered.
    fn method(&self) -> &'static str;

    /// The figures and tables of the PES study that ask the same.
    fn figures(&self) -> &'static str;

    /// Whether it stays on one CPU, the last one; else it looks for CPUs itself.
    fn is_pinned(&self) -> bool {
        true
    }

    /// Does it.
    ///
    /// # Errors
    /// Where what is there cannot be used after all. What is not there makes a row that says so.
    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>>;
}

/// All of them: those of the PES study in the order of its section 4, then what it does not ask.
pub const ALL: [&dyn Experiment; 12] = [
    &count::Count,
    &interval::Interval,
    &misses::Misses,
    &stability::Stability,
    &threads::Threads,
    &bias::Bias,
    &overhead::Overhead,
    &memory::Memory,
    &events::Events,
    &mode::Mode,
    &address::Address,
    &generic::Generic,
];

/// Does one experiment, on a thread of its own.
///
/// # Errors
/// As [`Experiment::rows`].
pub fn run(experiment: &dyn Experiment, setting: &Setting) -> Result<AuditedExperiment> {
    let began = Instant::now();
    let rows = std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            if experiment.is_pinned() {
                perftax_pmu::guard::pin_this_thread(setting.cpus.last().copied().unwrap_or(0))?;
            }
            or_impossible(experiment.name().text(), experiment.rows(setting))
        });
        pinned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(AuditedExperiment {
        name: experiment.name().to_string(),
        question: experiment.question().into(),
        method: experiment.method().into(),
        figures: experiment.figures().into(),
        rows,
        elapsed_s: began.elapsed().as_secs_f64(),
    })
}

/// How the sources of this machine are called, IBS's included.
pub fn source_names(catalog: &Catalog) -> Vec<String> {
    let ibs = [Ibs::Op, Ibs::Fetch].map(|ibs| ibs.name().to_string());
    Source::all(catalog).into_iter().map(Source::name).chain(ibs).collect()
}

/// Rows for each source; one that this machine does not have says why.
fn each_source(setting: &Setting, rows: impl Fn(&Source) -> Result<Vec<AuditRow>>) -> Result<Vec<AuditRow>> {
    let of = |source: &Source| or_impossible(Watched::from(*source), source.check(setting.catalog).and_then(|()| rows(source)));
    let asked = Source::all(setting.catalog).into_iter().filter(|source| setting.asks(&source.name()));
    let all: Vec<Vec<AuditRow>> = asked.map(|source| of(&source)).collect::<Result<_>>()?;
    Ok(all.into_iter().flatten().collect())
}

/// Rows by AMD's instruction-based sampling: of operations, and of fetches; elsewhere one that says why not.
fn by_ibs(setting: &Setting, rows: impl Fn(Ibs, u32) -> Result<Vec<AuditRow>>) -> Result<Vec<AuditRow>> {
    let cpu = setting.cpus.last().copied().unwrap_or(0);
    let kinds: &[Ibs] = if setting.catalog.vendor() == Vendor::Amd { &[Ibs::Op, Ibs::Fetch] } else { &[Ibs::Op] };
    let of = |ibs: &Ibs| or_impossible(Watched::from(Subject::Sampler(*ibs)), ibs.event(setting).and_then(|_| rows(*ibs, cpu)));
    let all: Vec<Vec<AuditRow>> = kinds.iter().filter(|ibs| setting.asks(ibs.name())).map(of).collect::<Result<_>>()?;
    Ok(all.into_iter().flatten().collect())
}

/// Where the event or the right to it is missing: a row that says so. A discarded run, or a program that did
/// not do its work, makes a row that failed.
fn or_impossible(case: impl Into<String>, rows: Result<Vec<AuditRow>>) -> Result<Vec<AuditRow>> {
    match rows {
        Err(Error::Unsupported { what, why, .. }) => Ok(vec![AuditRow::impossible(case, Cannot { what, why }.to_string())]),
        Err(error @ Error::Permission { .. }) => Ok(vec![AuditRow::forbidden(case, &error.in_one_line())]),
        Err(error @ Error::UnknownEvent { .. }) => Ok(vec![AuditRow::impossible(case, error.in_one_line())]),
        Err(error @ (Error::Discarded { .. } | Error::CommandFailed { .. } | Error::Exec { .. })) => {
            Ok(vec![AuditRow::of(case, Unit::WholeRuns.text(), 1.0, &[0.0], 0.0).remarking(error.in_one_line())])
        }
        other => other,
    }
}
