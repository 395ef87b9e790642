//! Clearwater Forest under Debian sid's kernel, whose driver has architectural PEBS. Needs the machine and that kernel (`perftax vm build --kernel sid`).

use std::path::Path;

use perftax_doc::{Audit, Verdict};
use perftax_vm::Generation;

use crate::common::{self, section};

/// The suite whose kernel has the driver (read in 7.1); trixie's 6.12 has not.
const SUITE: &str = "sid";
const TURNS: u64 = 200_000;
/// Of loop.S.
const INSTRUCTIONS: u64 = 5 + 8 * TURNS + 3;
const PERIOD: u64 = 20_011;

/// Cycles of an access by machines/clearwater-forest.toml: in the first level, modified in another core's cache, in memory.
const LATENCIES: [u64; 3] = [4, 162, 218];

/// Runs a script beside its programs; what it says.
fn run(script: &str) -> String {
    run_on(1, script)
}

fn run_on(processors: u32, script: &str) -> String {
    let folder = common::programs(&["loop", "access"], TURNS);
    let sharing = Path::new(env!("CARGO_MANIFEST_DIR")).join("../perftax-lab/workloads/sharing.c");
    let mut gcc = std::process::Command::new("gcc");
    gcc.args(["-O2", "-g", "-static", "-pthread", "-o"]).arg(folder.path().join("sharing")).arg(sharing);
    assert!(gcc.status().unwrap().success());
    std::fs::write(folder.path().join("script"), format!("{}{script}", common::SHORT_PERF)).unwrap();
    let argv = ["sh", "script"].map(String::from);
    let (output, errors, finished) = common::boot_kernel(Some(Path::new(SUITE)), &argv, &common::perftax(), |guest| {
        guest.share = Some(folder.path().into());
        guest.processor.generation = Generation::ClearwaterForest;
        guest.processor.count = processors;
    });
    assert_eq!(finished.code, 0, "{output}{errors}");
    output
}

/// `count` and `address` or `name` of `uniq -c`.
fn times(lines: &[&str]) -> Vec<(u64, String)> {
    let split = |line: &&str| {
        let (count, what) = line.trim().split_once(char::is_whitespace).unwrap();
        (count.parse().unwrap(), what.trim().to_owned())
    };
    lines.iter().map(split).collect()
}

