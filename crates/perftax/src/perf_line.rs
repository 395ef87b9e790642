//! A `perf record` line, as what it opens on this machine: its events, and what its samples carry.

use std::path::Path;

use anyhow::Result;
use perftax_cost::payload::{TRACEPOINT_MORE, of_chain, of_stack};
use perftax_cost::prediction::{COUNTING_TERM, Cost, RAW_TERM, RECORD_TERM};
use perftax_doc::{Estimate, Mechanism, Origin, PayloadTerm, Unpriced, Warning};
use perftax_pmu::Error;
use perftax_pmu::event::{Event, parse_groups};
use perftax_pmu::machine::Vendor;
use perftax_tools::{Chain, Recording, Tool, ToolLine, Whom};

use crate::host::Host;
use crate::program::Program;

/// Reads a line that an argument holds; a script of bpftrace's out of its file.
pub fn read(argument: &'static str, text: &str) -> Result<ToolLine> {
    let wrong = |needed: String| Error::Argument { argument, value: format!("'{text}'"), needed };
    let mut line = ToolLine::parse(text).map_err(|error| wrong(format!("a line that can be read: {error}")))?;
    if let Tool::Bpftrace(bpftrace) = &line.tool
        && let Some(file) = &bpftrace.file
    {
        let script = std::fs::read_to_string(file).map_err(Error::file(Path::new(file)))?;
        let with_text = bpftrace.clone().with_text(&script);
        line.tool = Tool::Bpftrace(with_text.map_err(|error| wrong(format!("a script that can be read: {error}")))?);
    }
    Ok(line)
}

/// The program that a line is about: what was given, else the line's own command or process.
pub fn program(argument: &'static str, given: &Program, line: &ToolLine) -> Result<Program> {
    if given.pid.is_some() || given.target.is_given() {
        return Ok(given.clone());
    }
    let whole = || format!("'{}'", line.words.join(" "));
    match &line.whom {
        Whom::Command(words) if !words.is_empty() => Ok(given.clone().about(given.target.or_command(words))),
        Whom::Processes(pid) => {
            let needed = "one process: give the one that it is about with -p PID";
            let pid = pid.parse().map_err(|_| Error::Argument { argument, value: whole(), needed: needed.into() })?;
            Ok(given.clone().of_process(pid))
        }
        _ => Err(Error::Argument {
            argument: "COMMAND",
            value: "missing".into(),
            needed: format!(
                "a program whose cost is asked for, since {} names none: -- COMMAND, -w, -p PID, or -a for all that runs",
                whole()
            ),
        }
        .into()),
    }
}

/// The events that the line would open here: its own, or perf's default with what perf takes instead where that is not to be had.
pub fn events(here: &Host, recording: &Recording, origin: &mut Origin, unpriced: &mut Vec<Unpriced>) -> Result<Vec<Event>> {
    let only = recording.only.map(|mode| mode.modifier());
    if recording.events.is_empty() {
        return Ok(vec![usual(here, only)?]);
    }
    let mut events: Vec<Event> = Vec::new();
    for text in &recording.events {
        let named = memory(here, text);
        for group in parse_groups(&named, &here.catalog)? {
            let is_led = group.braces && named.rsplit_once('}').is_some_and(|(_, modifiers)| modifiers.contains('S'));
            if is_led {
                unpriced.push(Unpriced { what: text.clone(), why: "reading the group's other members at each sample".into() });
            }
            let sampled = if is_led { 1 } else { group.events.len() };
            for mut event in group.events.into_iter().take(sampled) {
                restrict(&mut event, only);
                // perf's own stand-in for cycles, and for no other event (util/evsel.c, evsel__fallback).
                let is_absent = event.check_supported(&here.catalog).is_err();
                if is_absent && ["cycles", "cpu-cycles"].contains(&event.name.split(':').next().unwrap_or_default()) {
                    origin.warnings.push(Warning::Other {
                        message: format!(
                            "this machine has no {}: perf samples cpu-clock instead, and so is it priced",
                            event.name
                        ),
                        remedy: "-e cpu-clock says the same".into(),
                    });
                    event = usual(here, only)?;
                }
                events.push(event);
            }
        }
    }
    for event in &events {
        here.check_usable(event)?;
    }
    Ok(events)
}

