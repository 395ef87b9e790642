//! Architectural PEBS and auto counter reload: where records go without a debug store, what they hold, and what each counter has beside its selector. From Linux 7.1's
//! arch/x86/include/asm/{msr-index,perf_event}.h and arch/x86/events/intel/{core,ds}.c; nothing of it could be compared with hardware here.

use super::debug_store::{Memory, Occasion, Stored, data, latencies};
use super::{Retired, msr};

/// Bits of a counter's CFG_C (ARCH_PEBS_*): what it is reloaded with; its value may stand in others' records; records hold general counters, fixed ones,
/// branches (3: as many as there are), XMM, general registers, the access; it samples.
const RELOAD: u64 = 0xffff_ffff;
const ALLOW: u64 = 1 << 35;
const GENERAL: u64 = 1 << 36;
const FIXED: u64 = 1 << 37;
const BRANCHES: u64 = 3 << 40;
const XMM: u64 = 1 << 49;
const REGISTERS: u64 = 1 << 61;
const ACCESS: u64 = 1 << 62;
const ENABLE: u64 = 1 << 63;
/// Groups that a record may hold beside the basic one. In its header they have the same bits, and the basic one that of [`ENABLE`].
const GROUPS: u64 = GENERAL | FIXED | BRANCHES | XMM | REGISTERS | ACCESS;

/// The header's bit of code of 64 bits: all that is modelled.
const LONG_MODE: u64 = 1 << 30;
/// Components of XSAVE's state that the vector registers' group says it holds: SSE.
const XSTATE_SSE: u64 = 2;

/// Of IA32_PEBS_INDEX: where the next record goes, from the base on; the buffer is full; records are written; from where on an interrupt is due, as
/// the first but 32 bits higher (`union arch_pebs_index`).
const INDEX_OFFSET: u64 = 0x7ff_fff0;
const INDEX_FULL: u64 = 1 << 31;
const INDEX_ENABLE: u64 = 1 << 32;
/// Of IA32_PEBS_BASE: its size, as a power of two of pages.
const BASE_SIZE: u64 = 0xf;
const PAGE_BYTES: u64 = 4096;

/// Number of the first fixed counter, and its place among what each counter has.
const FIRST_FIXED: u64 = 32;
const FIXED_PLACE: usize = 8;
const PLACES: usize = FIXED_PLACE + 7;

/// Groups and the like, as CPUID leaf 23H, sub-leaf 4, tells them in EBX: the upper half of CFG_C.
pub fn groups(without_branches: bool) -> u32 {
    let all = if without_branches { GROUPS & !BRANCHES } else { GROUPS };
    ((all | ALLOW) >> 32) as u32
}

/// The counter whose CFG_B or CFG_C a register is, and which of them (0, 1).
fn of_counter(number: u32) -> Option<(u64, usize)> {
    let (general, fixed) = (number.wrapping_sub(msr::V6_GENERAL0), number.wrapping_sub(msr::V6_FIXED0));
    let (first, at) = if fixed < 0x80 { (FIRST_FIXED, fixed) } else { (0, general) };
    (at < 0x80 && at % 4 >= 2).then(|| (first + u64::from(at / 4), at as usize % 4 - 2))
}

/// Whether a register is one of these, of counters that are there.
pub fn has(number: u32, counters: u64) -> bool {
    is_of_pebs(number) || of_counter(number).is_some_and(|(counter, _)| counters >> counter & 1 == 1)
}

/// Whether a register is of PEBS alone.
pub fn is_of_pebs(number: u32) -> bool {
    matches!(number, msr::PEBS_BASE | msr::PEBS_INDEX)
}

/// Whether one of these takes a value; `None` where it is another register.
pub fn takes(number: u32, value: u64, counters: u64) -> Option<bool> {
    let allowed = match (number, of_counter(number)) {
        (msr::PEBS_BASE, _) => ((1 << 52) - PAGE_BYTES) | BASE_SIZE,
        (msr::PEBS_INDEX, _) => INDEX_OFFSET | INDEX_FULL | INDEX_ENABLE | INDEX_OFFSET << 32,
        (_, Some((_, 0))) => counters,
        (_, Some(_)) => RELOAD | ALLOW | GROUPS | ENABLE,
        _ => return None,
    };
    Some(value & !allowed == 0)
}

/// The registers.
#[derive(Clone, Debug, Default)]
pub struct Architectural {
    base: u64,
    index: u64,
    /// CFG_B and CFG_C by counter.
    each: [[u64; 2]; PLACES],
}

impl Architectural {
    fn place(counter: u64) -> Option<usize> {
        let place = if counter < FIRST_FIXED { counter as usize } else { FIXED_PLACE + (counter - FIRST_FIXED) as usize };
        (place < PLACES && (counter >= FIRST_FIXED || place < FIXED_PLACE)).then_some(place)
    }

    fn causes(&self, counter: u64) -> u64 {
        Self::place(counter).map_or(0, |place| self.each[place][0])
    }

    fn config(&self, counter: u64) -> u64 {
        Self::place(counter).map_or(0, |place| self.each[place][1])
    }

    fn counters() -> impl Iterator<Item = u64> {
        (0..FIXED_PLACE as u64).chain((0..(PLACES - FIXED_PLACE) as u64).map(|at| FIRST_FIXED + at))
    }

