//! Facts about what can take samples, whoever made it; the vendors' own follow from their modules.

use super::kernel_config::KernelConfig;
use super::{Fact, Group, Machine, Probe, Vendor, amd, arm, intel};

pub(super) fn facts(machine: &Machine, config: &KernelConfig, probe: &dyn Probe) -> Vec<Fact> {
    let mut facts = pmus(machine);
    facts.extend(kinds(machine));
    facts.extend(match machine.cpu.vendor {
        Vendor::Intel => intel::facts(machine),
        Vendor::Amd => amd::facts(machine),
        Vendor::Arm => arm::facts(machine),
        Vendor::Other => Vec::new(),
    });
    facts.push(rdpmc(machine));
    facts.extend(mediated(machine));
    facts.push(breakpoints(machine, probe));
    facts.push(probes(machine, config));
    facts
}

fn pmus(machine: &Machine) -> Vec<Fact> {
    if machine.pmus.is_empty() {
        let meaning = "no /sys/bus/event_source/devices: the kernel has no perf events, or /sys is not mounted";
        return vec![Fact::new(Group::Hardware, "PMUs", "none", meaning)];
    }
    let list = machine.pmus.iter().map(|pmu| match pmu.kind {
        Some(kind) => format!("{} ({kind})", pmu.name),
        None => pmu.name.clone(),
    });
    let core: Vec<_> = machine.pmus.iter().filter(|pmu| pmu.is_core()).map(|pmu| pmu.name.as_str()).collect();
    let meaning = if core.is_empty() {
        "the core's own counters are missing: no cycles, no instructions, no cache events"
    } else {
        "the number in parentheses is perf_event_attr.type"
    };
    let count = if machine.pmus.len() == 1 { "1 PMU".to_string() } else { format!("{} PMUs", machine.pmus.len()) };
    let all = Fact::new(Group::Hardware, "PMUs", count, format!("{}; {meaning}", list.collect::<Vec<_>>().join(", ")));
    let formats =
        machine.pmus.iter().filter(|pmu| pmu.is_core() || pmu.name.starts_with("ibs_") || pmu.name.starts_with("arm_spe"));
    let format = |pmu: &super::Pmu| {
        let fields: Vec<_> = pmu.formats.iter().map(|(name, bits)| format!("{name}={bits}")).collect();
        Fact::new(Group::Hardware, &format!("format of {}", pmu.name), format!("{} fields", fields.len()), fields.join(", "))
    };
    std::iter::once(all).chain(formats.filter(|pmu| !pmu.formats.is_empty()).map(format)).collect()
}

/// 0 nobody, 1 processes that have mapped an event, 2 everybody (perf's own documentation of the file).
fn rdpmc(machine: &Machine) -> Fact {
    let Some(pmu) = machine.core_pmu() else {
        return Fact::new(Group::Hardware, "rdpmc", "no core PMU", "counters cannot be read from user space");
    };
    let file = format!("bus/event_source/devices/{}/rdpmc", pmu.name);
    let value = machine.root.sys(&file);
    // RDPMC user disable (SDM vol. 3B; Linux 7.0, `intel_pmu_update_rdpmc_user_disable`): each counter can be closed to user mode by itself.
    let by_counter = machine.cpu.vendor == Vendor::Intel
        && intel::extension(machine, &pmu.name).is_some_and(|extension| extension.has_user_disable);
    let (text, meaning) = match (value.as_deref(), by_counter) {
        (Some("0"), _) => ("0: off", "reading a counter costs a system call"),
        (Some("1"), false) => ("1: for mapped events", "a counter is read in user space in some 20 ns once its event is mapped"),
        (Some("1"), true) => (
            "1: for mapped events",
            "a counter is read in user space in some 20 ns once its event is mapped; the CPU closes those of events that are of no thread (whole CPUs, \
             cgroups): RDPMC reads 0 there, from Linux 7.0 on (RDPMC user disable)",
        ),
        (Some("2"), _) => ("2: for all", "any process may read counters"),
        (Some(_) | None, _) => ("not offered", "counters are read by system call"),
    };
    Fact::new(Group::Hardware, "rdpmc", text, meaning)
        .fix_if(value.as_deref() == Some("0"), format!("echo 1 | sudo tee /sys/{file}"))
}

