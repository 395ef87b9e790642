//! Whether this is a guest, and of what.

use super::{Cpuid, Root};

/// The machine under the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Virtualisation {
    /// Hypervisor's name, or `none`.
    pub hypervisor: String,
    /// Where that was read.
    pub source: &'static str,
}

/// What hypervisors put into EBX, ECX, EDX of CPUID leaf 0x4000_0000.
const SIGNATURES: [(&str, &str); 10] = [
    ("KVMKVMKVM", "KVM"),
    ("Linux KVM Hv", "KVM"),
    ("TCGTCGTCGTCG", "QEMU TCG"),
    ("Microsoft Hv", "Hyper-V"),
    ("VMwareVMware", "VMware"),
    ("XenVMMXenVMM", "Xen"),
    ("bhyve bhyve ", "bhyve"),
    ("ACRNACRNACRN", "ACRN"),
    ("VBoxVBoxVBox", "VirtualBox"),
    ("QNXQVMBSQG", "QNX"),
];

/// What firmware of virtual machines says of itself in DMI, where CPUID says nothing.
const FIRMWARE: [(&str, &str); 9] = [
    ("KVM", "KVM"),
    ("QEMU", "QEMU"),
    ("Amazon EC2", "Amazon EC2"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("Virtual Machine", "Hyper-V"),
    ("Xen", "Xen"),
    ("Parallels", "Parallels"),
];

impl Virtualisation {
    /// Asks CPUID's hypervisor leaf, then the files that everybody may read (so that root and user see the same).
    pub fn read(root: &Root, cpuid: &Cpuid, has_hypervisor_flag: bool) -> Self {
        if let Some(name) = signature(cpuid) {
            return Self { hypervisor: name, source: "CPUID leaf 0x40000000" };
        }
        if let Some(kind) = root.sys("hypervisor/type").filter(|kind| !kind.is_empty()) {
            let name = if kind == "xen" { "Xen".into() } else { kind };
            return Self { hypervisor: name, source: "/sys/hypervisor/type" };
        }
        if let Some(name) = root.sys("firmware/devicetree/base/hypervisor/compatible") {
            let name = if name.contains("kvm") { "KVM".into() } else { name.replace('\0', " ") };
            return Self { hypervisor: name, source: "/sys/firmware/devicetree/base/hypervisor" };
        }
        // x86 without the hypervisor bit is bare metal, whatever the firmware is called (Amazon's *.metal).
        let is_x86 = cpuid.leaf(1, 0).is_some();
        if !is_x86 || has_hypervisor_flag {
            let dmi = ["sys_vendor", "product_name", "board_vendor"].map(|f| root.sys(&format!("class/dmi/id/{f}")));
            let named = dmi.iter().flatten().find_map(|text| FIRMWARE.iter().find(|(key, _)| text.contains(key)));
            // Amazon's ARM metal instances carry the same vendor as its guests; only the product tells.
            let is_metal = dmi.iter().flatten().any(|text| text.contains(".metal"));
            if let Some((_, name)) = named.filter(|_| !is_metal) {
                return Self { hypervisor: (*name).into(), source: "/sys/class/dmi/id" };
            }
        }
        if has_hypervisor_flag {
            return Self { hypervisor: "unknown hypervisor".into(), source: "/proc/cpuinfo flags" };
        }
        Self { hypervisor: "none".into(), source: "no hypervisor bit, none in the firmware's names" }
    }

    /// Whether there is a hypervisor under the kernel.
    pub fn is_guest(&self) -> bool {
        self.hypervisor != "none"
    }
}

/// The hypervisor's signature; `None` on bare metal and where there is no CPUID.
fn signature(cpuid: &Cpuid) -> Option<String> {
    let is_guest = cpuid.leaf(1, 0)?.ecx & 1 << 31 != 0;
    let leaf = cpuid.leaf(0x4000_0000, 0).filter(|_| is_guest)?;
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].into_iter().flat_map(u32::to_le_bytes).collect();
    let text = String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string();
    let known = SIGNATURES.iter().find(|(signature, _)| text == *signature).map(|(_, name)| (*name).to_string());
    let is_text = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    known.or_else(|| is_text.then_some(text))
}
