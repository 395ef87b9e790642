//! `perftax trace --tag reg:r13` by PEBS in the emulated machine, on the distribution's kernel: the registers are those of the records, and one
//! interrupt brings as many as the buffer holds. Needs the machine and perftax built (`make machine`); `make test` sees to that.

use crate::common;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use perftax_doc::{SlowMessage, TraceReport};
use perftax_vm::{Generation, Processor};

/// A message takes 10 us, and so as many instructions in thousands (register.c).
const PERIOD: u64 = 1009;
const MESSAGES: u64 = 600;
const DELAY_NS: u64 = 200_000;
/// What a system call takes to begin and end, and the record's clock against the program's.
const OUTSIDE_NS: u64 = 2000;

/// How long messages took by the program's own clock, ns: read outside of each, and inside.
type Truth = BTreeMap<u64, (u64, u64)>;

/// The report, and the truth.
fn recorded(generation: Generation) -> (TraceReport, Truth) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let perftax = common::perftax();
    let share = tempfile::tempdir().unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-D_GNU_SOURCE", "-O2", "-ffixed-r13", "-pthread", "-static", "-I"]).arg(root.join("crates/perftax-tag/include"));
    gcc.arg("-o").arg(share.path().join("register")).arg(root.join("crates/perftax-trace/tests/programs/register.c"));
    assert!(gcc.status().unwrap().success());
    let script = format!(
        "perftax trace record --tag reg:r13 -e instructions:upp -c {PERIOD} -o trace -- ./register {MESSAGES} {DELAY_NS} truth >truth\n"
    );
    std::fs::write(share.path().join("script"), script).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (output, errors, finished) = common::boot_with(&["sh", "script"].map(String::from), &perftax, |guest| {
        guest.share = Some(share.path().into());
        guest.processor = Processor { generation, ..guest.processor };
        guest.outputs = vec!["trace".into(), "truth".into()];
        guest.output_folder = folder.path().into();
    });
    assert_eq!(finished.code, 0, "{output}{errors}");
    // What was recorded there is read here, where nothing is emulated.
    let reported = |options: &[&str]| {
        let output =
            Command::new(&perftax).args(["trace", "report"]).arg(folder.path().join("trace")).args(options).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = reported(&[]);
    assert!(text.contains("samples each"), "{text}");
    let report: TraceReport = serde_json::from_str(&reported(&["--slowest", "100000", "--json", "-"])).unwrap();
    assert_eq!((report.meta.lost, report.meta.late, &report.trouble), (0, 0, &BTreeMap::new()), "{errors}");
    let truth = std::fs::read_to_string(folder.path().join("truth")).unwrap();
    let message = |line: &str| match line.split(' ').map(|word| word.parse().unwrap()).collect::<Vec<u64>>()[..] {
        [id, outside_ns, inside_ns] => (id, (outside_ns, inside_ns)),
        _ => panic!("{line}"),
    };
    (report, truth.lines().map(message).collect())
}

/// Every message is there, every planted delay is found, and what was measured lies where the report says that it does.
fn holds((report, truth): &(TraceReport, Truth), samples_each: u64) {
    // With few samples each, one that a library's use of r13 hides may be missed.
    let missing = if samples_each < 5 { MESSAGES / 100 } else { 0 };
    assert!(report.messages + missing >= 2 * MESSAGES && report.messages <= 2 * MESSAGES, "{}", report.messages);
    let register = report.meta.register.as_ref().unwrap();
    // At its end the program prints, without a tag.
    assert!(register.samples_valid * 3 > register.samples * 2 && register.abandoned == 0, "{register:?}");
    assert!(report.samples >= samples_each * report.messages, "{} samples", report.samples);
    let all: BTreeMap<u64, &SlowMessage> = report.slowest.iter().map(|slow| (slow.id, slow)).collect();
    for id in (1..=MESSAGES).flat_map(|i| [2 * i, 2 * i + 1]) {
        let is_delayed = (id / 2).is_multiple_of(100);
        let Some(slow) = all.get(&id) else {
            assert!(!is_delayed, "{id} is missing");
            continue;
        };
        let (least_ns, most_ns) = slow.latency_between_ns.unwrap();
        assert!(least_ns <= slow.latency_ns && slow.latency_ns <= most_ns, "{slow:?}");
        let (outside_ns, inside_ns) = truth[&id];
        assert!(least_ns <= outside_ns && inside_ns <= most_ns + OUTSIDE_NS, "{:?} {slow:?}", truth[&id]);
        let turn = (id / 2 / 100).wrapping_sub(1) % 3;
        if is_delayed {
            assert!(slow.latency_ns >= DELAY_NS && most_ns >= DELAY_NS + 10_000, "{slow:?}");
        }
        if is_delayed && turn == 1 {
            assert!(slow.shares_ns["blocked"] * 10 >= DELAY_NS * 9, "{slow:?}");
        }
    }
    // The median one is known to a sample on either side.
    let [least, most] = report.latency_between.unwrap();
    assert!(most.p50_ns - least.p50_ns < 20_000 / samples_each, "{least:?} {most:?}");
}

/// Skylake's records hold a time stamp: 323 of them make an interrupt (ds.c, PEBS_INTERRUPT threshold), and what else reads the buffer
/// (switches, our own looks) makes it fewer.
#[test]
fn every_delay_is_found_by_many_records_to_an_interrupt() {
    for generation in [Generation::Skylake, Generation::IceLake] {
        let recorded = recorded(generation);
        holds(&recorded, 5);
        let interrupts = recorded.0.meta.interrupts.unwrap();
        assert!(interrupts.samples_each().unwrap() > 100.0, "{interrupts:?}");
    }
}

/// Broadwell's hold none: a sample with a time takes an interrupt each. It works, is told, and costs.
#[test]
fn where_records_hold_no_time_each_takes_an_interrupt() {
    let recorded = recorded(Generation::Broadwell);
    // What an interrupt takes, the program does not get of its ten microseconds.
    holds(&recorded, 2);
    let report = recorded.0;
    let interrupts = report.meta.interrupts.unwrap();
    assert!(interrupts.samples_each().unwrap() < 1.1, "{interrupts:?}");
    assert!(report.meta.origin.warnings.iter().any(|warning| warning.to_string().contains("an interrupt each")), "told");
}
