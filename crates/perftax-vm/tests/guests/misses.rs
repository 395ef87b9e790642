//! `perftax trace --also`: misses by message in the emulated machine, where loads that miss take time: messages that are slow by misses are told from those that compute, with the
//! function and the data that they missed in. Needs the machine and perftax built (`make machine`); `make test` sees to that.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use perftax_doc::{MessageEvents, TraceReport};
use perftax_vm::Processor;

use crate::common;

const MESSAGES: u64 = 1920;
/// One message in so many misses; as many compute as long.
const EVERY: u64 = 80;
/// Samples of one miss in so many.
const PERIOD: u64 = 11;
/// Loads of a message that is planted, each of another page, in an order that no cache foresees. Of 64 MiB a last-level cache of 8 has an eighth, and a TLB of 1536 entries next to nothing.
const LOADS: u64 = 150;
/// What Skylake's described memory takes beyond a hit in the first level, ns, and what the program itself does for each load.
const EACH_NS: std::ops::Range<f64> = 54.0..75.0;

/// A program whose messages miss, and where.
struct Planted {
    program: &'static str,
    function: &'static str,
    object: &'static str,
}

/// The arena has a name where the kernel takes one (CONFIG_ANON_VMA_NAME).
const PLANTED: [Planted; 2] = [
    Planted { program: "flows", function: "lookup", object: "rare_flows [flows]" },
    Planted { program: "fragments", function: "next_fit", object: "mmap of 67108864 bytes" },
];

fn holds(planted: &Planted, report: &TraceReport, truth: &BTreeMap<u64, bool>) {
    let names: Vec<&str> = report.meta.counted.iter().map(|event| event.name.as_str()).collect();
    assert_eq!((names.as_slice(), report.meta.lost), (&["l3-misses", "stlb-misses"][..], 0));
    let missing = truth.values().filter(|misses| **misses).count();
    assert_eq!((missing as u64, truth.len()), (MESSAGES / EVERY / 2, 2 * missing));
    assert_eq!(report.slowest.len() as u64, MESSAGES);
    for slow in &report.slowest {
        let many: Vec<&MessageEvents> = slow.events.iter().filter(|events| events.are_many).collect();
        if truth.get(&slow.id) != Some(&true) {
            assert!(many.is_empty(), "{} misses no more than others: {many:?}", slow.id);
            continue;
        }
        assert_eq!(many.len(), 2, "{slow:?}");
        // Pages that a message before it was at may be in the TLB yet.
        for (events, least) in many.iter().zip([LOADS * 8 / 10, LOADS / 3]) {
            let function = events.function.as_deref().unwrap_or("");
            assert!(function.starts_with(planted.function), "{events:?}");
            assert_eq!(events.object.as_deref(), Some(planted.object), "{events:?}");
            let (low, high) = events.between_events;
            assert!(low <= LOADS && high >= least && events.usual_events < 1.0, "{events:?}");
        }
    }
    let tail = &report.blames[0];
    for events in &tail.events {
        assert!(events.extra_events.low > 0.0, "{events:?}");
        let most = &events.places[0];
        assert_eq!(most.object.as_deref(), Some(planted.object), "{events:?}");
    }
    let each_ns = tail.events[0].each_ns.unwrap();
    assert!(EACH_NS.contains(&each_ns.estimate), "{each_ns:?} {:?}", tail.events);
}

#[test]
fn messages_that_are_slow_by_misses_are_told_with_function_and_data() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let perftax = common::perftax();
    let share = tempfile::tempdir().unwrap();
    let mut script = String::new();
    let mut outputs = Vec::new();
    for Planted { program, .. } in &PLANTED {
        let mut gcc = Command::new("gcc");
        gcc.args(["-D_GNU_SOURCE", "-O2", "-static", "-I"]).arg(root.join("crates/perftax-tag/include"));
        gcc.arg("-o").arg(share.path().join(program));
        gcc.arg(root.join("crates/perftax-trace/tests/programs").join(program).with_extension("c"));
        assert!(gcc.status().unwrap().success());
        script += &format!(
            "perftax trace record --no-kernel-noise -e cpu-clock:u --also cpu/event=0xd1,umask=0x20,name=l3-misses,period={PERIOD}/upp \\
             --also cpu/event=0xd0,umask=0x11,name=stlb-misses/upp --also-period {PERIOD} -o {program}.trace -- ./{program} {program}.truth {MESSAGES} {EVERY} || exit 1\n"
        );
        outputs.extend([format!("{program}.trace").into(), format!("{program}.truth").into()]);
    }
    std::fs::write(share.path().join("script"), script).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (output, errors, finished) = common::boot_with(&["sh", "script"].map(String::from), &perftax, |guest| {
        guest.share = Some(share.path().into());
        guest.processor = Processor { caches: true, miss_time: true, ..guest.processor };
        guest.outputs = outputs;
        guest.output_folder = folder.path().into();
    });
    assert_eq!(finished.code, 0, "{output}{errors}");
    for planted in &PLANTED {
        let trace = folder.path().join(planted.program).with_extension("trace");
        let reported = |options: &[&str]| {
            let output = Command::new(&perftax).args(["trace", "report"]).arg(&trace).args(options).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let report: TraceReport = serde_json::from_str(&reported(&["--slowest", "100000", "--json", "-"])).unwrap();
        let truth = std::fs::read_to_string(folder.path().join(planted.program).with_extension("truth")).unwrap();
        let line = |line: &str| {
            let (id, kind) = line.split_once(' ').unwrap();
            (id.parse().unwrap(), kind == "m")
        };
        holds(planted, &report, &truth.lines().filter(|line| !line.starts_with('#')).map(line).collect());
        let text = reported(&[]);
        assert!(text.contains("messages have many") && text.contains(planted.object), "{text}");
    }
}
