//! The large-PEBS oracle against the kernel's rules, the expectations written from ds.c and core.c of Linux 6.12, and of 7.1 for what came since.

use perftax_pmu::machine::intel::{Basis, GENERATIONS, Generation, Groups, Pebs};
use perftax_pmu::oracle::{AttrFacts, CpuFacts, LargePebs, Rate, Verdict, beside, large_pebs, sample};

/// The first kind of core of a generation.
fn cpu(name: &str) -> CpuFacts {
    CpuFacts::each_of_generation(Generation::named(name).unwrap()).remove(0)
}

/// One of its kinds of cores.
fn kind(name: &str, pmu: &str) -> CpuFacts {
    CpuFacts::each_of_generation(Generation::named(name).unwrap()).into_iter().find(|cpu| cpu.pmu == pmu).unwrap()
}

/// Clearwater Forest with these groups of architectural PEBS (the upper half of IA32_PMC_GPx_CFG_C's layout).
fn architectural(groups: u64) -> CpuFacts {
    CpuFacts { pebs: Pebs::Architectural(Some(Groups((groups >> 32) as u32))), max_precise: Some(3), ..cpu("clearwaterforest") }
}

/// `ARCH_PEBS_*` of asm/msr-index.h.
const LBR: u64 = 3 << 40;
const XMM: u64 = 1 << 49;
const GPR: u64 = 1 << 61;
const AUX: u64 = 1 << 62;
const COUNTERS: u64 = 7 << 36;

fn attr(precise: u8) -> AttrFacts {
    AttrFacts::new("cycles", precise, Rate::Period(100_003))
}

fn killers(answer: &LargePebs) -> Vec<&str> {
    answer.killed_by.iter().map(|k| k.what.as_str()).collect()
}

/// A plain fixed period on each generation, without times, where 64 KiB hold so many records less one for each counter.
#[test]
fn records_per_interrupt_by_generation() {
    let cases = [
        // 4096 / 144 = 28 records, 2 reserved.
        ("core2", 2, 26),
        // 65536 / 176 = 372, 4 reserved.
        ("nehalem", 2, 368),
        // 65536 / 192 = 341, 4 reserved.
        ("haswell", 2, 337),
        ("broadwell", 2, 337),
        // 65536 / 200 = 327, 4 reserved: 323, as published.
        ("skylake", 2, 323),
        // 65536 / 32 = 2048, 8 + 4 reserved.
        ("icelake-server", 2, 2036),
        // precise 1 needs the registers for the address: 32 + 144 = 176; (65536 - 12 * 176) / 176 = 360.4, rounded up.
        ("icelake-server", 1, 361),
        ("sapphirerapids", 2, 2036),
        ("graniterapids", 2, 2036),
        // 4 + 3 reserved.
        ("tremont", 2, 2041),
        ("meteorlake", 2, 2036),
        // Lion Cove has 10 general counters.
        ("arrowlake", 2, 2034),
        ("lunarlake", 2, 2034),
    ];
    for (name, precise, records) in cases {
        let mut attr = attr(precise);
        attr.sample_type &= !sample::TIME;
        let answer = large_pebs(&attr, &cpu(name));
        assert_eq!(answer.verdict, Verdict::MultiRecord, "{name}");
        assert_eq!(answer.records_per_pmi, Some(records), "{name} :{}", "p".repeat(precise.into()));
    }
}