    /// Counters of which something holds, a bit each.
    fn mask(of: impl Fn(u64) -> bool) -> u64 {
        Self::counters().filter(|counter| of(*counter)).map(|counter| 1 << counter).sum()
    }

    /// A register, where it is one of these.
    pub fn register(&mut self, number: u32) -> Option<&mut u64> {
        match number {
            msr::PEBS_BASE => Some(&mut self.base),
            msr::PEBS_INDEX => Some(&mut self.index),
            _ => {
                let (counter, which) = of_counter(number)?;
                Some(&mut self.each[Self::place(counter)?][which])
            }
        }
    }

    /// Counters that sample, a bit each.
    pub fn precise(&self) -> u64 {
        Self::mask(|counter| self.config(counter) & ENABLE != 0)
    }

    /// What the records of these counters hold, together.
    pub fn groups(&self, counters: u64) -> u64 {
        let each = Self::counters().filter(|counter| counters >> counter & 1 == 1);
        each.fold(0, |all, counter| all | self.config(counter) & GROUPS)
    }

    /// What a counter is reloaded with after its record; `None` where it goes on from where it is.
    pub fn reload(&self, counter: u64) -> Option<u64> {
        (self.config(counter) & RELOAD != 0).then(|| self.reloaded_with(counter))
    }

    /// The value of CFG_C's lower half: all bits above are set.
    pub fn reloaded_with(&self, counter: u64) -> u64 {
        self.config(counter) | !RELOAD
    }

    /// Whether a counter's own overflow reloads it: its status says nothing then.
    pub fn reloads_itself(&self, counter: u64) -> bool {
        self.causes(counter).checked_shr(counter as u32).is_some_and(|causes| causes & 1 == 1)
    }

    /// Counters that these, having overflowed, reload.
    pub fn reloaded_by(&self, overflowed: u64) -> u64 {
        Self::mask(|counter| self.causes(counter) & overflowed != 0)
    }

    /// Writes a record, with general and fixed counters as they are.
    pub fn store(&mut self, memory: &mut impl Memory, retired: &Retired, occasion: &Occasion, values: [&[u64]; 2]) -> Stored {
        let (offset, threshold) = (self.index & INDEX_OFFSET, self.index >> 32 & INDEX_OFFSET);
        if self.index & INDEX_ENABLE == 0 || self.index & INDEX_FULL != 0 {
            return Stored::default();
        }
        let record = self.record(retired, occasion, values);
        let end = offset + 8 * record.len() as u64;
        let base = self.base & !(PAGE_BYTES - 1);
        let has_room = end <= PAGE_BYTES << (self.base & BASE_SIZE) && end <= INDEX_OFFSET;
        if !has_room || !memory.write_physical(base + offset, &record) {
            self.index |= INDEX_FULL;
            return Stored { written: false, due: true };
        }
        self.index = self.index & !INDEX_OFFSET | end;
        Stored { written: true, due: end >= threshold }
    }

    /// The header and its groups, in the order in which `setup_arch_pebs_sample_data` reads them; whole units of the index.
    fn record(&self, retired: &Retired, occasion: &Occasion, values: [&[u64]; 2]) -> Vec<u64> {
        let groups = occasion.groups;
        let r = &retired.registers;
        let mut record = vec![0, 0, retired.ip, occasion.counters, retired.tsc];
        // How long it took to retire is not valid: nothing waits to retire here.
        record.extend([0; 3]);
        if groups & ACCESS != 0 {
            let (address, source, latency) = data(retired, occasion);
            record.extend([address, 0, 0, 0, 0, source, latencies(occasion.generation, latency), 0]);
        }
        if groups & REGISTERS != 0 {
            // Flags, ip, ax, cx, dx, bx, sp, bp, si, di, r8 to r15; there is no shadow stack.
            record.extend([retired.flags, retired.next_ip]);
            record.extend(r);
            record.extend([0; 2]);
        }
        if groups & XMM != 0 {
            record.extend([XSTATE_SSE, 0]);
            record.extend(retired.xmm.iter().flatten());
        }
        if groups & BRANCHES != 0 {
            let branches: Vec<[u64; 3]> = occasion.branches.newest(usize::MAX).collect();
            // Of the last event record nothing is kept.
            record.extend([0, occasion.branches.control(), branches.len() as u64, 0, 0, 0]);
            record.extend(branches.iter().flatten());
        }
        if groups & (GENERAL | FIXED) != 0 {
            let allowed = Self::mask(|counter| self.config(counter) & ALLOW != 0);
            let wanted = |group: u64, mask: u64| if groups & group != 0 { mask } else { 0 };
            let masks = [wanted(GENERAL, allowed & RELOAD), wanted(FIXED, allowed >> FIRST_FIXED)];
            record.extend([masks[0] | masks[1] << 32, 0]);
            for (mask, values) in masks.into_iter().zip(values) {
                record.extend((0..values.len()).filter(|at| mask >> at & 1 == 1).map(|at| values[at]));
            }
        }
        if record.len() % 2 == 1 {
            record.push(0);
        }
        record[0] = (8 * record.len() as u64) | LONG_MODE | (groups & GROUPS) | ENABLE;
        record
    }
}
