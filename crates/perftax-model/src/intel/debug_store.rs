//! The debug store: where PEBS records go (SDM volume 3, 18.6.11.4 and 20.6.2.4; struct debug_store of arch/x86/events/intel/ds.c).

use super::{Branches, Class, Generation, Retired};

/// Memory of the machine, at addresses of its kernel.
pub trait Memory {
    /// Reads 8 bytes; `None` where they cannot be read without a fault.
    fn read(&mut self, address: u64) -> Option<u64>;
    /// Writes words one after the other, all or none; whether it could.
    fn write(&mut self, address: u64, words: &[u64]) -> bool;
    /// Writes words at an address of the memory itself, which no page table translates; whether it could.
    fn write_physical(&mut self, address: u64, words: &[u64]) -> bool;
}

/// Offsets of the PEBS part.
const INDEX: u64 = 0x28;
const MAXIMUM: u64 = 0x30;
const THRESHOLD: u64 = 0x38;
const RESETS: u64 = 0x40;
/// Position of the first fixed counter's reset among those of the general ones.
const FIXED_RESETS: u64 = 8;

/// Groups of an adaptive record (MSR_PEBS_DATA_CFG).
const GROUP_MEMORY: u64 = 1;
const GROUP_REGISTERS: u64 = 2;
const GROUP_XMM: u64 = 4;
const GROUP_BRANCHES: u64 = 8;

/// What a record was written for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occasion<'a> {
    pub generation: Generation,
    /// Counters whose event it is, a bit each (fixed ones from 32 on).
    pub counters: u64,
    /// The class of the first of them.
    pub class: Class,
    /// What the counter asks for beyond the basic group: MSR_PEBS_DATA_CFG, or its own CFG_C where PEBS is architectural.
    pub groups: u64,
    /// The event tells where stores find their lines, and how long they take.
    pub of_stores: bool,
    /// Cycles of an access by the place where it is found ([`Retired::level`]); 0: not known.
    pub latency_cycles: &'a [u16; 6],
    pub branches: &'a Branches,
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stored {
    /// It was written.
    pub written: bool,
    /// The buffer has reached its threshold.
    pub due: bool,
}

/// The value that a counter is reloaded with; `None` where the store cannot be read.
pub(super) fn reset(memory: &mut impl Memory, store: u64, counter: u64) -> Option<u64> {
    let position = if counter < 32 { counter } else { FIXED_RESETS + counter - 32 };
    memory.read(store + RESETS + 8 * position)
}

/// Writes a record.
pub(super) fn store(memory: &mut impl Memory, store: u64, retired: &Retired, occasion: &Occasion) -> Stored {
    let at = (memory.read(store + INDEX), memory.read(store + MAXIMUM), memory.read(store + THRESHOLD));
    let (Some(index), Some(maximum), Some(threshold)) = at else { return Stored::default() };
    let record = record(retired, occasion);
    let end = index + 8 * record.len() as u64;
    if end > maximum || !memory.write(index, &record) || !memory.write(store + INDEX, &[end]) {
        return Stored { written: false, due: index >= threshold };
    }
    Stored { written: true, due: end >= threshold }
}

/// Encoding of where a load was found, by [`Retired::level`] (SDM volume 3, load latency facility; pebs_data_source in Linux's
/// ds.c): first level, second level, last level, local memory, and the last level with another core's copy found clean, or
/// modified (HITM).
const LOAD_SOURCES: [u64; 6] = [0x1, 0x3, 0x4, 0xa, 0x6, 0x7];
/// Likewise from Crestmont on, of the efficient cores (`__intel_pmu_pebs_data_source_cmt` of Linux 7.1).
const CRESTMONT_SOURCES: [u64; 6] = [0x1, 0x3, 0x4, 0xa, 0x6, 0x8];
/// A store found its line in the first level (precise_datala_hsw in Linux's ds.c).
const STORE_HIT: u64 = 1;

/// Address, source and latency of the data that the event is about.
pub(super) fn data(retired: &Retired, occasion: &Occasion) -> (u64, u64, u64) {
    let sources = if occasion.generation == Generation::ClearwaterForest { CRESTMONT_SOURCES } else { LOAD_SOURCES };
    let locked = u64::from(retired.classes & Class::LockedLoads.bit() != 0) << 5;
    if occasion.of_stores {
        let place = usize::from(retired.store_level).min(sources.len() - 1);
        return (retired.store_address, sources[place] | locked, u64::from(occasion.latency_cycles[place]));
    }
    let stored = (retired.store_address, if retired.store_missed { 0 } else { STORE_HIT } | locked, 0);
    match occasion.class {
        Class::Stores => stored,
        _ if retired.classes & Class::Loads.bit() != 0 => {
            let source = sources.get(usize::from(retired.level)).copied().unwrap_or(sources[0]);
            (retired.load_address, source | locked, u64::from(retired.latency_cycles))
        }
        _ if retired.classes & Class::Stores.bit() != 0 => stored,
        _ => (0, 0, 0),
    }
}

