//! What Sapphire Rapids has beyond the older models: architectural branch records, latencies of loads and stores, metrics of memory, branches by whether they were
//! taken. Needs the machine built (`perftax vm build`); `make test` sees to that.

use std::collections::BTreeMap;
use std::path::Path;

use perftax_doc::{Audit, Verdict};
use perftax_vm::{Generation, Guest, Without};

use crate::common::{self, Suite, section};

const TURNS: u64 = 200_000;
/// Cycles of an access by machines/sapphire-rapids.toml: in the first level, in memory, and modified in another core's cache (81 ns at 2 GHz).
const L1_CYCLES: u64 = 5;
const MEMORY_CYCLES: u64 = 218;
const MODIFIED_CYCLES: u64 = 162;
/// What memory takes beyond the first level, ns: 213 cycles at 2 GHz.
const WAIT_NS: f64 = 107.0;

/// Runs a script beside its programs; what it says, and its errors.
fn run(suite: Suite, script: &str, change: impl FnOnce(&mut Guest)) -> (String, String) {
    let folder = common::programs(&["loop", "access", "walk"], TURNS);
    let sharing = Path::new(env!("CARGO_MANIFEST_DIR")).join("../perftax-lab/workloads/sharing.c");
    let mut gcc = std::process::Command::new("gcc");
    gcc.args(["-O2", "-g", "-static", "-pthread", "-o"]).arg(folder.path().join("sharing")).arg(sharing);
    assert!(gcc.status().unwrap().success());
    common::run_script(suite, folder.path(), script, Generation::SapphireRapids, change)
}

/// The architectural registers are there and the older ones are not; fewer records may be asked for, and are empty then; without branch records there are none.
fn branch_records(suite: Suite) {
    let script = "\
for number in 0x14ce 0x14cf 0x1500 0x161f 0x121f 0x680 0x1c8 0x1c9 0x1520; do rdmsr $number 2>&1; done
wrmsr 0x14cf 24 2>&1; wrmsr 0x14cf 16; rdmsr 0x150f; rdmsr 0x1510 2>&1; wrmsr 0x14ce 0x10 2>&1
grep -o -m1 -w arch_lbr /proc/cpuinfo; rdmsr 0x345";
    let (output, errors) = run(suite, script, |_| ());
    let refused = |number: &str| format!("rdmsr: {number}: no such register");
    let value = |value: u64| format!("{value:016x}");
    let not_this = |number: &str| format!("wrmsr: {number}: no such register, or not this value");
    let expected = [
        // Off, and as deep as the driver has asked for.
        value(0),
        value(32),
        value(0),
        value(0),
        value(0),
        refused("0x680"),
        refused("0x1c8"),
        refused("0x1c9"),
        refused("0x1520"),
        not_this("0x14cf"),
        value(0),
        refused("0x1510"),
        not_this("0x14ce"),
        "arch_lbr".into(),
        value(0xf4ff),
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected, "{errors}");
    let (output, errors) = run(
        suite,
        "grep -c arch_lbr /proc/cpuinfo; rdmsr 0x14ce 2>&1; rdmsr 0x345; dmesg | grep -o 'Performance Events: .*'",
        |guest| {
            guest.processor.without = Without { lbr: true, ..Without::default() };
        },
    );
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..3], ["0", &refused("0x14ce"), &value(0xf4c0)], "{errors}");
    assert!(!lines[3].contains("LBR"), "{output}");
}

