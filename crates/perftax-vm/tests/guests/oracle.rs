//! The large-PEBS oracle against what the guest's kernel really does, bit by bit: records to an interrupt, as the emulated PMU counts
//! them. Needs the machine built (`perftax vm build`); `make test` sees to that.

use std::path::Path;

use crate::common;
use perftax_pmu::machine::intel::{self, Groups, Pebs};
use perftax_pmu::oracle::{AttrFacts, CpuFacts, Rate, Verdict, beside, sample};
use perftax_vm::{Generation, Processor};

/// The program's period and watermark (programs/attr.c).
const PERIOD: u64 = 1009;
const WATERMARK: u32 = 1 << 20;
/// Registers that it asks for where it asks for any.
const GENERAL: u64 = 0x00ff_03ff;
/// Samples of its work, and what may be missing at its ends.
const SAMPLES: u64 = 8 * 400_000 / (PERIOD + 1);

/// Context switches that may fall into the program's 4 ms.
const SWITCHES: u64 = 3;

/// A kernel: the suite that it is of (`None`: the distribution's 6.1), how many flags are asked about, and which it refuses by themselves: aux_output without
/// an AUX event to put it in, inherit_thread without inherit, sigtrap without remove_on_exec. The two of callchains that are put off came in 6.18.
#[derive(Clone, Copy)]
struct Kernel {
    suite: Option<&'static str>,
    flags: usize,
    refused: &'static [u32],
}

const BOOKWORM: Kernel = Kernel { suite: None, flags: 38, refused: &[31, 35, 37] };
const TRIXIE: Kernel = Kernel { suite: Some("trixie"), flags: 40, refused: &[31, 35, 37, 38, 39] };
const SID: Kernel = Kernel { suite: Some("sid"), flags: 40, refused: &[31, 35, 37] };

/// The groups that CPUID leaf 23H names for the emulated Clearwater Forest: counters, branches, XMM, general registers, the access.
const GROUPS: u64 = 7 << 36 | 3 << 40 | 1 << 49 | 1 << 61 | 1 << 62;

fn base(sample_type: u64) -> AttrFacts {
    AttrFacts {
        sample_type,
        exclude_kernel: true,
        watermark: true,
        regs_intr: GENERAL,
        regs_user: GENERAL,
        ..AttrFacts::new("instructions:upp", 2, Rate::Period(PERIOD))
    }
}

/// What flipping a bit of the flags (`struct perf_event_attr`) changes for the oracle.
fn flipped(bit: u32, mut attr: AttrFacts) -> AttrFacts {
    match bit {
        5 => attr.exclude_kernel = false,
        10 => attr.rate = Rate::Frequency(PERIOD),
        14 => (attr.watermark, attr.wakeup_events) = (false, WATERMARK),
        15 => attr.precise = 3,
        16 => attr.precise = 0,
        25 => attr.use_clockid = true,
        _ => {}
    }
    attr
}

/// The verdict that so many records and interrupts show; `capacity` records fill the buffer.
fn holds(verdict: Verdict, capacity: Option<u32>, records: u64, interrupts: u64) -> bool {
    match (verdict, capacity) {
        // A context switch reads the buffer, too, without an interrupt.
        (Verdict::MultiRecord, Some(capacity)) => {
            let full = records / u64::from(capacity);
            interrupts <= full && interrupts + SWITCHES >= full
        }
        (Verdict::SingleRecord, _) => records > 0 && records.abs_diff(interrupts) <= 1,
        (Verdict::NotPebs, _) => records == 0 && interrupts > 0,
        _ => false,
    }
}

#[test]
fn the_kernel_does_what_the_oracle_says() {
    let generations = [
        (Generation::IceLake, "icelake-server"),
        (Generation::SapphireRapids, "sapphirerapids"),
        (Generation::Broadwell, "broadwell"),
        (Generation::Skylake, "skylake"),
    ];
    for (generation, name) in common::last_of(2, &generations) {
        judge(generation, &by_the_book(name), BOOKWORM);
    }
}

#[test]
#[ignore = "kernels are fetched for it: part of make acceptance"]
fn newer_kernels_do_what_the_oracle_says() {
    for kernel in [TRIXIE, SID] {
        judge(Generation::SapphireRapids, &by_the_book("sapphirerapids"), kernel);
    }
    let pebs = Pebs::Architectural(Some(Groups((GROUPS >> 32) as u32)));
    judge(Generation::ClearwaterForest, &CpuFacts { pebs, max_precise: Some(3), ..by_the_book("clearwaterforest") }, SID);
}

