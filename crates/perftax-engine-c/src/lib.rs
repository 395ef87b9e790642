//! `perftax-model`'s PMUs, Intel's and AMD's, behind a C header (`include/perftax_engine.h`), for an emulated machine.
//!
//! Every function takes what `perftax_engine_new` returned, or memory of the caller's that lives as long as the call.

mod caches;
mod memory;
mod pmu;

use perftax_model::emulated::{Actions, Arm, Budget, Retired, Settings, Tally, Without};
use perftax_model::intel::{Branch, Kind};

use caches::Caches;
use memory::HostMemory;
use pmu::{Generation, Pmu};

/// One core's PMU.
pub struct Engine {
    pmu: Pmu,
    core: u32,
    budget: *mut Budget,
    memory: HostMemory,
    caches: Option<Caches>,
}

/// What the manuals leave open, in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CSettings {
    assist_ns: u64,
    interrupt_ns: u64,
    skid: u32,
    arm_same: bool,
    caches: bool,
    ibs_random: bool,
    without: u32,
    miss_time: bool,
}

impl From<&CSettings> for Settings {
    fn from(c: &CSettings) -> Self {
        Self {
            assist_ns: c.assist_ns,
            interrupt_ns: c.interrupt_ns,
            skid: c.skid,
            arm: if c.arm_same { Arm::Same } else { Arm::Next },
            caches: c.caches,
            ibs_random: c.ibs_random,
            without: Without { branches: c.without & 1 != 0, precise: c.without & 2 != 0 },
            miss_time: c.miss_time,
            latency_cycles: [0; 6],
        }
    }
}

impl Engine {
    /// The engine's parts; the budget is the caller's.
    fn parts(&mut self) -> (&mut Pmu, &mut Budget, &mut HostMemory) {
        // SAFETY: perftax_engine_new's contract: it outlives the engine and nobody else touches it during a call.
        (&mut self.pmu, unsafe { &mut *self.budget }, &mut self.memory)
    }

    /// The first budget: nothing counts yet, but accesses may take time.
    fn plan(&mut self) {
        let (pmu, budget, _) = self.parts();
        pmu.replan(budget, 0);
    }
}

