//! The large-PEBS oracle against what the guest's kernel really does, bit by bit: records to an interrupt, as the emulated PMU counts
//! them. Needs the machine built (`perftax vm build`); `make test` sees to that.

use crate::common;
use perftax_pmu::machine::intel;
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

/// Flags that Linux 6.1 refuses by themselves, by their bits: aux_output without an AUX event to put it in, inherit_thread without
/// inherit, sigtrap without remove_on_exec.
const REFUSED_FLAGS: [u32; 3] = [31, 35, 37];

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
    // Records before Skylake's hold no time.
    let with_time = sample::IP | sample::TID | sample::TIME;
    let generations = [
        (Generation::IceLake, "icelake-server", with_time),
        (Generation::SapphireRapids, "sapphirerapids", with_time),
        (Generation::Broadwell, "broadwell", with_time & !sample::TIME),
        (Generation::Skylake, "skylake", with_time),
    ];
    for (generation, name, sample_type) in common::last_of(2, &generations) {
        let cpu = CpuFacts::of_generation(intel::Generation::named(name).unwrap());
        let share = common::compiled("attr.c");
        let (output, errors, finished) = common::boot(&["./attr".into(), format!("{sample_type:x}")], |guest| {
            guest.share = Some(share.path().into());
            guest.processor = Processor { generation, ..guest.processor };
        });
        assert_eq!(finished.code, 0, "{output}{errors}");
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
            let answer = beside(&attr, &others, &cpu);
            // The interrupts of an ordinary event come on top.
            let interrupts =
                if words[0] == "beside-ordinary" { interrupts.saturating_sub(8 * 400_000 / PERIOD) } else { interrupts };
            assert!(holds(answer.verdict, answer.records_per_pmi, records, interrupts), "{name}: {line}: {answer:?}");
            if answer.verdict != Verdict::NotPebs && words[0] != "beside-frequency" && bit != 10 {
                assert!(records >= SAMPLES - 1, "{name}: {line}");
            }
            judged += 1;
        }
        assert_eq!(refused, REFUSED_FLAGS, "{name}");
        assert_eq!(judged, 1 + 25 + 38 - REFUSED_FLAGS.len() - 2 + 25 + 3, "{name}");
    }
}
