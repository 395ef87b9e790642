//! Facts about the machine itself: CPU, hypervisor, kernel, mitigations.

use super::kernel_config::KernelConfig;
use super::{Fact, Group, Machine, Vendor, amd, intel};

pub(super) fn facts(machine: &Machine, config: &KernelConfig) -> Vec<Fact> {
    let mut facts = vec![cpu(machine), microcode(machine), virtualisation(machine), kernel(machine, config)];
    facts.extend(mitigations(machine));
    facts
}

fn cpu(machine: &Machine) -> Fact {
    let cpu = &machine.cpu;
    let numbers = match cpu.vendor {
        Vendor::Arm => format!("part {:#05x} r{}", cpu.model, cpu.stepping),
        _ => format!("family {}, model {}, stepping {}", cpu.family, cpu.model, cpu.stepping),
    };
    let generation = match cpu.vendor {
        Vendor::Intel => intel::Generation::of_model(cpu.family, cpu.model).map(|g| g.name),
        Vendor::Amd => amd::generation(cpu.family, cpu.model),
        _ => None,
    };
    let mut meaning = generation.map_or(numbers.clone(), |name| format!("{numbers}: {name}"));
    if machine.virtualisation.is_guest() {
        meaning.push_str("; a hypervisor may show another model than the real one");
    }
    Fact::new(Group::Machine, "CPU", cpu.name.as_str(), meaning)
}

fn microcode(machine: &Machine) -> Fact {
    let meaning = if machine.virtualisation.is_guest() {
        "set by the hypervisor: a change of the host's microcode may not show here"
    } else {
        "part of the machine's identity: calibrate again after an update"
    };
    let value = if machine.cpu.microcode.is_empty() { "not shown" } else { &machine.cpu.microcode };
    Fact::new(Group::Machine, "microcode", value, meaning)
}

fn virtualisation(machine: &Machine) -> Fact {
    let v = &machine.virtualisation;
    let meaning = if v.is_guest() {
        format!("each timer or counter interrupt costs an exit to the host, and steal time adds noise ({})", v.source)
    } else {
        format!("bare metal: {}", v.source)
    };
    Fact::new(Group::Machine, "virtualisation", v.hypervisor.as_str(), meaning)
}

fn kernel(machine: &Machine, config: &KernelConfig) -> Fact {
    let preemption = match (config.has("CONFIG_PREEMPT_RT"), config.has("CONFIG_PREEMPT")) {
        (Some(true), _) => "fully preemptible (RT): interrupts run in threads, except perf's",
        (_, Some(true)) => "preemptible",
        _ => "sampling rules follow the version: :u on IBS from 6.14, format 6 PEBS from 6.15",
    };
    Fact::new(Group::Machine, "kernel", machine.kernel.as_str(), preemption)
}

fn mitigations(machine: &Machine) -> Vec<Fact> {
    let m = &machine.mitigations;
    let pti = match m.pti {
        Some(true) => Fact::new(
            Group::Machine,
            "page-table isolation",
            "on",
            "every interrupt from user mode changes page tables twice: a more expensive sample; PEBS buffers live in the entry area",
        ),
        Some(false) => {
            Fact::new(Group::Machine, "page-table isolation", "off", "an interrupt from user mode keeps its page tables")
        }
        None => Fact::new(Group::Machine, "page-table isolation", "unknown", "the kernel does not list CPU vulnerabilities"),
    };
    let active: Vec<_> = m.active.iter().filter(|(bug, _)| bug != "meltdown").collect();
    let summary = if active.is_empty() {
        Fact::new(Group::Machine, "mitigations", "none needed", "nothing beside the interrupt itself is paid at kernel entry")
    } else {
        let text = active.iter().map(|(bug, text)| format!("{bug}: {}", text.trim_start_matches("Mitigation: ")));
        let meaning =
            format!("paid at each interrupt, and part of the machine's identity. {}", text.collect::<Vec<_>>().join(" | "));
        Fact::new(Group::Machine, "mitigations", format!("{} on the interrupt path", active.len()), meaning)
    };
    vec![pti, summary]
}
