//! Tools that record samples: `perf record`, `perf mem record`, `perf c2c record`. Each event is priced by its calibration.

use anyhow::Result;
use perftax_cost::payload::{of_chain, of_stack};
use perftax_cost::prediction::{Cost, RAW_TERM, Watched};
use perftax_cost::tool::sampled;
use perftax_doc::{Estimate, Mechanism, Origin, PayloadTerm, ToolPrediction, ToolSampler, Unpriced, Warning};
use perftax_lab::prediction::{Counting, PredictionInput};
use perftax_pmu::Error;
use perftax_pmu::event::{Event, Rate as EventRate, parse_groups};
use perftax_pmu::guard::online_cpus;
use perftax_pmu::machine::Vendor;
use perftax_tools::{Chain, Rate, Recording, ToolLine};

use super::{Args, rate, tool};
use crate::host::{Host, kernel_says};
use crate::measured::price;
use crate::program::Program;

/// What it would cost.
pub(super) fn predicted(
    here: &Host,
    args: &Args,
    program: &Program,
    line: &ToolLine,
    recording: &Recording,
    mut origin: Origin,
) -> Result<ToolPrediction> {
    let mut unpriced = Vec::new();
    let events = events(here, recording, &mut origin, &mut unpriced)?;
    let carried = carried(recording);
    let mut priced = Vec::new();
    for event in &events {
        let calibrated = price(here, Some(event), event.mechanism, &carried, args.cost.profile.as_ref(), &mut origin)?;
        priced.push(perftax_lab::prediction::SampleCost { cost: sized(calibrated.cost, recording), ..calibrated });
    }
    let countings: Vec<Counting> = events.iter().map(counting).collect();
    let mut counted: Vec<Event> = Vec::new();
    for counting in &countings {
        let more = counting.events(&here.catalog)?;
        counted.extend(more.into_iter().filter(|event| counted.iter().all(|other| other.name != event.name)).collect::<Vec<_>>());
    }
    let workload = program.survey(here, counted, &mut origin)?;
    let cpus = online_cpus()?.len() as u32;
    let threads = workload.pid.map_or(1, |_| u64::from(workload.threads));
    let mut document = tool::blank(line, workload, origin);
    let of_cpus = line.whom.is_of_cpus();
    document.opens = Some(events.len() as u64 * u64::from(cpus) * if of_cpus { 1 } else { threads });
    for (index, (event, mut priced)) in events.iter().zip(priced).enumerate() {
        if index > 0 {
            // What switches and tasks cost is that of all events together: the first one's terms have it.
            let is_shared = |name: &str| name.starts_with("switch") || name.starts_with("task") || name.starts_with("exec");
            priced.cost.terms.retain(|name, _| !is_shared(name));
        }
        let known = PredictionInput {
            event_name: event.name.clone(),
            mechanism: event.mechanism,
            left_out: event.left_out(),
            priced,
            cpus,
            workload: document.workload.clone(),
            work: None,
        };
        let period = period(recording, event, &known)?;
        let mut setting = known.setting(&carried, of_cpus);
        if !of_cpus {
            setting.watched = Watched::Program { events: if recording.inherits { events.len() as u32 } else { 0 }, cpus };
        }
        let found = sampled(&known.workload, &known.priced.cost, &setting, period).map_err(|error| Error::Argument {
            argument: "--tool",
            value: format!("{} every {period}", event.name),
            needed: error.to_string(),
        })?;
        let bytes = bytes(recording, events.len(), event.mechanism, &mut unpriced);
        let elapsed_s = known.workload.elapsed_s.estimate;
        document.samplers.push(ToolSampler {
            event: event.name.clone(),
            mechanism: event.mechanism,
            period,
            samples: found.samples,
            bytes_per_sample: bytes,
            bytes_per_s: found.samples.scaled(1.0 / elapsed_s).at_share(&bytes),
        });
        document.terms.extend(found.terms);
        let is_raw = matches!(event.mechanism, Mechanism::Tracepoint | Mechanism::Uprobe);
        if is_raw && !known.priced.cost.terms.contains_key(RAW_TERM) {
            unpriced
                .push(Unpriced { what: event.name.clone(), why: "what each of its samples carries was not calibrated".into() });
        }
    }
    document.unpriced = unpriced;
    Ok(document)
}