/// See the header.
///
/// # Safety
/// Pointers to what the header says; `budget` outlives the engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perftax_engine_new(
    family: u32,
    model: u32,
    core: u32,
    cores: u32,
    settings: *const CSettings,
    budget: *mut Budget,
    memory: *const HostMemory,
) -> *mut Engine {
    // SAFETY: the caller's promise.
    let (mut settings, memory) = unsafe { (Settings::from(&*settings), *memory) };
    let Some(generation) = Generation::of(family, model) else { return std::ptr::null_mut() };
    let wanted = settings.caches || settings.miss_time;
    let mut caches = Caches::of(generation, core, cores, wanted);
    if let Some(caches) = &mut caches {
        caches.take_time = settings.miss_time;
        settings.latency_cycles = caches.latencies();
    }
    if wanted && caches.is_none() {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { budget.write(Budget::default()) };
    let mut engine = Box::new(Engine { pmu: Pmu::new(generation, core, settings), core, budget, memory, caches });
    engine.plan();
    Box::into_raw(engine)
}

/// See the header.
///
/// # Safety
/// An engine, which is gone afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perftax_engine_free(engine: *mut Engine) {
    if !engine.is_null() {
        // SAFETY: it came out of Box::into_raw.
        drop(unsafe { Box::from_raw(engine) });
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_reset(engine: &mut Engine) {
    let fresh = Pmu::new(engine.pmu.generation(), engine.core, *engine.pmu.settings());
    let (pmu, budget, _) = engine.parts();
    *pmu = fresh;
    *budget = Budget::default();
    engine.plan();
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_set(engine: &mut Engine, settings: &CSettings) {
    let Settings { caches, miss_time, without, latency_cycles, .. } = *engine.pmu.settings();
    *engine.pmu.settings() = Settings { caches, miss_time, without, latency_cycles, ..Settings::from(settings) };
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_cpuid_a(engine: &Engine, registers: &mut [u32; 4]) {
    let caches = engine.pmu.has_caches();
    *registers = engine.pmu.generation().cpuid_leaf_a(caches);
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_cpuid(engine: &Engine, leaf: u32, subleaf: u32, registers: &mut [u32; 4]) -> bool {
    engine.pmu.cpuid(leaf, subleaf).map(|told| *registers = told).is_some()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_cache(engine: &Engine, level: u32, bytes: &mut u64, ways: &mut u32) -> bool {
    let Some(found) = caches::spec(engine.pmu.generation(), level) else { return false };
    (*bytes, *ways) = (found.bytes, found.ways as u32);
    true
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_cpuid_ibs(engine: &Engine) -> u32 {
    engine.pmu.generation().ibs_capabilities()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_tally(engine: &Engine, tally: &mut Tally) {
    *tally = engine.pmu.tally();
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_rdmsr(engine: &mut Engine, number: u32, value: &mut u64) -> bool {
    let (pmu, budget, _) = engine.parts();
    pmu.read(budget, number).map(|read| *value = read).is_some()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_wrmsr(engine: &mut Engine, number: u32, value: u64) -> bool {
    let (pmu, budget, _) = engine.parts();
    let written = pmu.write(budget, number, value);
    let slow = pmu.slow_from_cycles();
    if let Some(caches) = &mut engine.caches {
        caches.slow_from_cycles = slow;
    }
    written
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_saves(engine: &Engine, place: usize, number: &mut u32) -> bool {
    engine.pmu.state().nth(place).map(|found| *number = found).is_some()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_restore(engine: &mut Engine, number: u32, value: u64) {
    perftax_engine_wrmsr(engine, engine.pmu.restored_by(number), value);
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_rdpmc(engine: &mut Engine, number: u32, value: &mut u64) -> bool {
    let (pmu, budget, _) = engine.parts();
    pmu.rdpmc(budget, number).map(|read| *value = read).is_some()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_retire(engine: &mut Engine, retired: &Retired) -> Actions {
    let (pmu, budget, memory) = engine.parts();
    pmu.retire(budget, retired, memory)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_replan(engine: &mut Engine, instructions: u32) {
    let (pmu, budget, _) = engine.parts();
    pmu.replan(budget, instructions);
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_branch(
    engine: &mut Engine,
    from: u64,
    to: u64,
    kind: u32,
    mode: u32,
    mispredicted: bool,
    cycles: u64,
) -> bool {
    engine.pmu.branch(&Branch { from, to, kind: Kind::of(kind), mode: mode as usize & 1, mispredicted, cycles })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_unmodelled(engine: &Engine, place: usize, which: &mut u64, times: &mut u64) -> bool {
    engine.pmu.unmodelled().iter().nth(place).map(|found| (*which, *times) = found).is_some()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_stand_still(engine: &mut Engine, mode: u32, cycles: u64) {
    let (pmu, budget, _) = engine.parts();
    pmu.stand_still(budget, mode as usize & 1, cycles);
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn perftax_engine_access(engine: &mut Engine, address: u64, place: u64, write: bool) -> u64 {
    engine.caches.as_mut().map_or(0, |caches| caches.access(address, place, write))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: HostMemory = HostMemory::NONE;

    fn engine(family: u32, model: u32, budget: &mut Budget) -> Engine {
        let settings = Settings { arm: Arm::Next, ..Settings::default() };
        let generation = Generation::of(family, model).unwrap();
        Engine { pmu: Pmu::new(generation, 0, settings), core: 0, budget, memory: MEMORY, caches: None }
    }

    fn saved(engine: &mut Engine) -> Vec<(u32, u64)> {
        let (mut all, mut number, mut value) = (Vec::new(), 0, 0);
        while perftax_engine_saves(engine, all.len(), &mut number) {
            assert!(perftax_engine_rdmsr(engine, number, &mut value), "{number:#x} cannot be read");
            all.push((number, value));
        }
        all
    }

    /// Values that each of some registers takes are there after a reset and a restore, on every vendor's.
    #[test]
    fn what_is_saved_is_restored() {
        for (family, model, written) in [
            // Skylake: a counter, its selector, the debug store, which branches, what precise counters are on.
            (
                6,
                0x5e,
                &[(0x4c1, 0xffff_ffff_1234), (0x186, 0x41_00c0), (0x600, 0xffff_8000), (0x1c8, 1), (0x3f1, 1), (0x38f, 3)][..],
            ),
            // Sapphire Rapids: a counter, the newest branch record's source, another's particulars, and which are recorded.
            (6, 0x8f, &[(0x4c1, 0xffff_ffff_1234), (0x1500, 0x7fff_1234), (0x121f, 7), (0x14ce, 0x7f_0007)]),
            // Clearwater Forest: a counter, its selector by the other number's place, what it is reloaded with, the buffer's base and index.
            (
                6,
                0xdd,
                &[(0x4c1, 0xffff_ffff_1234), (0x187, 0x41_00c0), (0x1903, 1 << 63 | 0x1234), (0x3f4, 0x7_0004), (0x3f5, 1 << 32)],
            ),
            // Zen 4: which counters run, a branch record, and that they are recorded.
            (0x19, 0x11, &[(0xc000_0301, 3), (0xc001_0302, 0x7fff_1234), (0xc000_010f, 0x40)]),
            // Zen 5: the same, and a threshold of latency.
            (
                0x1a,
                0x02,
                &[(0xc000_0301, 3), (0xc001_0302, 0x7fff_1234), (0xc000_010f, 0x40), (0xc001_1033, 0x9800_0000_0001_1000)],
            ),
            // Zen 2: a counter, its selector, IBS.
            (0x17, 0x31, &[(0xc001_0201, 0xffff_0000_1234), (0xc001_0200, 0x41_00c0), (0xc001_1033, 0x1000)]),
        ] {
            let mut budget = Budget::default();
            let mut engine = engine(family, model, &mut budget);
            let fresh = saved(&mut engine);
            assert!(fresh.len() > 20 && fresh.len() <= 192, "PMU_SAVED in vm/qemu/patches holds 192: {}", fresh.len());
            for (number, value) in written {
                assert!(perftax_engine_wrmsr(&mut engine, *number, *value), "{number:#x}");
            }
            let before = saved(&mut engine);
            assert_eq!(before.iter().zip(&fresh).filter(|(now, then)| now != then).count(), written.len());
            perftax_engine_reset(&mut engine);
            assert_eq!(saved(&mut engine), fresh);
            for (number, value) in &before {
                perftax_engine_restore(&mut engine, *number, *value);
            }
            assert_eq!(saved(&mut engine), before);
        }
    }

    /// The depth comes before the records, of which there are fewer then.
    #[test]
    fn fewer_branch_records_are_restored_too() {
        let mut budget = Budget::default();
        let mut engine = engine(6, 0x8f, &mut budget);
        let all = saved(&mut engine).len();
        for (number, value) in [(0x14cf, 16), (0x1500, 0x7fff_1234), (0x120f, 7)] {
            assert!(perftax_engine_wrmsr(&mut engine, number, value), "{number:#x}");
        }
        assert!(!perftax_engine_wrmsr(&mut engine, 0x1210, 7), "beyond them");
        let before = saved(&mut engine);
        assert_eq!(before.len(), all - 3 * 16);
        perftax_engine_reset(&mut engine);
        // As the emulator does: what stands at a place is asked for when it is its turn.
        for (place, (wanted, value)) in before.iter().enumerate() {
            let mut number = 0;
            assert!(perftax_engine_saves(&engine, place, &mut number) && number == *wanted, "{place}: {number:#x} {wanted:#x}");
            perftax_engine_restore(&mut engine, number, *value);
        }
        assert_eq!(saved(&mut engine), before);
    }
}
