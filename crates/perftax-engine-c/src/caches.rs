//! The caches of the emulated machine: private ones for each core, one last level for all.
//!
//! Two models. One says who has a good copy of a line and who has written to it, and evicts nothing: where loads are sampled by
//! latency on several cores, it tells a load that is fetched out of another core's cache. The other, where it is asked for, has
//! sets and ways that evict, and no coherence. A load's place is the first's where another core's copy is the good one, else
//! the second's.

use std::sync::{Mutex, MutexGuard, PoisonError};

use perftax_model::cache::{
    CacheSpec, Coherence, Hierarchy, Holder, LINE_BYTES, Level, MAX_CORES, Policy, SetAssociative, Who, line_of,
};
use perftax_model::emulated::{CLEAN, Class, MODIFIED};
use perftax_model::machine::{self, LlcShare, Machine};
use perftax_model::{amd, intel};
use serde::Deserialize;

use crate::pmu::Generation;

/// What all cores share; one machine in a process.
#[derive(Default)]
struct Shared {
    coherence: Coherence,
    /// Nothing where caches that evict are not wanted.
    hierarchy: Option<Hierarchy>,
}

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// What fetching a line out of another core's cache takes beyond a hit in the last level, ns: clean, and modified. From the
/// metrics that perf 6.1 has for Skylake: tma_data_sharing 16.5 and tma_contested_accesses 18.5, tma_l3_hit_latency 6.5.
/// (Haswell's and Broadwell's say 60 cycles for a modified line, 29 for a hit in the last level: as much at 2.6 GHz.)
const SNOOPED_NS: [f64; 2] = [16.5 - 6.5, 18.5 - 6.5];
/// Likewise, from those that perf 6.1 has for Sapphire Rapids: 79 and 81, 37 of a hit in the last level. Of Clearwater Forest nothing is published: assumed to take as long.
const SAPPHIRE_RAPIDS_SNOOPED_NS: [f64; 2] = [79.0 - 37.0, 81.0 - 37.0];

/// What is said of where a store found its line: `PERFTAX_STORE_LEVEL_SHIFT` in the header.
const STORE_LEVEL_SHIFT: u32 = 35;
/// What is said of a store that found no good copy of its line in the core's own cache: `PERFTAX_STORE_MISSED` in the header. A bit of its own,
/// since an instruction may store in several parts (a vector does), of which the first alone misses.
const STORE_MISSED: u64 = 1 << 40;

/// Where the time stands for which a load makes the core stand still, ns: `PERFTAX_STALL_SHIFT` in the header.
const STALL_SHIFT: u32 = 41;
/// What has room there. All that is described takes less.
const MAX_STALL_NS: u64 = 127;

/// A core's way to them.
pub struct Caches {
    core: usize,
    /// The first model is asked.
    coherent: bool,
    /// Cycles of a load found at each level, in another core's cache unmodified, and modified.
    latency_cycles: [u64; 6],
    /// Time beyond a hit in the first level of a load found at each, ns.
    beyond_ns: [u64; 6],
    /// The core stands still for that.
    pub take_time: bool,
    /// Pages that the core's second-level TLB has; where caches that evict are wanted, and its size is known.
    tlb: Option<SetAssociative>,
    /// Loads that take as long are [`Class::SlowLoads`].
    pub slow_from_cycles: u64,
}

/// Small pages alone: nothing says what size one has.
const PAGE_BYTES: u64 = 4096;

/// Entries and ways of the second-level TLB for data, which is shared with code on Intel's (Intel 64 and IA-32 optimization reference manual, chapter 2: 1024 in 8 ways on
/// Haswell, 1536 in 6 on Broadwell, in 12 on Skylake, 2048 in 16 on Golden Cove; software optimization guides for AMD family 17h models 30h and up and family 19h, 2.12.2: 2048 in 16; family 19h model 11h: 3072 in 24; Zen 5: 4096 in 16).
fn tlb_of(generation: Generation) -> Option<[u64; 2]> {
    Some(match generation {
        Generation::Intel(intel::Generation::Haswell) => [1024, 8],
        Generation::Intel(intel::Generation::Broadwell) => [1536, 6],
        Generation::Intel(intel::Generation::Skylake | intel::Generation::IceLake) => [1536, 12],
        Generation::Intel(intel::Generation::SapphireRapids) => [2048, 16],
        Generation::Amd(amd::Generation::Zen4) => [3072, 24],
        Generation::Amd(amd::Generation::Zen5) => [4096, 16],
        Generation::Amd(_) => [2048, 16],
        // Not published.
        Generation::Intel(intel::Generation::ClearwaterForest) => return None,
    })
}

