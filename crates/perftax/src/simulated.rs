//! What predictions for another machine need, from one run of the program under that machine's model.

use anyhow::Result;
use perftax_doc::{LeftOut, Mechanism, Origin, Warning};
use perftax_lab::prediction::PredictionInput;
use perftax_lab::published::Published;
use perftax_lab::simulation::{Brought, Guest, Installation, count, usual_event};
use perftax_model::Event;
use perftax_model::machine::Mechanism as Unit;
use perftax_pmu::Error;

use crate::asked::{CostQuery, published};
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
        None => usual_event(&described)
            .ok_or_else(|| argument("--machine", name, "a machine with a published cost of pebs or ibs samples".into()))?,
    };
    // IBS samples operations or fetches and nothing else, and nothing else samples these.
    let (mechanism, unit) = match event {
        Event::DispatchedOps => (Mechanism::IbsOp, Unit::IbsOp),
        Event::Fetches => (Mechanism::IbsFetch, Unit::IbsFetch),
        _ => (Mechanism::Pebs, Unit::Pebs),
    };
    let mut priced = published(&described, name, mechanism, origin)?;
    let guest = Guest { silent: true, ..target.guest()? };
    crate::progress::announce(&format!("counting on the modelled {name}: one run in qemu-user, some times slower than here"));
    let counted = count(&installation()?, &guest, model, &event_name, event, unit)?;
    priced.cost.pollution_ns = counted.pollution_ns;
    origin.warnings.push(Warning::Other {
        message: format!(
            "elapsed time and counts are those of the modelled {name}: the interval is that of the cost of a sample alone"
        ),
        remedy: "perftax verify on the machine itself".into(),
    });
    origin.warnings.extend(counted.warnings);
    let workload = counted.workload;
    Ok(PredictionInput { event_name, mechanism, left_out: LeftOut::Nothing, priced, cpus: 1, workload, work: None })
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