/// AMD has no PEBS: the kernel refuses whatever asks for it, and takes what does not by interrupts.
#[test]
#[ignore = "kernels are fetched for it: part of make acceptance"]
fn zen_4_has_no_pebs() {
    let cpu = CpuFacts { is_intel: false, ..by_the_book("skylake") };
    assert!([0, 1, 2, 3].iter().all(|p| beside(&AttrFacts { precise: *p, ..base(3) }, &[], &cpu).verdict == Verdict::NotPebs));
    for kernel in [BOOKWORM, TRIXIE, SID] {
        let (output, errors) = ask(Generation::Zen4, sample::IP | sample::TID | sample::TIME, kernel);
        let taken: Vec<&str> = output.lines().filter(|line| !line.contains(" error ")).collect();
        // Flag 16 takes the precise level away.
        assert_eq!(taken, [format!("flag 16 0 {}", 8 * 400_000 / PERIOD)], "{:?} {output}{errors}", kernel.suite);
        assert_eq!(output.lines().count(), 1 + 25 + kernel.flags + 25 + 3, "{output}");
    }
}

/// What the kernel does with each bit.
fn ask(generation: Generation, sample_type: u64, kernel: Kernel) -> (String, String) {
    let share = common::compiled("attr.c");
    let argv = ["./attr".into(), format!("{sample_type:x}"), kernel.flags.to_string()];
    let (output, errors, finished) = common::boot_kernel(kernel.suite.map(Path::new), &argv, &common::perftax(), |guest| {
        guest.share = Some(share.path().into());
        guest.processor = Processor { generation, ..guest.processor };
    });
    assert_eq!(finished.code, 0, "{output}{errors}");
    (output, errors)
}

fn by_the_book(name: &str) -> CpuFacts {
    CpuFacts::of_generation(intel::Generation::named(name).unwrap())
}

fn judge(generation: Generation, cpu: &CpuFacts, kernel: Kernel) {
    // Records before Skylake's hold no time.
    let time = if matches!(cpu.pebs, Pebs::DebugStore { format: ..3, .. }) { 0 } else { sample::TIME };
    let sample_type = sample::IP | sample::TID | time;
    let name = format!("{} {}", cpu.name, kernel.suite.unwrap_or("bookworm"));
    let (output, _) = ask(generation, sample_type, kernel);
    let (mut judged, mut refused) = (0, Vec::new());
    for line in output.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let bit: u32 = words[1].parse().unwrap();
        if words[2] == "error" {
            assert!(words[0] == "flag", "{name}: {line}");
            refused.push(bit);
            continue;
        }
        let (records, interrupts): (u64, u64) = (words[2].parse().unwrap(), words[3].parse().unwrap());
        let other = |sample_type| base(sample_type);
        let (attr, others) = match words[0] {
            "sample" => (base(sample_type ^ 1 << bit), vec![]),
            "flag" => (flipped(bit, base(sample_type)), vec![]),
            "beside" => (base(sample_type), vec![other(sample_type ^ 1 << bit)]),
            "beside-ordinary" => (base(sample_type), vec![AttrFacts { precise: 0, ..base(sample_type) }]),
            "beside-counting" => (base(sample_type), vec![]),
            "beside-frequency" => (base(sample_type), vec![flipped(10, base(sample_type))]),
            _ => (base(sample_type), vec![]),
        };
        // exclude_user, of an event that excludes the kernel already; exclude_host, where no guest runs.
        if words[0] == "flag" && (bit == 4 || bit == 19) {
            assert_eq!((records, interrupts), (0, 0), "{line}: nothing is left");
            continue;
        }
        let answer = beside(&attr, &others, cpu);
        // The interrupts of an ordinary event come on top.
        let interrupts = if words[0] == "beside-ordinary" { interrupts.saturating_sub(8 * 400_000 / PERIOD) } else { interrupts };
        assert!(holds(answer.verdict, answer.records_per_pmi, records, interrupts), "{name}: {line}: {answer:?}");
        if answer.verdict != Verdict::NotPebs && words[0] != "beside-frequency" && bit != 10 {
            assert!(records >= SAMPLES - 1, "{name}: {line}");
        }
        judged += 1;
    }
    assert_eq!(refused, kernel.refused, "{name}");
    assert_eq!(judged, 1 + 25 + kernel.flags - refused.len() - 2 + 25 + 3, "{name}");
}
