//! Every attribute that perf sets for an event, recorded from perf itself, against ours.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use perftax_pmu::event::{Catalog, Event, Vendor, parse};

const RECORDED: &str = include_str!("../fixtures/perf-6.1-attributes.txt");

/// The machine on which perf was recorded: a VM without a cpu PMU, and the ids that its tracepoints had.
fn recorded_machine(root: &Path) -> Catalog {
    let file = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let devices = root.join("bus/event_source/devices");
    for (name, number) in [("software", "1"), ("tracepoint", "2"), ("breakpoint", "5"), ("uprobe", "8"), ("msr", "9")] {
        file(devices.join(name).join("type"), number);
    }
    file(devices.join("msr/format/event"), "config:0-63\n");
    file(devices.join("msr/events/tsc"), "event=0x00\n");
    let tracefs = root.join("tracing");
    for (name, id) in [("sched/sched_switch", "372"), ("syscalls/sys_enter_read", "842"), ("raw_syscalls/sys_enter", "443")] {
        file(tracefs.join("events").join(name).join("id"), &format!("{id}\n"));
    }
    Catalog::at(root, Some(tracefs)).with_vendor(Vendor::Intel)
}

/// What perf would print of our event: it leaves zeros out.
fn ours(event: &Event) -> BTreeMap<String, u64> {
    let modifiers = &event.modifiers;
    let all = [
        ("type", u64::from(event.pmu_type)),
        ("config", event.config),
        ("exclude_user", modifiers.exclude_user.into()),
        ("exclude_kernel", modifiers.exclude_kernel.into()),
        ("exclude_hv", modifiers.exclude_hv.into()),
        ("exclude_host", modifiers.exclude_host.into()),
        ("exclude_guest", modifiers.exclude_guest.into()),
        ("precise_ip", modifiers.precise.into()),
        ("pinned", modifiers.pinned.into()),
        ("exclusive", modifiers.exclusive.into()),
        ("bp_type", event.breakpoint_type.into()),
        ("config1", event.config1),
        ("config2", event.config2),
    ];
    all.into_iter().filter(|(_, value)| *value != 0).map(|(key, value)| (key.to_string(), value)).collect()
}

fn number(text: &str) -> u64 {
    text.strip_prefix("0x").map_or_else(|| text.parse().unwrap(), |hexadecimal| u64::from_str_radix(hexadecimal, 16).unwrap())
}

#[test]
fn attributes_are_those_of_perf() {
    let root = tempfile::tempdir().unwrap();
    let catalog = recorded_machine(root.path());
    let mut compared = 0;
    for block in RECORDED.split("event ").skip(1) {
        let (name, attributes) = block.split_once('\n').unwrap();
        let events = parse(name, &catalog).unwrap();
        let recorded: Vec<BTreeMap<String, u64>> = attributes
            .split("attr\n")
            .skip(1)
            .map(|lines| {
                let pairs = lines.lines().map(|line| line.rsplit_once(' ').unwrap());
                // perf prints a union as "{ bp_addr, config1 }".
                let key = |key: &str| key.trim().trim_end_matches(" }").rsplit(' ').next().unwrap().to_string();
                pairs.map(|(name, value)| (key(name), number(value))).collect()
            })
            .collect();
        assert_eq!(events.iter().map(ours).collect::<Vec<_>>(), recorded, "{name}");
        compared += recorded.len();
    }
    assert!(compared > 50, "only {compared} compared");
}
