//! Whether there are enough samples for shares.

use super::check::{Check, Judgement, Rule, Unit, Whole};
use perftax_doc::words::{many, share};

pub(super) struct FewSamples;

static RULE: Rule = Rule {
    name: "few-samples",
    measures: "half-width of the 95 % interval of a share of one half, of the sampled event with most samples",
    unit: Unit::Share,
    warning: Some(0.1),
    error: None,
    source: "binomial: 1.96 × √(¼ / n); 0.1 is 96 samples",
};

impl Check for FewSamples {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        if whole.samples() == 0 && whole.recording.events.iter().all(|event| event.untold.is_none()) {
            return Judgement::measured(
                1.0,
                "there are no samples",
                "no share of anything is known",
                "a longer run, or more samples (perf record -F, -c)",
            );
        }
        // Where every event is a sample, all are there.
        let sampled = || {
            whole.recording.events.iter().filter(|event| event.attribute.events_a_sample() != Some(1) && event.untold.is_none())
        };
        let Some(most) = sampled()
            .filter(|event| !event.is_dummy() && !event.attribute.is_written_by_perf())
            .max_by_key(|event| event.samples)
        else {
            return Judgement::none("every event is a sample");
        };
        let half_width = if most.samples == 0 { 1.0 } else { (1.96 * (0.25 / most.samples as f64).sqrt()).min(1.0) };
        Judgement::measured(
            half_width,
            format!(
                "{} of {}: a share of 50 % is known to ± {} points",
                many(most.samples, "sample", "samples"),
                most.name,
                share(half_width).trim_end_matches(" %")
            ),
            "which of two functions takes longer is chance unless they differ by more than that",
            "a longer run, or more samples (perf record -F, -c)",
        )
    }
}
