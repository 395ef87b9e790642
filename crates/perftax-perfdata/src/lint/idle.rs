//! Whether the program used the CPU at all.

use super::check::{Check, Judgement, Rule, Unit, Whole};
use crate::recording::command_line::options;
use crate::recording::{Attribute, SeenSample};
use perftax_doc::words::{share, time_s};

/// CPU time that samples of clocks and of events by frequency stand for, by event, s.
#[derive(Default)]
pub(super) struct Idle {
    seen_s: Vec<f64>,
}

static RULE: Rule = Rule {
    name: "idle",
    measures: "time in which the recorded program used no CPU, of its run",
    unit: Unit::Share,
    warning: Some(0.9),
    error: Some(0.99),
    source: "samples × period of a clock, or samples / frequency; a profile of CPU time says nothing of waiting",
};

impl Check for Idle {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn sees_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &SeenSample<'_>) {
        if let Some(each_s) = time_of_sample_s(sample.attribute, sample.period()) {
            if self.seen_s.len() <= sample.event {
                self.seen_s.resize(sample.event + 1, 0.0);
            }
            self.seen_s[sample.event] += each_s;
        }
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        if whole.recording.counts.of_cpus {
            return Judgement::none("CPUs were watched, idle or not");
        }
        let events = &whole.recording.events;
        let timed = |attribute: &Attribute| time_of_sample_s(attribute, attribute.period).is_some();
        if !events.iter().any(|event| timed(&event.attribute)) {
            return Judgement::unknown("no event that tells CPU time: a clock, or cycles by frequency");
        }
        if events.iter().any(|event| event.attribute.overwrites) {
            return Judgement::unknown("most samples were overwritten (--overwrite)");
        }
        let Some(span_s) = whole.span_s() else {
            return Judgement::unknown("the recording does not tell how long the run took");
        };
        // What was lost or dropped ran, too.
        let with_lost = |(index, event): (usize, &crate::recording::EventCounts)| {
            let seen_s = self.seen_s.get(index).copied().unwrap_or(0.0);
            seen_s * (1.0 + (event.lost().saturating_add(event.filtered)) as f64 / event.samples.max(1) as f64)
        };
        let used_s = events.iter().enumerate().map(with_lost).fold(0.0, f64::max);
        // A rate of few samples in the run tells nothing, nor does a run of which perf recorded a part (-D).
        let each_s =
            events.iter().filter_map(|event| time_of_sample_s(&event.attribute, event.attribute.period)).fold(f64::MAX, f64::min);
        let is_delayed = options(&whole.recording.features.command).iter().any(|option| option.name == "delay");
        if is_delayed || span_s < MIN_EXPECTED * each_s {
            return Judgement::unknown(match is_delayed {
                true => "perf recorded a part of the run (--delay)".into(),
                false => format!("one sample in {} is too few for a run of {}", time_s(each_s), time_s(span_s)),
            });
        }
        let leaves_out = |attribute: &Attribute| attribute.exclude_kernel || attribute.exclude_user;
        let is_whole = events.iter().any(|event| timed(&event.attribute) && !leaves_out(&event.attribute));
        let unused = (1.0 - used_s / span_s).clamp(0.0, 1.0);
        if !is_whole && unused >= 0.5 {
            return Judgement::unknown(format!(
                "{} of a run of {} were in the mode that was recorded; the mode that was left out may have used the rest",
                time_s(used_s),
                time_s(span_s)
            ));
        }
        Judgement::measured(
            unused,
            format!("{} of CPU time in a run of {} ({})", time_s(used_s), time_s(span_s), share(used_s / span_s)),
            "the profile is of the little that ran; where the time went (waiting, sleeping, another process) it does not say",
            "perf trace -s or perf sched record -- COMMAND for what it waits for; perf record -p PID where another process does the work",
        )
    }
}

/// Samples that a run of CPU time alone would have had, at least.
const MIN_EXPECTED: f64 = 20.0;

/// CPU time between two samples: of clocks their period, of cycles by frequency one in so many of a second.
fn time_of_sample_s(attribute: &Attribute, period: Option<u64>) -> Option<f64> {
    // A member of a group that another event samples has no period of its own.
    if !attribute.is_clock_or_counter() || attribute.period == Some(0) {
        return None;
    }
    match (attribute.needs_no_counter(), attribute.frequency) {
        (true, frequency) => period.map(|ns| ns as f64 * 1e-9).or_else(|| Some(1.0 / frequency.filter(|hz| *hz > 0)? as f64)),
        (false, Some(frequency)) if is_cycles(attribute) && frequency > 0 => Some(1.0 / frequency as f64),
        _ => None,
    }
}

fn is_cycles(attribute: &Attribute) -> bool {
    attribute.generic_name() == Some("cycles")
}
