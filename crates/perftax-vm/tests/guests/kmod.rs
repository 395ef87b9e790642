//! perftax.ko in the emulated machine. Needs the module and the machine built (`make kmod`, `perftax vm build`); `make test` sees to that.

use crate::common::module::{ASSIST_NS, boot, kernel_is_well, loaded, numbers, said};
use perftax_vm::Generation;

const TURNS: u64 = 2_500_000;
/// Of a Skylake's record.
const RECORD_BYTES: u64 = 200;

/// Every record is counted, the tail's too; interrupts are those that the buffer's size asks for; and what a record takes is what was
/// injected.
#[test]
fn records_are_counted_to_the_last() {
    let script = loaded(&format!(
        "for bytes in 1 65536 1048576 4194304; do for period in 1009 2003 10007 32771; do
    echo $bytes $period $(./direct count $period $bytes {TURNS})
done; done
echo threshold $(./direct count 1009 65536 {TURNS} 10)
echo small $(./direct count 1009 65536 {TURNS} 0 small)
echo huge $(./direct count 1009 16777216 {TURNS} 0 huge)"
    ));
    let (output, errors, _) = boot(&script, |_| ());
    let runs: Vec<Vec<u64>> = output.lines().filter(|line| line.contains("done")).map(numbers).collect();
    assert_eq!(runs.len(), 19, "{output}{errors}");
    for run in &runs[..16] {
        let [bytes, period, records, interrupts, capacity, counted, spurious, overruns, off, on, handler, _, flags] = run[..]
        else {
            panic!("{run:?}")
        };
        assert_eq!(capacity, (bytes / RECORD_BYTES).max(1), "{run:?}");
        assert_eq!(records, counted / (period + 1), "{run:?}");
        assert_eq!(interrupts, records / capacity, "{run:?}");
        assert_eq!((spurious, overruns, flags), (0, 0, 0), "{run:?}");
        assert_eq!(handler > 0, interrupts > 0, "{run:?}");
        // Where samples are many, the 5 us of a timer tick in one of the runs is little.
        if period == 1009 && capacity > records {
            let cost = (on - off) as f64 / records as f64;
            assert!((cost / ASSIST_NS as f64 - 1.0).abs() < 0.02, "{run:?}: {cost}");
        }
    }
    let [records, interrupts, capacity] = runs[16][..3] else { panic!() };
    assert_eq!((interrupts, capacity), (records / 10, 10));
    let page_bytes = |run: &[u64]| run[9];
    assert_eq!(page_bytes(&runs[17]), 4096);
    assert_eq!(page_bytes(&runs[18]), 2 << 20);
    kernel_is_well(&output, &errors);
}

/// The rings: all records, whole, in order, with the registers at the instruction; those that find no room are counted.
#[test]
fn records_are_handed_over() {
    let script = loaded(
        "echo last $(./direct copy 10007 65536 2500000 1048576 0 $GROUPS)
echo each $(./direct copy 10007 65536 2500000 1048576 1 $GROUPS)
echo wrapped $(./direct copy 1009 65536 2500000 131072 100 $GROUPS)
echo full $(LATE=1 ./direct copy 1009 65536 2500000 65536 0 $GROUPS)",
    );
    for (generation, groups) in [(Generation::Skylake, 0), (Generation::IceLake, 2), (Generation::IceLake, 7)] {
        let script = format!("GROUPS={groups}\n{script}");
        let (output, errors, _) = boot(&script, |guest| guest.processor.generation = generation);
        let run = |name: &str| -> [u64; 6] { numbers(said(&output, &errors, name)).try_into().unwrap() };
        for name in ["last", "each", "wrapped"] {
            let [written, lost, read, inside, tagged, wakings] = run(name);
            let period = if name == "wrapped" { 1009 } else { 10_007 };
            // The reader has some of the records; none where each wakes it, for then it runs where a period begins.
            let in_loop = 8 * 2_500_000 / (period + 1);
            assert!(lost == 0 && read == written && wakings > 0, "{name}: {output}");
            assert!(inside + 1 >= in_loop && inside <= read && tagged + 1 >= inside, "{name}: {in_loop} {output}");
        }
        assert!(run("each")[5] >= run("last")[5], "{output}");
        let [written, lost, read, ..] = run("full");
        assert!(lost > 0 && written == lost + read, "{output}");
        kernel_is_well(&output, &errors);
    }
}

