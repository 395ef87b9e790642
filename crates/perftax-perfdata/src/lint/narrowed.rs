//! Whether the kernel was left out without being asked: perf adds `:u` where it may not look into the kernel.

use super::check::{Check, Judgement, Rule, Unit, Whole};
use super::substituted::{AskedEvent, asked};
use crate::recording::command_line::options;
use perftax_doc::words::named;

pub(super) struct Narrowed;

static RULE: Rule = Rule {
    name: "narrowed",
    measures: "events recorded in user mode only, though both modes were asked for",
    unit: Unit::Count,
    warning: Some(1.0),
    error: None,
    source: "perf's evsel__fallback: kernel.perf_event_paranoid of 2 and more refuses the kernel, and perf tries again with :u",
};

impl Check for Narrowed {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let Some(command) = whole.perf_record() else {
            return Judgement::unknown("the header has no perf record command line to compare with");
        };
        let is_for_all = options(command).iter().any(|option| option.name == "all-user");
        let asked = asked(command);
        let asks_for_user = |event: &AskedEvent| event.modifiers.contains(['u', 'h']);
        let recorded: Vec<_> = whole.recording.events.iter().filter(|event| !event.is_dummy()).collect();
        let mut narrowed: Vec<&str> = Vec::new();
        for (index, event) in recorded.iter().enumerate().filter(|(_, event)| event.attribute.exclude_kernel) {
            // One by one where they are as many; a wildcard may stand for several.
            let is_asked_for = match recorded.len() == asked.len() {
                true => asks_for_user(&asked[index]),
                false => asked.iter().any(asks_for_user),
            };
            if !is_asked_for {
                narrowed.push(&event.name);
            }
        }
        if narrowed.is_empty() || is_for_all {
            return Judgement::none("modes as asked for");
        }
        Judgement::measured(
            narrowed.len() as f64,
            format!("{} left the kernel out, which the command line did not ask for", named(&narrowed)),
            "system calls, page faults and interrupts are in no share: what spends its time there looks cheap",
            "sudo sysctl kernel.perf_event_paranoid=1 (or perf by CAP_PERFMON), and record again; or ask for it: -e EVENT:u",
        )
    }
}
