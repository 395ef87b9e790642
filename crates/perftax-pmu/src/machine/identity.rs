//! What a machine profile is keyed by.

use crate::fnv::{FNV_OFFSET, fnv1a};
use perftax_doc::MachineId;

use super::Machine;

impl Machine {
    /// The identity that documents carry and profiles are looked up by.
    pub fn id(&self) -> MachineId {
        let guest =
            if self.virtualisation.is_guest() { format!(" ({} guest)", self.virtualisation.hypervisor) } else { String::new() };
        let plural = if self.cpu.online == 1 { "" } else { "s" };
        MachineId {
            name: format!("{}{guest}, {} CPU{plural}", self.cpu.name, self.cpu.online),
            fingerprint: self.fingerprint(),
            cpu: self.cpu.name.clone(),
            microcode: self.cpu.microcode.clone(),
            virtualisation: self.virtualisation.hypervisor.clone(),
            mitigations: self.mitigations.line(),
            cpus: self.cpu.online,
        }
    }

    /// Kernel release, as `uname -r` says; `unknown` where `/proc` is not mounted.
    pub fn kernel(&self) -> String {
        self.kernel.clone()
    }

    /// Sixteen hexadecimal digits over all that changes what a sample costs: CPU model (name and numbers), microcode,
    /// kernel release, mitigations, virtualisation. Stable between runs, releases and users of the machine.
    fn fingerprint(&self) -> String {
        let cpu = &self.cpu;
        let numbers = format!("{}-{}-{}", cpu.family, cpu.model, cpu.stepping);
        let mitigations = self.mitigations.line();
        let parts = [&cpu.name, &numbers, &cpu.microcode, &self.kernel, &mitigations, &self.virtualisation.hypervisor];
        let mut hash = FNV_OFFSET;
        for part in parts {
            hash = fnv1a(hash, part.as_bytes());
            // A separator that no text holds, so that moving a letter from one part to the next changes the hash.
            hash = fnv1a(hash, &[0]);
        }
        format!("{hash:016x}")
    }
}