#[test]
#[ignore = "sid's kernel is fetched for it: part of make acceptance"]
fn records_counts_and_registers_are_exact() {
    let script = format!(
        "\
echo == kernel
dmesg | grep -o 'Performance Events: .*'; cat /sys/bus/event_source/devices/cpu/caps/max_precise; dmesg | grep -c 'unchecked MSR'
echo == counts
perf stat -x, -e instructions:u,branches:u,cpu/event=0xd0,umask=0x81/u,topdown-retiring:u,topdown-fe-bound:u ./loop 2>&1
echo == interrupts
rdmsr 0x50540012
echo == precise
perf record -q -e instructions:uppp -c {PERIOD} -o a ./loop; perf script -i a -F ip
echo == interrupts of many records
rdmsr 0x50540012; rdmsr 0x50540010
echo == registers
perf record -q --intr-regs=cx,r8,ip -e instructions:upp -c {PERIOD} -o a ./loop; perf script -i a -F iregs
echo == branches
perf record -q -j any,u -e instructions:upp -c {PERIOD} -o a ./loop; perf script -i a -F brstack
"
    );
    let output = run(&script);
    let kernel = section(&output, "kernel");
    let driver = "Performance Events: Architectural LBR, Darkmont events, Architectural PEBS, AnyThread deprecated, 32-deep LBR, \
                  full-width counters, Intel PMU driver.";
    assert_eq!(kernel, [driver, "3", "0"], "{output}");
    let counts: Vec<u64> =
        section(&output, "counts").iter().map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    // A load's and a store's micro-operations beside each instruction's own.
    assert_eq!(counts, [INSTRUCTIONS, TURNS + 2, TURNS, INSTRUCTIONS + 3 * TURNS, 0], "{output}");
    // The n-th record is of instruction n (period + 1), of which the first five stand before the loop.
    let addresses: Vec<u64> =
        section(&output, "precise").iter().map(|line| u64::from_str_radix(line.trim(), 16).unwrap()).collect();
    assert_eq!(addresses.len() as u64, INSTRUCTIONS / (PERIOD + 1), "{output}");
    let offsets = [0, 4, 7, 11, 15, 18, 19, 22];
    let expected = |n: usize| (n as u64 + 1) * (PERIOD + 1) - 1 - 5;
    let first = addresses[0] - offsets[(expected(0) % 8) as usize];
    for (n, address) in addresses.iter().enumerate() {
        assert_eq!(*address, first + offsets[(expected(n) % 8) as usize], "{n}: {output}");
    }
    // The buffer of 64 KiB holds all: it is emptied when the program ends, and nothing interrupts.
    let before = section(&output, "interrupts")[0];
    assert_eq!(section(&output, "interrupts of many records"), [before, &format!("{:016x}", addresses.len())], "{output}");
    let registers = section(&output, "registers");
    assert_eq!(registers.len(), addresses.len(), "{output}");
    for (n, line) in registers.iter().enumerate() {
        let value = |name: &str| {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap();
            u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
        };
        let (turn, place) = (expected(n) / 8, expected(n) % 8);
        // What the instruction left: r8 counts turns from its first one on, cx what is left of them from its seventh.
        assert_eq!(value("R8:"), turn + 1, "{n}: {line}");
        assert_eq!(value("CX:"), TURNS - turn - u64::from(place >= 6), "{n}: {line}");
        assert_eq!(value("IP:"), addresses[n], "{n}: {line}");
    }
    let branches = section(&output, "branches");
    assert_eq!(branches.len(), addresses.len(), "{output}");
    let entry = format!("0x{:x}/0x{first:x}/P/-/-/8/COND", first + 22);
    for line in branches {
        assert!(line.split_whitespace().count() == 32 && line.split_whitespace().skip(1).all(|one| one == entry), "{line}");
    }
}

/// A record holds what the other events of its group had counted at that instruction, not later, when the kernel reads it.
#[test]
#[ignore = "sid's kernel is fetched for it: part of make acceptance"]
fn records_hold_counters() {
    let script = format!(
        "\
perf record -q -e '{{instructions:upp,branches:u,cpu/event=0xd0,umask=0x81/u}}:S' -c {PERIOD} -o a ./loop
perf report -D -i a 2>/dev/null | sed -n 's/.* value \\([0-9a-f]*\\), lost.*/\\1/p'; rdmsr 0x50540010"
    );
    let output = run(&script);
    let mut values: Vec<u64> = output.lines().map(|line| u64::from_str_radix(line, 16).unwrap()).collect();
    let records = values.pop().unwrap();
    assert_eq!(values.len() as u64, 3 * records, "{output}");
    // In the loop from its second on are loads, its eighth branches; a jump stands before it.
    let mut restarts = 0;
    let mut before = 0;
    for (n, read) in values.chunks(3).enumerate() {
        let in_loop = read[0] - 5;
        assert_eq!(read[1..], [1 + in_loop / 8, (in_loop + 6) / 8], "{n}");
        // Where the event is stopped and started the driver begins its period anew: what records have told stands in `period_left` as passed.
        let since = read[0] - before;
        assert!((PERIOD + 1..2 * (PERIOD + 1)).contains(&since), "{n}: {since}");
        restarts += u64::from(since != PERIOD + 1);
        before = read[0];
    }
    assert!(restarts <= 2 && records + restarts >= INSTRUCTIONS / (PERIOD + 1), "{restarts} {records}");
}

