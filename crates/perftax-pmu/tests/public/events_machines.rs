//! Events of machines that are not at hand, described by made-up sysfs trees.

use std::fs;
use std::path::{Path, PathBuf};

use perftax_doc::Mechanism;
use perftax_doc::steps::Operation;
use perftax_pmu::Error;
use perftax_pmu::event::{ABSENT_PMU, Catalog, Event, EventKind, Filter, Rate, Vendor, list, parse, parse_groups};
use tempfile::TempDir;

/// Files of sysfs and tracefs, below one folder.
struct Tree(TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (name, number) in [("software", "1"), ("tracepoint", "2"), ("breakpoint", "5"), ("uprobe", "7")] {
            tree.write(&tree.device(name).join("type"), number);
        }
        for (path, text) in files {
            tree.write(&tree.device("").join(path), text);
        }
        tree
    }

    fn device(&self, name: &str) -> PathBuf {
        self.0.path().join("bus/event_source/devices").join(name)
    }

    fn write(&self, path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn catalog(&self) -> Catalog {
        Catalog::at(self.0.path(), None).with_libpfm("libpfm-of-no-machine.so.9")
    }
}

/// As arch/x86/events/intel/core.c describes a Skylake server, in part.
const SKYLAKE: &[(&str, &str)] = &[
    ("cpu/type", "4"),
    ("cpu/caps/max_precise", "3"),
    ("cpu/caps/pmu_name", "skylake"),
    ("cpu/format/event", "config:0-7"),
    ("cpu/format/umask", "config:8-15"),
    ("cpu/format/edge", "config:18"),
    ("cpu/format/inv", "config:23"),
    ("cpu/format/cmask", "config:24-31"),
    ("cpu/format/ldlat", "config1:0-15"),
    ("cpu/format/offcore_rsp", "config1:0-63"),
    ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("cpu/events/mem-stores", "event=0xd0,umask=0x82"),
    ("cpu/events/topdown-slots", "event=0x00,umask=0x4"),
    ("cpu/events/topdown-slots.scale", "2"),
    ("cpu/events/loop", "loop"),
    ("uncore_imc_0/type", "14"),
    ("uncore_imc_0/cpumask", "0"),
    ("uncore_imc_0/format/event", "config:0-7"),
    ("uncore_imc_0/events/clockticks", "event=0x00"),
    ("uncore_imc_1/type", "15"),
    ("uncore_imc_1/format/event", "config:0-7"),
    ("uncore_imc_1/events/clockticks", "event=0x00"),
];

/// As arch/x86/events/amd describes a Zen 4, in part.
const ZEN4: &[(&str, &str)] = &[
    ("cpu/type", "4"),
    ("cpu/caps/max_precise", "0"),
    ("cpu/format/event", "config:0-7,32-35"),
    ("cpu/format/umask", "config:8-15"),
    ("ibs_op/type", "9"),
    ("ibs_op/format/cnt_ctl", "config:19"),
    ("ibs_op/format/l3missonly", "config:16"),
    ("ibs_fetch/type", "8"),
    ("ibs_fetch/format/rand_en", "config:57"),
];

const NEOVERSE: &[(&str, &str)] = &[
    ("armv8_pmuv3_0/type", "8"),
    ("armv8_pmuv3_0/cpus", "0-63"),
    ("armv8_pmuv3_0/format/event", "config:0-15"),
    ("armv8_pmuv3_0/events/cpu_cycles", "event=0x0011"),
    ("arm_spe_0/type", "9"),
    ("arm_spe_0/format/jitter", "config:16"),
    ("arm_spe_0/format/min_latency", "config2:0-11"),
];

/// A hybrid Intel laptop: two core PMUs, no `cpu`.
const HYBRID: &[(&str, &str)] = &[
    ("cpu_core/type", "4"),
    ("cpu_core/cpus", "0-7"),
    ("cpu_core/caps/max_precise", "3"),
    ("cpu_core/format/event", "config:0-7"),
    ("cpu_atom/type", "10"),
    ("cpu_atom/cpus", "8-15"),
    ("cpu_atom/format/event", "config:0-7"),
];

