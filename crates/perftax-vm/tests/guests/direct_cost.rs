//! `perftax calibrate --mechanism pebs-direct` in the emulated machine, which knows nothing of the costs that are injected. Needs the module
//! and the machine built (`make kmod`, `perftax vm build`); `make test` sees to that.

use crate::common;
use crate::common::module::{boot, kernel_is_well, loaded, numbers, said};
use perftax_doc::{Calibration, DirectCost};

/// Costs injected: of an assist, and of an interrupt's delivery.
const INJECTED_NS: [(f64, f64); 4] = [(0.0, 0.0), (100.0, 700.0), (1000.0, 700.0), (286.0, 700.0)];

/// The assist within 2 %; the interrupt within 5 % of what was injected and what the emulator counts of its handler's instructions, a
/// nanosecond each; and perf's sample is the sum of its parts.
#[test]
fn the_hardware_is_told_from_the_interrupt_and_from_perf() {
    let injected = common::last_of(1, &INJECTED_NS);
    let runs: String = injected.iter().map(|(assist, interrupt)| format!("run {assist} {interrupt} {assist}.json\n")).collect();
    let script = loaded(&format!(
        "echo -1 >/proc/sys/kernel/sched_rt_runtime_us
{}
run() {{
    ./knob 0x50540000 $1 && ./knob 0x50540001 $2 || exit 8
    interrupts=$(./knob 0x50540012) instructions=$(./knob 0x50540013)
    ./direct count 2053 1 250000 >/dev/null
    echo truth-$1 $(($(./knob 0x50540012) - interrupts)) $(($(./knob 0x50540013) - instructions))
    calibrate --mechanism pebs-direct --buffer 64K,1M --quick --precision 0.5 --time 3 --json $3 || exit 7
}}
{runs}",
        common::CALIBRATE
    ));
    let folder = tempfile::tempdir().unwrap();
    let (output, errors, _) = boot(&script, |guest| {
        guest.outputs = injected.iter().map(|(assist, _)| format!("{assist}.json").into()).collect();
        guest.output_folder = folder.path().into();
    });
    for (assist, interrupt) in injected {
        let file = std::fs::read(folder.path().join(format!("{assist}.json"))).unwrap_or_else(|_| panic!("{output}{errors}"));
        let document: Calibration = serde_json::from_slice(&file).unwrap();
        let [interrupts, instructions] = numbers(said(&output, &errors, &format!("truth-{assist} ")))[..] else {
            panic!("{output}")
        };
        let truth = interrupt + instructions as f64 / interrupts as f64;
        let term = |name: &str| document.terms[name].estimate;
        assert!((term("assist") - assist).abs() <= (0.02 * assist).max(2.0), "{assist}: {:?}", document.terms);
        assert_eq!(document.alpha_ns, document.terms["assist"]);
        assert!((term("interrupt") / truth - 1.0).abs() < 0.05, "{assist}: {} of {truth}", term("interrupt"));
        assert!(term("interrupt.handler") > 20.0 && term("interrupt.handler") < truth - interrupt, "{:?}", document.terms);
        let Some(DirectCost { buffers, line: Some(line), decomposition: Some(parts), published }) = &document.direct else {
            panic!("{:?}", document.direct)
        };
        let capacities: Vec<u64> = buffers.iter().map(|buffer| buffer.records_per_interrupt).collect();
        assert_eq!(capacities, [65_536 / 200, (1 << 20) / 200]);
        for buffer in buffers {
            assert!((buffer.record_ns.estimate - assist).abs() <= (0.02 * assist).max(3.0), "{assist}: {buffer:?}");
        }
        assert!((line.slope_ns.estimate - assist).abs() <= (0.02 * assist).max(3.0), "{assist}: {line:?}");
        // Perf's work for a record is some hundred instructions, whatever the hardware takes.
        let sum = parts.record_ns.estimate + parts.interrupt_ns.estimate + parts.software_ns.estimate;
        assert!((parts.sample_ns.estimate - sum).abs() < 0.01, "{parts:?}");
        assert!((500.0..2000.0).contains(&parts.software_ns.estimate), "{parts:?}");
        assert!((300.0..=323.0).contains(&parts.records_per_interrupt), "{parts:?}");
        assert_eq!(published.len(), 3);
    }
    kernel_is_well(&output, &errors);
}

/// What is missing is said, with what helps, and nothing else is measured instead.
#[test]
fn what_is_missing_is_said() {
    let script = "\
perftax calibrate --mechanism pebs-direct; echo without $?
insmod perftax.ko
perftax calibrate --mechanism pebs-direct; echo isolated $?
perftax doctor --json - | tr -d ' \\n' | grep -o '\"name\":\"pebs-direct\",\"available\":[a-z]*'
perftax plan -e instructions:up --budget 1% --mechanism pebs-direct true; echo plan $?
";
    let (output, errors, _) = boot(script, |guest| guest.append = String::new());
    assert!(output.contains("without 3") && output.contains("isolated 3") && output.contains("plan 2"), "{output}{errors}");
    assert!(errors.contains("perftax.ko is not loaded") && errors.contains("insmod perftax.ko"), "{errors}");
    assert!(errors.contains("page-table isolation is on") && errors.contains("nopti"), "{errors}");
    assert!(output.contains("\"name\":\"pebs-direct\",\"available\":false"), "{output}");
    let busy = loaded(
        "perf stat -e instructions:u sleep 20 2>/dev/null & sleep 1
perftax calibrate --mechanism pebs-direct --quick --time 1; echo busy $?; kill %1; wait
perftax calibrate --mechanism pebs-direct -e instructions:u --time 5; echo imprecise $?
perftax calibrate --mechanism pebs-direct -e page-faults --time 5; echo software $?
perftax calibrate --mechanism pebs-direct --buffer 2G; echo large $?
perftax calibrate --mechanism pebs --buffer 64K; echo perfs $?
perftax calibrate --mechanism pebs-direct --quick --buffer 1G --time 1; echo memory $?",
    );
    let (output, errors, _) = boot(&busy, |_| ());
    for said in ["busy 3", "imprecise 2", "software 2", "large 2", "perfs 2", "memory 2"] {
        assert!(output.contains(said), "{said}: {output}{errors}");
    }
    assert!(errors.contains("the counters are taken, by perf"), "{errors}");
    kernel_is_well(&output, &errors);
}
