//! Whether all of the recording is there.

use super::check::{Check, Judgement, Rule, Unit, Whole};
use perftax_doc::words::{count, many};

pub(super) struct CutOff;

static RULE: Rule = Rule {
    name: "cut-off",
    measures: "places where the recording ends early, is damaged or overwritten, or has samples of no known event",
    unit: Unit::Count,
    warning: None,
    error: Some(1.0),
    source: "perf.data-file-format.txt: a header without a data size is one that perf record did not finish",
};

impl Check for CutOff {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let unknown = whole.recording.counts.unknown_samples;
        let fault = whole.recording.fault.as_ref().map(|fault| match fault.at_byte {
            0 => fault.why.clone(),
            at => format!("at byte {}: {}", count(at), fault.why),
        });
        let strangers = (unknown > 0).then(|| format!("{} of no event that it names", many(unknown, "sample", "samples")));
        let impossible = whole.recording.counts.first_impossible.as_ref().map(|first| {
            format!("{} state what cannot be ({first})", many(whole.recording.counts.impossible, "record", "records"))
        });
        let is_overwritten = whole.recording.events.iter().any(|event| event.attribute.overwrites);
        let found: Vec<String> = fault.into_iter().chain(strangers).chain(impossible).collect();
        if found.is_empty() && is_overwritten {
            return Judgement::measured(
                1.0,
                "rings were overwritten (--overwrite): only their last samples are left",
                "shares are of the end of the run",
                "perf record without --overwrite",
            )
            .a_warning_at_most(true);
        }
        if found.is_empty() {
            return Judgement::none("read to its end");
        }
        Judgement::measured(
            found.len() as f64,
            found.join("; "),
            "what came later is missing, and shares are of what is there",
            "record again: end perf record by SIGINT and let it finish, copy the file whole",
        )
    }
}