fn one(text: &str, catalog: &Catalog) -> Event {
    let mut events = parse(text, catalog).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(events.len(), 1, "{text}");
    events.remove(0)
}

fn why(text: &str, catalog: &Catalog) -> String {
    parse(text, catalog).expect_err(text).to_string()
}

/// `EventSyntax`, and the byte of the text's line that the mark stands under.
fn place(text: &str, catalog: &Catalog) -> usize {
    match parse(text, catalog).expect_err(text) {
        Error::EventSyntax { why, .. } => why.lines().last().unwrap().find('^').unwrap() - 2,
        other => panic!("{text}: {other}"),
    }
}

#[test]
fn terms_go_to_the_bits_that_sysfs_names() {
    let (intel, amd) = (Tree::new(SKYLAKE), Tree::new(ZEN4));
    let (intel, amd) = (intel.catalog(), amd.catalog());
    let event = one("cpu/event=0xc2,umask=1,cmask=2,inv,edge/", &intel);
    assert_eq!((event.pmu_type, event.config), (4, 0x0284_01c2));
    let event = one("cpu/event=0xb7,umask=1,offcore_rsp=0x3fffc00001/u", &intel);
    assert_eq!((event.config, event.config1), (0x1b7, 0x3f_ffc0_0001));
    assert!(event.modifiers.exclude_kernel && !event.modifiers.exclude_user);
    // AMD's event numbers have 12 bits; the upper four go to bits 32 to 35.
    assert_eq!(one("cpu/event=0x1c2,umask=0xf/", &amd).config, 0x1_0000_0fc2);
    assert_eq!(one("cpu/config=0x1c2,config1=7,config2=9/", &intel).config2, 9);
    assert_eq!(one("cpu/r1c2/", &intel).config, 0x1c2);
    assert_eq!(one("ibs_op/cnt_ctl=1,l3missonly=1/", &amd).config, 1 << 19 | 1 << 16);
    assert_eq!(one("ibs_fetch/rand_en/", &amd).config, 1 << 57);
}

#[test]
fn aliases_expand_and_later_terms_win() {
    let intel = Tree::new(SKYLAKE);
    let intel = intel.catalog();
    for text in ["cpu/mem-loads/", "mem-loads", "mem-loads:pp", "cpu/mem-loads/pp"] {
        let event = one(text, &intel);
        assert_eq!((event.pmu_type, event.config, event.config1), (4, 0x1cd, 3), "{text}");
        assert_eq!(event.name, text);
    }
    assert_eq!(one("cpu/mem-loads,ldlat=30/P", &intel).config1, 30);
    assert_eq!(one("cpu/mem-loads,ldlat=30/P", &intel).modifiers.precise, 3, "the machine's highest");
    assert!(why("cpu/loop/", &intel).contains("names itself"));
    assert!(why("clockticks", &intel).contains("uncore_imc_0/clockticks/, uncore_imc_1/clockticks/"));
    let listed = list(&intel, &Filter { substring: Some("topdown".into()) });
    assert_eq!(listed.len(), 1, "details of an alias are no events: {listed:?}");
    assert_eq!(listed[0].kind, EventKind::Pmu);
}

#[test]
fn period_frequency_and_name() {
    let intel = Tree::new(SKYLAKE);
    let intel = intel.catalog();
    let event = one("cpu/event=0x3c,period=100003,name='busy, core'/ppp", &intel);
    assert_eq!((event.rate, event.name.as_str()), (Some(Rate::Period(100_003)), "busy, core"));
    assert_eq!(one("cpu/event=0x3c,freq=4000/", &intel).rate, Some(Rate::Frequency(4000)));
    assert_eq!(one("cycles", &intel).rate, None);
    assert!(why("cpu/period=0/", &intel).contains("at least 1"));
    assert!(why("cpu/call-graph=dwarf/", &intel).contains("leave it out"));
}