/// A machine file, of which only the model is of interest.
#[derive(Deserialize)]
struct Described {
    model: Machine,
}

fn describe(generation: Generation) -> Option<Machine> {
    let name = match generation {
        Generation::Intel(intel::Generation::Haswell) => "haswell",
        Generation::Intel(intel::Generation::Broadwell) => "broadwell",
        Generation::Intel(intel::Generation::Skylake) => "skylake",
        Generation::Intel(intel::Generation::SapphireRapids) => "sapphire-rapids",
        Generation::Intel(intel::Generation::ClearwaterForest) => "clearwater-forest",
        Generation::Amd(amd::Generation::Zen2) => "zen2",
        Generation::Amd(amd::Generation::Zen3) => "zen3",
        Generation::Amd(amd::Generation::Zen4) => "zen4",
        Generation::Amd(amd::Generation::Zen5) => "zen5",
        Generation::Intel(intel::Generation::IceLake) | Generation::Amd(amd::Generation::Zen) => return None,
    };
    Some(toml::from_str::<Described>(machine::shipped(name)?).ok()?.model)
}

/// A generation's cache for data of this level, 1 to 3; `None` where its caches are not described.
pub fn spec(generation: Generation, level: u32) -> Option<CacheSpec> {
    let machine = describe(generation)?;
    match level {
        1 => Some(machine.l1),
        2 => Some(machine.l2),
        3 => Some(machine.llc),
        _ => None,
    }
}

fn shared() -> MutexGuard<'static, Option<Shared>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Caches {
    /// For one core of so many; `None` where the generation's caches are not described, or none are to be modelled. `evicting`:
    /// with sets and ways.
    pub fn of(generation: Generation, core: u32, cores: u32, evicting: bool) -> Option<Self> {
        let machine = describe(generation)?;
        // AMD's samples have other words for what other caches hold. A core alone that evicts needs no second opinion.
        let coherent = matches!(generation, Generation::Intel(_)) && (cores > 1 || !evicting) && cores as usize <= MAX_CORES;
        if !coherent && !evicting {
            return None;
        }
        let llc = machine.llc.latency_cycles;
        let snooped_ns = match generation {
            Generation::Intel(intel::Generation::SapphireRapids | intel::Generation::ClearwaterForest) => {
                SAPPHIRE_RAPIDS_SNOOPED_NS
            }
            _ => SNOOPED_NS,
        };
        let [clean, modified] = snooped_ns.map(|ns| llc + (ns * machine.base_ghz).round() as u64);
        let latency_cycles =
            [machine.l1.latency_cycles, machine.l2.latency_cycles, llc, machine.memory_latency_cycles(), clean, modified];
        let beyond = |cycles: u64| cycles.saturating_sub(latency_cycles[0]) as f64 / machine.base_ghz;
        let beyond_ns = latency_cycles.map(|cycles| (beyond(cycles).round() as u64).min(MAX_STALL_NS));
        let mut shared = shared();
        let shared = shared.get_or_insert_default();
        if evicting {
            shared.hierarchy.get_or_insert_with(|| machine.hierarchy(cores, LlcShare::Whole, 1));
        }
        let new_tlb = |[entries, ways]: [u64; 2]| SetAssociative::new(entries * LINE_BYTES, ways as usize, Policy::Lru, 0);
        let tlb = tlb_of(generation).filter(|_| evicting).map(new_tlb);
        Some(Self { core: core as usize, coherent, latency_cycles, beyond_ns, take_time: false, tlb, slow_from_cycles: u64::MAX })
    }

    /// Cycles of an access by the place where it is found.
    pub fn latencies(&self) -> [u16; 6] {
        self.latency_cycles.map(|cycles| cycles.min(0xffff) as u16)
    }

    /// Whether the second-level TLB has not had an address's page.
    fn misses_tlb(&mut self, address: u64) -> bool {
        let Some(tlb) = &mut self.tlb else { return false };
        // A page takes a line's place.
        let page = line_of(address / PAGE_BYTES * LINE_BYTES);
        let has = tlb.touch(page, false);
        if !has {
            tlb.fill(page, false);
        }
        !has
    }

    /// An access to an address, which lies at `place` in the machine's memory (0: not known); see the header.
    pub fn access(&mut self, address: u64, place: u64, write: bool) -> u64 {
        let misses_tlb = self.misses_tlb(address);
        let mut shared = shared();
        let Some(shared) = shared.as_mut() else { return 0 };
        let evicting = shared.hierarchy.as_mut().map(|caches| caches.access(self.core, line_of(address), write, Who::Program));
        let holder = if self.coherent && place != 0 { shared.coherence.access(self.core, place, write) } else { Holder::Own };
        let (level, place) = found(holder, evicting);
        if write {
            return u64::from(place) << STORE_LEVEL_SHIFT | if holder == Holder::Own { 0 } else { STORE_MISSED };
        }
        let latency = self.latency_cycles[usize::from(place)];
        // Misses are counted where there are caches to miss alone.
        let missed = |beyond: Level, class: Class| if evicting.is_some() && level >= beyond { class.bit() } else { 0 };
        let classes = missed(Level::L2, Class::L1Misses)
            | missed(Level::Llc, Class::L2Misses)
            | missed(Level::Memory, Class::LlcMisses)
            | if misses_tlb { Class::StlbMisses.bit() } else { 0 }
            | if latency >= self.slow_from_cycles { Class::SlowLoads.bit() } else { 0 };
        let stall_ns = if self.take_time { self.beyond_ns[usize::from(place)] } else { 0 };
        u64::from(classes) | u64::from(place) << 32 | stall_ns << STALL_SHIFT | latency.min(0xffff) << 48
    }
}