/// What perf samples where nothing else is asked for: cycles, or the clock where there are none; the user's mode alone where no more is allowed.
fn usual(here: &Host, only: Option<char>) -> Result<Event> {
    let modifier = only.map_or(String::new(), |mode| format!(":{mode}"));
    let names: &[&str] = if here.catalog.core_pmu().is_some() { &["cycles", "cpu-clock"] } else { &["cpu-clock"] };
    let mut refused = None;
    for name in names {
        for modifier in [modifier.as_str(), ":u"] {
            let event = here.event(&format!("{name}{modifier}"))?;
            match here.check_usable(&event) {
                Ok(()) => return Ok(event),
                Err(error) => refused = Some(error),
            }
        }
    }
    Err(refused.unwrap_or_else(|| anyhow::anyhow!("no event can be sampled")))
}

/// `perf mem`'s names of loads and stores, as this vendor's PMU has them.
fn memory(here: &Host, text: &str) -> String {
    match (text, here.catalog.vendor()) {
        ("mem-loads", Vendor::Intel) => "cpu/mem-loads,ldlat=30/P".into(),
        ("mem-stores", Vendor::Intel) => "cpu/mem-stores/P".into(),
        ("mem-loads" | "mem-stores", Vendor::Amd) => "ibs_op//".into(),
        _ => text.into(),
    }
}

fn restrict(event: &mut Event, only: Option<char>) {
    match only {
        Some('u') => event.modifiers.exclude_kernel = true,
        Some(_) => event.modifiers.exclude_user = true,
        None => {}
    }
}

/// What each sample carries that has a calibrated price.
pub fn carried(recording: &Recording) -> Vec<PayloadTerm> {
    let mut carried = Vec::new();
    match recording.chain {
        Some(Chain::FramePointers) => carried.push(PayloadTerm::Callchain),
        Some(Chain::StackCopy(_)) => {
            carried.extend([PayloadTerm::Callchain, PayloadTerm::UserRegisters, PayloadTerm::UserStack]);
        }
        Some(Chain::BranchRecords) | None => {}
    }
    if recording.branches {
        carried.push(PayloadTerm::Branches);
    }
    if recording.user_registers > 0 && !carried.contains(&PayloadTerm::UserRegisters) {
        carried.push(PayloadTerm::UserRegisters);
    }
    carried
}

/// How deep the program's call chains are nobody has looked at: the calibrated one has a dozen entries, programs have some three to thirty, at four hundredths of the term
/// each ([`of_chain`]).
const CHAIN_LESS: f64 = 0.45;
const CHAIN_MORE: f64 = 0.9;

/// A calibration's terms for what this line has its samples carry.
pub fn sized(mut cost: Cost, recording: &Recording, mechanism: Mechanism) -> Cost {
    if mechanism == Mechanism::Tracepoint {
        let more = |estimate: &Estimate| estimate.widened_apart(0.0, TRACEPOINT_MORE - 1.0);
        cost.alpha_ns = more(&cost.alpha_ns);
        for name in [RECORD_TERM, COUNTING_TERM, RAW_TERM] {
            cost.terms.entry(name.into()).and_modify(|term_ns| *term_ns = more(term_ns));
        }
    }
    if let Some(term_ns) = cost.terms.get(PayloadTerm::Callchain.name()).copied() {
        let chain_ns = match recording.is_kernel_chain {
            true => of_chain(&term_ns, true, None),
            false => of_chain(&term_ns, false, None).widened_apart(CHAIN_LESS, CHAIN_MORE),
        };
        cost.terms.insert(PayloadTerm::Callchain.name().into(), chain_ns);
    }
    if let (Some(Chain::StackCopy(bytes)), Some(term_ns)) =
        (recording.chain, cost.terms.get(PayloadTerm::UserStack.name()).copied())
    {
        // A shallow program has less than was asked for: the least is what any copy costs.
        let all = of_stack(&term_ns, bytes, None);
        let least = of_stack(&term_ns, bytes, Some(0.0));
        cost.terms.insert(PayloadTerm::UserStack.name().into(), Estimate { low: least.low.min(all.low), ..all });
    }
    cost
}