/// Twenty loads take 160 instructions: the counter of loads overflows where that of instructions reloads it each 200, and never where it does each 100.
#[test]
#[ignore = "sid's kernel is fetched for it: part of make acceptance"]
fn a_counter_reloads_another() {
    let script = "\
for period in 200 100; do
echo == $period
perf record -q -e \"{cpu/event=0xd0,umask=0x81,period=20,acr_mask=0x2/u,cpu/instructions,period=$period,acr_mask=0x2/u}\" -o a ./loop
perf script -i a -F event | sort | uniq -c
done";
    let output = run(script);
    let rare = times(&section(&output, "200"));
    assert_eq!(rare.len(), 1, "that of instructions reloads itself, and says nothing: {output}");
    assert_eq!(rare[0].0, INSTRUCTIONS / 200, "{output}");
    assert!(rare[0].1.contains("0xd0") && section(&output, "100").is_empty(), "{output}");
}

/// Branches by Darkmont's own numbers: taken, conditional, of these taken and not.
#[test]
#[ignore = "sid's kernel is fetched for it: part of make acceptance"]
fn kinds_of_branches_are_counted() {
    let events: String = ["fb", "07", "03", "04"].map(|mask| format!(" -e cpu/event=0xc4,umask=0x{mask}/u")).concat();
    let output = run(&format!("perf stat -x,{events} ./loop 2>&1"));
    let counts: Vec<u64> = output.lines().map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    // A jump stands before the loop, and a system call behind it, which is a branch of another kind.
    assert_eq!(counts, [TURNS + 1, TURNS, TURNS - 1, 1], "{output}");
}

/// Loads and stores tell where their line was, and how long that took; nothing needs to stand beside the event of loads.
#[test]
#[ignore = "sid's kernel is fetched for it: part of make acceptance"]
fn loads_and_stores_tell_where_they_were_found() {
    let output = run_on(
        2,
        "\
echo == loads
perf record -q -d -W -e cpu/mem-loads,ldlat=3/upp -c 100 -o a ./access; perf script -i a -F data_src,weight,ins_lat
echo == stores
perf record -q -d -W -e cpu/mem-stores/upp -c 100 -o a ./access; perf script -i a -F data_src,weight,ins_lat
echo == shared
perf record -q -a -d -W -e cpu/mem-loads,ldlat=100/upp -c 11 -o a ./sharing read-write 0.3 2 10000 >/dev/null; perf script -i a -F data_src,weight,ins_lat",
    );
    let [own, modified, memory] = LATENCIES.map(|cycles| cycles.to_string());
    let takes = |line: &str, cycles: &str| line.split_whitespace().rev().take(2).all(|word| word == cycles);
    for (name, operation) in [("loads", "OP LOAD"), ("stores", "OP STORE")] {
        // 6000 of each, one in period + 1, of which the first may be in memory.
        let lines = section(&output, name);
        let hits = lines.iter().filter(|line| line.contains(operation) && line.contains("L1 hit") && takes(line, &own));
        assert!(lines.len() == 6000 / 101 && hits.count() >= 6000 / 101 - 1, "{output}");
    }
    let shared = section(&output, "shared");
    let fetched: Vec<_> = shared.iter().filter(|line| line.contains("HitM")).collect();
    assert!(fetched.len() > 5 && fetched.iter().all(|line| takes(line, &modified)), "{output}");
    assert!(shared.iter().filter(|line| line.contains("RAM hit")).all(|line| takes(line, &memory)), "{output}");
}

/// Of all that it can count and sample no row fails.
#[test]
#[ignore = "sid's kernel is fetched for it: part of make acceptance"]
fn the_audit_fails_nowhere() {
    let output = run(
        "perftax audit --quick --runs 1 --source pebs,interrupt --only count,interval,bias,events,mode,address,generic --json -",
    );
    let audit: Audit = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
    let failed: Vec<_> = audit.failed().collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let rows = audit.experiments.iter().flat_map(|experiment| &experiment.rows);
    assert!(rows.filter(|row| row.verdict == Verdict::Passed).count() > 80, "{:#?}", audit.experiments);
}
