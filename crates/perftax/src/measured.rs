//! What predictions need: the cost of a sample, from wherever it is to be had, and counts of what the program does.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use perftax_cost::prediction::RAW_TERM;
use perftax_doc::{Calibration, MachineProfile, Origin};
use perftax_doc::{LeftOut, Mechanism, PayloadTerm, Warning};
use perftax_lab::calibrate::{Buffers, Depth, Goal, Spec};
use perftax_lab::prediction::{Counting, PredictionInput, SampleCost, in_profile, of_calibration};
use perftax_lab::published::Published;
use perftax_pmu::Error;
use perftax_pmu::event::Event;
use perftax_pmu::guard::online_cpus;
use perftax_pmu::machine::usual_event;
use perftax_pmu::sampler::Payload;

use crate::asked::{CostQuery, CountsFrom, published};
use crate::host::Host;
use crate::origin::now_s;
use crate::program::Program;
use crate::progress::announce;
use crate::{calibration, profile, simulated};

/// The cost out of a profile the user names, or this machine's; measured now (quickly) where there is none.
pub fn price(
    here: &Host,
    event: Option<&Event>,
    mechanism: Mechanism,
    payload: &[PayloadTerm],
    from: Option<&PathBuf>,
    origin: &mut Origin,
) -> Result<SampleCost> {
    if let Some(path) = from {
        let profile = profile::load_file(path)?;
        let found = in_profile(&profile, event, mechanism);
        let Some(found) = found else {
            bail!("{} has no calibration of {mechanism}: it has {}", path.display(), contents(&profile))
        };
        if let Some(term) = payload.iter().find(|term| !found.terms.contains_key(term.name())) {
            bail!("{} has no cost of a {term}: calibrate there without --quick", path.display())
        }
        if profile.machine.fingerprint != here.id.fingerprint {
            origin.warnings.push(Warning::ForeignProfile { profile: profile.machine.name.clone(), here: here.id.name.clone() });
        }
        return Ok(priced(found, event, origin));
    }
    let kept = profile::load(&here.id)?;
    let found = kept.as_ref().and_then(|profile| in_profile(profile, event, mechanism));
    // What a tracepoint or a probe carries is in each of its samples, asked for or not.
    let carries = matches!(mechanism, Mechanism::Tracepoint | Mechanism::Uprobe).then_some(RAW_TERM);
    let needed: Vec<&str> = payload.iter().map(|term| term.name()).chain(carries).collect();
    let lacking = found.map(|found| needed.iter().filter(|term| !found.terms.contains_key(**term)).copied().collect::<Vec<_>>());
    if let (Some(found), Some([])) = (found, lacking.as_deref()) {
        return Ok(priced(found, event, origin));
    }
    let guard = here.throttle_guard(origin)?;
    let spec = Spec {
        buffers: Buffers::default(),
        event: event.cloned(),
        mechanism,
        cpu: here.measuring_cpu(),
        depth: if needed.is_empty() { Depth::Alpha } else { Depth::Full },
        period: None,
        payload: Payload::BASIC,
        planted_bias: 0.0,
    };
    let name = event.map_or_else(|| mechanism.to_string(), |event| event.name.clone());
    let why = match lacking {
        Some(terms) => format!("this machine's calibration of {name} does not have the cost of {} yet", terms.join(", ")),
        None => format!("no calibration of {name} in this machine's profile yet"),
    };
    announce(&format!("{why}: calibrating, at most {} s", Goal::QUICK.time_limit.as_secs()));
    let outcome = calibration::run(&spec, Goal::QUICK, 1).map_err(|error| in_longer_calibration(error, &name))?;
    drop(guard);
    let document = perftax_lab::calibrate::document(&here.catalog, here.origin("calibrate"), &spec, &Goal::QUICK, outcome)?;
    profile::save(&document)?;
    origin.warnings.extend(document.origin.warnings.iter().filter(|w| matches!(w, Warning::PrecisionNotReached { .. })).cloned());
    if let Some(term) = payload.iter().find(|term| !document.terms.contains_key(term.name())) {
        return Err(Error::Unsupported {
            what: format!("price a {term} by {mechanism}"),
            why: "its arm of the calibration could not be opened or measured here".into(),
            remedy: format!("leave out --with {term}"),
        }
        .into());
    }
    Ok(priced(&document, event, origin))
}

