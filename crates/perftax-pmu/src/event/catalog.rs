//! What a machine names: its PMUs in sysfs, its tracepoints in tracefs, its maker.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::machine::intel::Generation;
use crate::machine::{Cpu, Root, Vendor, cpu_list};
use crate::sys::libpfm::{self, Libpfm};

use super::format::FormatField;

/// Where tracefs is mounted, the newer place first.
const TRACEFS_PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// One directory of `/sys/bus/event_source/devices`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pmu {
    /// Its name: `cpu`, `ibs_op`, `uncore_imc_0`.
    pub name: String,
    /// `perf_event_attr.type`.
    pub pmu_type: u32,
    /// Whether it counts what a core does (as opposed to uncore, power, trace units).
    pub is_core: bool,
    /// `format/`: the terms and their bits.
    pub formats: BTreeMap<String, FormatField>,
    /// Those of `format/` whose bits are not read: in a word of the attribute that came after this was written, as `config5:0-3`. A term of them is refused.
    pub unread_formats: BTreeMap<String, String>,
    /// `events/`: alias names and their terms.
    pub aliases: BTreeMap<String, String>,
    /// `caps/`: name and text, such as `max_precise` and `3`.
    pub caps: BTreeMap<String, String>,
    /// The CPUs that it belongs to (`cpus`), where it does not belong to all.
    pub cpus: Option<String>,
}

/// Everything that event names of one machine are resolved against.
#[derive(Clone, Debug)]
pub struct Catalog {
    devices: PathBuf,
    tracefs: Option<PathBuf>,
    vendor: Vendor,
    /// The CPU's generation, where it is Intel's and known.
    generation: Option<&'static Generation>,
    pmus: Vec<Pmu>,
    /// File name of libpfm, and the library once a name needed it.
    libpfm: (String, Arc<OnceLock<Result<Libpfm, String>>>),
}

impl Catalog {
    /// This machine, as `/sys`, tracefs (where mounted) and `/proc/cpuinfo` describe it. Mounts nothing.
    pub fn of_this_machine() -> Self {
        let tracefs = TRACEFS_PLACES.iter().map(PathBuf::from).find(|place| is_tracefs(place));
        let mut catalog = Self::at(Path::new("/sys"), tracefs);
        let cpu = Cpu::read(&Root::here());
        catalog.vendor = cpu.vendor;
        catalog.generation = Generation::of_model(cpu.family, cpu.model).filter(|_| cpu.vendor == Vendor::Intel);
        catalog
    }

    /// A machine described by the directory that stands for `/sys`, and the one that stands for tracefs. The vendor
    /// is taken from the PMUs; see [`Self::with_vendor`].
    pub fn at(sysfs: &Path, tracefs: Option<PathBuf>) -> Self {
        let devices = sysfs.join("bus/event_source/devices");
        let pmus: Vec<Pmu> = entries(&devices).into_iter().filter_map(|name| Pmu::read(&devices.join(&name), name)).collect();
        let vendor = vendor_of(&pmus);
        Self { devices, tracefs, vendor, generation: None, pmus, libpfm: (libpfm::LIBRARY.into(), Arc::default()) }
    }

    /// The same machine with another maker's CPU: decides what a precise event means where no PMU tells.
    pub fn with_vendor(mut self, vendor: Vendor) -> Self {
        self.vendor = vendor;
        self
    }

    /// The same machine with another library file in the place of libpfm.so.4.
    pub fn with_libpfm(mut self, file: &str) -> Self {
        self.libpfm = (file.into(), Arc::default());
        self
    }

    /// libpfm, loaded at the first call.
    ///
    /// # Errors
    /// Why it could not be loaded, in the loader's words.
    pub fn libpfm(&self) -> Result<&Libpfm, &str> {
        let (file, library) = &self.libpfm;
        library.get_or_init(|| Libpfm::load(file)).as_ref().map_err(String::as_str)
    }

