//! System calls of a program, by what a tool fetches of each: how many there are, and what stands for them in a trial.

use perftax_cost::tool::{Delays, TrialPrices, term};
use perftax_doc::{Estimate, ToolPrediction, ToolTerm, TrialStage, Warning, WorkloadProfile};
use perftax_lab::tool::{BUFFERS, Calls, PATHS, count_calls};
use perftax_pmu::event::Event;

use crate::host::Host;
use crate::program::Program;
use crate::progress::announce;

/// The tracepoints that every system call passes.
pub(super) const EVERY: [&str; 2] = [ENTER, "raw_syscalls:sys_exit"];
/// The one that counts them.
const ENTER: &str = "raw_syscalls:sys_enter";
/// What tracepoints of single calls begin with.
const ENTERED: &str = "syscalls:sys_enter_";

/// What of system calls may be counted here: nothing, or all of them and each that takes a path or a buffer, as far as this kernel has it.
pub(super) fn countable(here: &Host) -> Vec<Event> {
    let usable = |name: &str| here.event(name).ok().filter(|event| here.check_usable(event).is_ok());
    let Some(all) = usable(ENTER) else { return Vec::new() };
    let kinds = PATHS.iter().chain(&BUFFERS).filter_map(|call| here.event(&format!("{ENTERED}{call}")).ok());
    std::iter::once(all).chain(kinds).collect()
}

/// System calls of a run: counted by the kernel, or, for whoever may not have that, by a run under strace.
pub(super) fn of(program: &Program, document: &mut ToolPrediction) -> Option<Calls> {
    let counts = &mut document.workload.counts;
    if let Some(all) = counts.get(ENTER).map(|count| count.estimate) {
        let of_kinds = counts.iter().filter_map(|(name, count)| Some((name.strip_prefix(ENTERED)?, count.estimate)));
        let calls = Calls::of(of_kinds, Some(all));
        counts.retain(|name, _| !name.starts_with(ENTERED));
        counts.insert("system calls with a path".into(), Estimate::exact(calls.paths));
        counts.insert("system calls with a buffer".into(), Estimate::exact(calls.buffers));
        return Some(calls);
    }
    if program.pid.is_some() {
        return None;
    }
    let command = program.target.command().ok()?;
    announce("system calls may not be counted by the kernel here: one run under strace -c counts them");
    let calls = count_calls(&command.spec.argv, command.spec.directory.as_deref());
    let calls = calls.inspect_err(|error| {
        document.origin.warnings.push(Warning::Other {
            message: format!("system calls were not counted: {}", error.to_string().lines().next().unwrap_or_default()),
            remedy: "apt-get install strace; or as root, where the kernel counts them".into(),
        });
    });
    let calls = calls.ok()?;
    document.workload.counts.insert("system calls (strace -c)".into(), Estimate::exact(calls.all));
    Some(calls)
}

/// The kinds: what they are called, how many there are, and the stage of a trial that makes such.
pub(super) fn kinds(calls: &Calls) -> [(&'static str, Estimate, TrialStage); 3] {
    [
        ("system calls with a path", Estimate::exact(calls.paths), TrialStage::Paths),
        ("system calls with a buffer", Estimate::exact(calls.buffers), TrialStage::Reads),
        ("other system calls", Estimate::exact(calls.bare()), TrialStage::Calls),
    ]
}

/// What the program's code loses to them; none where that was not tried out.
pub(super) fn own_term(calls: &Calls, prices: &TrialPrices<'_>, workload: &WorkloadProfile, delays: Delays) -> Option<ToolTerm> {
    let gap_ns = workload.cpu_s.estimate * 1e9 / calls.all.max(1.0);
    let own_ns = prices.own_of_call_ns(gap_ns, workload.code_pages())?;
    (calls.all > 0.0).then(|| term("what code loses to system calls", &Estimate::exact(calls.all), &own_ns, delays, workload))
}

/// What they cost the tasks that make them, kind by kind, at a trial's prices.
pub(super) fn terms(calls: &Calls, prices: &TrialPrices<'_>, workload: &WorkloadProfile) -> Vec<ToolTerm> {
    let of = |(what, count, stage): (&str, Estimate, TrialStage)| {
        Some(term(what, &count, &prices.unit_ns(stage)?, Delays::ItsTask, workload))
    };
    let own = own_term(calls, prices, workload, Delays::ItsTask);
    kinds(calls).into_iter().filter(|(_, count, _)| count.high > 0.0).filter_map(of).chain(own).collect()
}
