//! Facts about what moves a measured cost from run to run.

use super::cgroup::CpuLimit;
use super::kernel_config::KernelConfig;
use super::{Fact, Group, Machine, Probe};

pub(super) fn facts(machine: &Machine, config: &KernelConfig, probe: &dyn Probe) -> Vec<Fact> {
    vec![
        online(machine),
        smt(machine),
        governor(machine),
        turbo(machine),
        clocksource(machine),
        timers(probe),
        tick(config),
        irq_time(config),
        cgroup(machine),
    ]
}

fn online(machine: &Machine) -> Fact {
    let n = machine.cpu.online;
    let meaning = if n < 2 {
        "a reader that drains buffers competes with the program: pin nothing, expect a higher cost"
    } else {
        "the program and the reader of its samples can run on CPUs of their own"
    };
    let isolated = machine.root.sys("devices/system/cpu/isolated").filter(|list| !list.is_empty());
    let value = match isolated {
        Some(list) => format!("{n} (isolated: {list})"),
        None => n.to_string(),
    };
    Fact::new(Group::Noise, "CPUs online", value, meaning)
}

fn smt(machine: &Machine) -> Fact {
    let control = machine.root.sys("devices/system/cpu/smt/control");
    let active = machine.root.sys("devices/system/cpu/smt/active");
    match (active.as_deref(), control.as_deref()) {
        (Some("1"), _) => {
            Fact::new(Group::Noise, "SMT", "on", "siblings share a core: a busy one slows the program and its interrupts")
                .fix("echo off | sudo tee /sys/devices/system/cpu/smt/control")
        }
        (_, Some("notsupported" | "notimplemented")) => {
            let meaning = if machine.virtualisation.is_guest() {
                "none seen here; the host may still run two guests on one core"
            } else {
                "one thread per core"
            };
            Fact::new(Group::Noise, "SMT", "none", meaning)
        }
        (Some(_), _) => Fact::new(Group::Noise, "SMT", "off", "one thread per core"),
        (None, _) => Fact::new(Group::Noise, "SMT", "unknown", "the kernel does not tell"),
    }
}

fn governor(machine: &Machine) -> Fact {
    let folder = "devices/system/cpu/cpu0/cpufreq";
    let governor = machine.root.sys(&format!("{folder}/scaling_governor"));
    let driver = machine.root.sys(&format!("{folder}/scaling_driver")).unwrap_or_else(|| "unknown driver".into());
    match governor.as_deref() {
        Some("performance") => {
            Fact::new(Group::Noise, "frequency governor", "performance", format!("steady under load ({driver})"))
        }
        Some(other) => Fact::new(
            Group::Noise,
            "frequency governor",
            other,
            format!("the frequency follows the load, and with it the cost of a sample ({driver})"),
        )
        .fix("sudo cpupower frequency-set -g performance"),
        None => Fact::new(
            Group::Noise,
            "frequency governor",
            "none",
            "the frequency is not ours to set (guest, or fixed in firmware)",
        ),
    }
}

fn turbo(machine: &Machine) -> Fact {
    let meaning =
        |is_on: bool| if is_on { "runs slow down as the package warms up" } else { "the frequency has no opportunistic part" };
    let pstate = "devices/system/cpu/intel_pstate/no_turbo";
    if let Some(no_turbo) = machine.root.sys(pstate) {
        let is_on = no_turbo == "0";
        return Fact::new(Group::Noise, "turbo", if is_on { "on" } else { "off" }, meaning(is_on))
            .fix_if(is_on, format!("echo 1 | sudo tee /sys/{pstate}"));
    }
    let boost = "devices/system/cpu/cpufreq/boost";
    match machine.root.sys(boost).as_deref() {
        Some(value) => {
            let is_on = value == "1";
            Fact::new(Group::Noise, "turbo", if is_on { "on" } else { "off" }, meaning(is_on))
                .fix_if(is_on, format!("echo 0 | sudo tee /sys/{boost}"))
        }
        None => Fact::new(Group::Noise, "turbo", "unknown", "the kernel shows no switch for it"),
    }
}

