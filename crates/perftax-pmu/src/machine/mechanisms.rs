//! Which mechanisms work here, each probed.

use perftax_cost::Mechanism;
use serde::{Serialize, Serializer};

use super::privilege::Privilege;
use super::{Machine, Vendor};

/// What came of opening an event of a mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The kernel opened it.
    Opened,
    /// The kernel refused, with this answer.
    Refused(String),
    /// Something beside perf refused, and says what helps.
    Obstacle {
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
pub struct MechanismStatus {
    /// Which one.
    #[serde(rename = "name", serialize_with = "by_name")]
    pub mechanism: Mechanism,
    /// Whether it can take samples in this process.
    pub available: bool,
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

    /// The state of one mechanism: what the files say, then what the kernel says when it is tried.
    pub fn mechanism(&self, mechanism: Mechanism, probe: &dyn Probe) -> MechanismStatus {
        let privilege = Privilege::read(&self.root);
        let obstacle = self.obstacle(mechanism, &privilege).or_else(|| match probe.open(mechanism) {
            Opening::Refused(answer) => Some((format!("perf_event_open refused it: {answer}"), String::new())),
            Opening::Obstacle { why, remedy } => Some((why, remedy)),
            Opening::Opened | Opening::NotTried => None,
        });
        let available = obstacle.is_none();
        let (why_not, remedy) = obstacle.unwrap_or_default();
        MechanismStatus { mechanism, available, why_not, remedy }
    }

    fn obstacle(&self, mechanism: Mechanism, privilege: &Privilege) -> Option<Obstacle> {
        let vendor = self.cpu.vendor;
        let missing = match mechanism {
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
        };
        missing.or_else(|| not_permitted(mechanism, privilege))
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

fn not_of(what: &str, vendor: &str, cpu: &str) -> Obstacle {
    (format!("{what} is {vendor}'s; this is {cpu}"), String::new())
}

/// The paranoid level that a mechanism needs from a process without CAP_PERFMON (kernel/events/core.c,
/// kernel/trace/trace_event_perf.c): 2 for its own user mode, -1 for tracepoints; uprobes need the capability itself.
fn not_permitted(mechanism: Mechanism, privilege: &Privilege) -> Option<Obstacle> {
    let knob = "kernel.perf_event_paranoid";
    let Some(level) = privilege.paranoid else {
        let why = format!("the kernel has no perf events: /proc/sys/{} is missing", knob.replace('.', "/"));
        return Some((why, "use a kernel with CONFIG_PERF_EVENTS".into()));
    };
    let setcap = "sudo setcap cap_perfmon+ep \"$(command -v perftax)\"";
    let needed = match mechanism {
        Mechanism::Uprobe if !privilege.is_capable() => {
            return Some(("CAP_PERFMON is missing, needed whatever the paranoid level".into(), setcap.into()));
        }
        Mechanism::Tracepoint => -1,
        _ => 2,
    };
    let why = || format!("{knob} is {level}, needs {needed} or less (or CAP_PERFMON)");
    (!privilege.allows(needed)).then(|| (why(), format!("sudo sysctl {knob}={needed}")))
}