/// Kinds of cores, where there are several: Intel's hybrid processors, ARM's big and little.
fn kinds(machine: &Machine) -> Option<Fact> {
    let core_pmus = machine.core_pmus();
    let kinds: Vec<_> = core_pmus
        .iter()
        .map(|pmu| match &pmu.cpus {
            Some(cpus) => format!("{} (CPUs {cpus})", pmu.name),
            None => pmu.name.clone(),
        })
        .collect();
    let first = core_pmus.first().filter(|_| core_pmus.len() > 1)?;
    let meaning = format!(
        "{}: an event is of one kind, and counts nothing on the CPUs of the others; name it ({}/cycles/), since one that names none is refused here",
        kinds.join(", "),
        first.name
    );
    Some(Fact::new(Group::Hardware, "kinds of cores", format!("{} kinds", core_pmus.len()), meaning))
}

/// Whether KVM hands counters to guests for as long as they run (mediated vPMU, in Linux 7.1): then a host's event must leave guests out.
fn mediated(machine: &Machine) -> Option<Fact> {
    const MODULES: [&str; 2] = ["kvm_intel", "kvm_amd"];
    let parameter = |module: &&str| machine.root.sys(&format!("module/{module}/parameters/enable_mediated_pmu"));
    let value = MODULES.iter().find_map(parameter)?;
    let (text, meaning) = match value.as_str() {
        "Y" | "1" => (
            "on",
            "virtual machines have the counters to themselves while they run: events that leave guests out (H, and those without modifiers) stand still \
             meanwhile, and their time with them; while such a machine exists, core events that do not are refused with EOPNOTSUPP, and while such an event \
             is open, none starts (EBUSY)",
        ),
        "N" | "0" => ("off", "guests' counters are events of the host's: both share the same counters"),
        _ => ("unknown", "the parameter enable_mediated_pmu of KVM has a value that is not known here"),
    };
    Some(Fact::new(Group::Hardware, "mediated vPMU", text, meaning))
}

fn breakpoints(machine: &Machine, probe: &dyn Probe) -> Fact {
    let name = "breakpoint slots";
    if !machine.has_pmu("breakpoint") {
        let meaning = "the kernel shows no breakpoint PMU: no watchpoints";
        return Fact::new(Group::Hardware, name, "none", meaning);
    }
    let meaning = "addresses watched at once per thread, each access a trap; a debugger takes from the same";
    match (probe.breakpoint_slots(), machine.cpu.vendor) {
        (Some(slots), _) => Fact::new(Group::Hardware, name, format!("{slots} (counted)"), meaning),
        // The debug registers DR0 to DR3 of every x86 since the 80386.
        (None, Vendor::Intel | Vendor::Amd) => Fact::new(Group::Hardware, name, "4 (x86's number)", meaning),
        (None, _) => Fact::new(Group::Hardware, name, "not counted", meaning),
    }
}

/// Tracepoints and uprobes: the tracing side of perf.
fn probes(machine: &Machine, config: &KernelConfig) -> Fact {
    let name = "tracefs";
    match machine.tracefs() {
        Some(mount) => {
            let uprobes =
                if machine.has_pmu("uprobe") { "tracepoints and uprobes by name" } else { "tracepoints by name; no uprobe PMU" };
            Fact::new(Group::Hardware, name, format!("at {mount}"), format!("{uprobes}; reading it takes root"))
        }
        None if config.has("CONFIG_FTRACE") == Some(false) => {
            Fact::new(Group::Hardware, name, "not built in", "no tracepoints: this kernel has no CONFIG_FTRACE")
        }
        None => Fact::new(Group::Hardware, name, "not mounted", "tracepoints cannot be found by name")
            .fix("sudo mount -t tracefs tracefs /sys/kernel/tracing"),
    }
}
