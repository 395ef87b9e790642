//! Whether a plan follows the program and what it creates, or watches whole CPUs.

use anyhow::Result;
use perftax_cost::planning::{Outcome as Planned, PlanError, PlanRequest, choose};
use perftax_cost::prediction::{SWITCH_TERM, Setting, Watched};
use perftax_cost::tasks::TASK_TERM;
use perftax_doc::tasks::Tasks;
use perftax_doc::{PredictionRow, Reason};
use perftax_pmu::machine::Right;

use crate::host::Host;

/// So many times as many samples are worth watching everything that runs.
const WORTH: f64 = 2.0;
/// And so many samples at least.
const FEWEST: f64 = 10.0;

/// The plan, and why it is of whole CPUs, or what those would give.
pub struct Decided {
    /// The plan.
    pub planned: Planned,
    /// Whether it watches whole CPUs.
    pub whole_cpus: bool,
    /// Why; none where the program is followed and nothing else is worth a word.
    pub reason: Option<Reason>,
}

/// Follows the program where that keeps within the budget and sees most of it. `here`: none where another machine is planned for, whose rights nobody knows.
pub fn decide(here: Option<&Host>, request: &PlanRequest) -> Result<Decided, PlanError> {
    let program = choose(request)?;
    if request.setting.watched == Watched::Cpus {
        return Ok(Decided { planned: program, whole_cpus: true, reason: None });
    }
    let whole = PlanRequest { setting: Setting { watched: Watched::Cpus, ..request.setting.clone() }, ..request.clone() };
    let whole = match choose(&whole) {
        // A handful of samples is not worth watching everything that runs.
        Ok(Planned::Feasible(choice)) if choice.row.samples >= FEWEST => choice,
        _ => return Ok(Decided { planned: program, whole_cpus: false, reason: None }),
    };
    let why = match &program {
        Planned::Feasible(choice) if choice.row.samples * WORTH >= whole.row.samples => {
            return Ok(Decided { planned: program, whole_cpus: false, reason: None });
        }
        Planned::Feasible(choice) => format!(
            "following the program gives about {:.0} samples at this budget, where the CPUs give {:.0} ({})",
            choice.row.samples,
            whole.row.samples,
            cause(request, &choice.row)
        ),
        // What is wished for may be too much, at a period that fits.
        Planned::Infeasible { why, nearest: None } => format!("following the program fits no period ({why})"),
        Planned::Infeasible { why, nearest: Some(_) } => format!("following the program does not do ({why})"),
    };
    let Some(here) = here else {
        let why = format!("{why}; where whole CPUs may be watched there, perf record -a would do");
        return Ok(Decided { planned: program, whole_cpus: false, reason: Some(attach(why)) });
    };
    let right = here.right(Right::WholeCpus);
    if right.held != Some(true) {
        let why = format!("{why}; watching whole CPUs would do, and is not allowed: {} ({})", right.why_not, right.remedy);
        return Ok(Decided { planned: program, whole_cpus: false, reason: Some(attach(why)) });
    }
    let why = format!("whole CPUs, for {why}; what else runs there is sampled, too");
    Ok(Decided { planned: Planned::Feasible(whole), whole_cpus: true, reason: Some(attach(why)) })
}

fn attach(why: String) -> Reason {
    Reason { setting: "attach".into(), why }
}

/// Why following the program gives fewer: what is not seen, or what is paid for besides samples.
fn cause(request: &PlanRequest, row: &PredictionRow) -> String {
    let share = |term: &str| row.terms.get(term).map_or(0.0, |cost| cost.high / row.overhead.high);
    let (switches, copies) = (share(SWITCH_TERM), share(TASK_TERM));
    if switches.max(copies) < 0.5 {
        let created = request.workload.tasks.as_ref().map_or(0, Tasks::created);
        let all = u64::from(request.workload.threads).max(1 + created);
        return format!(
            "each of its {all} threads and processes begins a period anew on each CPU, and what is shorter gives none"
        );
    }
    if switches > copies {
        "most of the budget goes to stopping and starting the event at its context switches".into()
    } else {
        "most of the budget goes to copying the event for its threads and processes".into()
    }
}
