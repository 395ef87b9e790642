//! Machines that are not at hand, as trees of files: what doctor must say of each, written down beforehand.

use std::path::Path;

use perftax_doc::Mechanism;
use perftax_pmu::machine::intel::{Groups, Pebs};
use perftax_pmu::machine::{Cpuid, Fact, FilesOnly, Group, Machine, Opening, Probe, Root, Vendor, usual_event};
use perftax_pmu::oracle::CpuFacts;
use tempfile::TempDir;

const ROOT_STATUS: &str = "Name:\tperftax\nCapEff:\t000001ffffffffff\n";
const USER_STATUS: &str = "Name:\tperftax\nCapEff:\t0000000000000000\n";

struct Tree(TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(path, text)| tree.write(path, text.as_bytes()));
        tree
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn machine(&self, leaves: &[(u32, u32, [u32; 4])]) -> Machine {
        Machine::read(Root::at(Path::new(self.0.path())), Cpuid::recorded(leaves))
    }
}

fn fact(machine: &Machine, name: &str) -> Fact {
    machine.facts(&FilesOnly).into_iter().find(|f| f.name == name).unwrap_or_else(|| panic!("no fact '{name}'"))
}

fn available(machine: &Machine) -> Vec<Mechanism> {
    machine.mechanisms(&FilesOnly).into_iter().filter(|m| m.available).map(|m| m.mechanism).collect()
}

const DEVICES: &str = "sys/bus/event_source/devices";

fn software_pmus(tree: &Tree) {
    for (name, kind) in [("software", "1"), ("tracepoint", "2"), ("breakpoint", "5"), ("uprobe", "7")] {
        tree.write(&format!("{DEVICES}/{name}/type"), kind.as_bytes());
    }
}