#[test]
fn the_mechanism_is_the_machines() {
    let trees = [Tree::new(SKYLAKE), Tree::new(ZEN4), Tree::new(NEOVERSE), Tree::new(HYBRID), Tree::new(&[])];
    let [intel, amd, arm, hybrid, bare] = trees.each_ref().map(Tree::catalog);
    assert_eq!(
        [intel.vendor(), amd.vendor(), arm.vendor(), hybrid.vendor()],
        [Vendor::Intel, Vendor::Amd, Vendor::Arm, Vendor::Intel]
    );
    let cases = [
        (&intel, "cycles", Mechanism::Pmi),
        (&intel, "cycles:ppp", Mechanism::Pebs),
        (&intel, "r1c2:p", Mechanism::Pebs),
        (&intel, "cpu/event=0xc2/pp", Mechanism::Pebs),
        (&intel, "L1-dcache-loads:P", Mechanism::Pebs),
        (&intel, "task-clock:p", Mechanism::CpuClock),
        (&intel, "uncore_imc_0/clockticks/", Mechanism::Pmi),
        (&amd, "cycles", Mechanism::Pmi),
        (&amd, "cycles:p", Mechanism::IbsOp),
        (&amd, "ibs_op//", Mechanism::IbsOp),
        (&amd, "ibs_fetch/rand_en/", Mechanism::IbsFetch),
        (&arm, "arm_spe_0/jitter=1/", Mechanism::Spe),
        (&arm, "cycles", Mechanism::Pmi),
        (&hybrid, "cpu_atom/event=0x3c/p", Mechanism::Pebs),
        (&bare, "page-faults:u", Mechanism::Software),
        (&bare, "mem:0x1000:x", Mechanism::Breakpoint),
    ];
    for (catalog, text, mechanism) in cases {
        assert_eq!(one(text, catalog).mechanism, mechanism, "{text}");
    }
    // On hybrid machines, the upper half of config says which kind of core a generic event is of.
    assert_eq!(one("cpu_atom/cycles/", &hybrid).config, 10 << 32);
    assert_eq!((one("cpu_core/cycles/", &hybrid).pmu_type, one("cpu_core/cycles/", &hybrid).config), (0, 4 << 32));
    let loads = one("cpu_atom/L1-dcache-loads/", &hybrid);
    assert_eq!((loads.pmu_type, loads.config, loads.core.as_deref()), (3, 10 << 32, Some("cpu_atom")));
    // IBS refuses every exclusion before Linux 6.14.
    assert!(!one("cycles:p", &amd).modifiers.exclude_guest);
    assert!(one("cycles:p", &amd).note().unwrap().contains("forwards a precise event to ibs_op"));
    assert_eq!(one("cycles:pp", &intel).note(), None);
}