/// One bit at a time, on three generations: whether it takes multi-record PEBS away.
#[test]
fn every_bit_by_itself() {
    // (bit, Broadwell, Skylake, Ice Lake server)
    let table = [
        (sample::IP, true, true, true),
        (sample::TID, true, true, true),
        (sample::TIME, false, true, true),
        (sample::ADDR, true, true, true),
        (sample::READ, false, false, false),
        (sample::CALLCHAIN, false, false, false),
        (sample::ID, true, true, true),
        (sample::CPU, true, true, true),
        (sample::PERIOD, true, true, true),
        (sample::STREAM_ID, true, true, true),
        (sample::RAW, false, false, false),
        (sample::BRANCH_STACK, false, false, true),
        (sample::REGS_USER, false, false, false),
        (sample::STACK_USER, false, false, false),
        (sample::WEIGHT, true, true, true),
        (sample::DATA_SRC, true, true, true),
        (sample::IDENTIFIER, true, true, true),
        (sample::TRANSACTION, true, true, true),
        (sample::REGS_INTR, true, true, true),
        (sample::PHYS_ADDR, true, true, true),
        (sample::AUX, false, false, false),
        (sample::CGROUP, false, false, false),
        (sample::DATA_PAGE_SIZE, false, false, false),
        (sample::CODE_PAGE_SIZE, true, true, true),
        (sample::WEIGHT_STRUCT, true, true, true),
    ];
    for (bit, broadwell, skylake, icelake) in table {
        for (name, is_granted) in [("broadwell", broadwell), ("skylake", skylake), ("icelake-server", icelake)] {
            let mut attr = attr(2);
            attr.sample_type = sample::IP | bit;
            let answer = large_pebs(&attr, &cpu(name));
            assert_eq!(answer.verdict == Verdict::MultiRecord, is_granted, "bit {bit:#x} on {name}: {:?}", answer.killed_by);
            assert_eq!(answer.killed_by.len(), usize::from(!is_granted), "bit {bit:#x} on {name}");
            assert!(answer.killed_by.iter().all(|k| !k.why.is_empty() && !k.fix.is_empty()), "bit {bit:#x} on {name}");
        }
    }
}

#[test]
fn user_registers_need_a_user_only_event_and_general_registers() {
    let mut attr = attr(2);
    attr.sample_type |= sample::REGS_USER;
    attr.regs_user = 1 << 21;
    assert_eq!(killers(&large_pebs(&attr, &cpu("skylake"))), ["PERF_SAMPLE_REGS_USER"]);
    attr.exclude_kernel = true;
    assert_eq!(large_pebs(&attr, &cpu("skylake")).verdict, Verdict::MultiRecord);
    attr.regs_user = 1 << 10;
    assert_eq!(killers(&large_pebs(&attr, &cpu("skylake"))), ["PERF_SAMPLE_REGS_USER"], "CS is not in a record");
}

/// r13 at the sample, as a message's tag: multi-record on a stock kernel.
#[test]
fn a_register_tag_keeps_multi_record_mode() {
    let mut attr = attr(2);
    attr.sample_type |= sample::REGS_INTR;
    attr.regs_intr = 1 << 21;
    let skylake = large_pebs(&attr, &cpu("skylake"));
    assert_eq!((skylake.verdict, skylake.record_bytes, skylake.records_per_pmi), (Verdict::MultiRecord, Some(200), Some(323)));
    let icelake = large_pebs(&attr, &cpu("icelake-server"));
    assert_eq!((icelake.verdict, icelake.record_bytes, icelake.records_per_pmi), (Verdict::MultiRecord, Some(176), Some(361)));
    attr.regs_intr |= 1 << 32;
    assert_eq!(killers(&large_pebs(&attr, &cpu("icelake-server"))), ["PERF_SAMPLE_REGS_INTR"], "XMM");
}

#[test]
fn adaptive_records_grow_with_what_is_asked() {
    let bytes = |bits: u64| {
        let mut attr = attr(2);
        attr.sample_type |= bits;
        large_pebs(&attr, &cpu("icelake-server")).record_bytes
    };
    assert_eq!(bytes(0), Some(32));
    assert_eq!(bytes(sample::ADDR), Some(64));
    assert_eq!(bytes(sample::WEIGHT_STRUCT | sample::DATA_SRC), Some(64));
    assert_eq!(bytes(sample::BRANCH_STACK), Some(32 + 32 * 24));
}

#[test]
fn frequency_and_wakeups_need_an_interrupt_each() {
    let frequency = AttrFacts::new("cycles", 2, Rate::Frequency(4000));
    let answer = large_pebs(&frequency, &cpu("skylake"));
    assert_eq!(answer.verdict, Verdict::SingleRecord);
    assert_eq!(answer.records_per_pmi, Some(1));
    assert_eq!(killers(&answer), ["freq = 1 (4000 Hz)"]);
    let mut woken = attr(2);
    woken.wakeup_events = 1;
    assert_eq!(killers(&large_pebs(&woken, &cpu("skylake"))), ["wakeup_events = 1"]);
    woken.watermark = true;
    assert_eq!(large_pebs(&woken, &cpu("skylake")).verdict, Verdict::MultiRecord);
    let mut clocked = attr(2);
    clocked.use_clockid = true;
    assert_eq!(killers(&large_pebs(&clocked, &cpu("skylake"))), ["PERF_SAMPLE_TIME"]);
    clocked.sample_type &= !sample::TIME;
    assert_eq!(large_pebs(&clocked, &cpu("skylake")).verdict, Verdict::MultiRecord);
}

