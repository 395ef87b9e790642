//! The machine: what it is, what it can measure, and what stands in the way.
//!
//! Everything is read through two seams, [`Root`] for files and [`Cpuid`] for the CPU's own account, so that machines
//! that are not at hand can be tested from recorded trees. A third, [`Probe`], tries on the kernel what no file tells.
//! A missing file is a fact, never an error.

mod about;
pub mod amd;
pub mod arm;
mod capability;
mod cgroup;
mod cpu;
mod cpuid;
mod fact;
mod hardware;
mod identity;
mod idleness;
pub mod intel;
mod kernel_config;
mod kernel_modules;
mod known_faults;
mod limits;
mod mechanisms;
mod mitigations;
pub mod msr;
mod noise;
mod pmu;
mod privilege;
mod refusal;
mod rights;
mod root;
mod topology;
mod virtualisation;

pub use capability::Capability;
pub use cgroup::CpuLimit;
pub use cpu::{Cpu, Vendor, cpu_list};
pub use cpuid::{Cpuid, Leaf};
pub use fact::{Fact, Group};
pub use idleness::measuring_cpu;
pub use kernel_config::KernelConfig;
pub use kernel_modules::KernelModule;
pub use known_faults::KnownFault;
pub(crate) use known_faults::version;
pub use mechanisms::{FilesOnly, MechanismStatus, Opening, Probe, usual_event};
pub use mitigations::Mitigations;
pub use pmu::Pmu;
pub use privilege::Privilege;
pub use refusal::{Beyond, PARANOID, Refusal, meanwhile};
pub use rights::{Right, RightStatus, Trial};
pub use root::Root;
pub use topology::{Smt, Topology};
pub use virtualisation::Virtualisation;

/// A machine, read once.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Where it was read.
    pub root: Root,
    /// Where its CPUID leaves come from.
    pub cpuid: Cpuid,
    /// CPU model, microcode, flags.
    pub cpu: Cpu,
    /// The hypervisor under the kernel, if any.
    pub virtualisation: Virtualisation,
    /// Mitigations that an interrupt pays for.
    pub mitigations: Mitigations,
    /// Kernel release.
    pub kernel: String,
    /// PMUs in sysfs, by name.
    pub pmus: Vec<Pmu>,
}

impl Machine {
    /// The machine that this process runs on.
    pub fn here() -> Self {
        Self::read(Root::here(), Cpuid::Live)
    }

    /// The machine that a tree of files and a set of CPUID leaves describe.
    pub fn read(root: Root, cpuid: Cpuid) -> Self {
        let cpu = Cpu::read(&root);
        Self {
            virtualisation: Virtualisation::read(&root, &cpuid, cpu.has("hypervisor")),
            mitigations: Mitigations::read(&root, cpu.has("pti")),
            kernel: root.sysctl("kernel.osrelease").unwrap_or_else(|| "unknown".into()),
            pmus: Pmu::all(&root),
            cpu,
            root,
            cpuid,
        }
    }

    /// All facts, by group in the order of [`Group::ALL`].
    pub fn facts(&self, probe: &dyn Probe) -> Vec<Fact> {
        let config = KernelConfig::read(&self.root, &self.kernel);
        let privilege = Privilege::read(&self.root);
        let mut facts = about::facts(self, &config);
        facts.extend(hardware::facts(self, &config, probe));
        facts.extend(limits::permission(self, &privilege, probe));
        facts.extend(limits::limits(self, &privilege));
        facts.extend(noise::facts(self, &config, probe));
        facts.extend(known_faults::facts(self, probe));
        facts
    }

    /// The core's own PMUs: one, or one for each kind of core on hybrid machines, that of the performance cores first.
    pub fn core_pmus(&self) -> Vec<&Pmu> {
        let mut pmus: Vec<&Pmu> = self.pmus.iter().filter(|pmu| pmu.is_core()).collect();
        pmus.sort_by_key(|pmu| !matches!(pmu.name.as_str(), "cpu" | "cpu_core"));
        pmus
    }

    /// The core's own PMU; the performance cores' on a hybrid machine.
    pub fn core_pmu(&self) -> Option<&Pmu> {
        self.core_pmus().first().copied()
    }

    /// Counters of a core for events of the program's choice; none where the kernel shows no core PMU, or nobody says how many. Of hybrid machines that of
    /// the kind with the fewest: so many fit everywhere.
    pub fn general_counters(&self) -> Option<u32> {
        self.core_pmu()?;
        match self.cpu.vendor {
            Vendor::Intel => {
                let of_each = self.core_pmus().into_iter().map(|pmu| intel::counters_of(self, &pmu.name).0);
                of_each.collect::<Option<Vec<u32>>>()?.into_iter().min()
            }
            Vendor::Amd => Some(amd::counters(self).0),
            _ => None,
        }
    }

    /// Whether sysfs shows a PMU of this name.
    pub fn has_pmu(&self, name: &str) -> bool {
        self.pmus.iter().any(|pmu| pmu.name == name)
    }

    /// Where tracefs is mounted, as the mount table says; `None` where it is not.
    pub fn tracefs(&self) -> Option<String> {
        let mounts = self.root.proc("self/mounts").or_else(|| self.root.proc("mounts"))?;
        let mount = |line: &str| {
            let mut fields = line.split(' ').skip(1);
            let (folder, kind) = (fields.next()?, fields.next()?);
            (kind == "tracefs").then(|| folder.to_string())
        };
        mounts.lines().find_map(mount)
    }
}
