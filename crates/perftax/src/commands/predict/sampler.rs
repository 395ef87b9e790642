//! Tools that record samples: `perf record`, `perf mem record`, `perf c2c record`. Each event is priced by its calibration; where it is every system call, by a trial:
//! what a record of a call costs depends on what the call does, and a calibration has one that does nothing.

use anyhow::Result;
use perftax_cost::prediction::{RAW_TERM, Watched};
use perftax_cost::tool::{Delays, TrialPrices, sampled};
use perftax_doc::{Estimate, Mechanism, Origin, ToolPrediction, ToolSampler, ToolTerm, ToolTrial, Unpriced, Warning};
use perftax_lab::prediction::{Counting, PredictionInput};
use perftax_pmu::Error;
use perftax_pmu::event::{Event, Rate as EventRate};
use perftax_pmu::guard::online_cpus;
use perftax_tools::{Chain, Instead, Rate, Recording, ToolLine};

use super::{Args, calls, rate, tool, tried};
use crate::host::{Host, kernel_says};
use crate::measured::price;
use crate::perf_line::{carried, events, sized};
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
        priced
            .push(perftax_lab::prediction::SampleCost { cost: sized(calibrated.cost, recording, event.mechanism), ..calibrated });
    }
    let countings: Vec<Counting> = events.iter().map(counting).collect();
    let mut counted: Vec<Event> = Vec::new();
    for counting in &countings {
        let more = counting.events(&here.catalog)?;
        counted.extend(more.into_iter().filter(|event| counted.iter().all(|other| other.name != event.name)).collect::<Vec<_>>());
    }
    let of_cpus = line.whom.is_of_cpus();
    let trial = if is_of_every_call(&events, recording) && !of_cpus { tried_out(here, line, &mut origin)? } else { None };
    if trial.is_some() {
        let more = calls::countable(here);
        counted.extend(more.into_iter().filter(|event| counted.iter().all(|other| other.name != event.name)).collect::<Vec<_>>());
    }
    let workload = program.survey(here, counted, &mut origin)?;
    let cpus = online_cpus()?.len() as u32;
    let threads = workload.pid.map_or(1, |_| u64::from(workload.threads));
    let mut document = tool::blank(line, workload, origin);
    document.opens = Some(events.len() as u64 * u64::from(cpus) * if of_cpus { 1 } else { threads });
    let calls = trial.as_ref().and_then(|_| calls::of(program, &mut document));
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
        let bytes = bytes(here, recording, events.len(), event);
        let elapsed_s = known.workload.elapsed_s.estimate;
        document.samplers.push(ToolSampler {
            event: event.name.clone(),
            mechanism: event.mechanism,
            period,
            samples: found.samples,
            bytes_per_sample: bytes,
            bytes_per_s: found.samples.scaled(1.0 / elapsed_s).at_share(&bytes),
        });
        // What each call costs has another price then; tasks and switches have not.
        document.terms.extend(found.terms.into_iter().filter(|term| calls.is_none() || !is_of_samples(term)));
        let is_raw = matches!(event.mechanism, Mechanism::Tracepoint | Mechanism::Uprobe);
        if is_raw && calls.is_none() && !known.priced.cost.terms.contains_key(RAW_TERM) {
            unpriced
                .push(Unpriced { what: event.name.clone(), why: "what each of its samples carries was not calibrated".into() });
        }
    }
    if let (Some(trial), Some(calls)) = (&trial, &calls) {
        let prices = TrialPrices::of(trial);
        document.terms.extend(calls::terms(calls, &prices, &document.workload));
        document.around_s = prices.around_s();
    }
    document.trial = trial.filter(|_| calls.is_some());
    document.unpriced = unpriced;
    Ok(document)
}

/// Whether all that is recorded is each system call, and nothing of the program's own beside it: its callers may be deeper than known work's.
fn is_of_every_call(events: &[Event], recording: &Recording) -> bool {
    let is_plain = recording.chain.is_none() && !recording.branches && recording.user_registers == 0;
    is_plain && !events.is_empty() && events.iter().all(|event| calls::EVERY.contains(&event.name.as_str()))
}

/// The line around known work; none, with a word about it, where the tool is not on this machine: a calibration has a price, too.
fn tried_out(here: &Host, line: &ToolLine, origin: &mut Origin) -> Result<Option<ToolTrial>> {
    let tried = tried::tried_out(here, line, Instead::default(), Delays::ItsTask, origin);
    match tried.as_ref().map_err(|error| error.downcast_ref()) {
        Err(Some(Error::Exec { program, .. })) => {
            origin.warnings.push(Warning::Other {
                message: format!(
                    "{} is not here to be tried out: system calls have the price of those that do nothing, which is the least",
                    program.display()
                ),
                remedy: "apt-get install linux-perf".into(),
            });
            Ok(None)
        }
        _ => tried.map(Some),
    }
}

/// Whether a term is of the samples themselves.
fn is_of_samples(term: &ToolTerm) -> bool {
    !["context switches", "tasks"].iter().any(|what| term.what.starts_with(what))
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

/// Bytes of a sample's record. Of call chains, stacks, branch records and texts only the program tells how many.
fn bytes(here: &Host, recording: &Recording, events: usize, event: &Event) -> Estimate {
    /// Entries of a call chain, markers of its parts with them, and of branch records: the fewest, what is usual, the most.
    const CHAIN: [f64; 3] = [3.0, 16.0, 129.0];
    const CHAIN_OF_KERNEL: [f64; 3] = [1.0, 2.0, 40.0];
    const BRANCHES: [f64; 3] = [0.0, 16.0, 32.0];
    /// Bytes of a text.
    const TEXT: [f64; 3] = [1.0, 24.0, 256.0];
    let fixed = f64::from(recording.fixed_bytes(events, event.mechanism == Mechanism::Tracepoint));
    let chain = if recording.is_kernel_chain { CHAIN_OF_KERNEL } else { CHAIN };
    let (raw, texts) = raw(here, event);
    let of = |which: usize| {
        let stack = match recording.chain {
            Some(Chain::StackCopy(bytes)) if which > 0 => f64::from(bytes),
            _ => 0.0,
        };
        let branches = if recording.branches { 16.0 + 24.0 * BRANCHES[which] } else { 0.0 };
        // Its length stands before it, and the record ends at a multiple of eight.
        let raw = if raw > 0.0 { ((4.0 + raw + texts * TEXT[which]) / 8.0).ceil() * 8.0 } else { 0.0 };
        fixed + recording.variable_bytes(chain[which], stack) + branches + raw
    };
    Estimate::new(of(1), of(0), of(2))
}

/// Bytes of what an event carries, and how many texts are in it.
fn raw(here: &Host, event: &Event) -> (f64, f64) {
    match event.mechanism {
        Mechanism::Tracepoint => {
            let (system, name) = event.name.split_once(':').unwrap_or_default();
            let name = name.split(':').next().unwrap_or_default();
            let format = here.catalog.record_format(system, name);
            format.map_or((0.0, 0.0), |format| (format.bytes().0 as f64, format.bytes().1 as f64))
        }
        // What all tracepoints begin with, and the address (kernel/trace/trace_probe.h, struct uprobe_trace_entry_head).
        Mechanism::Uprobe => (16.0, 0.0),
        _ => (0.0, 0.0),
    }
}