#[test]
fn every_reason_is_named_not_only_the_first() {
    let mut attr = AttrFacts::new("cycles", 2, Rate::Frequency(99));
    attr.sample_type |= sample::CALLCHAIN | sample::BRANCH_STACK;
    attr.has_aux = true;
    assert_eq!(large_pebs(&attr, &cpu("haswell")).killed_by.len(), 5, "freq, TIME, CALLCHAIN, BRANCH_STACK, AUX");
}

#[test]
fn what_is_no_pebs_at_all() {
    assert_eq!(killers(&large_pebs(&attr(0), &cpu("skylake"))), ["precise_ip = 0"]);
    assert_eq!(large_pebs(&attr(0), &cpu("skylake")).verdict, Verdict::NotPebs);
    assert_eq!(killers(&large_pebs(&attr(3), &cpu("sandybridge"))), ["precise_ip = 3"]);
    let mut software = attr(2);
    software.is_hardware = false;
    assert_eq!(killers(&large_pebs(&software, &cpu("skylake"))), ["event"]);
    let mut guest = cpu("skylake");
    guest.no_pebs = Some("no PMU".into());
    assert_eq!(killers(&large_pebs(&attr(2), &guest)), ["cpu PMU"]);
    let mut amd = cpu("skylake");
    amd.is_intel = false;
    assert_eq!(killers(&large_pebs(&attr(2), &amd)), ["CPU vendor"]);
    let mut unknown = cpu("skylake");
    unknown.pebs = Pebs::Unknown;
    assert_eq!(large_pebs(&attr(2), &unknown).verdict, Verdict::Unknown);
}

/// Format 6 alone, not 5; header and each counter of the group make the record longer.
#[test]
fn counters_can_be_read_by_format_6_records() {
    let mut attr = attr(2);
    attr.sample_type |= sample::READ;
    attr.group_events = 3;
    let answer = large_pebs(&attr, &cpu("lunarlake"));
    assert_eq!((answer.verdict, answer.record_bytes), (Verdict::MultiRecord, Some(32 + 16 + 3 * 8)));
    // 65536 / 72 = 910.2 less 14 reserved, rounded up.
    assert_eq!(answer.records_per_pmi, Some(897));
    for format_5 in ["graniterapids", "arrowlake-h"] {
        assert_eq!(killers(&large_pebs(&attr, &cpu(format_5))), ["PERF_SAMPLE_READ"], "{format_5}");
    }
}

/// The kernel's rules are a machine's, the room reserved a kind of core's: fixed counters count up to the highest number, 6 on Skymont.
#[test]
fn kinds_of_cores_differ_in_what_is_reserved() {
    let mut attr = attr(2);
    attr.sample_type &= !sample::TIME;
    let records = |name: &str, pmu: &str| large_pebs(&attr, &kind(name, pmu)).records_per_pmi;
    assert_eq!(records("alderlake", "cpu_core"), Some(2036));
    assert_eq!(records("alderlake", "cpu_atom"), Some(2048 - 6 - 3));
    assert_eq!(records("meteorlake", "cpu_atom"), Some(2048 - 8 - 3));
    assert_eq!(records("lunarlake", "cpu_atom"), Some(2048 - 8 - 7));
    assert_eq!(records("arrowlake-h", "cpu_lowpower"), Some(2048 - 8 - 3));
}

