//! What predictions for another machine need, from one run of the program under that machine's model.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::Result;
use perftax_doc::{Estimate, LeftOut, Mechanism, Warning};
use perftax_doc::{Origin, WorkloadProfile};
use perftax_lab::published::Published;
use perftax_lab::simulation::{Brought, Guest, Installation, simulate, summary};
use perftax_model::Event;
use perftax_model::machine::{Handler, Mechanism as Unit};
use perftax_model::run::{Outcome, Request, Sampling};
use perftax_model::unit::LONGEST_PERIOD;
use perftax_pmu::Error;

use crate::asked::{CostQuery, PredictionInput, published};
use crate::target::Target;

/// The plugin, where nothing stands beside the program (build.rs).
#[cfg(embedded_plugin)]
const PLUGIN: Option<&[u8]> = Some(include_bytes!(env!("PERFTAX_PLUGIN_FILE")));
#[cfg(not(embedded_plugin))]
const PLUGIN: Option<&[u8]> = None;

/// qemu-user and the plugin: the system's, else what came with us and with the emulated machine.
pub fn installation() -> perftax_pmu::Result<Installation> {
    // A machine of another version's has none for us, and the same remedy: to install ours.
    let emulator = || perftax_vm::bundle::user_emulator().ok().flatten();
    Installation::find(&Brought { plugin: PLUGIN, qemu: Some(emulator) })
}

/// Finds the published cost, and counts the program's events in the model: both of the same machine.
pub fn resolve(wanted: &CostQuery, target: &Target, origin: &mut Origin) -> Result<PredictionInput> {
    let argument =
        |argument, value: &str, needed: String| anyhow::Error::from(Error::Argument { argument, value: value.into(), needed });
    let Some(name) = wanted.cost.machine.as_deref() else {
        return Err(argument("--counts-from", "sim", "--machine NAME as well: the machine to model".into()));
    };
    if wanted.cost.count_of.is_some() {
        return Err(argument("--counts-from", "sim", "no --count-of: the simulation counts".into()));
    }
    let described = Published::load(name)?;
    let model = described.model()?;
    let (event_name, event) = match wanted.event {
        Some(text) => (text.to_string(), Event::parse(text).map_err(|error| argument("-e", text, error.to_string()))?),
        None => usual(&described)
            .ok_or_else(|| argument("--machine", name, "a machine with a published cost of pebs or ibs samples".into()))?,
    };
    // IBS samples operations or fetches and nothing else, and nothing else samples these.
    let (mechanism, unit) = match event {
        Event::DispatchedOps => (Mechanism::IbsOp, Unit::IbsOp),
        Event::Fetches => (Mechanism::IbsFetch, Unit::IbsFetch),
        _ => (Mechanism::Pebs, Unit::Pebs),
    };
    let mut priced = published(&described, name, mechanism, origin)?;
    let sampling = |mechanism, period| Sampling { mechanism, event, period, buffer_bytes: None, handler: Handler::Copies };
    // Some classes are counted only where they are sampled: an interrupt that never comes does it.
    let counting = sampling(Unit::Interrupt, LONGEST_PERIOD);
    let request = Request { sampling: Some(counting), caches: true, profile: true, ..Request::counting(model.clone()) };
    let guest = Guest { silent: true, ..target.guest()? };
    crate::progress::announce(&format!("counting on the modelled {name}: one run in qemu-user, some times slower than here"));
    let simulated = simulate(&installation()?, &guest, &request)?;
    let Some(outcome) = &simulated.outcome else {
        return Err(simulated.without(&guest.argv[0].to_string_lossy()).into());
    };
    priced.cost.pollution_ns = pollution(outcome, &Request { sampling: Some(sampling(unit, 1)), ..request.clone() });
    warn(&simulated, name, origin);
    let workload = workload(outcome, &request, &event_name, event, &guest.argv);
    Ok(PredictionInput { event_name, mechanism, left_out: LeftOut::Nothing, priced, cpus: 1, workload, work: None })
}

/// The event that the machine's first published cost is of.
fn usual(described: &Published) -> Option<(String, Event)> {
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

fn warn(simulated: &perftax_lab::simulation::Simulated, name: &str, origin: &mut Origin) {
    let mut warn = |message: String, remedy: &str| {
        origin.warnings.push(Warning::Other { message, remedy: remedy.into() });
    };
    warn(
        format!("elapsed time and counts are those of the modelled {name}: the interval is that of the cost of a sample alone"),
        "perftax verify on the machine itself",
    );
    if simulated.forked {
        warn(
            "the program forked: what its children did was not counted".into(),
            "predict the program that does the work, not a shell or driver around it",
        );
    }
    if simulated.code != 0 {
        warn(format!("the program ended with code {}", simulated.code), "");
    }
}

#[cfg(test)]
mod tests {
    use toml::Table;

    /// `plugin.toml` is what the plugin is built by where perftax is a package of its own (build.rs).
    #[test]
    fn a_package_builds_the_plugin_of_the_workspace() {
        let read = |path: &str| -> Table {
            let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
            toml::from_str(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))).unwrap()
        };
        let (mut workspace, packaged, plugin) =
            (read("../../Cargo.toml"), read("plugin.toml"), read("../perftax-sim-plugin/Cargo.toml"));
        let workspace = workspace["workspace"].as_table_mut().unwrap();
        let shared = workspace["dependencies"].as_table_mut().unwrap();
        for dependency in shared.iter_mut().filter_map(|(_, value)| value.as_table_mut()) {
            dependency.remove("path");
        }
        // A version alone may be written without its table.
        let full = |value: &toml::Value| match value {
            toml::Value::String(version) => Table::from_iter([("version".to_owned(), version.as_str().into())]),
            other => other.as_table().unwrap().clone(),
        };
        let of = |dependencies: &toml::Value, from: Option<&Table>| -> Vec<(String, Table)> {
            let all = dependencies.as_table().unwrap().iter();
            all.map(|(name, value)| (name.clone(), full(from.map_or(value, |from| &from[name])))).collect()
        };
        assert!(plugin["dependencies"].as_table().unwrap().values().all(|value| value["workspace"].as_bool() == Some(true)));
        assert_eq!(of(&packaged["dependencies"], None), of(&plugin["dependencies"], Some(shared)));
        assert_eq!(packaged["lib"], plugin["lib"]);
        for key in ["version", "edition"] {
            assert_eq!(packaged["package"][key], workspace["package"][key]);
        }
        assert_eq!(packaged["package"]["license"], plugin["package"]["license"]);
    }
}
