//! Instructions and cycles of messages, as documents have them.

use std::io;

use anyhow::Result;
use perftax_doc::{ExecutionSight, LongerExecution, MessageExecution, Warning};
use perftax_pmu::Error;
use perftax_pmu::event::Event;
use perftax_trace::mark_price::counters_ns;
use perftax_trace::record::{Recorded, Recording};
use perftax_trace::rings::RingCounters;
use perftax_trace::{Brief, ExecutedOfMessage, Tag, Usual};

use crate::host::Host;

/// What is counted: in user mode, which everybody may count of their own, all the time or not at all.
const EVENTS: [&str; 2] = ["instructions:uD", "cycles:u"];

/// The counters.
///
/// # Errors
/// Where this machine has none, or nothing that is watched would read them.
pub fn counters(here: &Host, tag: &Tag, kernel_noise: bool) -> Result<[Event; 2]> {
    let has_readers = *tag == Tag::Marks || tag.is_probed() || kernel_noise;
    if !has_readers {
        let needed = "marks or probes as --tag, or what the kernel does: without --no-kernel-noise, as a user who may watch CPUs";
        return Err(Error::Argument { argument: "--counters", value: "given".into(), needed: needed.into() }.into());
    }
    let [instructions, cycles] = EVENTS.map(|name| {
        let event = here.event(name)?;
        here.check_usable(&event)?;
        anyhow::Ok(event)
    });
    Ok([instructions?, cycles?])
}

/// How well they were counted.
pub fn sight(recording: &Recording, recorded: &Recorded) -> Option<ExecutionSight> {
    let executed = recorded.executed.as_ref()?;
    let mut sight =
        ExecutionSight { readings_of_cpus: executed.of_cpus, readings_in_marks: executed.in_marks, ..ExecutionSight::default() };
    for (counters, n) in &executed.rings {
        match counters {
            RingCounters::Read => sight.threads += n,
            RingCounters::None => sight.threads_without += n,
            RingCounters::Refused(errno) => {
                *sight.refused.entry(refusal(*errno as i32)).or_default() += n;
            }
        }
    }
    sight.reading_ns = recording.counters.as_ref().filter(|_| sight.threads > 0).and_then(counters_ns);
    Some(sight)
}

/// Refusals (Linux, asm-generic/errno-base.h).
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// The kernel's word for it.
fn refusal(errno: i32) -> String {
    io::Error::from_raw_os_error(errno).to_string()
}

/// What to do about it.
fn remedy(why: &str) -> &'static str {
    match why {
        _ if why == refusal(EACCES) => "sudo sysctl kernel.perf_event_paranoid=2",
        _ if why == refusal(EPERM) => {
            "of a container: a filter that lets perf_event_open through (seccomp); else more memory that may be locked: sudo sysctl kernel.perf_event_mlock_kb=4096, or ulimit -l"
        }
        _ if why == refusal(ENOENT) => "a machine with counters: perftax doctor",
        _ if why == refusal(EMFILE) || why == refusal(ENFILE) => "ulimit -n with more for the program",
        _ => "on x86-64: echo 1 | sudo tee /sys/bus/event_source/devices/cpu/rdpmc; elsewhere marks have no counts",
    }
}

/// What weakens it, each with a remedy.
pub fn warnings(sight: &ExecutionSight) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |message: String, remedy: &str| warnings.push(Warning::Other { message, remedy: remedy.into() });
    for (why, threads) in &sight.refused {
        let message = format!("{threads} threads could not have counters of their own, and their marks come without: {why}");
        warn(message, remedy(why));
    }
    for pid in &sight.filtered {
        let message = format!(
            "process {pid} has a filter of system calls, which might kill it for opening counters: its marks come without counts"
        );
        warn(
            message,
            "what may watch CPUs counts them where threads leave CPUs; or a filter that lets perf_event_open through (seccomp), and none that kills",
        );
    }
    if sight.marks_without_count > 0 {
        let message = format!("in {} marks counters did not count: others hold them", sight.marks_without_count);
        warn(message, "no other perf, fewer events beside them, sudo sysctl kernel.nmi_watchdog=0");
    }
    if sight.are_taken {
        let message = "somebody else took the counters of CPUs meanwhile: nothing was read of those from then on, and no probe beside them was seen".into();
        warn(message, "no other perf meanwhile, or without --counters");
    }
    if sight.threads_without > 0 {
        let message = format!("the marks of {} threads come without counts", sight.threads_without);
        warn(message, "perftax_tag.h of this version in all of the program; marks from Go have none");
    }
    if sight.readings_of_cpus + sight.readings_in_marks == 0 {
        warn("instructions and cycles were never read".into(), "perftax doctor says what this machine counts");
    }
    warnings
}

/// What one message executed; none where that is not known.
pub fn of_message(brief: &Brief, usual: &Usual) -> Option<MessageExecution> {
    let ExecutedOfMessage { low, high, estimate, .. } = brief.executed.known()?;
    let is_between = !brief.executed.is_exact();
    let against_usual = brief.execution().zip(usual.executed.mean()).map(|(own, usual)| {
        let longer = own.longer_than(&usual);
        LongerExecution {
            usual_instructions: usual.instructions,
            usual_cycles: usual.cycles,
            more_work_ns: longer.more_work_ns,
            slower_work_ns: longer.slower_work_ns,
            rest_ns: longer.rest_ns,
        }
    });
    Some(MessageExecution {
        instructions: estimate.instructions,
        cycles: estimate.cycles,
        instructions_between: is_between.then_some((low.instructions, high.instructions)),
        cycles_between: is_between.then_some((low.cycles, high.cycles)),
        against_usual,
    })
}