/// Each bit on architectural PEBS with all groups, with none, and with groups that nobody has read.
#[test]
fn every_bit_by_itself_on_architectural_pebs() {
    let all = architectural(LBR | XMM | GPR | AUX | COUNTERS);
    let none = architectural(0);
    let unread = cpu("clearwaterforest");
    // (bit, with all groups, with none, unread)
    use Verdict::{MultiRecord as Many, SingleRecord as One, Unknown};
    let table = [
        (sample::TIME, Many, Many, Many),
        (sample::ADDR, Many, Many, Many),
        (sample::PHYS_ADDR, Many, Many, Many),
        (sample::WEIGHT_STRUCT, Many, Many, Many),
        (sample::DATA_SRC, Many, One, Unknown),
        (sample::REGS_INTR, Many, One, Unknown),
        (sample::BRANCH_STACK, Many, One, Unknown),
        (sample::READ, Many, One, Unknown),
        (sample::CALLCHAIN, One, One, One),
        (sample::RAW, One, One, One),
        (sample::DATA_PAGE_SIZE, One, One, One),
    ];
    for (bit, with_all, with_none, without_word) in table {
        let mut attr = attr(2);
        attr.sample_type = sample::IP | bit;
        attr.regs_intr = 1 << 21;
        for (cpu, expected) in [(&all, with_all), (&none, with_none), (&unread, without_word)] {
            let answer = large_pebs(&attr, cpu);
            assert_eq!(answer.verdict, expected, "bit {bit:#x}: {:?}", answer.killed_by);
            assert_eq!(answer.killed_by.is_empty(), expected == Many, "bit {bit:#x}");
        }
    }
    // What surely kills is told, not what is not known beside it.
    let mut both = attr(2);
    both.sample_type |= sample::CALLCHAIN | sample::BRANCH_STACK;
    assert_eq!(killers(&large_pebs(&both, &unread)), ["PERF_SAMPLE_CALLCHAIN"]);
}

/// Sizes by `struct arch_pebs_*`: header 16, basic 48, access 64, registers 160, XMM 16 + 256, branches 48 + 24 each, counters 16 + 8 each; the interrupt comes at
/// 60 KiB.
#[test]
fn architectural_records_hold_the_groups_that_there_are() {
    let all = architectural(LBR | XMM | GPR | AUX | COUNTERS);
    let size = |cpu: &CpuFacts, bits: u64| {
        let mut attr = attr(2);
        attr.sample_type = sample::IP | sample::TIME | bits;
        (attr.regs_intr, attr.group_events) = (1 << 21, 2);
        let answer = large_pebs(&attr, cpu);
        (answer.record_bytes.unwrap(), answer.records_per_pmi.unwrap())
    };
    assert_eq!(size(&all, 0), (64, 960));
    assert_eq!(size(&all, sample::ADDR), (128, 480));
    assert_eq!(size(&all, sample::REGS_INTR), (224, 275));
    assert_eq!(size(&all, sample::READ), (96, 640));
    assert_eq!(size(&all, sample::BRANCH_STACK), (64 + 48 + 32 * 24, 70));
    // Eight branches where the CPU says so.
    assert_eq!(size(&architectural(1 << 40), sample::BRANCH_STACK).0, 64 + 48 + 8 * 24);
    // What the CPU has no group for is not in the record, though the address may be asked for.
    assert_eq!(size(&architectural(GPR), sample::ADDR), (64, 960));
    // A basic record is the same whatever groups there are.
    assert_eq!(size(&cpu("clearwaterforest"), 0), (64, 960));
}

#[test]
fn precise_distribution_of_architectural_pebs_is_cpuids_to_tell() {
    let asked = attr(3);
    let answer = large_pebs(&asked, &cpu("diamondrapids"));
    assert_eq!((answer.verdict, killers(&answer)), (Verdict::Unknown, vec!["precise_ip = 3"]));
    assert_eq!(large_pebs(&attr(2), &cpu("diamondrapids")).verdict, Verdict::MultiRecord);
    assert_eq!(large_pebs(&asked, &architectural(0)).verdict, Verdict::MultiRecord);
    let without = CpuFacts { max_precise: Some(2), ..architectural(0) };
    assert_eq!(
        (large_pebs(&asked, &without).verdict, killers(&large_pebs(&asked, &without))),
        (Verdict::NotPebs, vec!["precise_ip = 3"])
    );
}

/// No format, and formats that came later: neither is guessed.
#[test]
fn what_is_not_known_is_said() {
    let sierra = large_pebs(&attr(2), &cpu("sierraforest"));
    assert_eq!((sierra.verdict, sierra.record_bytes, sierra.records_per_pmi), (Verdict::Unknown, None, None));
    assert!(sierra.killed_by[0].why.contains("IA32_PERF_CAPABILITIES of one does"), "{:?}", sierra.killed_by);
    let later = large_pebs(&attr(2), &CpuFacts { pebs: Pebs::adaptive(7), ..cpu("lunarlake") });
    assert_eq!(later.verdict, Verdict::Unknown);
    assert!(later.killed_by[0].why.contains("format 7"), "{:?}", later.killed_by);
    // Without the number of counters the room that is reserved is not known, the verdict is.
    let uncounted = large_pebs(&attr(2), &CpuFacts { general: None, ..cpu("lunarlake") });
    assert_eq!((uncounted.verdict, uncounted.record_bytes, uncounted.records_per_pmi), (Verdict::MultiRecord, Some(32), None));
}