/// Under page-table isolation: no buffer of one's own, and why; but perf's takes as many records to an interrupt as asked, of a
/// recording that runs already, and of one that starts later; and afterwards as many as before.
#[test]
fn rides_on_perf_under_page_table_isolation() {
    let script = loaded(
        "nmis() { awk '/NMI:/{print $2}' /proc/interrupts; }
samples() { perf report -i /tmp/perf.data --stdio --stats 2>/dev/null | awk '/SAMPLE events/{print $3; exit}'; }
echo own $(./direct count 10007 65536 1000)
dmesg | grep -o 'perftax: page-table.*'
for n in 1 16 200 1000; do
    before=$(nmis)
    echo ride-$n $(./direct ride $n perf record -q --no-bpf-event -e instructions:upp -c 10007 -o /tmp/perf.data sh -c 'i=0; while [ $i -lt 12000 ]; do i=$((i + 1)); done') $(( $(nmis) - before )) $(samples)
done
perf record -q --no-bpf-event -e instructions:upp -c 10007 -o /tmp/perf.data sh -c 'while :; do :; done' 2>/dev/null & sleep 0.5
before=$(nmis); sleep 0.2; echo before $(( $(nmis) - before ))
echo running $(./direct ride 16 sleep 0.2)
before=$(nmis); sleep 0.2; echo after $(( $(nmis) - before ))
kill %1; wait
perf stat -x, -e instructions:u true 2>&1 | grep -c instructions",
    );
    let (output, errors, _) = boot(&script, |guest| guest.append = String::new());
    assert_eq!(said(&output, &errors, "own"), "refused Operation not supported");
    assert!(output.contains("page-table isolation is on") && output.contains("boot with nopti"), "{output}");
    for n in [1, 16, 200] {
        let [_, records, interrupts, _, _, nmis, samples] = numbers(said(&output, &errors, &format!("ride-{n} ")))[..] else {
            panic!("{output}")
        };
        assert_eq!((records, interrupts), (n * nmis, nmis), "{output}");
        // What perf reads at a switch, without an interrupt, is less than what one takes each time.
        assert!(samples >= records && samples - records < 20 * n, "{output}");
    }
    // perf never wants more than its buffer holds.
    let [_, records, interrupts, lowered, ..] = numbers(said(&output, &errors, "ride-1000 "))[..] else { panic!("{output}") };
    assert_eq!((records, lowered), (323 * interrupts, 0), "{output}");
    let [_, records, interrupts, ..] = numbers(said(&output, &errors, "running"))[..] else { panic!("{output}") };
    let each = records as f64 / interrupts as f64;
    let (before, after) = (numbers(said(&output, &errors, "before"))[0], numbers(said(&output, &errors, "after"))[0]);
    assert!((15.5..=16.5).contains(&each) && interrupts > 10 * before, "{each} {output}");
    assert!(before > 10 && after.abs_diff(before) * 5 <= before, "{output}");
    kernel_is_well(&output, &errors);
}

#[test]
fn the_kernels_work_is_known() {
    let script = loaded("echo a $(./direct work 1000000)\necho b $(./direct work 3000000)");
    let (output, errors, _) = boot(&script, |_| ());
    let run = |name: &str| -> [u64; 4] { numbers(said(&output, &errors, name)).try_into().unwrap() };
    let ([done, locked, instructions, _], [done_b, locked_b, instructions_b, _]) = (run("a "), run("b "));
    assert_eq!((done, done_b), (1_000_000, 3_000_000));
    // What is around them is the kernel's entry and exit, and its ticks.
    assert!((locked_b - locked).abs_diff(2_000_000) < 100, "{output}");
    assert!((instructions_b - instructions).abs_diff(6_000_000) < 60_000, "{output}");
    kernel_is_well(&output, &errors);
}

