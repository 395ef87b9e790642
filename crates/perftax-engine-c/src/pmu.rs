//! One vendor's PMU or the other's.

use perftax_model::emulated::{Actions, Budget, Retired, Settings, Tally, Unmodelled};
use perftax_model::intel::{Branch, Memory};
use perftax_model::{amd, intel};

/// A generation of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Intel's.
    Intel(intel::Generation),
    /// AMD's.
    Amd(amd::Generation),
}

impl Generation {
    /// By the family and model of CPUID leaf 1, extensions added: no family is both vendors'.
    pub fn of(family: u32, model: u32) -> Option<Self> {
        intel::Generation::of(family, model).map(Self::Intel).or_else(|| amd::Generation::of(family, model).map(Self::Amd))
    }

    /// CPUID leaf 0xA, which AMD has not.
    pub fn cpuid_leaf_a(self, caches: bool) -> [u32; 4] {
        match self {
            Self::Intel(generation) => generation.cpuid_leaf_a(caches),
            Self::Amd(_) => [0; 4],
        }
    }

    /// EAX of CPUID leaf 8000_001B, which Intel has not.
    pub fn ibs_capabilities(self) -> u32 {
        match self {
            Self::Intel(_) => 0,
            Self::Amd(generation) => generation.ibs_capabilities(),
        }
    }
}

/// Its PMU.
pub enum Pmu {
    /// Intel's.
    Intel(intel::Pmu),
    /// AMD's.
    Amd(amd::Pmu),
}

/// The same call of whichever it is.
macro_rules! of_either {
    ($pmu:expr, $bound:ident => $call:expr) => {
        match $pmu {
            Pmu::Intel($bound) => $call,
            Pmu::Amd($bound) => $call,
        }
    };
}

impl Pmu {
    /// As after a reset, of the core of this number.
    pub fn new(generation: Generation, core: u32, settings: Settings) -> Self {
        match generation {
            Generation::Intel(generation) => Self::Intel(intel::Pmu::new(generation, settings)),
            Generation::Amd(generation) => Self::Amd(amd::Pmu::new(generation, core, settings)),
        }
    }

    /// Its generation.
    pub fn generation(&self) -> Generation {
        match self {
            Self::Intel(pmu) => Generation::Intel(pmu.generation()),
            Self::Amd(pmu) => Generation::Amd(pmu.generation()),
        }
    }

    /// What the manuals leave open.
    pub fn settings(&mut self) -> &mut Settings {
        of_either!(self, pmu => &mut pmu.settings)
    }

    /// A leaf of CPUID that is of a PMU alone, beside leaf 0xA, and where it has sub-leaves which of them: EAX, EBX, ECX, EDX.
    pub fn cpuid(&self, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        match (self, leaf) {
            (Self::Intel(pmu), 0x1c) => pmu.generation().cpuid_leaf_1c(pmu.settings.without),
            (Self::Intel(pmu), 0x23) => pmu.generation().cpuid_leaf_23(subleaf, pmu.settings.caches, pmu.settings.without),
            (Self::Amd(pmu), 0x8000_0022) => pmu.generation().cpuid_leaf_8000_0022(pmu.settings.without),
            _ => None,
        }
    }

    /// Whether caches are simulated.
    pub fn has_caches(&self) -> bool {
        of_either!(self, pmu => pmu.settings.caches)
    }

    /// How often what happened.
    pub fn tally(&self) -> Tally {
        of_either!(self, pmu => pmu.tally)
    }

    /// See [`intel::Pmu::read`].
    pub fn read(&mut self, budget: &mut Budget, number: u32) -> Option<u64> {
        of_either!(self, pmu => pmu.read(budget, number))
    }

    /// See [`intel::Pmu::write`].
    pub fn write(&mut self, budget: &mut Budget, number: u32, value: u64) -> bool {
        of_either!(self, pmu => pmu.write(budget, number, value))
    }

    /// Numbers of the registers that make up its state, each before those that start something by it.
    pub fn state(&self) -> impl Iterator<Item = u32> + '_ {
        let ranges = match self {
            Self::Intel(_) => intel::msr::STATE,
            Self::Amd(_) => amd::msr::STATE,
        };
        ranges.iter().cloned().flatten().filter(|number| match self {
            Self::Intel(pmu) => pmu.has(*number),
            Self::Amd(pmu) => pmu.has(*number),
        })
    }

    /// The register that gives another its value: itself, but for what only shows.
    pub fn restored_by(&self, number: u32) -> u32 {
        match self {
            Self::Intel(_) if number == intel::msr::GLOBAL_STATUS => intel::msr::GLOBAL_STATUS_SET,
            Self::Amd(_) if number == amd::msr::GLOBAL_STATUS => amd::msr::GLOBAL_STATUS_SET,
            _ => number,
        }
    }

    /// See [`intel::Pmu::rdpmc`].
    pub fn rdpmc(&mut self, budget: &mut Budget, number: u32) -> Option<u64> {
        of_either!(self, pmu => pmu.rdpmc(budget, number))
    }

    /// See [`intel::Pmu::retire`].
    pub fn retire(&mut self, budget: &mut Budget, retired: &Retired, memory: &mut impl Memory) -> Actions {
        match self {
            Self::Intel(pmu) => pmu.retire(budget, retired, memory),
            Self::Amd(pmu) => pmu.retire(budget, retired),
        }
    }

    /// See [`intel::Pmu::replan`].
    pub fn replan(&mut self, budget: &mut Budget, instructions: u32) {
        of_either!(self, pmu => pmu.replan(budget, instructions));
    }

    /// See [`intel::Pmu::stand_still`].
    pub fn stand_still(&mut self, budget: &mut Budget, mode: usize, cycles: u64) {
        of_either!(self, pmu => pmu.stand_still(budget, mode, cycles));
    }

    /// A branch was taken while branches are recorded; whether the records changed.
    pub fn branch(&mut self, branch: &Branch) -> bool {
        of_either!(self, pmu => pmu.branch(branch))
    }

    /// What counters were set to and is not modelled.
    pub fn unmodelled(&self) -> &Unmodelled {
        of_either!(self, pmu => &pmu.unmodelled)
    }

    /// Latency from which on a load is a slow one, cycles.
    pub fn slow_from_cycles(&self) -> u64 {
        match self {
            Self::Intel(pmu) => pmu.load_latency,
            Self::Amd(_) => u64::MAX,
        }
    }
}
