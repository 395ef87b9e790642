//! The CPU, as `/proc/cpuinfo` describes it.

use super::Root;

/// Who designed the CPU: decides which precise sampling hardware it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// Intel: PEBS.
    Intel,
    /// AMD, and Hygon's licensed design: IBS.
    Amd,
    /// ARM and its licensees (any aarch64): SPE.
    Arm,
    /// Anything else: counter interrupts at best.
    Other,
}

/// The CPU model. Numbers are 0 and texts empty where the kernel does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Who designed it.
    pub vendor: Vendor,
    /// Model name as the kernel gives it; for ARM, which has none, put together from implementer and part.
    pub name: String,
    /// Family (x86) or architecture (ARM).
    pub family: u32,
    /// Model (x86) or part number (ARM).
    pub model: u32,
    /// Stepping (x86) or revision (ARM).
    pub stepping: u32,
    /// Microcode revision as the kernel gives it, empty where it does not.
    pub microcode: String,
    /// Feature flags of the first CPU.
    pub flags: Vec<String>,
    /// Online logical CPUs.
    pub online: u32,
}

impl Cpu {
    /// Reads `/proc/cpuinfo` and `/sys/devices/system/cpu/online`.
    pub fn read(root: &Root) -> Self {
        let text = root.proc("cpuinfo").unwrap_or_default();
        let field = |name: &str| field(&text, name);
        let number = |name: &str| field(name).and_then(|v| number(&v)).unwrap_or(0);
        let implementer = field("CPU implementer");
        let vendor = match field("vendor_id").as_deref() {
            Some("GenuineIntel") => Vendor::Intel,
            Some("AuthenticAMD" | "HygonGenuine") => Vendor::Amd,
            _ if implementer.is_some() => Vendor::Arm,
            _ => Vendor::Other,
        };
        let (family, model, stepping) = if vendor == Vendor::Arm {
            (number("CPU architecture"), number("CPU part"), number("CPU revision"))
        } else {
            (number("cpu family"), number("model"), number("stepping"))
        };
        let name = field("model name").unwrap_or_else(|| match &implementer {
            Some(implementer) => super::arm::core_name(crate::machine::cpu::number(implementer).unwrap_or(0), model),
            None => "unknown CPU".into(),
        });
        let flags = field("flags").or_else(|| field("Features")).unwrap_or_default();
        Self {
            vendor,
            name: name.split_whitespace().collect::<Vec<_>>().join(" "),
            family,
            model,
            stepping,
            microcode: field("microcode").unwrap_or_default(),
            flags: flags.split_whitespace().map(str::to_string).collect(),
            online: online(root, &text),
        }
    }

    /// Whether the kernel lists a feature flag.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|f| f == flag)
    }
}

/// The value of the first line `name : value` of cpuinfo.
fn field(text: &str, name: &str) -> Option<String> {
    let value = |line: &str| line.split_once(':').filter(|(key, _)| key.trim() == name).map(|(_, v)| v.trim().to_string());
    text.lines().find_map(value)
}

/// A number in decimal or in hexadecimal with 0x.
pub(super) fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Online CPUs, from sysfs' list; else the processors of cpuinfo.
fn online(root: &Root, cpuinfo: &str) -> u32 {
    let listed = root.sys("devices/system/cpu/online").map(|list| cpu_list(&list).len());
    let processors = || cpuinfo.lines().filter(|line| line.split(':').next().is_some_and(|k| k.trim() == "processor")).count();
    u32::try_from(listed.filter(|&n| n > 0).unwrap_or_else(processors)).unwrap_or(u32::MAX)
}

/// The CPUs of a kernel list such as `0-3,8`; parts that are no numbers are left out.
pub fn cpu_list(text: &str) -> Vec<u32> {
    let part = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        // No Linux has more than 8192 CPUs: a list beyond that is not one.
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) if last < 65536 => (first..=last).collect(),
            _ => Vec::new(),
        }
    };
    text.split(',').flat_map(part).collect()
}
