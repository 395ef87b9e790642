//! What Zen 4 has beyond the older models: counters' control and status of version 2, branch records, samples of misses alone. Needs the machine built
//! (`perftax vm build`); `make test` sees to that.

use std::collections::BTreeMap;

use perftax_vm::{Generation, Guest, Without};

use crate::common::{self, Suite, section};

const TURNS: u64 = 200_000;
/// Instructions and branches of programs/loop.S, of which the jump into the loop, all but the last of its own and the system call are taken.
const LOOP: u64 = 5 + 8 * TURNS + 3;

/// Runs a script beside its programs; what it says, and its errors.
fn run(suite: Suite, script: &str, change: impl FnOnce(&mut Guest)) -> (String, String) {
    let folder = common::programs(&["loop", "walk"], TURNS);
    common::run_script(suite, folder.path(), script, Generation::Zen4, change)
}

fn counts_and_branches(suite: Suite) {
    let script = "\
echo == kernel
dmesg | grep -o 'Performance Events: .*'; dmesg | grep -o 'IBS detected .*'; dmesg | grep -o 'version:  .*' | tr -s ' '
grep -o -m1 -w perfmon_v2 /proc/cpuinfo; dmesg | grep -c 'unchecked MSR'
rdmsr 0xc0000301; wrmsr 0xc0000301 0x40 2>&1; wrmsr 0xc0000300 1 2>&1; wrmsr 0xc000010f 0x41 2>&1
echo == counts
perf stat -x, -e instructions:u -e cycles:u -e branches:u -e cpu/event=0xc4/u ./loop 2>&1
echo == sampled
perf record -q -e instructions:u -c 10007 -o a ./loop; perf script -i a -F ip
echo == branches
perf record -q -b -e instructions:u -c 20011 -o a ./loop; perf script -i a -F brstack
echo == calls
perf record -q -j any_call,u -e instructions:u -c 50021 -o a ./calls 40 1000; perf script -i a -F brstacksym";
    let (output, errors) = run(suite, script, |_| ());
    let expected = [
        "Performance Events: Fam17h+ 16-deep LBR, core perfctr, AMD PMU driver.",
        "IBS detected (0x00000bff)",
        "version: 2",
        "perfmon_v2",
        // Newer kernels read VM_CR (C001_0114H) at boot.
        "0",
        "000000000000003f",
        "wrmsr: 0xc0000301: no such register, or not this value",
        "wrmsr: 0xc0000300: no such register, or not this value",
        "wrmsr: 0xc000010f: no such register, or not this value",
    ];
    assert_eq!(section(&output, "kernel"), expected, "{errors}");
    let counts: Vec<u64> =
        section(&output, "counts").iter().map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!(counts, [LOOP, LOOP, TURNS + 2, TURNS + 1], "{output}");
    assert_eq!(section(&output, "sampled").len() as u64, LOOP / 10_007, "{errors}");
    let branches = section(&output, "branches");
    assert_eq!(branches.len() as u64, LOOP / 20_011, "{errors}");
    // Each is the loop's own, from its last instruction to its first; no cycles are told.
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    branches.iter().flat_map(|line| line.split_whitespace()).for_each(|entry| *seen.entry(entry).or_default() += 1);
    assert_eq!((seen.len(), seen.values().sum::<usize>()), (1, 16 * branches.len()), "{seen:?}");
    assert!(seen.keys().all(|entry| entry.contains("/P/-/-/0")), "{seen:?}");
    let calls: Vec<&str> = section(&output, "calls").into_iter().filter(|line| line.contains("outer")).collect();
    assert!(calls.len() > 8 && calls.iter().all(|line| line.contains("middle") && line.contains("leaf")), "{output}");
    let (output, errors) = run(suite, "dmesg | grep -o 'Performance Events: .*'; rdmsr 0xc000010f 2>&1; true", |guest| {
        guest.processor.without = Without { lbr: true, ..Without::default() };
    });
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[1], "rdmsr: 0xc000010f: no such register", "{errors}");
}

/// Of a program that loads a line a turn, each never touched before, samples of misses alone are that load's, out of memory; where all is in the last level
/// there are none.
fn misses_alone(suite: Suite) {
    // Caches are by address, and the program's next run finds its lines in the last level.
    let script = "\
echo == misses
perf record -q -a -d -e ibs_op/cnt_ctl=1,l3missonly=1/ -c 1008 -o a ./walk; perf script -i a -F comm,ip,data_src | grep walk
echo == hits
perf record -q -a -d -e ibs_op/cnt_ctl=1,l3missonly=1/ -c 1008 -o a ./walk; perf script -i a -F comm,ip,data_src | grep walk
echo == all
perf record -q -a -d -e ibs_op/cnt_ctl=1/ -c 10000 -o a ./walk; perf script -i a -F comm,ip,data_src | grep walk; true";
    let (output, errors) = run(suite, script, |guest| guest.processor.caches = true);
    // By address, in user mode: a program without a library lies at 4 MiB.
    let places = |name: &str| {
        let mut places: BTreeMap<String, u64> = BTreeMap::new();
        let lines = section(&output, name);
        let user = lines.iter().filter_map(|line| line.split_whitespace().last()).filter(|ip| ip.len() == 6);
        user.for_each(|ip| *places.entry(ip.into()).or_default() += 1);
        places
    };
    assert!(places("all").len() >= 4, "{output}{errors}");
    let misses = places("misses");
    assert_eq!(misses.len(), 1, "the load's alone: {misses:?} {output}{errors}");
    assert!(*misses.values().next().unwrap() > 100, "{misses:?}");
    let of_memory = section(&output, "misses").into_iter().filter(|line| line.contains("OP LOAD"));
    assert!(of_memory.clone().all(|line| line.contains("RAM")) && of_memory.count() > 100, "{output}");
    assert!(places("hits").values().sum::<u64>() < 10, "they are in the last level: {:?}", places("hits"));
}

#[test]
fn the_driver_finds_version_2_and_branch_records_that_are_exact() {
    counts_and_branches(None);
}

#[test]
fn samples_of_misses_alone_are_of_misses() {
    misses_alone(None);
}

#[test]
#[ignore = "kernels are fetched for it: part of make acceptance"]
fn under_newer_kernels_it_is_the_same() {
    for suite in ["trixie", "sid"] {
        counts_and_branches(Some(suite));
        misses_alone(Some(suite));
    }
}