fn clocksource(machine: &Machine) -> Fact {
    let folder = "devices/system/clocksource/clocksource0";
    let current = machine.root.sys(&format!("{folder}/current_clocksource")).unwrap_or_default();
    let available = machine.root.sys(&format!("{folder}/available_clocksource")).unwrap_or_default();
    let offers = |name: &str| available.split_whitespace().any(|source| source == name);
    let name = "clocksource";
    match current.as_str() {
        "tsc" | "arch_sys_counter" => {
            Fact::new(Group::Noise, name, current.as_str(), "time is read without a system call, in some 20 ns")
        }
        "kvm-clock" => Fact::new(Group::Noise, name, "kvm-clock", "time is read without a system call; the host may step it"),
        "" => Fact::new(Group::Noise, name, "unknown", "the kernel does not tell"),
        slow => Fact::new(
            Group::Noise,
            name,
            slow,
            "each reading of the time may cost a microsecond: timestamps weigh on the program",
        )
        .fix_if(offers("tsc"), format!("echo tsc | sudo tee /sys/{folder}/current_clocksource")),
    }
}

fn timers(probe: &dyn Probe) -> Fact {
    let name = "timer resolution";
    match probe.timer_resolution_ns() {
        None => Fact::new(Group::Noise, name, "unknown", "nobody asked the kernel"),
        Some(ns @ ..1_000) => {
            Fact::new(Group::Noise, name, format!("{ns} ns"), "high-resolution timers: clocks sample when they are due")
        }
        Some(ns) => Fact::new(
            Group::Noise,
            name,
            format!("{} ms", ns as f64 / 1e6),
            "no high-resolution timers (highres=off, or a kernel that has just booted): clocks sample no more often than this",
        ),
    }
}

fn tick(config: &KernelConfig) -> Fact {
    let name = "HZ";
    match config.get("CONFIG_HZ") {
        Some(hz) => {
            let nohz = config.has("CONFIG_NO_HZ_FULL") == Some(true);
            let meaning = format!("the floor of noise: a tick {hz} times a second; events multiplexed no faster than this");
            Fact::new(Group::Noise, name, if nohz { format!("{hz}, NO_HZ_FULL") } else { hz.to_string() }, meaning)
        }
        None => Fact::new(Group::Noise, name, "unknown", "neither /proc/config.gz nor /boot/config-RELEASE is there"),
    }
}

fn irq_time(config: &KernelConfig) -> Fact {
    let name = "IRQ time accounting";
    match config.has("CONFIG_IRQ_TIME_ACCOUNTING") {
        Some(true) => Fact::new(
            Group::Noise,
            name,
            "built in",
            "a thread's CPU time leaves timer interrupts out (not NMIs): cpu-clock's cost shows in elapsed time",
        ),
        Some(false) => Fact::new(
            Group::Noise,
            name,
            "off",
            "interrupts are charged to the thread they hit: the cost shows in its CPU time too",
        ),
        None => Fact::new(
            Group::Noise,
            name,
            "unknown",
            "neither /proc/config.gz nor /boot/config-RELEASE is there: compare elapsed times only",
        ),
    }
}

fn cgroup(machine: &Machine) -> Fact {
    match CpuLimit::read(&machine.root) {
        Some(limit) => {
            let value = format!("{:.2} CPUs", limit.cpus());
            let meaning = format!(
                "{} µs in each {} µs; a program that uses them up is stopped, and elapsed times say nothing about sampling",
                limit.quota_us, limit.period_us
            );
            Fact::new(Group::Noise, "cgroup CPU limit", value, meaning).fix("echo max | sudo tee /sys/fs/cgroup/GROUP/cpu.max")
        }
        None => Fact::new(Group::Noise, "cgroup CPU limit", "none", "all of the CPUs' time is there to be used"),
    }
}