/// A record tells what kind of branch it is; and of user mode's no address of the kernel's is among them.
fn branches(suite: Suite) {
    let script = "\
echo == loop
perf record -q -j any,u -e instructions:u -c 20011 -o a ./loop; perf script -i a -F brstack
echo == calls
perf record -q -j any,u -e instructions:u -c 1009 -o a ./calls 40 20; perf script -i a -F brstack
echo == kernel
perf record -q -j any,k -e instructions:k -c 5003 -o a ./calls 40 20; perf script -i a -F brstack
echo == counts
perf stat -x, -e cpu/event=0xc4,umask=0x01/u -e cpu/event=0xc4,umask=0x10/u -e cpu/event=0xc4,umask=0x11/u ./loop 2>&1";
    let (output, errors) = run(suite, script, |_| ());
    // FROM/TO/P/-/-/CYCLES/KIND
    let kinds = |name: &str| {
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        for entry in section(&output, name).into_iter().flat_map(str::split_whitespace) {
            *kinds.entry(entry.split('/').nth(6).unwrap_or("none").into()).or_default() += 1;
        }
        kinds
    };
    let looped = kinds("loop");
    assert_eq!(looped.keys().collect::<Vec<_>>(), ["COND"], "{looped:?} {errors}");
    assert!(section(&output, "loop").len() as u64 == 8 * TURNS / 20_011, "{errors}");
    let called = kinds("calls");
    let several = ["COND", "CALL", "RET"].iter().all(|kind| called.get(*kind).is_some_and(|times| *times > 10));
    assert!(several && !called.contains_key("none"), "{called:?}");
    assert!(section(&output, "calls").iter().all(|line| !line.contains("0xffff")), "{output}");
    let kernel = section(&output, "kernel");
    assert!(kernel.len() > 10 && kernel.iter().all(|line| line.trim_start().starts_with("0xffffffff")), "{kernel:?}");
    let counts: Vec<u64> =
        section(&output, "counts").iter().map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!(counts, [TURNS - 1, 1, TURNS], "taken, not taken, both: {output}");
}

/// Loads need the event beside them, stores have one of their own on the first counter. A program alone finds its lines in its own cache but for the first time.
fn latencies_of_accesses(suite: Suite) {
    let script = "\
loads='{cpu/mem-loads-aux/,cpu/mem-loads,ldlat=3/}:upp'
echo == loads
perf record -q -d -W -e \"$loads\" -c 100 -o a ./access; perf script -i a -F addr,data_src,weight,ins_lat
echo == stores
perf record -q -d -W -e cpu/mem-stores/upp -c 100 -o a ./access; perf script -i a -F addr,data_src,weight,ins_lat
echo == alone
perf record -q -d -e cpu/mem-loads,ldlat=3/upp -c 100 -o a ./access 2>/dev/null; echo $?
echo == shared
perf record -q -a -d -W -e '{cpu/mem-loads-aux/,cpu/mem-loads,ldlat=100/}:upp' -c 11 -o a ./sharing read-write 0.5 4 20000 >/dev/null; perf script -i a -F data_src,weight,ins_lat
echo == modified
perf record -q -a -d -W -e cpu/mem-stores/upp -c 11 -o a ./sharing read-write 0.5 4 20000 >/dev/null; perf script -i a -F data_src,weight,ins_lat
echo == mem
perf mem record -q -o a ./calls 400 10000 >/dev/null; perf script -i a -F event | sort | uniq -c";
    let (output, errors) = run(suite, script, |guest| guest.processor.count = 4);
    // Each one's latencies of the access and of the instruction, by what is said of the source.
    let latencies = |name: &str, operation: &str, source: &str| -> Vec<(u64, u64)> {
        let of = |line: &&str| line.contains(operation) && line.contains(source);
        let numbers = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [.., weight, latency] = words[..] else { panic!("{line}") };
            (weight.parse().unwrap(), latency.parse().unwrap())
        };
        section(&output, name).into_iter().filter(of).map(numbers).collect()
    };
    for (name, operation) in [("loads", "OP LOAD"), ("stores", "OP STORE")] {
        let own = latencies(name, operation, "L1 or L1 hit");
        // 6000 of each, one in period + 1, of which the first may be in memory.
        assert_eq!(section(&output, name).len(), 6000 / 101, "{output}{errors}");
        assert!(own.len() >= 6000 / 101 - 1 && own.iter().all(|both| *both == (L1_CYCLES, L1_CYCLES)), "{own:?}");
    }
    assert_ne!(section(&output, "alone"), ["0"], "the driver refuses loads without the event beside them");
    let modified = latencies("shared", "OP LOAD", "HitM");
    assert!(
        modified.len() > 20 && modified.iter().all(|both| *both == (MODIFIED_CYCLES, MODIFIED_CYCLES)),
        "{modified:?} {errors}"
    );
    let memory = latencies("shared", "OP LOAD", "RAM hit");
    assert!(memory.iter().all(|both| *both == (MEMORY_CYCLES, MEMORY_CYCLES)), "{memory:?}");
    let stored = latencies("modified", "OP STORE", "Hit");
    let is_known = |(access, instruction): &(u64, u64)| access == instruction && *access > L1_CYCLES;
    assert!(stored.len() > 10 && stored.iter().all(is_known), "stores to what is elsewhere: {stored:?}");
    let recorded = section(&output, "mem").join("\n");
    assert!(recorded.contains("mem-stores"), "{recorded}{errors}");
}