/// The level that a load reaches, and the number of the place where it is found, by both models.
fn found(holder: Holder, evicting: Option<Level>) -> (Level, u8) {
    match (holder, evicting) {
        (Holder::Modified, _) => (Level::Llc, MODIFIED),
        (Holder::Clean, None) => (Level::Llc, CLEAN),
        (Holder::Shared, None) => (Level::Llc, Level::Llc as u8),
        (Holder::Nobody, None) => (Level::Memory, Level::Memory as u8),
        (Holder::Own, None) => (Level::L1, Level::L1 as u8),
        // A copy that another core's store has made stale is none.
        (Holder::Clean | Holder::Shared, Some(level)) => (level.max(Level::Llc), level.max(Level::Llc) as u8),
        (Holder::Own | Holder::Nobody, Some(level)) => (level, level as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caches(core: u32, cores: u32, evicting: bool) -> Caches {
        let skylake = Generation::Intel(intel::Generation::Skylake);
        Caches::of(skylake, core, cores, evicting).unwrap_or_else(|| panic!("Skylake is described"))
    }

    /// Classes, place and latency of what an access was told.
    fn told(said: u64) -> (u32, u8, u64) {
        (said as u32, (said >> 32) as u8, said >> 48)
    }

    #[test]
    fn a_second_load_is_found_where_the_first_left_it() {
        let mut caches = caches(0, 1, true);
        caches.slow_from_cycles = 100;
        let (classes, place, _) = told(caches.access(0x7fff_1234_5678, 0x5678, false));
        let all = Class::OF_CACHES;
        assert_eq!((classes, place), (all, 3), "cold");
        assert_eq!(told(caches.access(0x7fff_1234_5670, 0x5670, false)), (0, 0, 4), "the same line");
        assert_eq!(caches.access(0x7fff_1234_5670, 0x5670, true), 0, "stores have no latency");
    }

    /// 1536 pages fit; one more, by turns, and none is ever there again.
    #[test]
    fn a_page_is_found_as_long_as_there_is_room() {
        let mut caches = caches(0, 1, true);
        let mut missed = |pages: u64| {
            let mut missed = 0;
            for page in 0..pages {
                let (classes, ..) = told(caches.access(0x5555_0000_0000 + page * PAGE_BYTES, 0, false));
                missed += u64::from(classes & Class::StlbMisses.bit() != 0);
            }
            missed
        };
        assert_eq!([missed(1536), missed(1536)], [1536, 0]);
        assert_eq!([missed(3072), missed(3072)], [1536, 3072]);
    }

    /// A vector is stored in parts, of which the first alone misses: whoever emulates keeps what it said.
    #[test]
    fn a_store_misses_a_line_once() {
        let mut caches = caches(0, 1, false);
        let said = [0, 8, 16].map(|at| caches.access(0x9000 + at, 0x9_9000 + at, true));
        assert_eq!(said, [STORE_MISSED | 3 << STORE_LEVEL_SHIFT, 0, 0], "nobody had it: it is in memory");
    }

    #[test]
    fn the_second_model_gives_way_where_the_first_knows_of_another_copy() {
        assert_eq!(found(Holder::Modified, Some(Level::L1)), (Level::Llc, MODIFIED));
        assert_eq!(found(Holder::Shared, Some(Level::L2)), (Level::Llc, Level::Llc as u8));
        assert_eq!(found(Holder::Shared, Some(Level::Memory)), (Level::Memory, Level::Memory as u8));
        assert_eq!(found(Holder::Own, Some(Level::L2)), (Level::L2, Level::L2 as u8), "evicted from the first level");
        assert_eq!(found(Holder::Own, None), (Level::L1, Level::L1 as u8));
    }

    #[test]
    fn latencies_are_those_of_the_metrics() {
        // 42 cycles, and 10 and 12 ns at 2.7 GHz.
        assert_eq!(caches(0, 2, false).latency_cycles, [4, 12, 42, 151, 69, 74]);
        // 42 and 44 ns at 2 GHz.
        let sapphire_rapids = Caches::of(Generation::Intel(intel::Generation::SapphireRapids), 0, 2, false);
        assert_eq!(sapphire_rapids.unwrap().latencies(), [5, 14, 74, 218, 158, 162]);
        let clearwater_forest = Caches::of(Generation::Intel(intel::Generation::ClearwaterForest), 0, 2, false);
        assert_eq!(clearwater_forest.unwrap().latencies(), [4, 17, 74, 218, 158, 162]);
    }

    /// 42 and 151 cycles less 4 at 2.7 GHz; every generation's have room in what is said of an access.
    #[test]
    fn a_miss_takes_its_time_where_that_is_wanted() {
        let mut caches = caches(0, 1, true);
        assert_eq!(caches.beyond_ns, [0, 3, 14, 54, 24, 26]);
        assert_eq!(caches.access(0x7abc_0000, 0x1000, false) >> STALL_SHIFT & 0x7f, 0);
        caches.take_time = true;
        assert_eq!(caches.access(0x7abd_0000, 0x2000, false) >> STALL_SHIFT & 0x7f, 54);
        assert_eq!(caches.access(0x7abd_0000, 0x2000, false) >> STALL_SHIFT & 0x7f, 0);
        let generations = [
            Generation::Intel(intel::Generation::Haswell),
            Generation::Intel(intel::Generation::Broadwell),
            Generation::Intel(intel::Generation::SapphireRapids),
            Generation::Intel(intel::Generation::ClearwaterForest),
            Generation::Amd(amd::Generation::Zen2),
            Generation::Amd(amd::Generation::Zen3),
            Generation::Amd(amd::Generation::Zen4),
            Generation::Amd(amd::Generation::Zen5),
        ];
        for generation in generations {
            let caches = Caches::of(generation, 0, 1, true).unwrap_or_else(|| panic!("{generation:?} is described"));
            assert!(caches.beyond_ns.iter().all(|ns| *ns < MAX_STALL_NS), "{generation:?}: {:?}", caches.beyond_ns);
        }
    }

    #[test]
    fn there_is_nothing_to_ask_where_nothing_is_modelled() {
        assert!(Caches::of(Generation::Intel(intel::Generation::IceLake), 0, 1, false).is_none());
        assert!(Caches::of(Generation::Amd(amd::Generation::Zen2), 0, 2, false).is_none());
        assert!(Caches::of(Generation::Intel(intel::Generation::Skylake), 0, 65, false).is_none());
    }
}