/// The events that the line would open here: its own, or perf's default with what perf takes instead where that is not to be had.
fn events(here: &Host, recording: &Recording, origin: &mut Origin, unpriced: &mut Vec<Unpriced>) -> Result<Vec<Event>> {
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
fn carried(recording: &Recording) -> Vec<PayloadTerm> {
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
fn sized(mut cost: Cost, recording: &Recording) -> Cost {
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

fn counting(event: &Event) -> Counting {
    Counting {
        event: Some(event.clone()),
        event_name: event.name.clone(),
        is_named: true,
        mechanism: event.mechanism,
        is_elsewhere: false,
        known: None,
        work: None,
    }
}

/// Of so many events one: the line's own period, or the one that its frequency comes to in this program.
fn period(recording: &Recording, event: &Event, known: &PredictionInput) -> Result<u64> {
    let most = || kernel_says("perf_event_max_sample_rate").parse().unwrap_or(100_000);
    let wanted = match event.rate {
        Some(EventRate::Period(period)) => Rate::Period(period),
        Some(EventRate::Frequency(hz)) => Rate::Frequency(hz),
        None => recording.rate,
    };
    let hz: u64 = match wanted {
        // A tracepoint or a software event whose samples carry their period is sampled at each (kernel/events/core.c, perf_swevent_event): perf has
        // tracepoints' so.
        Rate::Period(_) if event.mechanism == Mechanism::Tracepoint => return Ok(1),
        Rate::Period(period) => return Ok(period),
        Rate::Most => most(),
        // perf takes no more than the kernel's limit, and says so.
        Rate::Frequency(hz) => hz.min(most()),
    };
    // perf samples each of a tracepoint's where no period is given (util/parse-events.c).
    if event.mechanism == Mechanism::Tracepoint && event.rate.is_none() {
        return Ok(1);
    }
    // An event that is rarer than its samples should be is sampled at each.
    Ok((rate(known) / hz as f64).round().max(1.0) as u64)
}

/// Bytes of a sample's record. Of call chains, stacks and branch records only the program tells how many.
fn bytes(recording: &Recording, events: usize, mechanism: Mechanism, unpriced: &mut Vec<Unpriced>) -> Estimate {
    /// Entries of a call chain, markers of its parts with them, and of branch records: most, and what is usual.
    const CHAIN: (f64, f64, f64) = (3.0, 16.0, 129.0);
    const BRANCHES: (f64, f64, f64) = (0.0, 16.0, 32.0);
    let is_tracepoint = mechanism == Mechanism::Tracepoint;
    let fixed = f64::from(recording.fixed_bytes(events, is_tracepoint));
    let stack = match recording.chain {
        Some(Chain::StackCopy(bytes)) => (0.0, f64::from(bytes), f64::from(bytes)),
        _ => (0.0, 0.0, 0.0),
    };
    let chain = if recording.is_kernel_chain { (1.0, 2.0, 40.0) } else { CHAIN };
    let of = |chain: f64, stack: f64, branches: f64| {
        let branches = if recording.branches { 16.0 + 24.0 * branches } else { 0.0 };
        fixed + recording.variable_bytes(chain, stack) + branches
    };
    if matches!(mechanism, Mechanism::Tracepoint | Mechanism::Uprobe) {
        let what = "bytes of a sample".to_owned();
        if unpriced.iter().all(|unpriced| unpriced.what != what) {
            let why = "what an event carries is in none of the bytes, but in its price".into();
            unpriced.push(Unpriced { what, why });
        }
    }
    Estimate::new(of(chain.1, stack.1, BRANCHES.1), of(chain.0, stack.0, BRANCHES.0), of(chain.2, stack.2, BRANCHES.2))
}
