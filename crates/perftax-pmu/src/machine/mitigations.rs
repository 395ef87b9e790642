//! Mitigations of CPU bugs: those on the kernel's entry and exit paths are paid for by every interrupt that samples.

use super::Root;

/// The files of `/sys/devices/system/cpu/vulnerabilities` whose mitigation lies on the path of an interrupt or a trap.
const ON_THE_INTERRUPT_PATH: [&str; 10] = [
    "meltdown",
    "spectre_v1",
    "spectre_v2",
    "retbleed",
    "mds",
    "tsx_async_abort",
    "mmio_stale_data",
    "reg_file_data_sampling",
    "spec_rstack_overflow",
    "indirect_target_selection",
];

/// The mitigations in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mitigations {
    /// Bug and the kernel's text about it, for bugs that affect this CPU and cost something at an interrupt.
    pub active: Vec<(String, String)>,
    /// Page-table isolation; `None` where the kernel does not tell.
    pub pti: Option<bool>,
}

impl Mitigations {
    /// Reads the kernel's own account.
    pub fn read(root: &Root, has_pti_flag: bool) -> Self {
        let state = |bug: &str| root.sys(&format!("devices/system/cpu/vulnerabilities/{bug}"));
        let is_relevant = |text: &String| text != "Not affected";
        let entry = |bug: &str| state(bug).filter(is_relevant).map(|text| (bug.to_string(), text));
        let meltdown = state("meltdown");
        Self {
            active: ON_THE_INTERRUPT_PATH.into_iter().filter_map(entry).collect(),
            // Inside Xen guests and on ARM the file's wording differs, so the words are looked for, not the whole text.
            pti: meltdown.map(|text| has_pti_flag || text.contains("PTI")),
        }
    }

    /// All in one line, the form that identifies a machine.
    pub fn line(&self) -> String {
        let pti = match self.pti {
            Some(true) => "PTI on",
            Some(false) => "PTI off",
            None => "PTI unknown",
        };
        let bugs = self.active.iter().filter(|(bug, _)| bug != "meltdown").map(|(bug, text)| format!("{bug}: {text}"));
        std::iter::once(pti.to_string()).chain(bugs).collect::<Vec<_>>().join(" | ")
    }
}
