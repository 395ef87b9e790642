//! What a prediction rests on: the cost of a sample, from wherever it is to be had, and what the program does.

mod counting;
mod pricing;
#[cfg(test)]
mod samples;

use perftax_cost::prediction::{RAW_TERM, Setting, USER_STACK_BYTES, Watched};
use perftax_doc::{LeftOut, Mechanism, PayloadTerm, WorkloadProfile};
use perftax_pmu::sampler::Payload;

pub use counting::Counting;
pub use pricing::{SampleCost, in_profile, of_calibration, of_published};

/// Frames of a typical call chain: what bytes a second are predicted with.
const TYPICAL_FRAMES: u32 = 16;

/// Everything that a prediction rests on.
pub struct PredictionInput {
    /// The event's name.
    pub event_name: String,
    /// Its mechanism.
    pub mechanism: Mechanism,
    /// Samples that the event's filter drops.
    pub left_out: LeftOut,
    /// The cost of a sample.
    pub priced: SampleCost,
    /// CPUs that an event is opened for.
    pub cpus: u32,
    /// The program.
    pub workload: WorkloadProfile,
    /// The event that counts its pieces of work.
    pub work: Option<String>,
}

impl PredictionInput {
    /// How the program would be sampled, with payload by the names of its terms; `whole_cpus`: all that runs, and nothing inherited.
    pub fn setting<'a>(&'a self, carried: &[PayloadTerm], whole_cpus: bool) -> Setting<'a> {
        let payload = payload(carried);
        let bulk = perftax_pmu::record::Payload {
            callchain_entries: TYPICAL_FRAMES.into(),
            stack_bytes: payload.stack_user_bytes.into(),
            ..Default::default()
        };
        let bytes = payload.layout().sample_size_bytes(&bulk);
        let mut setting = Setting::new(self.mechanism, &self.event_name, bytes as f64);
        setting.left_out = self.left_out;
        setting.watched = match whole_cpus {
            true => Watched::Cpus,
            false => Watched::Program { events: 1, cpus: self.cpus },
        };
        setting.payload = carried.iter().map(|term| term.name()).collect();
        // perf record has a tracepoint's or a probe's data in each sample, asked or not.
        if matches!(self.mechanism, Mechanism::Tracepoint | Mechanism::Uprobe) && self.priced.cost.terms.contains_key(RAW_TERM) {
            setting.payload.push(RAW_TERM);
        }
        setting
    }
}

/// What samples carry that have this payload, by the names of its terms.
fn payload(carried: &[PayloadTerm]) -> Payload {
    carried.iter().fold(Payload::BASIC, |payload, term| match term {
        PayloadTerm::Callchain => payload.with_callchain(),
        PayloadTerm::UserRegisters => payload.with_user_registers(),
        PayloadTerm::Branches => payload.with_branches(),
        PayloadTerm::UserStack => payload.with_user_stack(USER_STACK_BYTES),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use perftax_cost::prediction::Cost;
    use perftax_doc::Estimate;

    use super::*;

    fn input(mechanism: Mechanism, terms: &[&str]) -> PredictionInput {
        let terms = terms.iter().map(|name| (name.to_string(), Estimate::exact(100.0))).collect();
        let cost = Cost { terms, ..Cost::new(Estimate::exact(1000.0), 0.0) };
        PredictionInput {
            event_name: "an event".into(),
            mechanism,
            left_out: LeftOut::Nothing,
            priced: SampleCost { cost, machine: "here".into() },
            cpus: 4,
            workload: samples::workload(&[]),
            work: None,
        }
    }

    #[test]
    fn a_tracepoint_s_samples_have_its_data_where_that_has_a_price() {
        let carried = [PayloadTerm::Callchain];
        let with = |mechanism, terms: &[&str]| input(mechanism, terms).setting(&carried, false).payload.join(" ");
        assert_eq!(with(Mechanism::Tracepoint, &[RAW_TERM]), "callchain raw");
        assert_eq!(with(Mechanism::Tracepoint, &[]), "callchain");
        assert_eq!(with(Mechanism::CpuClock, &[RAW_TERM]), "callchain");
    }

    #[test]
    fn what_samples_carry_makes_them_longer() {
        let bytes = |carried: &[PayloadTerm]| input(Mechanism::CpuClock, &[]).setting(carried, true).bytes_per_sample;
        assert!(
            bytes(&[PayloadTerm::Callchain]) > bytes(&[])
                && bytes(&[PayloadTerm::UserStack]) > bytes(&[]) + f64::from(USER_STACK_BYTES)
        );
    }
}
