//! Counters, and what the performance monitoring extension says, as CPUID enumerates them.

use super::Groups;
use crate::machine::{Cpuid, Leaf, Machine, Root};

/// The performance monitoring extension's leaf.
const EXTENSION: u32 = 0x23;

/// Counters as CPUID leaf 0xA enumerates them (SDM vol. 2A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Version of architectural performance monitoring; 0 where there is none.
    pub version: u32,
    /// General counters per logical CPU.
    pub general: u32,
    /// Their width in bits.
    pub width_bits: u32,
    /// Fixed counters.
    pub fixed: u32,
    /// Bit *n* set where there is a fixed counter *n*.
    pub fixed_mask: u32,
    /// Their width in bits.
    pub fixed_width_bits: u32,
}

impl Counters {
    /// Reads the leaf; `None` where the CPU or its hypervisor hides it. On hybrid processors it is that of the CPU that we run on.
    pub fn read(machine: &Machine) -> Option<Self> {
        let leaf = machine.cpuid.leaf(0xa, 0)?;
        let version = leaf.eax & 0xff;
        // From version 5 fixed counters may be sparse: the bitmap in ECX counts beside the number in EDX.
        let listed = (1_u32 << (leaf.edx & 0x1f).min(16)) - 1;
        let fixed_mask = if version >= 5 { listed | leaf.ecx & 0xffff } else { listed };
        Some(Self {
            version,
            general: leaf.eax >> 8 & 0xff,
            width_bits: leaf.eax >> 16 & 0xff,
            fixed: fixed_mask.count_ones(),
            fixed_mask,
            fixed_width_bits: leaf.edx >> 5 & 0xff,
        })
    }
}

/// What CPUID leaf 23H says (SDM vol. 2A; Linux 7.1 `asm/perf_event.h` and `update_pmu_cap`): of one kind of core on hybrid processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// Events have eight more bits of unit mask (EBX bit 0).
    pub has_second_umask: bool,
    /// Events can be counted where they are equal to `cmask` (EBX bit 1).
    pub has_equal: bool,
    /// A counter can be closed to RDPMC in user mode by itself (EBX bit 2).
    pub has_user_disable: bool,
    /// Bit *n* set where there is a general counter *n*; `None` without subleaf 1.
    pub general: Option<u32>,
    /// The same of fixed counters.
    pub fixed: Option<u32>,
    /// Automatic reload of counters; `None` without subleaf 2.
    pub reload: Option<Reload>,
    /// Architectural PEBS; `None` without subleaves 4 and 5.
    pub pebs: Option<ArchitecturalPebs>,
    /// Bits of EBX that nobody has named when this was written.
    pub unknown_bits: u32,
}

/// Which counters take part in automatic reload: general ones in the lower half, fixed ones from bit 32 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reload {
    /// Counters that can be reloaded.
    pub reloaded: u64,
    /// Counters whose overflow can reload others.
    pub causes: u64,
}

/// Architectural PEBS: groups, and counters as in [`Reload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchitecturalPebs {
    /// What records can hold.
    pub groups: Groups,
    /// Counters that write records.
    pub counters: u64,
    /// Those that do so with precise distribution.
    pub precise: u64,
}

impl Extension {
    /// Of the CPU that we run on, where all cores are alike; of one with this number elsewhere. `None` where there is no such leaf, or nobody may read it.
    pub fn read(machine: &Machine, cpu: Option<u32>) -> Option<Self> {
        match cpu {
            None => Self::of(&|subleaf| leaf_here(&machine.cpuid, subleaf)),
            Some(cpu) => Self::of(&|subleaf| leaf_of(&machine.root, cpu, subleaf)),
        }
    }

