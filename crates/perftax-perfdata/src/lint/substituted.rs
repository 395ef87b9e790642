//! Whether the event that was asked for is the one that was recorded: without a PMU, perf record takes the clock instead of cycles, and says so with -v only.

use super::check::{Check, Judgement, Rule, Unit, Whole};
use crate::recording::command_line::{event_lists, options};
use perftax_doc::words::{count, named};

pub(super) struct Substituted;

static RULE: Rule = Rule {
    name: "substituted",
    measures: "events or rates recorded instead of the ones asked for",
    unit: Unit::Count,
    warning: Some(1.0),
    error: Some(1.0),
    source: "perf's evsel__fallback (cycles without a PMU becomes cpu-clock) and record_opts__config_freq (a frequency above the limit)",
};

impl Check for Substituted {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        // It samples what it is told to, or says what it takes; its rate is the budget's, and no more than what was asked for.
        if whole.recording.features.perf_version.starts_with("perftax ") {
            return Judgement::none("the recorder says itself what it takes");
        }
        let Some(command) = whole.perf_record() else {
            return Judgement::unknown("the header has no perf record command line to compare with");
        };
        let asked: Vec<AskedEvent> = asked(command);
        let clocks: Vec<&str> = whole
            .recording
            .events
            .iter()
            .filter(|event| event.attribute.is_clock())
            .map(|event| event.name.as_str())
            .skip(asked.iter().filter(|event| event.is_clock()).count())
            .collect();
        let wanted: Vec<&str> = asked.iter().map(|event| event.name.as_str()).filter(|name| is_cycles(name)).collect();
        if !clocks.is_empty() && (asked.is_empty() || !wanted.is_empty()) {
            let by_default = asked.is_empty();
            let (what, remedy) = match by_default {
                true => (
                    "perf record samples cycles by default; this has".to_string(),
                    "record where there is a PMU, or ask for it: -e cpu-clock",
                ),
                false => (
                    format!("{} was asked for, recorded was", named(&wanted)),
                    "record where there is a PMU, or ask for the clock: -e cpu-clock",
                ),
            };
            return Judgement::measured(
                clocks.len() as f64,
                format!("{what} {}, a timer of the kernel", named(&clocks)),
                "time, not cycles: no precise address, code with interrupts off is charged to where they go on again",
                remedy,
            )
            // Nobody named the event.
            .a_warning_at_most(by_default);
        }
        let has_own_rate = |event: &AskedEvent| event.name.contains("freq=") || event.name.contains("period=");
        if let Some((asked, recorded)) = lowered_rate(whole, command).filter(|_| !asked.iter().any(has_own_rate)) {
            return Judgement::measured(
                1.0,
                format!("{} samples a second were asked for, recorded with {}", count(asked), count(recorded)),
                "fewer samples than was planned: what is short is seen less often",
                "sudo sysctl kernel.perf_event_max_sample_rate=RATE, or a lower -F; --strict-freq makes perf refuse",
            )
            .a_warning_at_most(true);
        }
        if let Some(event) = whole.recording.events.iter().find(|event| event.ignored_its_period()) {
            return Judgement::measured(
                1.0,
                format!(
                    "every {} events of {} were to be a sample, recorded was each of them",
                    count(event.attribute.period.unwrap_or(0)),
                    event.name
                ),
                "the recording cost as much as -c 1; counts times the period are too large",
                "perf record --no-period: with the period in samples the kernel takes each event (perf_swevent_event)",
            )
            .a_warning_at_most(true);
        }
        Judgement::none("the events are those of the command line")
    }
}

/// The frequency asked for and that of the events, where all are lower.
fn lowered_rate(whole: &Whole<'_>, command: &[String]) -> Option<(u64, u64)> {
    let asked: u64 = options(command).iter().rev().find(|option| option.name == "freq")?.value?.parse().ok()?;
    let recorded = whole.recording.events.iter().filter_map(|event| event.attribute.frequency).max()?;
    (recorded < asked).then_some((asked, recorded))
}

/// An event of the command line.
pub(super) struct AskedEvent {
    /// Without modifiers.
    pub(super) name: String,
    /// What follows the last colon or slash.
    pub(super) modifiers: String,
}

impl AskedEvent {
    fn is_clock(&self) -> bool {
        let name = self.name.split('/').next().unwrap_or_default();
        ["cpu-clock", "task-clock", "cpu_clock", "task_clock"].contains(&name)
    }
}

/// What `-e` named; empty where perf took its default.
pub(super) fn asked(command: &[String]) -> Vec<AskedEvent> {
    event_lists(command).flat_map(events).collect()
}

/// The events of one list; commas between slashes belong to an event's terms.
fn events(list: &str) -> Vec<AskedEvent> {
    let mut events: Vec<AskedEvent> = Vec::new();
    let (mut in_terms, mut behind_group, mut text) = (false, false, String::new());
    let (mut group_from, mut of_group) = (0, String::new());
    for c in list.chars().chain([',']) {
        match c {
            '/' => {
                in_terms = !in_terms;
                text.push(c);
            }
            ',' if !in_terms => {
                let whole = std::mem::take(&mut text);
                let whole = whole.trim();
                if !whole.is_empty() {
                    let is_modifiers = |m: &str| m.chars().all(|c| "ukhIGHpPSDWebR".contains(c));
                    let (name, modifiers) = match whole.rsplit_once([':', '/']).filter(|(_, m)| is_modifiers(m)) {
                        Some((name, modifiers)) if whole.contains('/') => (format!("{}/", name.trim_end_matches('/')), modifiers),
                        Some((name, modifiers)) => (name.to_string(), modifiers),
                        None => (whole.to_string(), ""),
                    };
                    events.push(AskedEvent { name, modifiers: modifiers.into() });
                }
                if std::mem::take(&mut behind_group) {
                    for event in &mut events[group_from..] {
                        event.modifiers.push_str(of_group.trim_start_matches(':'));
                    }
                }
            }
            '{' => group_from = events.len(),
            // The modifiers of a group are its members'.
            '}' => (behind_group, of_group) = (true, String::new()),
            c if behind_group => of_group.push(c),
            c => text.push(c),
        }
    }
    events
}

/// What perf falls back from.
fn is_cycles(name: &str) -> bool {
    ["cycles", "cpu-cycles", "cpu/cycles/", "cpu/cpu-cycles/"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_events() {
        let of = |list| events(list).into_iter().map(|event| (event.name, event.modifiers)).collect::<Vec<_>>();
        let pair = |name: &str, modifiers: &str| (name.to_string(), modifiers.to_string());
        assert_eq!(
            of("{cycles:u,cpu/event=1,umask=2/pp}:S,sched:sched_switch,faults,cpu/cycles/:u"),
            [
                pair("cycles", "uS"),
                pair("cpu/event=1,umask=2/", "ppS"),
                pair("sched:sched_switch", ""),
                pair("faults", ""),
                pair("cpu/cycles/", "u")
            ]
        );
    }
}