/// A record's latencies: the access's alone, or from Golden Cove on the instruction's in the lower half and the access's in the upper one (struct pebs_meminfo of
/// arch/x86/include/asm/perf_event.h). An instruction waits for nothing but its access here.
pub(super) fn latencies(generation: Generation, access: u64) -> u64 {
    if matches!(generation, Generation::SapphireRapids | Generation::ClearwaterForest) { access | access << 32 } else { access }
}

/// The registers in a record's order: flags, ip, ax, then as the format has them.
fn record(retired: &Retired, occasion: &Occasion) -> Vec<u64> {
    let (address, source, latency) = data(retired, occasion);
    let r = &retired.registers;
    let [ax, cx, dx, bx, sp, bp, si, di] = [r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]];
    if occasion.generation.format() < 4 {
        let mut record = vec![retired.flags, retired.next_ip, ax, bx, cx, dx, si, di, bp, sp];
        record.extend(&r[8..]);
        record.extend([occasion.counters, address, source, latency, retired.ip, 0]);
        if occasion.generation.format() == 3 {
            record.push(retired.tsc);
        }
        return record;
    }
    let groups = occasion.groups;
    let mut record = vec![0, retired.ip, occasion.counters, retired.tsc];
    if groups & GROUP_MEMORY != 0 {
        record.extend([address, source, latencies(occasion.generation, latency), 0]);
    }
    if groups & GROUP_REGISTERS != 0 {
        record.extend([retired.flags, retired.next_ip, ax, cx, dx, bx, sp, bp, si, di]);
        record.extend(&r[8..]);
    }
    if groups & GROUP_XMM != 0 {
        record.extend(retired.xmm.iter().flatten());
    }
    if groups & GROUP_BRANCHES != 0 {
        let entries = (groups >> 24 & 0xff) as usize + 1;
        record.extend(occasion.branches.newest(entries).flatten());
    }
    let bytes = 8 * record.len() as u64;
    record[0] = groups & 0xffff_ffff_ffff | bytes << 48;
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::{CLEAN, MODIFIED};

    #[test]
    fn sources_are_what_linux_reads() {
        let branches = Branches::new(Generation::Skylake);
        let latency_cycles = &[0; 6];
        let occasion = |class| Occasion {
            generation: Generation::Skylake,
            counters: 1,
            class,
            groups: 0,
            of_stores: false,
            latency_cycles,
            branches: &branches,
        };
        let load = |level, latency_cycles| Retired {
            load_address: 0x1240,
            store_address: 0x5680,
            classes: Class::Loads.bit() | Class::Stores.bit(),
            level,
            latency_cycles,
            ..Retired::default()
        };
        // pebs_data_source: 7 is PERF_MEM_SNOOP_HITM, 6 PERF_MEM_SNOOP_HIT.
        let slow = occasion(Class::SlowLoads);
        assert_eq!(data(&load(MODIFIED, 74), &slow), (0x1240, 7, 74));
        assert_eq!(data(&load(CLEAN, 69), &slow), (0x1240, 6, 69));
        assert_eq!(data(&load(0, 4), &slow), (0x1240, 1, 4));
        let locked = Retired { classes: Class::Loads.bit() | Class::LockedLoads.bit(), ..load(MODIFIED, 74) };
        assert_eq!(data(&locked, &slow), (0x1240, 0x27, 74));
        // A store's: whether it hit the first level.
        let missed = Retired { store_missed: true, ..load(MODIFIED, 74) };
        assert_eq!(data(&missed, &occasion(Class::Stores)), (0x5680, 0, 0));
        assert_eq!(data(&load(0, 4), &occasion(Class::Stores)), (0x5680, 1, 0));
    }

    #[test]
    fn a_stores_place_and_latencies_are_told_where_they_are_asked_for() {
        let branches = Branches::new(Generation::SapphireRapids);
        let occasion = Occasion {
            generation: Generation::SapphireRapids,
            counters: 1,
            class: Class::Stores,
            groups: GROUP_MEMORY,
            of_stores: true,
            latency_cycles: &[5, 14, 74, 218, 158, 162],
            branches: &branches,
        };
        let store = Retired {
            store_address: 0x5680,
            classes: Class::Stores.bit(),
            store_level: MODIFIED,
            store_missed: true,
            ..Retired::default()
        };
        // store_latency_data: the same encoding as a load's.
        assert_eq!(data(&store, &occasion), (0x5680, 7, 162));
        assert_eq!(record(&store, &occasion)[4..7], [0x5680, 7, 162 | 162 << 32]);
        assert_eq!(data(&Retired { store_level: 0, ..store }, &occasion), (0x5680, 1, 5));
    }
}
