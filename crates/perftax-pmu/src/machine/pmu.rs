//! The PMUs that the kernel shows in `/sys/bus/event_source/devices`.

use std::collections::BTreeMap;

use super::Root;

/// Where PMUs stand below `/sys`.
const DEVICES: &str = "bus/event_source/devices";

/// One PMU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pmu {
    /// Its name: `cpu`, `ibs_op`, `arm_spe_0`.
    pub name: String,
    /// `perf_event_attr.type`; `None` where the file is missing or no number.
    pub kind: Option<u32>,
    /// `format/`: field name and the bits of config that it fills.
    pub formats: BTreeMap<String, String>,
    /// `caps/`: capability and value.
    pub caps: BTreeMap<String, String>,
    /// The CPUs that it belongs to (`cpus` or `cpumask`), where it does not belong to all.
    pub cpus: Option<String>,
}

impl Pmu {
    /// All PMUs, by name.
    pub fn all(root: &Root) -> Vec<Self> {
        root.sys_names(DEVICES).into_iter().map(|name| Self::read(root, name)).collect()
    }

    fn read(root: &Root, name: String) -> Self {
        let folder = format!("{DEVICES}/{name}");
        let files = |sub: &str| {
            let entry = |file: String| root.sys(&format!("{folder}/{sub}/{file}")).map(|value| (file, value));
            root.sys_names(&format!("{folder}/{sub}")).into_iter().filter_map(entry).collect()
        };
        Self {
            kind: root.sys(&format!("{folder}/type")).and_then(|text| text.parse().ok()),
            formats: files("format"),
            caps: files("caps"),
            cpus: root.sys(&format!("{folder}/cpus")).or_else(|| root.sys(&format!("{folder}/cpumask"))),
            name,
        }
    }

    /// A capability as a number, decimal or (SPE's filters) hexadecimal.
    pub fn cap(&self, name: &str) -> Option<u64> {
        let value = self.caps.get(name)?;
        match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }
    }

    /// Whether this is a core's own counters: `cpu`, Intel's hybrid pairs, ARM's per-core PMUs.
    pub fn is_core(&self) -> bool {
        let name = self.name.as_str();
        matches!(name, "cpu" | "cpu_core" | "cpu_atom" | "cpu_lowpower")
            || name.starts_with("armv8_")
            || name.starts_with("armv9_")
    }
}
