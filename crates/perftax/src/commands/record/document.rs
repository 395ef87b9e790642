//! What a recording cost, as a document: at its end, or while it runs.

use perftax_cost::governor::{Ledger, Witness};
use perftax_cost::stoker::resolved_share;
use perftax_doc::{Estimate, EventsOn, ExpenseOn, Origin, Recorded, Warning, Witnessed};
use perftax_pmu::sys::Ended;
use perftax_record::{Place, Recording, Status, Whom};
use perftax_report::units;

use super::files::Files;
use crate::failure::code_of_end;

/// What is known before it begins.
pub struct Subject<'a> {
    /// The head of the document.
    pub origin: Origin,
    /// What is recorded.
    pub recording: &'a Recording,
    /// The command, or the process.
    pub program: Vec<String>,
    /// What gives the right to watch whole CPUs; none where it is held.
    pub to_watch_cpus: Option<String>,
}

impl Subject<'_> {
    /// The document: of a program that has ended so, or goes on.
    pub fn document(&self, status: &Status<'_>, ended: Option<Ended>, files: &Files) -> Recorded {
        let (governor, ledger, totals) = (status.governor, status.governor.ledger(), &status.totals);
        let mut document = Recorded {
            origin: self.origin.clone(),
            program: self.program.clone(),
            code: ended.map(code_of_end),
            event: self.recording.event.name.clone(),
            mechanism: self.recording.event.mechanism,
            recording: files.newest().display().to_string(),
            // A stream has no size but what was written into it.
            recording_bytes: if files.bytes > 0 { files.bytes } else { totals.bytes },
            budget: self.recording.pricing.budget,
            burst_s: governor.burst_s(),
            elapsed_s: ledger.elapsed_ns as f64 * 1e-9,
            program_cpu_s: ledger.program_ns as f64 * 1e-9,
            spent_s: ledger.spent_s(),
            spent_share: ledger.share(),
            expenses: ledger.expenses(),
            most_overdrawn_s: governor.most_overdrawn_s(),
            recorder_cpu_s: totals.recorder_cpu_s,
            samples: ledger.samples().saturating_sub(totals.lost + totals.unwritten),
            lost: totals.lost,
            unwritten: totals.unwritten,
            dropped_segments: files.dropped,
            throttled: totals.throttled,
            filtered: ledger.filtered(),
            resolves_share: resolved_share(ledger.samples() as f64),
            events_on: match totals.place {
                Place::Threads => EventsOn::Threads,
                Place::Cpus => EventsOn::Cpus,
            },
            went_over_s: totals.went_over_s,
            of_others: totals.of_others,
            cut: totals.cut,
            represented: (totals.counted > 0).then(|| totals.weight as f64 / totals.counted as f64),
            rates: ledger.rates(),
            witness: status.witness.map(|witness| self.witnessed(witness, ledger)),
            course: governor.course().to_vec(),
        };
        let warnings = warnings(&document, self);
        document.origin.warnings.extend(warnings);
        document
    }

    fn witnessed(&self, witness: &Witness, ledger: &Ledger) -> Witnessed {
        let (loss, foreseen) = (witness.loss(), ledger.share_of_samples());
        Witnessed {
            work: self.recording.work.as_ref().map_or(String::new(), |event| event.name.clone()),
            pieces: witness.work,
            pauses: witness.pauses,
            agrees: loss.zip(foreseen).map(|(loss, foreseen)| overlap(&loss, &foreseen)),
            loss,
            foreseen,
            pairs: witness.pairs().to_vec(),
        }
    }
}

/// Whether two intervals have anything in common.
fn overlap(a: &Estimate, b: &Estimate) -> bool {
    a.low <= b.high && b.low <= a.high
}

/// From this share of the CPU time on that no sample stands for it is said what would see more.
const SHORT: f64 = 0.1;

/// The same of the time in which nothing was sampled.
const LONG: f64 = 0.2;
/// And of samples that lack callers.
const MANY: f64 = 0.01;

/// What weakens the recording, each with a remedy.
fn warnings(doc: &Recorded, subject: &Subject<'_>) -> Vec<Warning> {
    let whom = &subject.recording.whom;
    let mut warnings = Vec::new();
    let mut warn = |message: String, remedy: &str| warnings.push(Warning::Other { message, remedy: remedy.into() });
    let unpriced = || doc.expenses.iter().filter(|expense| expense.cost_s.is_none());
    if matches!(whom, Whom::Group(_)) && unpriced().any(|expense| expense.on == ExpenseOn::Switches) {
        let message =
            "what a context switch costs while a control group is watched has no price: what was spent is at least what is said";
        warn(message.into(), "perftax record -p PID, whose switches have one");
    } else if unpriced().count() > 0 {
        let message = "something that sampling takes time for has no price in this machine's profile: what was spent is at least what is said";
        warn(message.into(), &format!("perftax calibrate -e {}", doc.event));
    }
    let tasks = doc.expenses.iter().find(|expense| expense.on == ExpenseOn::Tasks).and_then(|expense| expense.count);
    if matches!(whom, Whom::Program)
        && doc.represented.is_some_and(|all| all < 1.0 - SHORT)
        && tasks.is_some_and(|tasks| tasks > 100)
    {
        let message = "most threads end before a period is over, and are in no sample";
        warn(message.into(), "perftax record --on cpus has the events on whole CPUs instead (as root)");
    }
    let rested_s: f64 = doc.rates.iter().filter(|rate| rate.period.is_none()).map(|rate| rate.program_cpu_s).sum();
    if matches!(whom, Whom::Program) && doc.events_on == EventsOn::Threads && rested_s > LONG * doc.program_cpu_s {
        let message = format!(
            "context switches and new threads would have taken more than the budget while events are open on threads: nothing was sampled for {} of the CPU time",
            units::share(rested_s / doc.program_cpu_s)
        );
        let to_watch_cpus = subject.to_watch_cpus.as_deref().unwrap_or("leave --on threads out");
        warn(message, &format!("{to_watch_cpus}: events on whole CPUs cost neither"));
    }
    if doc.cut as f64 > MANY * doc.samples as f64 {
        let message = format!("{} samples have callers beyond the copy of their stack, which are missing", units::count(doc.cut));
        warn(message, "perftax record --call-graph dwarf,65016");
    }
    if let Some(witness) = doc.witness.as_ref().filter(|witness| witness.agrees == Some(false)) {
        let message = format!(
            "what sampling costs by {} and by this machine's prices do not agree: the budget is kept by prices",
            witness.work
        );
        warn(message, &format!("perftax calibrate -e {}, while the machine does what it does now", doc.event));
    }
    if doc.samples == 0 && doc.lost + doc.unwritten == 0 {
        match doc.rates.iter().filter(|rate| rate.program_cpu_s > 0.0).filter_map(|rate| rate.period).min() {
            Some(period) => warn(
                format!(
                    "no sample was taken: one comes every {} at most, and the program was on a CPU for {}",
                    units::period(doc.mechanism, period),
                    units::time_s(doc.program_cpu_s)
                ),
                "a longer run, or a larger --budget",
            ),
            None => warn(
                "no sample was taken: the program was on no CPU, or nothing was left of the budget".into(),
                "perftax record while it works, or with a larger --budget",
            ),
        }
    }
    if doc.throttled > 0 {
        let message = format!("the kernel throttled the event {} times: samples are missing", doc.throttled);
        warn(message, "sysctl kernel.perf_event_max_sample_rate with a higher rate, or a smaller --budget");
    }
    if doc.lost > 0 {
        warnings.push(Warning::LostRecords { lost: doc.lost });
    }
    warnings
}
