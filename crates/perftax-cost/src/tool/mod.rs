//! What a tool costs a program: terms, each a number of things at a price, and their sum.

mod sampled;
mod tried;

pub use sampled::{Sampled, sampled};
pub use tried::{CALLS_OF_A_TASK, Placed, TrialPrices};

use perftax_doc::{Estimate, PriceSource, ToolTerm, WorkloadProfile};

use crate::prediction::critical_share;

/// Whom a thing that costs time delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delays {
    /// The task that it happens to: of tasks that run side by side each pays for its own.
    ItsTask,
    /// Everybody: one tracer serves all tasks in turn, as strace does.
    All,
}

/// A term of so many things in a run, at so much each.
pub fn term(what: &str, count: &Estimate, each_ns: &Estimate, delays: Delays, workload: &WorkloadProfile) -> ToolTerm {
    let critical = match delays {
        Delays::ItsTask => critical_share(workload),
        Delays::All => 1.0,
    };
    let per_run = each_ns.scaled(count.estimate * 1e-9 * critical / workload.elapsed_s.estimate.max(f64::MIN_POSITIVE));
    ToolTerm {
        what: what.into(),
        count: Some(*count),
        each_ns: Some(*each_ns),
        overhead: per_run.widened(count.relative_half_width().min(1.0)),
        source: PriceSource::Trial,
    }
}

/// What all terms come to, each known independently of the others.
pub fn total(terms: &[ToolTerm]) -> Estimate {
    terms.iter().fold(Estimate::exact(0.0), |sum, term| sum.plus(&term.overhead))
}

/// A share of elapsed time as one of CPU time; none of a program that used none.
pub fn of_cpu_time(overhead: &Estimate, workload: &WorkloadProfile) -> Option<Estimate> {
    let (elapsed_s, cpu_s) = (workload.elapsed_s.estimate, workload.cpu_s.estimate);
    (cpu_s > 0.0).then(|| overhead.scaled(elapsed_s / (critical_share(workload) * cpu_s)))
}
