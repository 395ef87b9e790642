//! The machine profile on disk: `$XDG_DATA_HOME/perftax/machines/<fingerprint>.json`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use perftax_doc::{Calibration, MachineId, MachineProfile, Origin, SCHEMA};
use perftax_pmu::machine::Machine;

use crate::output::write_atomically;

/// Where the profile of a machine is kept.
pub fn path_of(machine: &MachineId) -> PathBuf {
    perftax_folders::data("machines").join(format!("{}.json", machine.fingerprint))
}

/// The profile of a machine, if it has one.
pub fn load(machine: &MachineId) -> Result<Option<MachineProfile>> {
    let path = path_of(machine);
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(&text, &path).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read the machine profile {}", path.display())),
    }
}

/// A profile, or a single calibration as `calibrate --json` writes it, from a file that the user names.
pub fn load_file(path: &Path) -> Result<MachineProfile> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the profile {}", path.display()))?;
    if let Ok(calibration) = serde_json::from_str::<Calibration>(&text) {
        return Ok(MachineProfile {
            schema: calibration.origin.schema,
            machine: calibration.origin.machine.clone(),
            kernel: calibration.origin.kernel.clone(),
            calibrations: vec![calibration],
        });
    }
    parse(&text, path)
}

/// The prices for a recording: the profile asked for, or this machine's own; None where there is none.
pub fn asked_or_own(asked: Option<&Path>) -> Result<Option<MachineProfile>> {
    match asked {
        Some(path) => load_file(path).map(Some),
        // Nobody asked for this one: without it there are counts, and no prices.
        None => Ok(load(&Machine::here().id()).unwrap_or_else(|error| {
            anstream::eprintln!("perftax: {error:#}: nothing is priced");
            None
        })),
    }
}

/// The head of a document that belongs to the machine whose prices it uses.
pub fn origin(kind: &str, profile: Option<&MachineProfile>) -> Origin {
    let (machine, kernel) = profile.map(|p| (p.machine.clone(), p.kernel.clone())).unwrap_or_else(|| {
        let here = Machine::here();
        (here.id(), here.kernel())
    });
    crate::origin::here(kind, machine, kernel)
}

/// Adds a calibration to the machine's profile, without its raw blocks.
pub fn save(calibration: &Calibration) -> Result<PathBuf> {
    let origin = &calibration.origin;
    let mut profile = load(&origin.machine)?.unwrap_or_else(|| MachineProfile {
        schema: SCHEMA,
        machine: origin.machine.clone(),
        kernel: origin.kernel.clone(),
        calibrations: Vec::new(),
    });
    profile.insert(Calibration { blocks: Vec::new(), ..calibration.clone() });
    let path = path_of(&origin.machine);
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    }
    write_atomically(&path, format!("{}\n", serde_json::to_string_pretty(&profile)?).as_bytes())?;
    Ok(path)
}

fn parse(text: &str, path: &Path) -> Result<MachineProfile> {
    let profile: MachineProfile = serde_json::from_str(text)
        .with_context(|| format!("{} is not a machine profile: write one with perftax calibrate", path.display()))?;
    if profile.schema > SCHEMA {
        bail!("{} has schema {}, this perftax reads up to {SCHEMA}: use a newer perftax", path.display(), profile.schema);
    }
    Ok(profile)
}