/// A Skylake client on bare metal, an ordinary user, Debian's paranoid level.
fn skylake() -> Tree {
    let tree = Tree::new(&[
        (
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 94\nmodel name\t: Intel(R) Core(TM) i5-6400 CPU @ 2.70GHz\n\
             stepping\t: 3\nmicrocode\t: 0xf0\nflags\t\t: fpu pti dts arch_perfmon pebs bts\n\nprocessor\t: 1\nvendor_id\t: GenuineIntel\n",
        ),
        ("proc/self/status", USER_STATUS),
        ("proc/self/mounts", "tracefs /sys/kernel/tracing tracefs rw 0 0\n"),
        ("proc/self/cgroup", "0::/user.slice/a\n"),
        ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
        ("proc/sys/kernel/perf_event_paranoid", "3\n"),
        ("proc/sys/kernel/perf_event_max_sample_rate", "1250\n"),
        ("proc/sys/kernel/perf_cpu_time_max_percent", "25\n"),
        ("proc/sys/kernel/perf_event_mlock_kb", "516\n"),
        ("proc/sys/kernel/nmi_watchdog", "1\n"),
        ("boot/config-6.1.0-18-amd64", "CONFIG_HZ=250\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\nCONFIG_HZ_250=y\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
        ("sys/devices/system/cpu/vulnerabilities/mds", "Mitigation: Clear CPU buffers; SMT disabled\n"),
        ("sys/devices/system/cpu/vulnerabilities/retbleed", "Not affected\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
        ("sys/devices/system/cpu/smt/active", "1\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm\n"),
        ("sys/fs/cgroup/user.slice/a/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
    ]);
    software_pmus(&tree);
    for (file, text) in [
        ("type", "4"),
        ("rdpmc", "1"),
        ("caps/max_precise", "3"),
        ("caps/branches", "32"),
        ("format/event", "config:0-7"),
        ("format/umask", "config:8-15"),
    ] {
        tree.write(&format!("{DEVICES}/cpu/{file}"), text.as_bytes());
    }
    tree
}

/// Leaf 0xA of a Skylake: version 4, 4 general of 48 bits, 3 fixed of 48 bits.
const SKYLAKE_LEAVES: [(u32, u32, [u32; 4]); 2] = [(1, 0, [0x506e3, 0, 0, 0]), (0xa, 0, [0x0730_0404, 0, 0, 0x603])];

#[test]
fn skylake_bare_metal_as_a_user() {
    let tree = skylake();
    let machine = tree.machine(&SKYLAKE_LEAVES);
    assert_eq!(machine.cpu.vendor, Vendor::Intel);
    assert_eq!(machine.id().cpus, 4);
    assert_eq!(machine.id().virtualisation, "none");
    assert_eq!(machine.id().mitigations, "PTI on | mds: Mitigation: Clear CPU buffers; SMT disabled");
    assert_eq!(fact(&machine, "counters").value, "4 general (48 bit), 3 fixed (48 bit)");
    assert_eq!(fact(&machine, "LBR").value, "32 branches");
    assert_eq!(fact(&machine, "precise level").value, "3 (:ppp)");
    assert_eq!(fact(&machine, "page-table isolation").value, "on");
    assert_eq!(fact(&machine, "HZ").value, "250");
    assert_eq!(fact(&machine, "IRQ time accounting").value, "off");
    assert_eq!(fact(&machine, "cgroup CPU limit").value, "1.50 CPUs");
    assert!(fact(&machine, "clocksource").fix.contains("echo tsc"));
    assert!(fact(&machine, "turbo").fix.contains("intel_pstate/no_turbo"));
    assert!(fact(&machine, "perf_event_max_sample_rate").meaning.contains("below the default"));
    assert!(fact(&machine, "NMI watchdog").fix.contains("nmi_watchdog=0"));
    let pebs = fact(&machine, "PEBS");
    assert_eq!(pebs.value, "format 3 (by model: skylake)");
    assert_eq!(pebs.fix, "sudo modprobe msr");
    // Paranoid 3 takes everything from a user, and says with which command it comes back.
    assert_eq!(available(&machine), []);
    let clock = machine.mechanism(Mechanism::CpuClock, &FilesOnly);
    assert_eq!(
        clock.why_not,
        "no permission to sample by cpu-clock: kernel.perf_event_paranoid is 3, needs 2 or less (or CAP_SYS_ADMIN)"
    );
    assert!(clock.remedy.starts_with("sudo sysctl kernel.perf_event_paranoid=2\n  meanwhile"), "{}", clock.remedy);
    assert!(machine.mechanism(Mechanism::Uprobe, &FilesOnly).why_not.contains("CAP_SYS_ADMIN is missing"));
}

#[test]
fn privilege_opens_what_the_files_show() {
    let tree = skylake();
    tree.write("proc/self/status", ROOT_STATUS.as_bytes());
    let all = [
        Mechanism::Pebs,
        Mechanism::Pmi,
        Mechanism::CpuClock,
        Mechanism::Software,
        Mechanism::Breakpoint,
        Mechanism::Tracepoint,
        Mechanism::Uprobe,
    ];
    assert_eq!(available(&tree.machine(&SKYLAKE_LEAVES)), all);
    // Level 2 without privilege: the own user mode, but neither tracepoints nor uprobes.
    tree.write("proc/self/status", USER_STATUS.as_bytes());
    tree.write("proc/sys/kernel/perf_event_paranoid", b"2\n");
    assert_eq!(available(&tree.machine(&SKYLAKE_LEAVES)), all[..5]);
}

#[test]
fn what_the_kernel_refuses_is_not_available() {
    struct Refusing;
    impl Probe for Refusing {
        fn open(&self, mechanism: Mechanism) -> Opening {
            match mechanism {
                Mechanism::Pmi => Opening::Refused { why: "perf_event_open says EBUSY".into(), remedy: String::new() },
                other => Opening::Opened(usual_event(other).into()),
            }
        }
        fn breakpoint_slots(&self) -> Option<u32> {
            Some(3)
        }
    }
    let tree = skylake();
    tree.write("proc/self/status", ROOT_STATUS.as_bytes());
    let machine = tree.machine(&SKYLAKE_LEAVES);
    let status = machine.mechanism(Mechanism::Pmi, &Refusing);
    assert!(!status.available && status.why_not.contains("EBUSY"));
    assert!(machine.mechanism(Mechanism::Pebs, &Refusing).available);
    let slots = machine.facts(&Refusing).into_iter().find(|f| f.name == "breakpoint slots").unwrap();
    assert_eq!(slots.value, "3 (counted)");
}

#[test]
fn ice_lake_server_with_readable_registers() {
    let tree = Tree::new(&[
        (
            "proc/cpuinfo",
            "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 106\nmodel name : Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz\nstepping : 6\nmicrocode : 0xd0003f5\n",
        ),
        ("proc/self/status", ROOT_STATUS),
        ("proc/sys/kernel/osrelease", "6.12.9\n"),
        ("proc/sys/kernel/perf_event_paranoid", "1\n"),
        ("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
    ]);
    software_pmus(&tree);
    tree.write(&format!("{DEVICES}/cpu/type"), b"4\n");
    tree.write(&format!("{DEVICES}/cpu/caps/max_precise"), b"3\n");
    // IA32_PERF_CAPABILITIES: LBR format 5, PEBS trap and registers, format 4, baseline; IA32_MISC_ENABLE: PEBS there.
    let mut registers = vec![0; 0x400];
    registers[0x345..0x34d].copy_from_slice(&0x44c5_u64.to_le_bytes());
    registers[0x1a0..0x1a8].copy_from_slice(&0x0085_0089_u64.to_le_bytes()[..8]);
    registers[0x1a1] = 0x00;
    tree.write("dev/cpu/0/msr", &registers);
    // Version 5, 8 general, 4 fixed by bitmap and number.
    let machine = tree.machine(&[(1, 0, [0x606a6, 0, 0, 0]), (0xa, 0, [0x0830_0805, 0, 0xf, 0x604])]);
    assert_eq!(fact(&machine, "PEBS").value, "format 4, adaptive");
    assert_eq!(fact(&machine, "counters").value, "8 general (48 bit), 4 fixed (48 bit)");
    assert_eq!(fact(&machine, "page-table isolation").value, "off");
    assert_eq!(fact(&machine, "HZ").value, "unknown");
    let cpu = CpuFacts::each_of_machine(&machine).remove(0);
    assert_eq!((cpu.pebs, cpu.general, cpu.fixed), (Pebs::adaptive(4), Some(8), Some(0xf)));
    assert_eq!(cpu.no_pebs, None);
    // The firmware can switch PEBS off: bit 12 of IA32_MISC_ENABLE.
    registers[0x1a1] = 0x10;
    tree.write("dev/cpu/0/msr", &registers);
    assert_eq!(fact(&machine, "PEBS").value, "switched off");
}

#[test]
fn zen_3_has_ibs_and_no_pebs() {
    let tree = Tree::new(&[
        (
            "proc/cpuinfo",
            "processor : 0\nvendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1\nmodel name : AMD EPYC 7763 64-Core Processor\nstepping : 1\nmicrocode : 0xa0011d1\nflags : perfctr_core ibs\n",
        ),
        ("proc/self/status", ROOT_STATUS),
        ("proc/sys/kernel/osrelease", "6.1.0\n"),
        ("proc/sys/kernel/perf_event_paranoid", "2\n"),
        ("sys/devices/system/cpu/smt/control", "notsupported\n"),
        ("sys/devices/system/cpu/smt/active", "0\n"),
        ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
    ]);
    software_pmus(&tree);
    for (name, kind) in [("cpu", "4"), ("ibs_op", "10"), ("ibs_fetch", "9")] {
        tree.write(&format!("{DEVICES}/{name}/type"), kind.as_bytes());
    }
    tree.write(&format!("{DEVICES}/ibs_op/format/cnt_ctl"), b"config:19\n");
    // Fetch and op sampling, counter access, op count, branch target, 27 bits, RIP check, fused branches: 0x3ff is Zen 3.
    let machine = tree.machine(&[(1, 0, [0xa00f11, 0, 0, 0]), (0x8000_001b, 0, [0x3ff, 0, 0, 0])]);
    assert_eq!(machine.cpu.vendor, Vendor::Amd);
    assert_eq!(fact(&machine, "counters").value, "6 general (48 bit), no fixed");
    let ibs = fact(&machine, "IBS");
    assert_eq!(ibs.value, "ibs_fetch, ibs_op");
    assert!(ibs.meaning.contains("27-bit op counter") && !ibs.meaning.contains("L3-miss filter"), "{}", ibs.meaning);
    assert_eq!(fact(&machine, "IBS user/kernel filter").value, "none");
    assert_eq!(fact(&machine, "turbo").fix, "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost");
    let working = available(&machine);
    assert!(working.contains(&Mechanism::IbsOp) && working.contains(&Mechanism::IbsFetch));
    assert!(machine.mechanism(Mechanism::Pebs, &FilesOnly).why_not.contains("Intel's"));
    assert!(!working.contains(&Mechanism::Tracepoint), "tracefs is not mounted in this tree");
    assert!(machine.mechanism(Mechanism::Tracepoint, &FilesOnly).remedy.contains("mount -t tracefs"));
}

#[test]
fn neoverse_n1_in_a_guest() {
    let tree = Tree::new(&[
        (
            "proc/cpuinfo",
            "processor\t: 0\nFeatures\t: fp asimd atomics\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n",
        ),
        ("proc/self/status", ROOT_STATUS),
        ("proc/sys/kernel/perf_event_paranoid", "2\n"),
        ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
        ("sys/class/dmi/id/product_name", "m6g.large\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "arch_sys_counter\n"),
    ]);
    software_pmus(&tree);
    tree.write(&format!("{DEVICES}/armv8_pmuv3_0/type"), b"8\n");
    tree.write(&format!("{DEVICES}/arm_spe_0/type"), b"9\n");
    tree.write(&format!("{DEVICES}/arm_spe_0/caps/min_interval"), b"1024\n");
    tree.write(&format!("{DEVICES}/arm_spe_0/caps/count_size"), b"12\n");
    let machine = tree.machine(&[]);
    assert_eq!(machine.cpu.name, "ARM Neoverse N1");
    assert_eq!(machine.id().name, "ARM Neoverse N1 (Amazon EC2 guest), 1 CPU");
    assert_eq!(fact(&machine, "SPE").value, "arm_spe_0");
    assert_eq!(fact(&machine, "SPE minimum interval").value, "1024 operations");
    assert!(available(&machine).contains(&Mechanism::Spe));
    tree.write("sys/class/dmi/id/product_name", b"m6g.metal\n");
    assert_eq!(tree.machine(&[]).id().virtualisation, "none");
}

#[test]
fn the_fingerprint_follows_what_changes_the_cost() {
    let tree = skylake();
    let first = tree.machine(&SKYLAKE_LEAVES).id().fingerprint;
    for (path, text) in [
        ("proc/sys/kernel/osrelease", "6.1.0-19-amd64\n"),
        ("sys/devices/system/cpu/vulnerabilities/meltdown", "Vulnerable\n"),
        ("sys/hypervisor/type", "xen\n"),
    ] {
        let changed = skylake();
        changed.write(path, text.as_bytes());
        // The flag says PTI as well as the file, and a kernel that is told nopti shows neither.
        let cpuinfo = std::fs::read_to_string(changed.0.path().join("proc/cpuinfo")).unwrap();
        if path.ends_with("meltdown") {
            changed.write("proc/cpuinfo", cpuinfo.replace(" pti", "").as_bytes());
        }
        assert_ne!(changed.machine(&SKYLAKE_LEAVES).id().fingerprint, first, "{path}");
    }
    tree.write("proc/sys/kernel/perf_event_paranoid", b"-1\n");
    assert_eq!(tree.machine(&SKYLAKE_LEAVES).id().fingerprint, first, "a sysctl is not the machine");
}

#[test]
fn hypervisors_are_known_by_their_signature() {
    let signature = |text: &[u8; 12]| {
        let word = |i: usize| u32::from_le_bytes(text[i..i + 4].try_into().unwrap());
        let leaves = [(1, 0, [0, 0, 1 << 31, 0]), (0x4000_0000, 0, [0x4000_0001, word(0), word(4), word(8)])];
        Tree::new(&[]).machine(&leaves).id().virtualisation
    };
    assert_eq!(signature(b"KVMKVMKVM\0\0\0"), "KVM");
    assert_eq!(signature(b"TCGTCGTCGTCG"), "QEMU TCG");
    assert_eq!(signature(b"Microsoft Hv"), "Hyper-V");
    assert_eq!(signature(b"SomethingNew"), "SomethingNew");
}

#[test]
fn nothing_at_all_is_described_without_a_panic() {
    let machine = Tree::new(&[]).machine(&[]);
    let facts = machine.facts(&FilesOnly);
    assert!(Group::ALL.iter().all(|group| facts.iter().any(|f| f.group == *group)));
    assert!(facts.iter().all(|f| !f.name.is_empty() && !f.value.is_empty() && !f.meaning.is_empty()));
    assert_eq!(available(&machine), []);
}

#[test]
fn garbage_in_every_file_is_described_without_a_panic() {
    let tree = skylake();
    let mut pending = vec![tree.0.path().to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() { pending.push(path) } else { std::fs::write(path, b"\xff-1 :99999999999999999999,\0/ ..").unwrap() }
        }
    }
    let machine = tree.machine(&[(0xa, 0, [u32::MAX; 4]), (0x1c, 0, [u32::MAX; 4])]);
    assert!(!machine.facts(&FilesOnly).is_empty());
    assert_eq!(machine.id().fingerprint.len(), 16);
}

#[test]
fn the_machine_here_tells_of_itself() {
    let machine = Machine::here();
    assert!(machine.facts(&FilesOnly).len() > 20);
    assert_eq!(machine.mechanisms(&FilesOnly).len(), Mechanism::ALL.len());
}

/// What the kernel's cpuid driver gives of a CPU: leaf and subleaf are the position, 16 bytes each.
fn cpuid_file(tree: &Tree, cpu: u32, leaves: &[(u32, u32, [u32; 4])]) {
    use std::os::unix::fs::FileExt;
    let path = format!("dev/cpu/{cpu}/cpuid");
    tree.write(&path, b"");
    let file = std::fs::File::options().write(true).open(tree.0.path().join(&path)).unwrap();
    for (leaf, subleaf, registers) in leaves {
        let bytes: Vec<u8> = registers.iter().flat_map(|register| register.to_le_bytes()).collect();
        file.write_all_at(&bytes, u64::from(*leaf) | u64::from(*subleaf) << 32).unwrap();
    }
}

/// An Arrow Lake H: three kinds of cores, as the boot message of a Core Ultra 9 285H has them.
fn arrow_lake_h() -> Tree {
    let tree = Tree::new(&[
        (
            "proc/cpuinfo",
            "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 197\nmodel name : Intel(R) Core(TM) Ultra 9 285H\nstepping : 2\nflags : arch_perfmon pebs\n",
        ),
        ("proc/self/status", ROOT_STATUS),
        ("proc/sys/kernel/osrelease", "7.1.8\n"),
        ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
    ]);
    software_pmus(&tree);
    for (name, kind, cpus) in [("cpu_atom", "10", "6-13"), ("cpu_core", "4", "0-5"), ("cpu_lowpower", "11", "14-15")] {
        for (file, text) in [("type", kind), ("cpus", cpus), ("caps/max_precise", "3"), ("caps/branches", "32"), ("rdpmc", "1")] {
            tree.write(&format!("{DEVICES}/{name}/{file}"), text.as_bytes());
        }
    }
    tree.write(&format!("{DEVICES}/cpu_atom/format/acr_mask"), b"config2:0-63");
    tree
}

#[test]
fn hybrid_machines_have_facts_of_each_kind_of_core() {
    let tree = arrow_lake_h();
    // Leaf 0AH is that of the core that we are on, and says nothing of the others.
    let machine = tree.machine(&[(1, 0, [0xc0652, 0, 0, 0]), (0xa, 0, [0x0830_0805, 0, 0x7, 0x603])]);
    let kinds = fact(&machine, "kinds of cores");
    assert_eq!(kinds.value, "3 kinds");
    assert!(kinds.meaning.contains("cpu_core (CPUs 0-5), cpu_atom (CPUs 6-13), cpu_lowpower (CPUs 14-15)"), "{}", kinds.meaning);
    assert_eq!(fact(&machine, "PEBS of cpu_atom").value, "format 5, adaptive (by model: arrowlake-h)");
    let counters = |machine: &Machine| {
        ["cpu_core", "cpu_atom", "cpu_lowpower"].map(|pmu| fact(machine, &format!("counters of {pmu}")).value)
    };
    assert_eq!(counters(&machine), ["10 general, 4 fixed", "8 general, 6 fixed", "8 general, 3 fixed"]);
    assert_eq!(machine.general_counters(), Some(8), "so many fit everywhere");
    let usual = |mechanism| machine.mechanism(mechanism, &FilesOnly);
    assert!(usual(Mechanism::Pebs).available && usual(Mechanism::Pmi).available);
    assert_eq!([usual(Mechanism::Pebs).event, usual(Mechanism::Pmi).event], ["", ""], "of which kind has to be said");
    let cpus = CpuFacts::each_of_machine(&machine);
    let facts: Vec<_> = cpus.iter().map(|cpu| (cpu.pmu.as_str(), cpu.pebs, cpu.general, cpu.fixed)).collect();
    let pebs = Pebs::adaptive(5);
    assert_eq!(
        facts,
        [
            ("cpu_core", pebs, Some(10), Some(0xf)),
            ("cpu_atom", pebs, Some(8), Some(0x77)),
            ("cpu_lowpower", pebs, Some(8), Some(7))
        ]
    );
    // The CPUs themselves, where the kernel shows their CPUID, are believed before the table.
    cpuid_file(
        &tree,
        6,
        &[(0, 0, [0x23, 0, 0, 0]), (0x23, 0, [0b111, 0, 0, 0]), (0x23, 1, [0x3f, 0x37, 0, 0]), (0x23, 2, [0xf, 0, 0x3, 0])],
    );
    let machine = tree.machine(&[(1, 0, [0xc0652, 0, 0, 0])]);
    assert_eq!(counters(&machine)[1], "6 general, 5 fixed");
    assert_eq!(fact(&machine, "counter reload of cpu_atom").value, "4 reloaded by 2");
    // A CPU that ends before leaf 23H answers with other data, which are not taken.
    cpuid_file(&tree, 6, &[(0, 0, [0x20, 0, 0, 0])]);
    assert_eq!(counters(&tree.machine(&[]))[1], "8 general, 6 fixed");
}

/// Family 19: Diamond Rapids; what its table leaves open CPUID says, format 0FH in the register means architectural PEBS.
#[test]
fn diamond_rapids_by_its_registers() {
    let tree = Tree::new(&[
        (
            "proc/cpuinfo",
            "processor : 0\nvendor_id : GenuineIntel\ncpu family : 19\nmodel : 1\nmodel name : Intel Xeon 7\nstepping : 0\nflags : arch_perfmon pebs\n",
        ),
        ("proc/self/status", ROOT_STATUS),
        ("proc/sys/kernel/osrelease", "7.1.8\n"),
    ]);
    software_pmus(&tree);
    for (file, text) in [("type", "4"), ("caps/max_precise", "3"), ("rdpmc", "1"), ("format/acr_mask", "config2:0-63")] {
        tree.write(&format!("{DEVICES}/cpu/{file}"), text.as_bytes());
    }
    let leaves = |extension: &[(u32, u32, [u32; 4])]| [&[(1, 0, [0, 0, 0, 0])], extension].concat();
    let bare = tree.machine(&leaves(&[]));
    assert!(fact(&bare, "CPU").meaning.ends_with("diamondrapids"));
    let pebs = fact(&bare, "PEBS");
    assert_eq!(pebs.value, "architectural (by model: diamondrapids)");
    assert!(pebs.meaning.contains("documentation alone") && pebs.meaning.contains("leaf 23H"), "{}", pebs.meaning);
    let unread = CpuFacts::each_of_machine(&bare).remove(0);
    assert_eq!((unread.pebs, unread.general, unread.fixed), (Pebs::ARCHITECTURAL, None, None));
    assert!(fact(&bare, "rdpmc").meaning.ends_with("once its event is mapped"));

    let mut registers = vec![0; 0x400];
    registers[0x345..0x34d].copy_from_slice(&0x4fc5_u64.to_le_bytes());
    tree.write("dev/cpu/0/msr", &registers);
    let groups = 1 << 29 | 1 << 30 | 1 << 12;
    let extension = [
        (0x23, 0, [0b11_0011, 0b111, 0, 0]),
        (0x23, 1, [0x3ff, 0xf, 0, 0]),
        (0x23, 4, [0, groups, 0, 0]),
        (0x23, 5, [0x3ff, 1, 0xf, 0]),
    ];
    let machine = tree.machine(&leaves(&extension));
    let pebs = fact(&machine, "PEBS");
    assert_eq!(pebs.value, "architectural");
    assert!(pebs.meaning.ends_with("general registers, access, bit 12 (unknown)"), "{}", pebs.meaning);
    let cpu = CpuFacts::each_of_machine(&machine).remove(0);
    assert_eq!((cpu.pebs, cpu.general, cpu.fixed), (Pebs::Architectural(Some(Groups(groups))), Some(10), Some(0xf)));
    assert!(fact(&machine, "rdpmc").meaning.contains("RDPMC user disable"));
}

#[test]
fn a_host_with_a_mediated_vpmu_says_so() {
    let tree = skylake();
    let facts = |tree: &Tree| tree.machine(&SKYLAKE_LEAVES).facts(&FilesOnly);
    assert!(facts(&tree).iter().all(|fact| fact.name != "mediated vPMU"), "a kernel without it");
    for (value, text) in [("Y", "on"), ("N", "off"), ("maybe", "unknown")] {
        tree.write("sys/module/kvm_intel/parameters/enable_mediated_pmu", value.as_bytes());
        assert_eq!(fact(&tree.machine(&SKYLAKE_LEAVES), "mediated vPMU").value, text);
    }
    tree.write("sys/module/kvm_intel/parameters/enable_mediated_pmu", b"Y");
    assert!(fact(&tree.machine(&SKYLAKE_LEAVES), "mediated vPMU").meaning.contains("EOPNOTSUPP"));
}

/// Zen 6 as Linux 7.1 shows it, and as a kernel that does not know its filters does.
#[test]
fn zen_6_filters_by_itself_where_the_kernel_knows_how() {
    let tree = Tree::new(&[
        (
            "proc/cpuinfo",
            "processor : 0\nvendor_id : AuthenticAMD\ncpu family : 26\nmodel : 80\nmodel name : AMD EPYC\nstepping : 0\nflags : perfctr_core ibs\n",
        ),
        ("proc/self/status", ROOT_STATUS),
        ("proc/sys/kernel/osrelease", "7.1.8\n"),
    ]);
    software_pmus(&tree);
    for (name, kind) in [("cpu", "4"), ("ibs_op", "10"), ("ibs_fetch", "9")] {
        tree.write(&format!("{DEVICES}/{name}/type"), kind.as_bytes());
    }
    for format in ["ibs_op/format/swfilt", "ibs_fetch/format/swfilt"] {
        tree.write(&format!("{DEVICES}/{format}"), b"config2:0\n");
    }
    // Of Zen 5, which kernels before 7.1 know.
    tree.write(&format!("{DEVICES}/ibs_op/caps/dtlb_pgsize"), b"1\n");
    let word = 0xbff | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15 | 1 << 16 | 1 << 19;
    let leaves = |word| [(1, 0, [0, 0, 0, 0]), (0x8000_001b, 0, [word, 0, 0, 0])];
    let old_kernel = fact(&tree.machine(&leaves(word)), "IBS user/kernel filter");
    assert_eq!(old_kernel.value, "in software (swfilt)");
    assert!(old_kernel.meaning.contains("does not know how"), "{}", old_kernel.meaning);
    for (file, text) in [
        ("ibs_op/format/strmst", "config1:12"),
        ("ibs_op/caps/strmst", "1"),
        ("ibs_op/caps/rmtsocket", "1"),
        ("ibs_fetch/format/fetchlat", "config1:0-10"),
    ] {
        tree.write(&format!("{DEVICES}/{file}"), text.as_bytes());
    }
    let machine = tree.machine(&leaves(word));
    assert_eq!(fact(&machine, "IBS user/kernel filter").value, "in hardware (bit 63)");
    assert_eq!(fact(&machine, "IBS filters and data").value, "strmst, rmtsocket, dtlb_pgsize, fetchlat");
    assert!(fact(&machine, "CPU").meaning.ends_with("zen6"));
    assert!(fact(&machine, "IBS").meaning.contains("streaming store, remote socket, data TLB page size"));
    // The driver's side alone is not enough.
    assert_eq!(fact(&tree.machine(&leaves(word & !(1 << 15))), "IBS user/kernel filter").value, "in software (swfilt)");
}
