//! What weakens a recording, whatever becomes of it, each with a remedy.

use perftax_doc::Warning;
use perftax_trace::record::{Recorded, StaysOpen};

/// Of what was recorded; `again`: how to record it anew where its probes were closed to check the price.
pub fn of(recorded: &Recorded, is_marked: bool, again: &str) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |message: String, remedy: &str| warnings.push(Warning::Other { message, remedy: remedy.into() });
    if recorded.rings == 0 && is_marked {
        let remedy = "perftax_tag.h, the crate perftax-tag, or a package for its language: perftax_begin(id), perftax_end(id); a server without marks: --tag socket:PORT";
        warn("the program marked nothing".into(), remedy);
    }
    if recorded.dropped > 0 {
        let message = format!("{} marks found no room: messages are missing, or have no end", recorded.dropped);
        warn(message, "--ring-marks with a larger power of two");
    }
    if recorded.late > 0 {
        let message = format!("{} rows came late, and count as of when they came", recorded.late);
        warn(message, "fewer other programs on this machine, or a real-time priority for perftax (chrt -f 1)");
    }
    for why in &recorded.broken {
        warn(format!("the marks of a thread are missing: {why}"), "one version of perftax_tag.h in all of the program");
    }
    if let Some(why) = &recorded.not_opened {
        let message = format!("probes and system calls were watched no more after a check of the price: {why}");
        warn(message, again);
    }
    if recorded.missing.iter().any(|name| name == "sched:sched_stat_runtime") {
        let message = "this kernel has no sched:sched_stat_runtime: what a hypervisor takes counts as on CPU".into();
        warn(message, "a kernel with CONFIG_SCHEDSTATS");
    }
    let is_least = recorded.checked.as_ref().is_some_and(|checked| checked.at_least);
    warnings.extend(recorded.stays_open.filter(|_| is_least).map(stayed_open));
    if recorded.lost > 0 {
        warnings.push(Warning::LostRecords { lost: recorded.lost });
    }
    warnings
}

/// What was found of the price lacks something, and why.
fn stayed_open(why: StaysOpen) -> Warning {
    let (why, remedy) = match why {
        StaysOpen::NoRoom => ("there are more threads than files may be open", "ulimit -n unlimited"),
        StaysOpen::TakesTurns => (
            "threads of the program follow each other on a CPU too often, or nobody knows how often",
            "the CPU time of a run without perftax tells the whole of it",
        ),
    };
    let lacks = "what recording was found to cost lacks some tens of nanoseconds a system call and a switch";
    Warning::Other { message: format!("{lacks}, since what watches them stayed open: {why}"), remedy: remedy.into() }
}