    /// The maker of the CPU.
    pub fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// The microarchitecture of the cores of [`Self::core_pmu`]; empty where it is not known.
    pub fn cores(&self) -> &'static str {
        let core = self.generation.zip(self.core_pmu()).and_then(|(generation, pmu)| generation.core(&pmu.name));
        core.map_or("", |core| core.microarchitecture)
    }

    /// The directory that lists the PMUs.
    pub fn devices(&self) -> &Path {
        &self.devices
    }

    /// Where tracefs is mounted, if it is.
    pub fn tracefs(&self) -> Option<&Path> {
        self.tracefs.as_deref()
    }

    /// Every PMU, by name.
    pub fn pmus(&self) -> &[Pmu] {
        &self.pmus
    }

    /// The PMU of that name.
    pub fn pmu(&self, name: &str) -> Option<&Pmu> {
        self.pmus.iter().find(|pmu| pmu.name == name)
    }

    /// The PMU with that `perf_event_attr.type`.
    pub fn pmu_of_type(&self, pmu_type: u32) -> Option<&Pmu> {
        self.pmus.iter().find(|pmu| pmu.pmu_type == pmu_type)
    }

    /// The PMU that generic hardware events run on: `cpu`, or the first of the core PMUs.
    pub fn core_pmu(&self) -> Option<&Pmu> {
        self.pmu("cpu").or_else(|| self.pmu("cpu_core")).or_else(|| self.pmus.iter().find(|pmu| pmu.is_core))
    }

    /// The core PMUs: one, or one for each kind of core, that of the performance cores first.
    pub fn core_pmus(&self) -> Vec<&Pmu> {
        let mut pmus: Vec<&Pmu> = self.pmus.iter().filter(|pmu| pmu.is_core).collect();
        pmus.sort_by_key(|pmu| !matches!(pmu.name.as_str(), "cpu" | "cpu_core"));
        pmus
    }

    /// The core PMU to which all of these CPUs belong: the only one, or of several that whose list has them all.
    pub fn core_pmu_of(&self, cpus: &[u32]) -> Option<&Pmu> {
        let core_pmus = self.core_pmus();
        let of_all = |pmu: &&&Pmu| {
            let own = cpu_list(pmu.cpus.as_deref().unwrap_or_default());
            !cpus.is_empty() && cpus.iter().all(|cpu| own.contains(cpu))
        };
        match core_pmus.as_slice() {
            [only] => Some(only),
            several => several.iter().find(of_all).copied(),
        }
    }
}

impl Pmu {
    fn read(dir: &Path, name: String) -> Option<Self> {
        let pmu_type = text(&dir.join("type"))?.parse().ok()?;
        let (mut formats, mut unread_formats) = (BTreeMap::new(), BTreeMap::new());
        for field in entries(&dir.join("format")) {
            let Some(bits) = text(&dir.join("format").join(&field)) else { continue };
            match FormatField::parse(&bits) {
                Some(parsed) => drop(formats.insert(field, parsed)),
                None => drop(unread_formats.insert(field, bits)),
            }
        }
        let aliases = entries(&dir.join("events")).into_iter().filter(|alias| !is_alias_detail(alias));
        let aliases = aliases.filter_map(|alias| text(&dir.join("events").join(&alias)).map(|terms| (alias, terms)));
        let caps = entries(&dir.join("caps")).into_iter();
        let caps = caps.filter_map(|cap| text(&dir.join("caps").join(&cap)).map(|value| (cap, value)));
        // "cpu" on x86 with one kind of core; elsewhere core PMUs, and only they, have a `cpus` file (an uncore
        // PMU has `cpumask`).
        let cpus = text(&dir.join("cpus"));
        let is_core = is_core_name(&name) || cpus.is_some();
        let (aliases, caps) = (aliases.collect(), caps.collect());
        Some(Self { pmu_type, is_core, formats, unread_formats, aliases, caps, cpus, name })
    }

    /// The highest precise level, where sysfs tells it (`caps/max_precise`, x86).
    pub fn max_precise(&self) -> Option<u8> {
        self.caps.get("max_precise")?.parse().ok()
    }
}

/// Whether a PMU of this name is an x86 core's: of all cores, or of a kind on hybrid processors (arch/x86/events/intel/core.c, `intel_hybrid_pmu_type_map`).
pub(super) fn is_core_name(name: &str) -> bool {
    matches!(name, "cpu" | "cpu_core" | "cpu_atom" | "cpu_lowpower")
}

/// `energy-cores.scale` and the like describe the alias `energy-cores`.
fn is_alias_detail(alias: &str) -> bool {
    [".scale", ".unit", ".per-pkg", ".snapshot"].iter().any(|suffix| alias.ends_with(suffix))
}

/// Names in a directory, sorted; none where it cannot be read.
pub(super) fn entries(dir: &Path) -> Vec<String> {
    let Ok(found) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> = found.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

/// Mounted and, where its mode keeps us out, still told apart from an empty mount point.
fn is_tracefs(place: &Path) -> bool {
    match fs::metadata(place.join("events")) {
        Ok(events) => events.is_dir(),
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied && place.starts_with("/sys/kernel/tracing"),
    }
}

fn vendor_of(pmus: &[Pmu]) -> Vendor {
    let has = |test: &dyn Fn(&Pmu) -> bool| pmus.iter().any(test);
    if has(&|pmu| pmu.name.starts_with("ibs_") || pmu.name.starts_with("amd_")) {
        Vendor::Amd
    } else if has(&|pmu| pmu.name.starts_with("arm")) {
        Vendor::Arm
    } else if has(&|pmu| pmu.name == "cpu_core" || pmu.name.starts_with("intel_") || pmu.formats.contains_key("offcore_rsp")) {
        Vendor::Intel
    } else {
        Vendor::Other
    }
}

/// Reads a number from one of the catalog's files.
///
/// # Errors
/// `File` where it cannot be read, `Malformed` where it holds no number.
pub(super) fn number_in(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path).map_err(Error::file(path))?;
    text.trim().parse().map_err(|_| Error::Malformed {
        what: path.display().to_string(),
        offset: 0,
        why: format!("'{}' is not a number", text.trim()),
    })
}
