//! The caches of the emulated machine: private ones for each core, one last level for all.

use std::sync::{Mutex, MutexGuard, PoisonError};

use perftax_model::cache::{Hierarchy, Level, Who, line_of};
use perftax_model::emulated::Class;
use perftax_model::machine::{LlcShare, Machine};
use perftax_model::{amd, intel};
use serde::Deserialize;

use crate::pmu::Generation;

/// All cores share the last level, so that there is one hierarchy in the process.
static HIERARCHY: Mutex<Option<Hierarchy>> = Mutex::new(None);

/// A core's way to them.
pub struct Caches {
    core: usize,
    /// Cycles of a load found at each level.
    latency_cycles: [u64; 4],
    /// Loads that take as long are [`Class::SlowLoads`].
    pub slow_from_cycles: u64,
}

/// A machine file, of which only the model is of interest.
#[derive(Deserialize)]
struct Described {
    model: Machine,
}

fn describe(generation: Generation) -> Option<Machine> {
    let text = match generation {
        Generation::Intel(intel::Generation::Haswell) => include_str!("../../../machines/haswell.toml"),
        Generation::Intel(intel::Generation::Broadwell) => include_str!("../../../machines/broadwell.toml"),
        Generation::Intel(intel::Generation::Skylake) => include_str!("../../../machines/skylake.toml"),
        Generation::Amd(amd::Generation::Zen2) => include_str!("../../../machines/zen2.toml"),
        Generation::Amd(amd::Generation::Zen3) => include_str!("../../../machines/zen3.toml"),
        Generation::Intel(intel::Generation::IceLake) | Generation::Amd(amd::Generation::Zen) => return None,
    };
    Some(toml::from_str::<Described>(text).ok()?.model)
}

fn hierarchy() -> MutexGuard<'static, Option<Hierarchy>> {
    HIERARCHY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Caches {
    /// For one core of so many; `None` where the generation's caches are not described.
    pub fn of(generation: Generation, core: u32, cores: u32) -> Option<Self> {
        let machine = describe(generation)?;
        let latency_cycles =
            [machine.l1.latency_cycles, machine.l2.latency_cycles, machine.llc.latency_cycles, machine.memory_latency_cycles()];
        hierarchy().get_or_insert_with(|| machine.hierarchy(cores, LlcShare::Whole, 1));
        Some(Self { core: core as usize, latency_cycles, slow_from_cycles: u64::MAX })
    }

    /// An access; see the header.
    pub fn access(&mut self, address: u64, write: bool) -> u64 {
        let mut hierarchy = hierarchy();
        let Some(hierarchy) = hierarchy.as_mut() else { return 0 };
        let level = hierarchy.access(self.core, line_of(address), write, Who::Program);
        if write {
            return 0;
        }
        let latency = self.latency_cycles[level as usize];
        let missed = |beyond: Level, class: Class| if level >= beyond { class.bit() } else { 0 };
        let classes = missed(Level::L2, Class::L1Misses)
            | missed(Level::Llc, Class::L2Misses)
            | missed(Level::Memory, Class::LlcMisses)
            | if latency >= self.slow_from_cycles { Class::SlowLoads.bit() } else { 0 };
        u64::from(classes) | (level as u64) << 32 | latency.min(0xffff) << 48
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_load_is_found_where_the_first_left_it() {
        let mut caches =
            Caches::of(Generation::Intel(intel::Generation::Skylake), 0, 1).unwrap_or_else(|| panic!("Skylake is described"));
        caches.slow_from_cycles = 100;
        let first = caches.access(0x7fff_1234_5678, false);
        let all = Class::L1Misses.bit() | Class::L2Misses.bit() | Class::LlcMisses.bit() | Class::SlowLoads.bit();
        assert_eq!((first as u32, first >> 32 & 0xff), (all, 3), "cold");
        let second = caches.access(0x7fff_1234_5670, false);
        assert_eq!((second as u32, second >> 32 & 0xff, second >> 48), (0, 0, 4), "the same line");
        assert_eq!(caches.access(0x7fff_1234_5670, true), 0, "stores have no latency");
    }
}
