//! The large-PEBS oracle against the kernel's rules, the expectations written from ds.c and core.c of Linux 6.12.

use perftax_pmu::machine::intel::Generation;
use perftax_pmu::oracle::{AttrFacts, CpuFacts, LargePebs, Rate, Verdict, large_pebs, sample};

fn cpu(name: &str) -> CpuFacts {
    CpuFacts::of_generation(Generation::named(name).unwrap())
}

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
    unknown.format = None;
    assert_eq!(large_pebs(&attr(2), &unknown).verdict, Verdict::Unknown);
}

#[test]
fn counters_can_be_read_by_format_6_records() {
    let mut attr = attr(2);
    attr.sample_type |= sample::READ;
    assert_eq!(large_pebs(&attr, &cpu("lunarlake")).verdict, Verdict::MultiRecord);
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