/// Where loads take their time, slots that pass meanwhile wait for memory; where they do not, none does.
fn slots(suite: Suite) {
    let script = "perf stat -x, -e '{slots,topdown-be-bound,topdown-mem-bound}:u' ./walk 2>&1";
    let counts = |change: fn(&mut Guest)| {
        let (output, errors) = run(suite, script, change);
        let counts: Vec<f64> = output.lines().map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
        let [slots, back, memory] = counts[..] else { panic!("{output}{errors}") };
        (back / slots, memory / slots)
    };
    let (back, memory) = counts(|_| ());
    assert!(memory == 0.0 && back > 0.5, "{back} {memory}");
    let (back, memory) = counts(|guest| (guest.processor.caches, guest.processor.miss_time) = (true, true));
    // Of each turn's four instructions one waits beyond the first level.
    let turn_ns = WAIT_NS + 4.0;
    assert!((memory - WAIT_NS / turn_ns).abs() < 0.01 && memory < back, "{back} {memory}");
}

/// Eight counters, of which four count loads; records with groups; generic events by Golden Cove's numbers.
fn audit(suite: Suite) {
    let script =
        "perftax audit --quick --runs 1 --source pebs,interrupt --only count,interval,bias,events,address,generic --json -";
    let (output, errors, finished) =
        common::boot_kernel(suite.map(Path::new), &["sh".into(), "-c".into(), script.into()], &common::perftax(), |guest| {
            guest.processor.generation = Generation::SapphireRapids
        });
    let audit: Audit = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}{errors}"));
    let failed: Vec<_> = audit.failed().collect();
    assert!(failed.is_empty() && finished.code == 0, "{failed:#?}");
    let passed = |name: &str| {
        let rows = audit.experiments.iter().filter(|experiment| experiment.name == name).flat_map(|experiment| &experiment.rows);
        rows.filter(|row| row.verdict == Verdict::Passed).count()
    };
    assert!(passed("interval") >= 30 && passed("events") >= 12 && passed("generic") >= 20, "{:#?}", audit.experiments);
}

#[test]
fn branch_records_are_architectural() {
    branch_records(None);
}

#[test]
fn branches_are_recorded_with_their_kind() {
    branches(None);
}

#[test]
fn loads_and_stores_tell_their_latency() {
    latencies_of_accesses(None);
}

#[test]
fn slots_that_wait_for_memory_are_told() {
    slots(None);
}

#[test]
fn what_is_counted_and_sampled_is_as_it_must_be() {
    audit(None);
}

fn all(suite: Suite) {
    branch_records(suite);
    branches(suite);
    latencies_of_accesses(suite);
    slots(suite);
    audit(suite);
}

#[test]
#[ignore = "a kernel is fetched for it: part of make acceptance"]
fn under_trixies_kernel_it_is_the_same() {
    all(Some("trixie"));
}

#[test]
#[ignore = "a kernel is fetched for it: part of make acceptance"]
fn under_sids_kernel_it_is_the_same() {
    all(Some("sid"));
}
