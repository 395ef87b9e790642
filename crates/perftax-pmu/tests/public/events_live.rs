//! Events of the machine that the test runs on.

use std::fs;

use perftax_doc::Mechanism;
use perftax_pmu::event::{ABSENT_PMU, Catalog, EventKind, Filter, list, parse};

/// `enum perf_sw_ids` (linux/perf_event.h).
const SOFTWARE: &[(&str, u64)] = &[
    ("cpu-clock", 0),
    ("task-clock", 1),
    ("page-faults", 2),
    ("faults", 2),
    ("context-switches", 3),
    ("cs", 3),
    ("cpu-migrations", 4),
    ("migrations", 4),
    ("minor-faults", 5),
    ("major-faults", 6),
    ("alignment-faults", 7),
    ("emulation-faults", 8),
    ("dummy", 9),
    ("bpf-output", 10),
    ("cgroup-switches", 11),
];

#[test]
fn software_events_have_the_kernels_numbers_and_type() {
    let catalog = Catalog::of_this_machine();
    let software = catalog.pmu("software").map_or(1, |pmu| pmu.pmu_type);
    for (name, config) in SOFTWARE {
        let events = parse(name, &catalog).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].pmu_type, events[0].config), (software, *config), "{name}");
        events[0].check_supported(&catalog).unwrap();
        let expected = if *config < 2 { Mechanism::CpuClock } else { Mechanism::Software };
        assert_eq!(events[0].mechanism, expected, "{name}");
    }
}

/// Whatever is listed as available parses, and is supported; what is not available says why.
#[test]
fn what_is_listed_holds() {
    let catalog = Catalog::of_this_machine();
    let events = list(&catalog, &Filter::default());
    assert!(events.iter().any(|event| event.name == "cpu-clock" && event.available));
    for event in events.iter().filter(|event| event.kind != EventKind::Symbolic) {
        let parsed = parse(&event.name, &catalog).unwrap_or_else(|error| panic!("{}: {error}", event.name));
        let supported = parsed[0].check_supported(&catalog);
        assert_eq!(supported.is_ok(), event.available, "{}: {supported:?}", event.name);
        assert_eq!(event.available, event.why_not.is_none(), "{}", event.name);
        assert_eq!(parsed[0].mechanism, event.mechanism, "{}", event.name);
    }
}

/// Tracepoint numbers are the kernel's, for every one that it has; none where tracefs is not mounted, and then the
/// error says how to mount it.
#[test]
fn tracepoints_have_the_kernels_ids() {
    let catalog = Catalog::of_this_machine();
    let Some(tracefs) = catalog.tracefs() else {
        let error = parse("sched:sched_switch", &catalog).unwrap_err();
        assert!(error.to_string().contains("mount -t tracefs tracefs /sys/kernel/tracing"), "{error}");
        return;
    };
    if let Err(error) = fs::read_dir(tracefs.join("events")) {
        assert!(parse("sched:sched_switch", &catalog).unwrap_err().to_string().contains("remount,mode=750,gid="), "{error}");
        return;
    }
    for name in ["sched:sched_switch", "raw_syscalls:sys_enter", "exceptions:page_fault_user"] {
        let id = fs::read_to_string(tracefs.join("events").join(name.replace(':', "/")).join("id")).unwrap();
        let events = parse(name, &catalog).unwrap();
        assert_eq!((events[0].pmu_type, events[0].config), (2, id.trim().parse().unwrap()), "{name}");
        assert_eq!(events[0].mechanism, Mechanism::Tracepoint);
    }
}