/// A calibration that found no rest gets it in a longer one of its own: the time of this one is not for whoever asked to choose.
fn in_longer_calibration(error: anyhow::Error, name: &str) -> anyhow::Error {
    match error.downcast::<Error>() {
        Ok(Error::Discarded { why, .. }) => {
            let remedy =
                format!("quieten the machine, or calibrate for longer: perftax calibrate -e {name} --time 300; then ask again");
            Error::Discarded { why, remedy }.into()
        }
        Ok(error) => error.into(),
        Err(error) => error,
    }
}

fn priced(calibration: &Calibration, event: Option<&Event>, origin: &mut Origin) -> SampleCost {
    let (cost, warnings) = of_calibration(calibration, event, now_s());
    origin.warnings.extend(warnings);
    cost
}

fn contents(profile: &MachineProfile) -> String {
    let names: Vec<String> = profile.calibrations.iter().map(|c| c.mechanism.to_string()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Who is watched.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct WatchedChoice {
    /// Watch whole CPUs, as perf record -a does, and not the program and what it creates: nothing is inherited, and what else runs is sampled, too
    #[arg(short = 'a', long)]
    pub all_cpus: bool,
}

/// What samples carry, beside instruction pointer, thread and time.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PayloadChoice {
    /// What each sample carries: callchain, user-regs, user-stack, branch-stack; may be repeated
    #[arg(long = "with", value_name = "PAYLOAD", value_parser = PossibleValuesParser::new(PayloadTerm::ALL.map(PayloadTerm::name)).try_map(|name| name.parse::<PayloadTerm>()))]
    pub with: Vec<PayloadTerm>,
}

impl PayloadChoice {
    /// perf record's options for the same payload.
    pub fn perf_options(&self) -> Vec<String> {
        let options = self.with.iter().map(|term| match term {
            PayloadTerm::Callchain => "--call-graph=fp",
            PayloadTerm::Branches => "--branch-any",
            PayloadTerm::UserRegisters => "--user-regs=ax,bx,cx,dx,si,di,bp,sp,ip,flags,r8,r9,r10,r11,r12,r13,r14,r15",
            PayloadTerm::UserStack => "--call-graph=dwarf",
        });
        options.map(String::from).collect()
    }
}

/// Finds the cost and measures the program.
pub fn resolve(here: &Host, wanted: &CostQuery, program: &Program, origin: &mut Origin) -> Result<PredictionInput> {
    if wanted.cost.counts_from == Some(CountsFrom::Sim) {
        return simulated::resolve(wanted, &program.target, origin);
    }
    program.check()?;
    let elsewhere = wanted.cost.is_elsewhere();
    let machine = wanted.cost.machine.as_deref().map(Published::load).transpose()?;
    let (event, mechanism) = match (wanted.event, &machine) {
        (Some(text), Some(machine)) => machine.event(here.event(text).ok()),
        (Some(text), None) if elsewhere => {
            let event = here.event(text)?;
            let mechanism = event.mechanism;
            (Some(event), mechanism)
        }
        (None, Some(machine)) => (None, machine.first_mechanism()),
        (text, _) => here.choose(text, None)?,
    };
    let event_name = match (&event, wanted.event) {
        (Some(event), _) => event.name.clone(),
        (None, Some(text)) => text.to_string(),
        (None, None) => usual_event(mechanism).into(),
    };
    let counting = Counting {
        event: event.clone(),
        event_name,
        is_named: wanted.event.is_some(),
        mechanism,
        is_elsewhere: elsewhere,
        known: wanted.cost.count_of,
        work: wanted.work.map(|text| here.event(text)).transpose()?,
    };
    let counted = counting.events(&here.catalog)?;
    let priced = match wanted.cost.machine.as_deref().zip(machine.as_ref()) {
        Some((name, machine)) => published(machine, name, mechanism, origin)?,
        None => price(here, event.as_ref(), mechanism, wanted.payload, wanted.cost.profile.as_ref(), origin)?,
    };
    let mut workload = program.survey(here, counted, origin)?;
    counting.complete(&mut workload)?;
    let Counting { event_name, work, .. } = counting;
    let left_out = event.as_ref().map_or(LeftOut::Nothing, Event::left_out);
    let cpus = online_cpus()?.len() as u32;
    Ok(PredictionInput { event_name, mechanism, left_out, priced, cpus, workload, work: work.map(|work| work.name) })
}
