//! Facts about what the kernel permits, and at which rates it throttles.

use super::{Fact, Group, Machine, PARANOID, Privilege, Probe, Right, Trial};

/// The kernel's default for `perf_event_max_sample_rate`, samples per second.
const DEFAULT_MAX_SAMPLE_RATE: u64 = 100_000;

/// A rate that no mechanism reaches with an interrupt for each sample, samples per second.
const GENEROUS_SAMPLE_RATE: u64 = 1_000_000;

pub(super) fn permission(machine: &Machine, privilege: &Privilege, probe: &dyn Probe) -> Vec<Fact> {
    vec![paranoid(privilege, &probe.may(Right::OwnUserMode)), capabilities(privilege), kptr(machine), yama(machine)]
}

fn paranoid(privilege: &Privilege, own_user_mode: &Trial) -> Fact {
    let name = "perf_event_paranoid";
    let fix = format!("sudo sysctl {PARANOID}=-1");
    let Some(level) = privilege.paranoid else {
        let meaning = "no such sysctl: the kernel has no perf events (CONFIG_PERF_EVENTS), or /proc is hidden";
        return Fact::new(Group::Permission, name, "missing", meaning);
    };
    let user_mode_only = "users may measure their own processes in user mode only";
    let rule = match (level, own_user_mode) {
        (..=-1, _) => "everybody may measure everything, tracepoints too",
        (0, _) => "everybody may measure whole CPUs and the kernel; no raw tracepoints",
        (1, _) => "users may measure their own processes, kernel included; no whole CPUs",
        (2, _) => user_mode_only,
        // The kernel itself knows no level above 2; Debian's and Ubuntu's do.
        (_, Trial::Allowed) if !privilege.is_capable() => {
            "users may measure their own processes in user mode only: this kernel takes it for 2"
        }
        _ => "users may measure nothing at all",
    };
    let meaning = if privilege.is_capable() {
        format!("{rule}; this process has the capability and is not bound")
    } else {
        rule.to_string()
    };
    Fact::new(Group::Permission, name, level.to_string(), meaning)
        .fix_if(level > -1 && !privilege.is_capable(), privilege.where_to_run(fix))
}

fn capabilities(privilege: &Privilege) -> Fact {
    let held = privilege.capabilities().into_iter().filter(|(.., has)| *has);
    let names: Vec<_> = held.map(|(name, ..)| name.to_uppercase()).collect();
    if privilege.is_capable() {
        return Fact::new(Group::Permission, "capabilities", names.join(", "), "the paranoid level does not bind this process");
    }
    let value = if names.is_empty() { "none".into() } else { names.join(", ") };
    let meaning = if privilege.in_user_namespace {
        "of a user namespace's own, where none of them counts: the paranoid level binds this process"
    } else {
        "the paranoid level binds this process"
    };
    Fact::new(Group::Permission, "capabilities", value, meaning).fix(privilege.give(
        if privilege.paranoid.is_some_and(|level| level > 2) { &["cap_sys_admin"] } else { &["cap_perfmon", "cap_sys_ptrace"] },
    ))
}

fn yama(machine: &Machine) -> Fact {
    let (value, meaning) = match machine.root.sysctl("kernel.yama.ptrace_scope").as_deref() {
        None => ("not built in", "own processes may be held at their start and looked into"),
        Some("0") => ("0", "own processes may be held at their start and looked into"),
        Some("1") => ("1", "own children may be held at their start; nothing here stops another process (-p) by ptrace"),
        Some("2") => ("2", "programs may be held at their start by CAP_SYS_PTRACE alone"),
        Some(_) => ("3", "no program may be held at its start"),
    };
    Fact::new(Group::Permission, "yama.ptrace_scope", value, meaning)
}

fn kptr(machine: &Machine) -> Fact {
    let value = machine.root.sysctl("kernel.kptr_restrict");
    let (text, meaning, fix) = match value.as_deref() {
        Some("0") => ("0", "kernel addresses have names for those who may sample the kernel", ""),
        Some("1") => ("1", "kernel addresses have names for root only", "sudo sysctl kernel.kptr_restrict=0"),
        Some(_) => ("2", "kernel samples stay numbers: nobody sees the addresses", "sudo sysctl kernel.kptr_restrict=0"),
        None => ("unknown", "no kernel.kptr_restrict to read", ""),
    };
    Fact::new(Group::Permission, "kptr_restrict", text, meaning).fix(fix)
}