#[test]
fn perf_and_the_module_exclude_each_other() {
    let script = loaded(&format!(
        "perf stat -e instructions:u sleep 2 2>/dev/null & sleep 1; echo beside-perf $(./direct count 10007 65536 1000); wait
./direct count 10007 65536 {} >/dev/null & sleep 3; echo beside-us $(perf stat -x, -e instructions:u true 2>&1 | cut -d, -f1); rmmod perftax 2>/dev/null || echo in-use; wait
echo version $(WRONG_VERSION=1 ./direct count 10007 65536 1000)
echo absurd $(./direct count 0 65536 1000) $(./direct count 10007 99999999999 1000) $(./direct copy 10007 65536 1000 4096 0 8)
echo storm $(KERNEL=1 ./direct count 200 1 1000) $(KERNEL=1 ./direct count 20011 1 1000000 | cut -d' ' -f1)
CRASH=1 ./direct count 1009 65536 1000
echo after-crash $(./direct count 10007 65536 100000 | cut -d' ' -f1,2) $(perf stat -x, -e instructions:u true 2>&1 | cut -d, -f1)",
        // Two seconds of the guest's time.
        250_000_000
    ));
    let (output, errors, _) = boot(&script, |_| ());
    let said = |name| said(&output, &errors, name);
    assert_eq!(said("beside-perf"), "refused Device or resource busy");
    assert!(said("beside-us").contains("Device or resource busy"), "{output}");
    assert!(output.contains("in-use"));
    assert_eq!(said("version"), "refused Protocol error");
    assert_eq!(said("absurd"), "refused Invalid argument refused Invalid argument refused Invalid argument");
    // Interrupts whose own way through the kernel brings the next one would leave time for nothing else.
    assert_eq!(said("storm"), "refused Invalid argument done");
    let after = said("after-crash");
    assert!(after.starts_with("done ") && numbers(after).iter().all(|n| *n > 0) && numbers(after).len() == 2, "{output}");
    kernel_is_well(&output, &errors);
}

/// Two processors, a kernel that looks at its memory and stops at its first warning: one processor goes offline and comes back during a
/// run, the machine is suspended during another, users come two at a time, are killed, have no rights, ask for everything.
#[test]
fn the_kernel_survives_its_users() {
    let script = loaded(
        "./direct count 10007 65536 100000000 >/tmp/first & sleep 1.2
echo second $(./direct count 10007 65536 1000)
echo 0 >/sys/devices/system/cpu/cpu1/online; sleep 0.1; echo 1 >/sys/devices/system/cpu/cpu1/online; wait
echo first $(cat /tmp/first)
./direct count 10007 65536 100000000 >/tmp/first & sleep 1.2
echo 1 >/sys/module/suspend/parameters/pm_test_delay; echo freezer >/sys/power/pm_test; echo mem >/sys/power/state; wait
echo suspended $(cat /tmp/first)
for i in 1 2 3 4 5 6 7 8 9; do ./direct count 1009 65536 50000000 >/dev/null & sleep 0.0$i; kill -9 $!; done; wait
echo user::1000:1000::/:/bin/sh >>/etc/passwd; chmod 755 . direct
echo unprivileged $(su user -c '/share/direct count 10007 65536 1000')
echo perfmon $(PERFMON_ALONE=1 ./direct count 10007 65536 100000)
echo fuzz $(./fuzz 1 1)
echo then $(./direct count 10007 65536 100000)",
    );
    let (output, errors, _) = boot(&script, |guest| {
        guest.processor.count = 2;
        guest.append = "nopti slub_debug=FZPU panic_on_warn=1 oops=panic".into();
    });
    let said = |name| said(&output, &errors, name);
    let flags = |line: &str| *numbers(line).last().unwrap();
    assert_eq!(said("second"), "refused Device or resource busy");
    assert!(said("first").starts_with("done") && flags(said("first")) == 1, "{output}");
    assert!(said("suspended").starts_with("done") && flags(said("suspended")) == 2, "{output}");
    assert_eq!(said("unprivileged"), "refused Operation not permitted");
    assert!(said("perfmon").starts_with("done"), "{output}{errors}");
    let fuzz = said("fuzz");
    assert!(fuzz.contains(" died 0 "), "{fuzz}");
    for what in ["open", "start", "stop", "read", "info", "work", "map", "poll", "close"] {
        let (_, counts) = fuzz.split_once(&format!(" {what} ")).unwrap();
        let (granted, tried) = counts.split(' ').next().unwrap().split_once('/').unwrap();
        assert!(granted != "0" && tried != granted || what == "open", "{what}: {fuzz}");
    }
    assert!(said("then").starts_with("done") && numbers(said("then"))[0] > 70, "{output}");
    kernel_is_well(&output, &errors);
}