#[test]
fn what_a_machine_cannot_sample_is_refused_with_the_reason() {
    let trees = [Tree::new(SKYLAKE), Tree::new(ZEN4), Tree::new(NEOVERSE), Tree::new(&[])];
    let [intel, amd, arm, bare] = trees.each_ref().map(Tree::catalog);
    let bare = bare.with_vendor(Vendor::Intel);
    let refused = |text: &str, catalog: &Catalog| {
        let error = one(text, catalog).check_supported(catalog).expect_err(text);
        assert!(matches!(error, perftax_pmu::Error::Unsupported { .. }), "{error:?}");
        error.to_string()
    };
    let message = refused("cycles:ppp", &bare);
    assert!(message.starts_with("this machine cannot sample cycles:ppp: the kernel exposes no cpu PMU ("), "{message}");
    assert!(message.contains("devices/cpu is missing)"), "{message}");
    assert!(
        [Operation::PlanByTimer, Operation::PredictElsewhere].iter().all(|next| message.contains(&next.to_string())),
        "{message}"
    );
    assert!(refused("cpu/event=0xc2,umask=1/ppp", &bare).contains("no cpu PMU"));
    assert_eq!(one("ibs_op/cnt_ctl=1/", &bare).pmu_type, ABSENT_PMU);
    assert!(refused("ibs_op/cnt_ctl=1/", &bare).contains("no ibs_op PMU"));
    assert!(refused("arm_spe_0//", &bare).contains("no arm_spe_0 PMU"));
    assert!(refused("uncore_imc_0/event=1/", &intel).contains("not a core's"));
    assert!(refused("instructions:p", &amd).contains("only cycles, r076 and r0c1"));
    assert!(refused("cycles:ppp", &amd).contains("end at 2"));
    assert!(refused("cycles:p", &arm).contains("arm_spe_0//"));
    for (text, catalog) in [("cycles:ppp", &intel), ("cycles:pp", &amd), ("r0c1:p", &amd), ("arm_spe_0//", &arm), ("cs", &bare)] {
        one(text, catalog).check_supported(catalog).unwrap();
    }
    let shallow: Vec<(&str, &str)> =
        SKYLAKE.iter().map(|(path, text)| (*path, if path.ends_with("max_precise") { "1" } else { text })).collect();
    let shallow = Tree::new(&shallow);
    assert!(refused("cycles:pp", &shallow.catalog()).contains("caps/max_precise is 1, needs 2"));
}

#[test]
fn lists_groups_and_modifiers() {
    let intel = Tree::new(SKYLAKE);
    let intel = intel.catalog();
    let text = " cycles:u , {cpu/event=0xc2,umask=1/, instructions:k}:pp,faults";
    let groups = parse_groups(text, &intel).unwrap();
    assert_eq!(
        groups.iter().map(|group| (group.braces, group.events.len())).collect::<Vec<_>>(),
        [(false, 1), (true, 2), (false, 1)]
    );
    let events = parse(text, &intel).unwrap();
    assert_eq!(events.iter().map(|event| event.modifiers.precise).collect::<Vec<_>>(), [0, 2, 2, 0]);
    assert!(events[2].modifiers.exclude_user && !events[1].modifiers.exclude_user);
    assert_eq!(events[2].name, "instructions:kpp");
    assert_eq!(events[1].name, "cpu/event=0xc2,umask=1/pp");
    let pinned = one("cycles:upDe", &intel).modifiers;
    assert!(pinned.pinned && pinned.exclusive && pinned.precise == 1);
}

#[test]
fn errors_point_at_the_place() {
    let intel = Tree::new(SKYLAKE);
    let intel = intel.catalog();
    let cases = [
        ("", 0),
        ("cycles,,cs", 7),
        ("cycles,", 7),
        ("cycles:uz", 8),
        ("cycles:pppp", 10),
        ("cycles:S", 7),
        ("{cycles,cs", 0),
        ("cycles}", 6),
        ("{cycles,{cs}}", 8),
        ("cpu/event=0xc2,umsk=1/", 15),
        ("cpu/event=0xc2,umask=0x100/", 21),
        ("cpu/event=zz/", 10),
        ("cpu/event=1", 3),
        ("cpu/event=1/u/", 13),
        ("cs,mem:here", 7),
        ("mem:0x1000/3", 11),
        ("mem:0x1000:ww", 12),
        ("mem:0x1000:wx", 13),
        ("cpu/=1/", 4),
        ("sched:*", 0),
        ("uprobe:", 7),
    ];
    for (text, expected) in cases {
        assert_eq!(place(text, &intel), expected, "{text}: {}", why(text, &intel));
    }
    assert!(why("cpu/event=0xc2,umsk=1/", &intel).contains("it has umask"), "{}", why("cpu/event=0xc2,umsk=1/", &intel));
}

