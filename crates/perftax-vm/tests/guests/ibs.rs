//! AMD's PMU, under Debian's own drivers: core counters, and instruction-based sampling of ops, cycles and fetches. Needs the machine
//! built (`perftax vm build`); `make test` sees to that.

use crate::common;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use perftax_vm::{Generation, Guest};

const TURNS: u64 = 200_000;
/// Instructions of programs/loop.S.
const LOOP: u64 = 5 + 8 * TURNS + 3;
/// A turn of it: where each instruction begins, and its micro-operations (one, one a load, two a store).
const TURN: [(u64, u64); 8] = [(0, 1), (4, 2), (7, 3), (11, 1), (15, 1), (18, 1), (19, 1), (22, 1)];
const LOAD: u64 = 4;
const STORE: u64 = 7;
const JUMP: u64 = 22;

/// Assembles the loop; where its turn and its data are.
fn program(folder: &Path) -> (u64, u64) {
    common::assemble(folder, "loop", &[&format!("-DN={TURNS}"), common::source("loop.S").to_str().unwrap()]);
    let listed = Command::new("nm").arg(folder.join("loop")).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let address = |name: &str| {
        let line = listed.lines().find(|line| line.split_whitespace().last() == Some(name)).unwrap();
        hexadecimal(line.split_whitespace().next().unwrap())
    };
    (address("turn"), address("data"))
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

/// What a guest says, by section (`== name`), and the addresses of the loop's turn and data.
fn boot(generation: Generation, script: &str, change: impl FnOnce(&mut Guest)) -> (BTreeMap<String, Vec<String>>, u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let (turn, data) = program(folder.path());
    std::fs::write(folder.path().join("script"), format!("{}{script}", common::SHORT_PERF)).unwrap();
    let (output, errors, finished) = common::boot(&["sh", "script"].map(String::from), |guest| {
        guest.share = Some(folder.path().into());
        guest.processor.generation = generation;
        change(guest);
    });
    assert_eq!(finished.code, 0, "{output}{errors}");
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = String::new();
    for line in output.lines() {
        match line.strip_prefix("== ") {
            Some(next) => name = next.into(),
            None => sections.entry(name.clone()).or_default().push(line.into()),
        }
    }
    (sections, turn, data)
}

/// `count EVENTS`: their counts; `sample NAME EVENT PERIOD`: the loop's samples, a line each: address of data, address, r8. IBS has no
/// modes, and in 6.1 it counts whole processors: the kernel and perf are sampled, too.
const FUNCTIONS: &str = "\
count() { perf stat -x, -e \"$1\" -o /tmp/stat ./loop; grep -v '^#' /tmp/stat | grep . | cut -d, -f1; }
sample() {
    echo \"== $1\"
    perf record -q -a -d --intr-regs=r8 -e $2 -c $3 -o /tmp/data ./loop
    perf script -i /tmp/data -F comm,ip,addr,iregs 2>/dev/null | awk '$1 == \"loop\" {sub(/R8:/, \"\", $5); print $2, $3, $5}'
}
";

/// A sample in a turn of the loop.
#[derive(Debug)]
struct Sample {
    /// Where in the turn its instruction begins.
    at: u64,
    /// Address of its data.
    address: u64,
    /// Number of the turn, from 1: the first instruction of each counts it in r8, and the interrupt comes right behind the sample's.
    turn: u64,
}

/// The samples in the loop's turns. Every sample of the program's is at an instruction of it.
fn in_turns(lines: &[String], turn: u64) -> Vec<Sample> {
    let sample = |line: &String| {
        let [address, ip, r8] = line.split(' ').map(hexadecimal).collect::<Vec<_>>()[..] else { panic!("{line}") };
        (ip >> 63 == 0 && ip >= turn).then(|| Sample { at: ip - turn, address, turn: r8 })
    };
    let samples: Vec<Sample> = lines.iter().filter_map(sample).filter(|sample| sample.at <= JUMP).collect();
    assert!(samples.iter().all(|sample| TURN.iter().any(|(at, _)| *at == sample.at)), "{samples:?}");
    samples
}

/// First and last event that a sample's instruction is, from the beginning of the turns, where each instruction is so many.
fn events(sample: &Sample, of: impl Fn(u64) -> u64) -> (u64, u64) {
    let before: u64 = TURN.iter().filter(|(at, _)| *at < sample.at).map(|(_, uops)| of(*uops)).sum();
    let all: u64 = TURN.iter().map(|(_, uops)| of(*uops)).sum();
    let own = TURN.iter().find(|(at, _)| *at == sample.at).map_or(0, |(_, uops)| of(*uops));
    let first = (sample.turn - 1) * all + before + 1;
    (first, first + own - 1)
}

/// The program's own events from the end of one sample's instruction to the tagged event of the next, which is the same from each to
/// the next, but for those between which a clock's interrupt came: it counts, and may be sampled itself.
fn distance(samples: &[Sample], of: impl Fn(u64) -> u64 + Copy) -> u64 {
    let distances: Vec<(u64, u64)> = samples
        .windows(2)
        .map(|pair| {
            let (_, end) = events(&pair[0], of);
            let (first, last) = events(&pair[1], of);
            (first - end, last - end)
        })
        .collect();
    let fits = |distance: u64| distances.iter().filter(|(least, most)| (*least..=*most).contains(&distance)).count();
    let distance = distances.iter().flat_map(|(least, most)| *least..=*most).max_by_key(|distance| fits(*distance)).unwrap();
    assert!(fits(distance) + 3 >= distances.len(), "{} of {} fit {distance}: {distances:?}", fits(distance), distances.len());
    distance
}

#[test]
fn core_counters_are_exact() {
    let script = format!(
        "{FUNCTIONS}
echo == kernel
dmesg | grep -o 'Performance Events: .*\\|perf: AMD IBS .*'
dmesg | grep -i 'firmware bug\\|broken\\|call trace' | grep -v DMI
echo == counts
count '{{instructions:u,cycles:u,branches:u,r00c4:u,r0129:u,r0229:u}}'
count r00c1:u,r00d1:u,r00c8:u,r0225:u,r0087:u
echo == samples
perf record -q -e instructions:u -c 10007 -o /tmp/data ./loop
perf script -i /tmp/data -F ip | wc -l
"
    );
    for generation in [Generation::Zen2, Generation::Zen3] {
        let (said, ..) = boot(generation, &script, |_| ());
        assert_eq!(
            said["kernel"],
            ["Performance Events: Fam17h+ core perfctr, AMD PMU driver.", "perf: AMD IBS detected (0x000003ff)"],
            "{generation:?}"
        );
        let counts: Vec<u64> = said["counts"].iter().map(|count| count.parse().unwrap()).collect();
        let uops = 5 + 11 * TURNS + 3;
        assert_eq!(counts[..6], [LOOP, LOOP, TURNS + 2, TURNS + 1, TURNS, TURNS], "{generation:?}");
        assert_eq!(counts[6..], [uops, TURNS, 0, 0, 0], "{generation:?}");
        assert_eq!(said["samples"], [(LOOP / 10_007).to_string()], "{generation:?}");
    }
}

/// A sample each period + 1 ops, of which the kernel takes those from where its handler starts the counter again to its return.
#[test]
fn ops_are_sampled_exactly() {
    let script = format!(
        "{FUNCTIONS}
sample often ibs_op/cnt_ctl=1/ 10000
sample seldom ibs_op/cnt_ctl=1/ 30000
sample cycles cycles:pp 10000
sample 'seldom cycles' ibs_op// 30000
"
    );
    for generation in [Generation::Zen2, Generation::Zen5] {
        assert_ops_exact(generation, &script);
    }
}

fn assert_ops_exact(generation: Generation, script: &str) {
    let (said, turn, data) = boot(generation, script, |_| ());
    let mut tails = BTreeMap::new();
    for (name, period, by_ops) in
        [("often", 10_000, true), ("seldom", 30_000, true), ("cycles", 10_000, false), ("seldom cycles", 30_000, false)]
    {
        let of = |uops: u64| if by_ops { uops } else { 1 };
        let samples = in_turns(&said[name], turn);
        let distance = distance(&samples, of);
        let all = TURNS * TURN.iter().map(|(_, uops)| of(*uops)).sum::<u64>();
        let (_, first) = events(&samples[0], of);
        // An op in the middle of an instruction takes the rest of it along, and a clock's interrupt brings the next one nearer.
        let expected = 1 + (all - first) / distance;
        assert!(expected.abs_diff(samples.len() as u64) <= 2, "{name}: {} {expected}", samples.len());
        println!("{name}: {} samples, {} of the kernel's between two", samples.len(), period + 1 - distance);
        tails.entry(by_ops).or_insert_with(Vec::new).push(period + 1 - distance);
        for sample in &samples {
            let address = match sample.at {
                LOAD => data,
                STORE => data + 64,
                _ => 0,
            };
            assert_eq!(sample.address, address, "{name}: {sample:?}");
        }
        assert!(TURN.iter().filter(|(at, _)| samples.iter().any(|sample| sample.at == *at)).count() >= 2, "{name}: {samples:?}");
    }
    for tails in tails.values() {
        assert_eq!(tails[0], tails[1], "it does not depend on the period");
        assert!((100..5000).contains(&tails[0]), "{tails:?}");
    }
}

/// What a sample's registers say, as perf prints them.
#[test]
fn registers_tell_what_the_instruction_was() {
    let script = "\
perf record -q -a -R -e ibs_op/cnt_ctl=1/ -c 10000 -o /tmp/data ./loop
perf report -D -i /tmp/data 2>/dev/null | awk '
    /^ibs_op_ctl:/ { if (rip) print rip, data, data3, target; rip = \"\"; target = 0 }
    /^IbsOpRip:/ { rip = $2 } /^ibs_op_data:/ { data = $2 } /^ibs_op_data3:/ { data3 = $2 } /^IbsBrTarget:/ { target = $2 }
    END { print rip, data, data3, target }'
";
    // Each count starts at random: fixed steps might meet the same few instructions of the turn.
    let (said, turn, _) = boot(Generation::Zen3, script, |guest| guest.processor.ibs_random = true);
    let mut seen = BTreeMap::new();
    for line in &said[""] {
        let [rip, data, data3, target] = line.split(' ').map(hexadecimal).collect::<Vec<_>>()[..] else { panic!("{line}") };
        if (turn..=turn + JUMP).contains(&rip) {
            // Address valid, eight bytes; taken and retired as a branch.
            let expected = match rip - turn {
                LOAD => (1 << 16, 1 | 1 << 17 | 4 << 22, 0),
                STORE => (1 << 16, 2 | 1 << 17 | 4 << 22, 0),
                JUMP => (1 << 16 | 1 << 35 | 1 << 37, 0, turn),
                _ => (1 << 16, 0, 0),
            };
            assert_eq!((data, data3, target), expected, "{line}");
            *seen.entry(rip - turn).or_insert(0) += 1;
        }
    }
    assert!(seen.values().sum::<u64>() > 200 && seen.contains_key(&STORE) && seen.contains_key(&JUMP), "{seen:?}");
}

/// A turn of the loop is one fetch: 26 bytes in one aligned 64, and a jump that is taken.
#[test]
fn fetches_are_sampled_exactly() {
    let script = format!("{FUNCTIONS}\nsample often ibs_fetch// 1600\nsample seldom ibs_fetch/rand_en=1/ 4800\n");
    for generation in [Generation::Zen2, Generation::Zen5] {
        assert_fetches_exact(generation, &script);
    }
}

fn assert_fetches_exact(generation: Generation, script: &str) {
    let (said, turn, _) = boot(generation, script, |_| ());
    let mut tails = Vec::new();
    for (name, period) in [("often", 1600), ("seldom", 4800)] {
        let samples = in_turns(&said[name], turn);
        assert!(samples.iter().all(|sample| sample.at == 0), "{samples:?}");
        let distances: Vec<u64> = samples.windows(2).map(|pair| pair[1].turn - pair[0].turn).collect();
        let fits = |distance: u64| distances.iter().filter(|each| **each == distance).count();
        let distance = *distances.iter().max_by_key(|distance| fits(**distance)).unwrap();
        let exceptions = distances.len() - fits(distance);
        assert!(exceptions <= 3, "{name}: {distances:?}");
        println!("{name}: {} samples, {} of the kernel's fetches between two", samples.len(), period + 1 - distance);
        tails.push(period + 1 - distance);
        let expected = 1 + (TURNS - samples[0].turn) / distance;
        assert!(expected.abs_diff(samples.len() as u64) <= 2, "{name}: {} {expected}", samples.len());
    }
    assert_eq!(tails[0], tails[1], "it does not depend on the period");
}

/// Counts that start at random are up to 127 nearer to their end, and the same each time.
#[test]
fn chance_is_repeatable() {
    let script = format!("{FUNCTIONS}\nsample random ibs_op/cnt_ctl=1/ 10000\n");
    let once = || boot(Generation::Zen2, &script, |guest| guest.processor.ibs_random = true);
    let (said, turn, _) = once();
    let samples = in_turns(&said["random"], turn);
    let ends = samples.iter().map(|sample| events(sample, |uops| uops).1);
    let mut distances: Vec<u64> = ends.clone().zip(ends.skip(1)).map(|(one, next)| next - one).collect();
    distances.sort_unstable();
    // Without those between which a clock's interrupt came.
    let usual = &distances[2..distances.len() - 2];
    let spread = usual[usual.len() - 1] - usual[0];
    assert!((100..=127 + 2).contains(&spread), "{distances:?}");
    assert_eq!(once().0, said);
}

/// Each processor has its own, and its own entry in its local APIC.
#[test]
fn processors_sample_by_themselves() {
    let script = "\
perf record -q -a --sample-cpu -e ibs_op/cnt_ctl=1/ -c 10000 -o /tmp/data sh -c 'taskset 1 ./loop & taskset 2 ./loop & wait'
perf script -i /tmp/data -F comm,cpu,ip 2>/dev/null | awk '$1 == \"loop\" && length($3) < 9 {n[$2]++} END {for (cpu in n) print cpu, n[cpu]}' | sort
";
    let (said, ..) = boot(Generation::Zen2, script, |guest| guest.processor.count = 2);
    let counts: Vec<u64> = said[""].iter().map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
    assert_eq!(counts.len(), 2, "{said:?}");
    // 11 ops a turn, 10001 and less from sample to sample.
    assert!(counts.iter().all(|count| (11 * TURNS / 10_001..11 * TURNS / 8000).contains(count)), "{said:?}");
}

/// A signal for each sample, as in the PES study: what the kernel and the program execute for it is counted, too, and brings the next
/// sample that much nearer. At a period of 100,000 that makes 8.1 % more op samples; the study has 7.8 to 8.7 % (crates/perftax-model/machines/zen2.toml).
#[test]
fn what_a_signal_takes_is_counted() {
    const OPS: u64 = 11;
    let folder = common::compiled("signal.c");
    let script = "\
op=$(cat /sys/bus/event_source/devices/ibs_op/type) fetch=$(cat /sys/bus/event_source/devices/ibs_fetch/type)
for period in 100000 200000; do for signals in 0 1; do
    echo == ops $period $signals; ./signal $op 0x80000 $period $signals 1000000
    echo == instructions $period $signals; ./signal $op 0 $period $signals 1000000
done; done
for signals in 0 1; do echo == fetches 100000 $signals; ./signal $fetch 0 100000 $signals 1000000; done
";
    std::fs::write(folder.path().join("script"), format!("{}{script}", common::SHORT_PERF)).unwrap();
    let (output, errors, finished) = common::boot(&["sh", "script"].map(String::from), |guest| {
        guest.share = Some(folder.path().into());
        guest.processor.generation = Generation::Zen2;
    });
    assert_eq!(finished.code, 0, "{output}{errors}");
    let mut tails = BTreeMap::new();
    for section in output.split("== ").skip(1) {
        let (name, samples) = section.split_once('\n').unwrap();
        let [event, period, signals] = name.split(' ').collect::<Vec<_>>()[..] else { panic!("{name}") };
        let each = if event == "fetches" { 1 } else { OPS };
        let at = |line: &str| {
            let (op, turn) = line.split_once(' ').unwrap();
            each * turn.parse::<u64>().unwrap() + if each == 1 { 0 } else { op.parse::<u64>().unwrap() }
        };
        let positions: Vec<u64> = samples.lines().map(at).collect();
        let mut distances: Vec<u64> = positions.windows(2).map(|pair| pair[1] - pair[0]).collect();
        distances.sort_unstable();
        let period: u64 = period.parse().unwrap();
        let tail = period + 1 - distances[distances.len() / 2];
        println!("{name}: {} samples, {tail} between two are not the loop's", positions.len());
        tails.entry((event.to_string(), signals == "1")).or_insert_with(Vec::new).push(tail);
    }
    for ((event, signals), tails) in &tails {
        let (least, most) = (tails.iter().min().unwrap(), tails.iter().max().unwrap());
        assert!(most - least <= most / 20, "{event} {signals}: whatever the period: {tails:?}");
    }
    for (event, times) in [("ops", 5), ("instructions", 5), ("fetches", 4)] {
        let of = |signals: bool| tails[&(event.to_string(), signals)][0];
        assert!(of(true) > times * of(false), "{event}: {tails:?}");
    }
}