    fn of(leaf: &dyn Fn(u32) -> Option<Leaf>) -> Option<Self> {
        let main = leaf(0)?;
        // EAX bit n: subleaf n is there. Without subleaf 0 the leaf says nothing.
        if main.eax & 1 == 0 {
            return None;
        }
        let sub = |number: u32| (main.eax & 1 << number != 0).then(|| leaf(number)).flatten();
        let both = |general: u32, fixed: u32| u64::from(general) | u64::from(fixed) << 32;
        let counters = sub(1);
        let pebs = sub(4).zip(sub(5)).map(|(groups, counters)| ArchitecturalPebs {
            groups: Groups(groups.ebx),
            counters: both(counters.eax, counters.ecx),
            precise: both(counters.ebx, counters.edx),
        });
        Some(Self {
            has_second_umask: main.ebx & 1 != 0,
            has_equal: main.ebx & 1 << 1 != 0,
            has_user_disable: main.ebx & 1 << 2 != 0,
            general: counters.map(|leaf| leaf.eax),
            fixed: counters.map(|leaf| leaf.ebx),
            reload: sub(2).map(|leaf| Reload { reloaded: both(leaf.eax, leaf.ebx), causes: both(leaf.ecx, leaf.edx) }),
            pebs,
            unknown_bits: main.ebx & !0b111,
        })
    }
}

fn leaf_here(cpuid: &Cpuid, subleaf: u32) -> Option<Leaf> {
    cpuid.leaf(EXTENSION, subleaf)
}

/// By the kernel's device of that CPU (`cpuid` driver: 16 bytes at the leaf, its subleaf in the upper half of the position). Above its last leaf a CPU
/// answers with another one's data, so the last leaf is asked first.
fn leaf_of(root: &Root, cpu: u32, subleaf: u32) -> Option<Leaf> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::open(root.dev.join(format!("cpu/{cpu}/cpuid"))).ok()?;
    let ask = |leaf: u32, subleaf: u32| {
        let mut bytes = [0; 16];
        file.read_exact_at(&mut bytes, u64::from(leaf) | u64::from(subleaf) << 32).ok()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some(Leaf { eax: word(0), ebx: word(4), ecx: word(8), edx: word(12) })
    };
    (ask(0, 0)?.eax >= EXTENSION).then(|| ask(EXTENSION, subleaf)).flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of(leaves: &[(u32, [u32; 4])]) -> Option<Extension> {
        let leaves: BTreeMap<u32, Leaf> = leaves
            .iter()
            .map(|(subleaf, [eax, ebx, ecx, edx])| (*subleaf, Leaf { eax: *eax, ebx: *ebx, ecx: *ecx, edx: *edx }))
            .collect();
        Extension::of(&|subleaf| leaves.get(&subleaf).copied())
    }

    /// Subleaf 0 says which others there are; what it does not announce is not read, even where something would answer.
    #[test]
    fn only_announced_subleaves_are_read() {
        let all = of(&[
            (0, [0b11_0111, 0b111, 0, 0]),
            (1, [0xff, 0x77, 0, 0]),
            (2, [0xf, 0x7, 0x3, 0x1]),
            (4, [0, 1 << 29 | 1 << 30, 0, 0]),
            (5, [0xff, 0x1, 0x7, 0x1]),
        ]);
        let expected = Extension {
            has_second_umask: true,
            has_equal: true,
            has_user_disable: true,
            general: Some(0xff),
            fixed: Some(0x77),
            reload: Some(Reload { reloaded: 0x7_0000_000f, causes: 0x1_0000_0003 }),
            pebs: Some(ArchitecturalPebs { groups: Groups(1 << 29 | 1 << 30), counters: 0x7_0000_00ff, precise: 0x1_0000_0001 }),
            unknown_bits: 0,
        };
        assert_eq!(all, Some(expected));
        let announced_less = of(&[(0, [1, 1 << 7, 0, 0]), (1, [0xff, 0x77, 0, 0]), (2, [0xf, 0, 0, 0])]);
        assert_eq!(announced_less, Some(Extension { unknown_bits: 1 << 7, ..Extension::default() }));
        // The kernel takes architectural PEBS where both of its subleaves are there.
        assert_eq!(of(&[(0, [0b1_0001, 0, 0, 0]), (4, [0, 1, 0, 0])]).and_then(|extension| extension.pebs), None);
        assert_eq!(of(&[(0, [0; 4])]), None);
        assert_eq!(of(&[]), None);
    }
}