#[test]
fn unknown_names_bring_the_nearest() {
    let intel = Tree::new(SKYLAKE);
    let tracing = intel.0.path().join("tracing");
    for name in ["sched/sched_switch", "sched/sched_wakeup", "exceptions/page_fault_user"] {
        intel.write(&tracing.join("events").join(name).join("id"), "300");
    }
    let intel = Catalog::at(intel.0.path(), Some(tracing)).with_libpfm("libpfm-of-no-machine.so.9");
    let nearest = |text: &str| match parse(text, &intel).expect_err(text) {
        Error::UnknownEvent { nearest, .. } => nearest,
        other => panic!("{text}: {other}"),
    };
    for (text, first) in [
        ("cycels", "cycles"),
        ("page-fault", "page-faults"),
        ("CPU-CLOCK", "cpu-clock"),
        ("cpu_clock", "cpu-clock"),
        ("L1-dcache-load-miss3s", "L1-dcache-load-misses"),
        ("mem-lods", "cpu/mem-loads/"),
        ("sched_switch", "sched:sched_switch"),
        ("sched:sched_swich", "sched:sched_switch"),
        ("cpuu//", "cpu//"),
    ] {
        assert_eq!(nearest(text).first().map(String::as_str), Some(first), "{text}");
        assert!(nearest(text).len() <= 5);
    }
    assert!(nearest("zzzzzzzz").is_empty());
    assert_eq!(one("sched:sched_switch:k", &intel).config, 300);
    assert!(matches!(parse("../sched:sched_switch", &intel), Err(Error::EventSyntax { .. } | Error::UnknownEvent { .. })));
    assert!(matches!(parse("sched:..", &intel), Err(Error::UnknownEvent { .. })));
}

#[test]
fn missing_sources_say_how_to_get_them() {
    let bare = Tree::new(&[]);
    let bare = bare.catalog();
    let message = why("sched:sched_switch", &bare);
    assert!(
        message.contains("tracefs is not mounted") && message.contains("mount -t tracefs tracefs /sys/kernel/tracing"),
        "{message}"
    );
    assert!(why("cycels:u", &bare).contains("nearest: cycles"), "a typing error needs no tracefs: {}", why("cycels:u", &bare));
    let message = why("skx::UOPS_RETIRED:ALL", &bare);
    assert!(message.contains("apt-get install libpfm4") && message.contains("libpfm-of-no-machine.so.9"), "{message}");
}

