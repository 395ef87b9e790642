//! Samples that software dropped after their interrupt.

use super::check::{Check, Judgement, Rule, Unit, Whole};
use perftax_doc::words::{many, named};

pub(super) struct Filtered;

static RULE: Rule = Rule {
    name: "filtered",
    measures: "events whose samples software filters after the interrupt",
    unit: Unit::Count,
    warning: Some(1.0),
    error: None,
    source: "perf_swevent_hrtimer drops what exclude_user and exclude_kernel leave out; perf's BPF filters (perf 6.4) count what they drop",
};

impl Check for Filtered {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let mut found = Vec::new();
        for event in &whole.recording.events {
            let attribute = &event.attribute;
            let mode = match (attribute.exclude_user, attribute.exclude_kernel) {
                (false, true) => Some("in the kernel"),
                (true, false) => Some("in user mode"),
                _ => None,
            };
            if event.filtered > 0 {
                found.push(format!("a BPF filter dropped {} of {}", many(event.filtered, "sample", "samples"), event.name));
            } else if let Some(mode) = mode.filter(|_| attribute.is_clock()) {
                found.push(format!("{} interrupts {mode}, too, and drops those", event.name));
            }
        }
        if found.is_empty() {
            return Judgement::none("no filter in software");
        }
        Judgement::measured(
            found.len() as f64,
            named(&found),
            "the program paid for interrupts that left no sample; samples × period is no time of the run",
            "record without the filter, and filter what you read (perf report --comm, --dso)",
        )
    }
}