/// A neighbour of which it is not known how it is read makes it unknown for all; on adaptive PEBS records grow with neighbours, architectural ones do not.
#[test]
fn neighbours_matter() {
    let mut registers = attr(2);
    registers.sample_type |= sample::REGS_INTR;
    registers.regs_intr = 1;
    let unread = cpu("clearwaterforest");
    assert_eq!(beside(&attr(2), std::slice::from_ref(&registers), &unread).verdict, Verdict::Unknown);
    let all = architectural(GPR);
    let together = beside(&attr(2), std::slice::from_ref(&registers), &all);
    // 61,440 bytes hold 427 records of 64 and of 224 bytes in turns.
    assert_eq!((together.record_bytes, together.records_per_pmi), (Some(64), Some(427)));
    // Beside one whose records hold counters all do: 64 + 16 + 8, in units of 16.
    let counters = AttrFacts { sample_type: sample::READ | sample::IP, ..attr(2) };
    let together = beside(&attr(2), std::slice::from_ref(&counters), &architectural(COUNTERS));
    assert_eq!((together.record_bytes, together.records_per_pmi), (Some(96), Some(640)));
    assert_eq!(beside(&attr(2), std::slice::from_ref(&registers), &cpu("icelake-server")).record_bytes, Some(176));
}

#[test]
fn counters_that_others_reload_have_one_period_and_no_precise_distribution() {
    let mut attr = AttrFacts::new("cycles", 2, Rate::Period(100_003));
    attr.acr_mask = 0b10;
    assert_eq!(large_pebs(&attr, &kind("lunarlake", "cpu_atom")).verdict, Verdict::MultiRecord);
    attr.precise = 3;
    attr.rate = Rate::Frequency(4000);
    let answer = large_pebs(&attr, &kind("lunarlake", "cpu_atom"));
    assert_eq!((answer.verdict, killers(&answer)), (Verdict::NotPebs, vec!["freq = 1 (4000 Hz)", "precise_ip = 3"]));
}

#[test]
fn generations_are_found_by_any_spelling() {
    for name in ["Ice Lake Server", "icelake_server", "ICX", "icelake-server"] {
        assert_eq!(Generation::named(name).unwrap().name, "icelake-server");
    }
    assert_eq!(Generation::named("cascadelake").unwrap().name, "skylake");
    assert!(Generation::named("zen3").is_none());
    assert_eq!(Generation::of_model(6, 0x4f).unwrap().name, "broadwell");
}

/// The page that lists processors has each generation as the table has it, and no other.
#[test]
fn the_page_of_processors_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/processors.md");
    let page = std::fs::read_to_string(path).unwrap();
    let joined = |parts: Vec<String>, by: &str| parts.join(by);
    let row = |generation: &Generation| {
        let models = generation.models.iter().map(|model| format!("{model:02x}")).collect();
        let cores = generation.cores.iter().map(|core| match core.pmu {
            "cpu" => core.microarchitecture.to_string(),
            pmu => format!("{pmu} {}", core.microarchitecture),
        });
        let counters = generation.cores.iter().map(|core| match (core.general, core.fixed_counters()) {
            (Some(general), Some(fixed)) => format!("{general} + {fixed}"),
            _ => "?".into(),
        });
        let rests_on = if generation.basis == Basis::Machines { "machines" } else { "documentation" };
        format!(
            "| {} | {}: {} | {} | {} | {} | {rests_on} |",
            generation.name,
            generation.family,
            joined(models, ", "),
            joined(cores.collect(), "; "),
            joined(counters.collect(), "; "),
            generation.cores[0].pebs.in_words()
        )
    };
    let expected: Vec<String> = GENERATIONS.iter().map(row).collect();
    let table = page.lines().skip_while(|line| !line.starts_with("| generation | family: models | cores")).skip(2);
    let found: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    assert_eq!(found, expected);
}