/// The test's own program has symbols: the place of one, found by name, is where the program itself says that it is.
#[test]
fn a_uprobe_finds_its_function() {
    let catalog = Catalog::of_this_machine();
    let program = std::env::current_exe().unwrap();
    let events = parse(&format!("uprobe:{}:perftax_test_probe_target:u", program.display()), &catalog).unwrap();
    let target = events[0].uprobe.clone().unwrap();
    assert_eq!(target.path, program.canonicalize().unwrap());
    assert!(!target.on_return);
    assert!(events[0].modifiers.exclude_kernel);
    assert_eq!(events[0].pmu_type, catalog.pmu("uprobe").map_or(ABSENT_PMU, |pmu| pmu.pmu_type));

    // From /proc/self/maps: file offset of the mapping, plus the distance from its start.
    let address = perftax_test_probe_target as *const () as usize as u64;
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let offset = maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
        let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
        (from..to).contains(&address).then(|| offset + address - from)
    });
    assert_eq!(Some(target.offset), offset);

    let by_offset = parse(&format!("uretprobe:{}+{:#x}", program.display(), target.offset), &catalog).unwrap();
    assert_eq!(by_offset[0].config & 1, 1, "retprobe bit");
    assert_eq!(by_offset[0].config2, target.offset);

    let error = parse(&format!("uprobe:{}:perftax_test_probe_tarjet", program.display()), &catalog).unwrap_err();
    assert!(error.to_string().contains("nearest: perftax_test_probe_target"), "{error}");
    let error = parse(&format!("uprobe:{}+0x1", program.display()), &catalog).unwrap_err();
    assert!(error.to_string().contains("no code is there"), "{error}");
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn perftax_test_probe_target() -> u64 {
    std::hint::black_box(7)
}

/// Names of CPUs that this one is not: from libpfm, or an error that says how to install it.
#[test]
fn symbolic_names_of_any_cpu() {
    let catalog = Catalog::of_this_machine();
    if catalog.libpfm().is_err() {
        let error = parse("skx::UOPS_RETIRED:ALL", &catalog).unwrap_err();
        assert!(error.to_string().contains("apt-get install libpfm4"), "{error}");
        return;
    }
    let encoded = |name: &str| {
        let event = parse(name, &catalog).unwrap_or_else(|error| panic!("{name}: {error}")).remove(0);
        (event.pmu_type, event.config, event.mechanism, event.modifiers.precise, event.modifiers.exclude_kernel)
    };
    // Codes of Intel's event tables: UOPS_RETIRED.ALL is event C2 umask 01, MEM_INST_RETIRED.ALL_LOADS D0/81.
    assert_eq!(encoded("skx::UOPS_RETIRED:ALL"), (4, 0x1c2, Mechanism::Pmi, 0, false));
    assert_eq!(encoded("skl::MEM_INST_RETIRED:ALL_LOADS:pp"), (4, 0x81d0, Mechanism::Pebs, 2, false));
    assert_eq!(encoded("skl::MEM_INST_RETIRED:ALL_LOADS:precise=2"), (4, 0x81d0, Mechanism::Pebs, 2, false));
    assert_eq!(encoded("skx::UOPS_RETIRED:ALL:c=2:u"), (4, 0x0200_01c2, Mechanism::Pmi, 0, true));
    // AMD's table: RETIRED_INSTRUCTIONS is event C0; precise on AMD means IBS.
    assert_eq!(encoded("amd64_fam19h_zen4::RETIRED_INSTRUCTIONS:p"), (4, 0xc0, Mechanism::IbsOp, 1, false));
    assert!(std::env::var_os("LIBPFM_ENCODE_INACTIVE").is_none(), "children would inherit it");

    let nearest = |name: &str| parse(name, &catalog).unwrap_err().to_string();
    assert!(nearest("skx::UOPS_RETIRE:ALL").contains("nearest: skx::UOPS_RETIRED:ALL"), "{}", nearest("skx::UOPS_RETIRE:ALL"));
    assert!(nearest("skx::UOPS_RETIRED:AL").contains("has ALL"), "{}", nearest("skx::UOPS_RETIRED:AL"));
    assert!(nearest("skxx::UOPS").contains("skx::"), "{}", nearest("skxx::UOPS"));
    let of_skx = list(&catalog, &Filter { substring: Some("skx::uops_retired".into()) });
    assert!(of_skx.iter().any(|event| event.name == "skx::UOPS_RETIRED:ALL" && !event.available));
}
