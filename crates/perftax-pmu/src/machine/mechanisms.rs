//! Which mechanisms work here, each probed.

use perftax_doc::Mechanism;
use serde::{Serialize, Serializer};

use super::{Beyond, Machine, PARANOID, Privilege, Refusal, Right, Trial, Vendor};

/// What came of opening an event of a mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The kernel opened this event: the widest of those that the mechanism is used with where none is named.
    Opened(String),
    /// Refused.
    Refused {
        /// Why.
        why: String,
        /// What helps.
        remedy: String,
    },
    /// Nobody tried: what sysfs says stands.
    NotTried,
}

/// Tries things on the kernel that no file tells.
pub trait Probe {
    /// Opens a sampling event of the mechanism on this process and closes it again.
    fn open(&self, _mechanism: Mechanism) -> Opening {
        Opening::NotTried
    }

    /// Tries a right out.
    fn may(&self, _right: Right) -> Trial {
        Trial::NotTried
    }

    /// Whether a counted cpu-clock counts; `None` where nobody tried, or could not.
    fn counts_the_clock(&self) -> Option<bool> {
        None
    }

    /// Whether an interrupt comes where a counter of this event (in perf's syntax) overflows: some clouds pass counters through without. `None` where nobody tried, or could not.
    fn interrupts(&self, _event: &str) -> Option<bool> {
        None
    }

    /// How often the kernel's timers fire at most, ns; `None` where nobody asked.
    fn timer_resolution_ns(&self) -> Option<u64> {
        None
    }

    /// How many breakpoints can be opened at once; `None` where nobody tried.
    fn breakpoint_slots(&self) -> Option<u32> {
        None
    }
}

/// Believes the files and tries nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilesOnly;

impl Probe for FilesOnly {}

/// Whether a mechanism works here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MechanismStatus {
    /// Which one.
    #[serde(rename = "name", serialize_with = "by_name")]
    pub mechanism: Mechanism,
    /// Whether it can take samples in this process.
    pub available: bool,
    /// The event that it is used with where none is named, as far as this process may: `cpu-clock`, or `cpu-clock:u` where the kernel's mode is not
    /// for it. Empty where the mechanism needs an argument (an address, a place in a program), is not available, or was not tried.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// The fact that forbids it; empty where nothing does.
    pub why_not: String,
    /// What helps: a command where there is one; empty where nothing does.
    pub remedy: String,
}

fn by_name<S: Serializer>(mechanism: &Mechanism, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(mechanism.name())
}

/// Why not, and what helps.
type Obstacle = (String, String);

impl Machine {
    /// The state of every mechanism, best first.
    pub fn mechanisms(&self, probe: &dyn Probe) -> Vec<MechanismStatus> {
        Mechanism::ALL.into_iter().map(|mechanism| self.mechanism(mechanism, probe)).collect()
    }

    /// The state of one mechanism: whether the machine has it, then what the kernel says when it is tried; where nobody tries, what the files say.
    pub fn mechanism(&self, mechanism: Mechanism, probe: &dyn Probe) -> MechanismStatus {
        let opening = match self.missing(mechanism) {
            Some((why, remedy)) => Opening::Refused { why, remedy },
            None => probe.open(mechanism),
        };
        let (event, obstacle) = match opening {
            Opening::Opened(event) => (event, None),
            Opening::Refused { why, remedy } => (String::new(), Some((why, remedy))),
            Opening::NotTried => (self.unnamed_event(mechanism).into(), not_permitted(mechanism, &Privilege::read(&self.root))),
        };
        let available = obstacle.is_none();
        let (why_not, remedy) = obstacle.unwrap_or_default();
        MechanismStatus { mechanism, available, event, why_not, remedy }
    }

