//! What an event costs that a tool samples by perf_event: a row of a prediction, as terms.

use perftax_doc::{Estimate, PayloadTerm, PriceSource, ToolTerm, WorkloadProfile};

use crate::cost::Cost;
use crate::prediction::{
    COUNTING_TERM, OWN_TERM, POLLUTION_TERM, PredictionError, RAW_TERM, SAMPLE_TERM, SWITCH_TERM, Setting, row,
};
use crate::tasks::TASK_TERM;

/// An event that is sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// Samples of a run.
    pub samples: Estimate,
    /// What they cost, part by part.
    pub terms: Vec<ToolTerm>,
}

/// What sampling an event at a period costs a program, by the prices of a calibration.
///
/// # Errors
/// As [`row`].
pub fn sampled(workload: &WorkloadProfile, cost: &Cost, setting: &Setting, period: u64) -> Result<Sampled, PredictionError> {
    let row = row(workload, cost, setting, period)?;
    let (each_ns, _) = cost.of_record_and_event(setting.drive, period);
    // As well as what drives the sampler is known, or how much of it is seen.
    let relative = match setting.drive {
        crate::drive::Drive::Time => workload.cpu_s.relative_half_width(),
        crate::drive::Drive::Event { .. } => workload.counts.get(setting.event).map_or(0.0, Estimate::relative_half_width),
    };
    let samples = Estimate::exact(row.samples).widened(relative.min(1.0));
    let payload_ns = |name: &str| cost.terms.get(name).map(|term_ns| term_ns.widened(cost.drift));
    let term = |(name, overhead): (&String, &Estimate)| {
        let (what, count, each_ns) = match name.as_str() {
            SAMPLE_TERM => (format!("samples of {}", setting.event), Some(samples), Some(each_ns)),
            SWITCH_TERM => ("context switches".into(), Some(workload.switches), cost.switch_ns(setting, period)),
            TASK_TERM => {
                let created = workload.tasks.as_ref().map(|tasks| Estimate::exact(tasks.created() as f64));
                ("tasks that come and go, and programs executed".into(), created, None)
            }
            OWN_TERM => ("what caches lose to samples".into(), Some(samples), None),
            COUNTING_TERM => {
                (format!("counting {}", setting.event), workload.counts.get(setting.event).copied(), payload_ns(name))
            }
            POLLUTION_TERM => ("what caches lose to records".into(), Some(samples), None),
            RAW_TERM => ("what events carry".into(), Some(samples), payload_ns(name)),
            name if name == PayloadTerm::Callchain.name() => ("call chains".into(), Some(samples), payload_ns(name)),
            name if name == PayloadTerm::UserStack.name() => ("copies of stacks".into(), Some(samples), payload_ns(name)),
            name if name == PayloadTerm::UserRegisters.name() => ("registers".into(), Some(samples), payload_ns(name)),
            name if name == PayloadTerm::Branches.name() => ("branch records".into(), Some(samples), payload_ns(name)),
            name if name.starts_with("excluded") => {
                (format!("interrupts of {} whose sample is dropped", setting.event), None, payload_ns(name))
            }
            other => (other.into(), None, None),
        };
        ToolTerm { what, count, each_ns, overhead: *overhead, source: PriceSource::Calibration }
    };
    let terms = row.terms.iter().map(term).filter(|term| term.count != Some(Estimate::exact(0.0)));
    Ok(Sampled { samples, terms: terms.collect() })
}