pub(super) fn limits(machine: &Machine, privilege: &Privilege) -> Vec<Fact> {
    vec![max_sample_rate(machine), cpu_time(machine), mlock(machine, privilege), max_stack(machine), watchdog(machine)]
}

fn number(machine: &Machine, name: &str) -> Option<u64> {
    machine.root.sysctl(&format!("kernel.{name}")).and_then(|text| text.parse().ok())
}

/// A sysctl that is missing.
fn missing(name: &str) -> Fact {
    Fact::new(Group::Limits, name, "missing", "the kernel does not have this setting")
}

fn max_sample_rate(machine: &Machine) -> Fact {
    let name = "perf_event_max_sample_rate";
    let Some(rate) = number(machine, name) else { return missing(name) };
    let mut meaning =
        format!("at most one sample in {:.1} µs per CPU; beyond that the event is throttled", 1e6 / rate.max(1) as f64);
    if rate < DEFAULT_MAX_SAMPLE_RATE {
        meaning.push_str("; below the default of 100000: one slow interrupt lowers it for good, and silently");
    }
    // The kernel refuses to write the rate once the percentage is 0 or 100, so the order matters.
    let fix = "sudo sysctl kernel.perf_cpu_time_max_percent=25 kernel.perf_event_max_sample_rate=1000000";
    Fact::new(Group::Limits, name, format!("{rate} /s"), meaning).fix_if(rate < GENEROUS_SAMPLE_RATE, fix)
}

fn cpu_time(machine: &Machine) -> Fact {
    let name = "perf_cpu_time_max_percent";
    let Some(percent) = number(machine, name) else { return missing(name) };
    let (meaning, is_active) = match percent {
        0 | 100 => ("the kernel does not lower the rate by itself; max_sample_rate cannot be written now".to_string(), false),
        _ => (format!("when interrupts take more than {percent} % of a CPU the kernel lowers max_sample_rate, for good"), true),
    };
    Fact::new(Group::Limits, name, format!("{percent} %"), meaning)
        .fix_if(is_active, "sudo sysctl kernel.perf_cpu_time_max_percent=0   # after max_sample_rate")
}

fn mlock(machine: &Machine, privilege: &Privilege) -> Fact {
    let name = "perf_event_mlock_kb";
    let Some(kib) = number(machine, name) else { return missing(name) };
    // The kernel's own default is 512 KiB and a page for each CPU; one page of each ring is its control page.
    let bound = if privilege.is_capable() { "; this process is not bound" } else { "" };
    let meaning = format!("ring buffers without privilege: this much per CPU, then RLIMIT_MEMLOCK{bound}");
    Fact::new(Group::Limits, name, format!("{kib} KiB"), meaning)
        .fix_if(!privilege.is_capable(), format!("sudo sysctl kernel.perf_event_mlock_kb={}", kib.max(512).saturating_mul(8)))
}

fn max_stack(machine: &Machine) -> Fact {
    let name = "perf_event_max_stack";
    let Some(frames) = number(machine, name) else { return missing(name) };
    Fact::new(
        Group::Limits,
        name,
        format!("{frames} frames"),
        format!("a call chain adds up to {} bytes to a sample", frames.saturating_mul(8).saturating_add(8)),
    )
}

fn watchdog(machine: &Machine) -> Fact {
    let name = "NMI watchdog";
    let has_pmu = machine.core_pmu().is_some();
    match machine.root.sysctl("kernel.nmi_watchdog").as_deref() {
        Some("1") if has_pmu => Fact::new(Group::Limits, name, "on", "takes one counter of each CPU, the one for cycles")
            .fix("sudo sysctl kernel.nmi_watchdog=0"),
        Some("1") => Fact::new(Group::Limits, name, "on", "without a core PMU it has no counter to take"),
        Some("0") => Fact::new(Group::Limits, name, "off", "no counter is taken"),
        _ => Fact::new(Group::Limits, name, "not built in", "no counter is taken"),
    }
}
