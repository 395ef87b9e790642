//! The seam to the CPUID instruction: live on x86-64, or leaves that were recorded on another machine.

use std::collections::BTreeMap;

/// The registers that one CPUID leaf returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// Where CPUID leaves come from.
#[derive(Clone, Debug, Default)]
pub enum Cpuid {
    /// The CPU that this process runs on. Gives nothing on other architectures than x86-64.
    #[default]
    Live,
    /// Leaves recorded elsewhere, by leaf and subleaf.
    Recorded(BTreeMap<(u32, u32), Leaf>),
}

impl Cpuid {
    /// Recorded leaves, given as (leaf, subleaf, [eax, ebx, ecx, edx]).
    pub fn recorded(leaves: &[(u32, u32, [u32; 4])]) -> Self {
        let leaf = |&(leaf, sub, [eax, ebx, ecx, edx]): &(u32, u32, [u32; 4])| ((leaf, sub), Leaf { eax, ebx, ecx, edx });
        Self::Recorded(leaves.iter().map(leaf).collect())
    }

    /// One leaf; `None` where the CPU has no such leaf (above the range's maximum) or there is no CPUID at all.
    pub fn leaf(&self, leaf: u32, subleaf: u32) -> Option<Leaf> {
        match self {
            Self::Live => live(leaf, subleaf),
            Self::Recorded(leaves) => leaves.get(&(leaf, subleaf)).copied(),
        }
    }
}

/// Basic, hypervisor and extended leaves each have a maximum of their own, in EAX of the range's first leaf
/// (SDM vol. 2A, CPUID). Above it Intel answers with the data of another leaf, so the maximum is asked first.
#[cfg(target_arch = "x86_64")]
fn live(leaf: u32, subleaf: u32) -> Option<Leaf> {
    let first = leaf & 0xffff_0000;
    let ask = |leaf, subleaf| raw_cpuid::native_cpuid::cpuid_count(leaf, subleaf);
    let has_hypervisor = || ask(1, 0).ecx & 1 << 31 != 0;
    if first == 0x4000_0000 && !has_hypervisor() {
        return None;
    }
    // KVM may report 0 as the maximum of the hypervisor range, meaning that there is only the next leaf.
    let max = ask(first, 0).eax.max(if first == 0x4000_0000 { 0x4000_0001 } else { 0 });
    if leaf > max {
        return None;
    }
    let r = ask(leaf, subleaf);
    Some(Leaf { eax: r.eax, ebx: r.ebx, ecx: r.ecx, edx: r.edx })
}

#[cfg(not(target_arch = "x86_64"))]
fn live(_leaf: u32, _subleaf: u32) -> Option<Leaf> {
    None
}
