//! A program's events, counted in the model of another machine.

use std::collections::BTreeMap;
use std::ffi::OsString;

use perftax_doc::{Estimate, Mechanism, Warning, WorkloadProfile};
use perftax_model::Event;
use perftax_model::machine::{Handler, Machine, Mechanism as Unit};
use perftax_model::run::{Outcome, Request, Sampling};
use perftax_model::unit::LONGEST_PERIOD;
use perftax_pmu::Result;

use super::{Guest, Installation, Simulated, simulate, summary};
use crate::published::Published;

/// What one run under a model tells of a program.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The program as the model timed and counted it.
    pub workload: WorkloadProfile,
    /// What a sample's record costs the program in its caches, ns, by period.
    pub pollution_ns: Vec<(u64, f64)>,
    /// What was not seen.
    pub warnings: Vec<Warning>,
}

/// Runs a program once under a machine's model, and counts an event that `unit` would sample there.
///
/// # Errors
/// Where it cannot be run, or ends without an outcome.
pub fn count(
    installation: &Installation,
    guest: &Guest,
    model: &Machine,
    event_name: &str,
    event: Event,
    unit: Unit,
) -> Result<Counted> {
    let sampling = |mechanism, period| Sampling { mechanism, event, period, buffer_bytes: None, handler: Handler::Copies };
    // Some classes are counted only where they are sampled: an interrupt that never comes does it.
    let counting = sampling(Unit::Interrupt, LONGEST_PERIOD);
    let request = Request { sampling: Some(counting), caches: true, profile: true, ..Request::counting(model.clone()) };
    let simulated = simulate(installation, guest, &request)?;
    let Some(outcome) = &simulated.outcome else {
        return Err(simulated.without(&guest.argv[0].to_string_lossy()));
    };
    Ok(Counted {
        workload: workload(outcome, &request, event_name, event, &guest.argv),
        pollution_ns: pollution(outcome, &Request { sampling: Some(sampling(unit, 1)), ..request.clone() }),
        warnings: warnings(&simulated),
    })
}

/// The event that the machine's first published cost is of.
pub fn usual_event(described: &Published) -> Option<(String, Event)> {
    described.costs.iter().find_map(|cost| {
        let event = match cost.mechanism {
            Mechanism::Pebs => Event::parse(&cost.event).ok()?,
            Mechanism::IbsOp => Event::DispatchedOps,
            Mechanism::IbsFetch => Event::Fetches,
            _ => return None,
        };
        Some((cost.event.clone(), event))
    })
}

/// The program as the model timed and counted it. Nothing here varies, so that nothing has an interval of its own.
fn workload(outcome: &Outcome, request: &Request, event_name: &str, event: Event, argv: &[OsString]) -> WorkloadProfile {
    let run = summary(outcome, request);
    let events: u64 = outcome.cores.iter().map(|core| core.counts[event]).sum();
    let busy: Vec<Estimate> = run.cores.iter().map(|core| Estimate::exact(core.elapsed_s)).collect();
    WorkloadProfile {
        command: argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        pid: None,
        elapsed_s: Estimate::exact(run.elapsed_s),
        cpu_s: Estimate::exact(busy.iter().map(|core| core.estimate).sum()),
        cpu_s_per_cpu: busy,
        threads: outcome.threads.len() as u32,
        tasks: None,
        code: None,
        switches: Estimate::exact(0.0),
        faults: Estimate::exact(0.0),
        max_rss_bytes: 0,
        counts: BTreeMap::from([(event_name.to_string(), Estimate::exact(events as f64))]),
        variation: 0.0,
        runs: Vec::new(),
    }
}

/// What a sample's record costs the first core's program in its caches, ns, by period: from every sample to one in the run.
fn pollution(outcome: &Outcome, request: &Request) -> Vec<(u64, f64)> {
    let (Some(profile), Some(core), Some(sampling)) = (&outcome.profile, outcome.cores.first(), request.sampling) else {
        return Vec::new();
    };
    let events = core.counts[sampling.event];
    let periods = (0..u64::BITS - events.leading_zeros()).map(|bits| 1u64 << bits);
    let at = |period: u64| {
        let samples = (events / period).max(1);
        (period, 1e9 * profile.pollution_s(&request.machine, &request.streams(samples)) / samples as f64)
    };
    if request.buffer().is_none() { Vec::new() } else { periods.map(at).collect() }
}

fn warnings(simulated: &Simulated) -> Vec<Warning> {
    let forked = simulated.forked.then(|| Warning::Other {
        message: "the program forked: what its children did was not counted".into(),
        remedy: "predict the program that does the work, not a shell or driver around it".into(),
    });
    let failed = (simulated.code != 0)
        .then(|| Warning::Other { message: format!("the program ended with code {}", simulated.code), remedy: String::new() });
    forked.into_iter().chain(failed).collect()
}