    /// The event that the mechanism is used with where none is named; empty where cores are of several kinds, for then a core's event has to be named.
    fn unnamed_event(&self, mechanism: Mechanism) -> &'static str {
        let is_of_core = matches!(mechanism, Mechanism::Pebs | Mechanism::Pmi);
        if is_of_core && self.core_pmus().len() > 1 { "" } else { usual_event(mechanism) }
    }

    /// What the machine lacks for it, whoever asks.
    fn missing(&self, mechanism: Mechanism) -> Option<Obstacle> {
        let vendor = self.cpu.vendor;
        match mechanism {
            Mechanism::Pebs if vendor != Vendor::Intel => Some(not_of("PEBS", "Intel", &self.cpu.name)),
            Mechanism::Pebs => self.no_core_pmu().or_else(|| self.no_precise()),
            Mechanism::IbsOp | Mechanism::IbsFetch if vendor != Vendor::Amd => Some(not_of("IBS", "AMD", &self.cpu.name)),
            Mechanism::IbsOp => self.no_pmu("ibs_op"),
            Mechanism::IbsFetch => self.no_pmu("ibs_fetch"),
            Mechanism::Spe if vendor != Vendor::Arm => Some(not_of("SPE", "ARM", &self.cpu.name)),
            Mechanism::Spe => self.no_spe(),
            Mechanism::Pmi => self.no_core_pmu(),
            Mechanism::CpuClock | Mechanism::Software => None,
            Mechanism::Breakpoint => self.no_pmu("breakpoint"),
            Mechanism::Tracepoint => self.no_pmu("tracepoint").or_else(|| self.no_tracefs()),
            Mechanism::Uprobe => self.no_pmu("uprobe"),
            Mechanism::PebsDirect if vendor != Vendor::Intel => Some(not_of("PEBS", "Intel", &self.cpu.name)),
            Mechanism::PebsDirect => self.no_core_pmu().or_else(|| self.no_module()),
        }
    }

    fn no_core_pmu(&self) -> Option<Obstacle> {
        if self.core_pmu().is_some() {
            return None;
        }
        let file = "/sys/bus/event_source/devices/cpu is missing";
        let why = format!("the kernel exposes no cpu PMU: {file}");
        let remedy = if self.virtualisation.is_guest() {
            "most virtual machines have none: ask for a metal instance, or a host that passes its PMU on"
        } else {
            "dmesg | grep -i -e 'PMU driver' -e 'Performance Events'"
        };
        Some((why, remedy.into()))
    }

    fn no_precise(&self) -> Option<Obstacle> {
        let level = self.core_pmu().and_then(|pmu| pmu.caps.get("max_precise"));
        match level.map(String::as_str) {
            // Kernels before 4.7 have no such file: then nothing speaks against it but an attempt.
            None => None,
            Some("0") => Some(("caps/max_precise of the cpu PMU is 0, needs 1 or more".into(), String::new())),
            Some(_) => None,
        }
    }

    fn no_pmu(&self, name: &str) -> Option<Obstacle> {
        let why = format!("the kernel shows no such PMU: /sys/bus/event_source/devices/{name} is missing");
        (!self.has_pmu(name)).then_some((why, String::new()))
    }

    fn no_spe(&self) -> Option<Obstacle> {
        let has = self.pmus.iter().any(|pmu| pmu.name.starts_with("arm_spe"));
        let why = "the kernel shows no SPE: /sys/bus/event_source/devices/arm_spe_0 is missing";
        (!has).then(|| (why.into(), "sudo modprobe arm_spe_pmu".into()))
    }

    fn no_module(&self) -> Option<Obstacle> {
        let why = "/dev/perftax is missing: perftax.ko is not loaded";
        (!self.root.dev.join("perftax").exists()).then(|| (why.into(), "make kmod, then sudo insmod perftax.ko".into()))
    }

    fn no_tracefs(&self) -> Option<Obstacle> {
        let why = "tracefs is not mounted: tracepoints cannot be found by name";
        self.tracefs().is_none().then(|| (why.into(), "sudo mount -t tracefs tracefs /sys/kernel/tracing".into()))
    }
}

/// The event that a mechanism is used with where none is named and everything may be sampled; empty where it needs an argument, or is no way to sample a
/// program at all.
pub fn usual_event(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::CpuClock => "cpu-clock",
        Mechanism::Pebs => "instructions:up",
        Mechanism::Pmi => "instructions:u",
        Mechanism::IbsOp => "ibs_op//",
        Mechanism::IbsFetch => "ibs_fetch//",
        Mechanism::Spe => "arm_spe_0//",
        Mechanism::Software => "page-faults",
        Mechanism::Tracepoint | Mechanism::Breakpoint | Mechanism::Uprobe | Mechanism::PebsDirect => "",
    }
}

fn not_of(what: &str, vendor: &str, cpu: &str) -> Obstacle {
    (format!("{what} is {vendor}'s; this is {cpu}"), String::new())
}

/// What the files say about who may use a mechanism: less than an attempt.
fn not_permitted(mechanism: Mechanism, privilege: &Privilege) -> Option<Obstacle> {
    if privilege.paranoid.is_none() {
        let why = format!("the kernel has no perf events: /proc/sys/{} is missing", PARANOID.replace('.', "/"));
        return Some((why, "use a kernel with CONFIG_PERF_EVENTS".into()));
    }
    let beyond = match mechanism {
        Mechanism::Uprobe => Beyond::Uprobe,
        Mechanism::Tracepoint => Beyond::Tracepoint,
        _ => Beyond::Nothing,
    };
    if beyond.level().map_or(privilege.sys_admin, |level| privilege.allows(level)) {
        return None;
    }
    let refused = Refusal { what: format!("sample by {mechanism}"), beyond, errno: libc::EACCES, privilege }.error();
    Some((refused.headline(), refused.advice()))
}