/// Where cores are of several kinds an event names its kind, or is refused: the kernel would count it on one kind alone.
#[test]
fn an_event_of_no_kind_of_core_is_refused_where_there_are_several() {
    let files = [HYBRID, &[("cpu_core/events/mem-loads", "event=0xcd"), ("cpu_atom/events/mem-loads", "event=0xd0")]].concat();
    let hybrid = Tree::new(&files);
    let hybrid = hybrid.catalog();
    for text in ["cycles", "instructions:upp", "L1-dcache-loads", "r1c2:u"] {
        let error = one(text, &hybrid).check_supported(&hybrid).unwrap_err().to_string();
        assert!(error.contains("cpu_core (CPUs 0-7) and cpu_atom (CPUs 8-15)"), "{text}: {error}");
        let (event, modifiers) = text.split_once(':').unwrap_or((text, ""));
        assert!(error.contains(&format!("cpu_core/{event}/{modifiers}, or cpu_atom/{event}/{modifiers}")), "{text}: {error}");
    }
    for text in
        ["cpu_core/cycles/pp", "cpu_atom/instructions/u", "cpu_core/r1c2/", "cpu_atom/event=0x3c/", "cpu-clock", "page-faults"]
    {
        one(text, &hybrid).check_supported(&hybrid).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    // What the refusal says can be written means what it says.
    assert_eq!(one("cpu_core/r1c2/u", &hybrid).config, 0x1c2);
    // An alias of both is not one's.
    assert!(why("mem-loads", &hybrid).contains("cpu_atom/mem-loads/, cpu_core/mem-loads/"), "{}", why("mem-loads", &hybrid));
    // The precise levels are those of the kind that is named.
    assert_eq!(one("cpu_core/cycles/P", &hybrid).modifiers.precise, 3);
    assert_eq!(one("cpu_atom/cycles/P", &hybrid).modifiers.precise, 0, "it does not say");
    // CPUs of one kind decide; of both, or of none, do not.
    let of = |cpus: &[u32]| hybrid.core_pmu_of(cpus).map(|pmu| pmu.name.clone());
    assert_eq!([of(&[8, 15]), of(&[0]), of(&[7, 8]), of(&[])], [Some("cpu_atom".into()), Some("cpu_core".into()), None, None]);
    let (intel, bare) = (Tree::new(SKYLAKE), Tree::new(&[]));
    assert_eq!(intel.catalog().core_pmu_of(&[3]).map(|pmu| pmu.name.as_str()), Some("cpu"));
    one("cycles", &intel.catalog()).check_supported(&intel.catalog()).unwrap();
    // Big and little cores of ARM are two kinds as well.
    let little = Tree::new(&[
        ("armv8_cortex_a53/type", "8"),
        ("armv8_cortex_a53/cpus", "0-3"),
        ("armv8_cortex_a72/type", "9"),
        ("armv8_cortex_a72/cpus", "4-5"),
    ]);
    let little = little.catalog();
    assert!(one("cycles", &little).check_supported(&little).is_err());
    one("armv8_cortex_a72/cycles/", &little).check_supported(&little).unwrap();
    assert_eq!(one("armv8_cortex_a72/cycles/", &little).config, 9 << 32);
    // Of a machine that is elsewhere a kind can be named, and is not sampled here.
    let bare = bare.catalog().with_vendor(Vendor::Intel);
    let elsewhere = one("cpu_atom/cycles/pp", &bare);
    assert_eq!(
        (elsewhere.mechanism, elsewhere.pmu_type, elsewhere.core.as_deref()),
        (Mechanism::Pebs, ABSENT_PMU, Some("cpu_atom"))
    );
    assert!(elsewhere.check_supported(&bare).is_err() && one("cpu_core/cycles/pp", &bare).check_supported(&bare).is_err());
    assert!(one("cpu_core/cycles/pp", &intel.catalog()).check_supported(&intel.catalog()).is_err(), "there is no such PMU");
}

/// A counter that others reload needs its group, which events that are opened one by one do not have.
#[test]
fn counters_that_others_reload_are_refused_by_name() {
    let tree = Tree::new(&[("cpu/type", "4"), ("cpu/format/event", "config:0-7"), ("cpu/format/acr_mask", "config2:0-63")]);
    let catalog = tree.catalog().with_vendor(Vendor::Intel);
    let error = one("cpu/event=0xc0,acr_mask=0x2/", &catalog).check_supported(&catalog).unwrap_err().to_string();
    assert!(error.contains("acr_mask is 0x2, needs 0"), "{error}");
    one("cpu/event=0xc0,acr_mask=0/", &catalog).check_supported(&catalog).unwrap();
    // Where the PMU has no such term config2 is something else.
    let older = Tree::new(SKYLAKE);
    one("cpu/event=0xc0,config2=2/", &older.catalog()).check_supported(&older.catalog()).unwrap();
}

/// As drivers/perf/arm_spe_pmu.c of Linux 7.1 shows a CPU with FEAT_SPEv1p2 and FEAT_SPE_FDS.
const NEWER_SPE: &[(&str, &str)] = &[
    ("arm_spe_0/type", "9"),
    ("arm_spe_0/caps/event_filter", "0x4300fe"),
    ("arm_spe_0/format/event_filter", "config1:0-63"),
    ("arm_spe_0/format/min_latency", "config2:0-11"),
    ("arm_spe_0/format/inv_event_filter", "config3:0-63"),
    ("arm_spe_0/format/inv_data_src_filter", "config4:0-63"),
    ("arm_spe_0/format/of_tomorrow", "config5:0-3"),
];

#[test]
fn the_last_words_of_the_attribute_are_terms_too() {
    let tree = Tree::new(NEWER_SPE);
    let arm = tree.catalog();
    let event = one("arm_spe_0/inv_event_filter=0x80,inv_data_src_filter=0x3/", &arm);
    assert_eq!((event.config3, event.config4), (0x80, 3));
    assert_eq!(one("arm_spe_0/config3=7,config4=9/", &arm).config4, 9);
    // A word that came later is told by name, and not taken for a term that is not there.
    let later = why("arm_spe_0/of_tomorrow=1/", &arm);
    assert!(later.contains("config5:0-3") && later.contains("no word of perf_event_attr"), "{later}");
    // Without the PMU, its terms are known all the same.
    let bare = Tree::new(&[]);
    assert_eq!(one("arm_spe_0/inv_data_src_filter=5/", &bare.catalog()).config4, 5);
    assert_eq!(one("ibs_op/strmst=1,ldlat=128/", &bare.catalog()).config1, 1 << 12 | 128);
    assert_eq!(one("cpu_atom/event=0xc0,acr_mask=0x3/", &bare.catalog()).config2, 3);
}

#[test]
fn spe_filters_that_no_sample_passes_are_refused() {
    let tree = Tree::new(NEWER_SPE);
    let arm = tree.catalog();
    let refused = |text: &str| one(text, &arm).check_supported(&arm).unwrap_err().to_string();
    let unable = refused("arm_spe_0/inv_event_filter=0x80000100/");
    assert!(unable.contains("inv_event_filter") && unable.contains("0x80000100") && unable.contains("0x4300fe"), "{unable}");
    assert!(refused("arm_spe_0/event_filter=0x1/").contains("event_filter has bits 0x1 "));
    let both = refused("arm_spe_0/event_filter=0x82,inv_event_filter=0x80/");
    assert!(both.contains("share bits 0x80"), "{both}");
    for text in ["arm_spe_0/event_filter=0x2,inv_event_filter=0x80/", "arm_spe_0/inv_event_filter=0x80/", "arm_spe_0//"] {
        one(text, &arm).check_supported(&arm).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

/// As arch/x86/events/amd/ibs.c of Linux 7.1 shows a Zen 6, in part.
#[test]
fn thresholds_of_ibs_have_a_range() {
    let tree = Tree::new(&[
        ("cpu/type", "4"),
        ("ibs_op/type", "10"),
        ("ibs_op/format/ldlat", "config1:0-11"),
        ("ibs_op/format/strmst", "config1:12"),
        ("ibs_op/format/swfilt", "config2:0"),
        ("ibs_fetch/type", "9"),
        ("ibs_fetch/format/fetchlat", "config1:0-10"),
    ]);
    let amd = tree.catalog();
    let refused = |text: &str| one(text, &amd).check_supported(&amd).unwrap_err().to_string();
    assert!(refused("ibs_op/ldlat=127/").contains("ldlat is 127, needs 128 to 2048"));
    assert!(refused("ibs_op/ldlat=2049,strmst=1/").contains("ldlat is 2049"));
    assert!(refused("ibs_fetch/fetchlat=1921/").contains("fetchlat is 1921, needs 128 to 1920"));
    for text in
        ["ibs_op/ldlat=128/", "ibs_op/ldlat=2048,strmst=1/u", "ibs_op/strmst=1/", "ibs_fetch/fetchlat=1920/", "ibs_fetch//"]
    {
        one(text, &amd).check_supported(&amd).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    assert!(why("ibs_op/ldlat=4096/", &amd).contains("12 bits"));
}
