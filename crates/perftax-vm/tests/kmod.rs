//! perftax.ko in the emulated machine. Needs the module and the machine built (`make kmod`, `perftax vm build`); `make test` sees to that.

#![allow(clippy::unwrap_used)] // tests may

mod common;

use std::path::Path;
use std::process::Command;

use perftax_vm::{Finished, Guest};

const ASSIST_NS: u64 = 286;
const TURNS: u64 = 2_500_000;
/// Of a Skylake's record.
const RECORD_BYTES: u64 = 200;

fn boot(script: &str, change: impl FnOnce(&mut Guest)) -> (String, String, Finished) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let module = root.join("target/kmod/perftax.ko");
    assert!(module.is_file(), "{} is not there: make kmod", module.display());
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(module, folder.path().join("perftax.ko")).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Werror", "-static", "-I"]).arg(root.join("kmod"));
    gcc.arg("-o").arg(folder.path().join("direct")).arg(common::source("direct.c"));
    assert!(gcc.status().unwrap().success());
    std::fs::write(folder.path().join("script"), script).unwrap();
    common::boot(&["sh", "script"].map(String::from), |guest| {
        guest.share = Some(folder.path().into());
        guest.append = "nopti".into();
        guest.processor.assist_ns = ASSIST_NS;
        change(guest);
    })
}

/// Every record is counted, the tail's too; interrupts are those that the buffer's size asks for; and what a record takes is what was
/// injected.
#[test]
fn records_are_counted_to_the_last() {
    let script = format!(
        "dmesg -c >/dev/null; insmod perftax.ko || exit 9
for bytes in 1 65536 1048576 4194304; do for period in 1009 2003 10007 32771; do
    echo $bytes $period $(./direct $period $bytes {TURNS})
done; done
rmmod perftax && dmesg | grep -c -E 'BUG|WARNING|general protection'
"
    );
    let (output, errors, _) = boot(&script, |_| ());
    let mut runs = 0;
    for line in output.lines().filter(|line| line.contains("done")) {
        let words: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [bytes, period, records, interrupts, capacity, counted, spurious, overruns, off, on] = words[..] else {
            panic!("{line}")
        };
        assert_eq!(capacity, (bytes / RECORD_BYTES).max(1), "{line}");
        assert_eq!(records, counted / (period + 1), "{line}");
        assert_eq!(interrupts, records / capacity, "{line}");
        assert_eq!((spurious, overruns), (0, 0), "{line}");
        // Where samples are many, the 5 us of a timer tick in one of the runs is little.
        if period == 1009 && capacity > records {
            let cost = (on - off) as f64 / records as f64;
            assert!((cost / ASSIST_NS as f64 - 1.0).abs() < 0.02, "{line}: {cost}");
        }
        runs += 1;
    }
    assert_eq!(runs, 16, "{output}{errors}");
    assert_eq!(output.lines().last(), Some("0"), "{output}");
}

#[test]
fn perf_and_the_module_exclude_each_other() {
    let script = format!(
        "dmesg -c >/dev/null; insmod perftax.ko || exit 9
perf stat -e instructions:u sleep 2 2>/dev/null & sleep 1; echo beside-perf $(./direct 10007 65536 1000); wait
./direct 10007 65536 {} >/dev/null & sleep 3; echo beside-us $(perf stat -x, -e instructions:u true 2>&1 | cut -d, -f1); rmmod perftax 2>/dev/null || echo in-use; wait
echo version $(WRONG_VERSION=1 ./direct 10007 65536 1000)
echo absurd $(./direct 0 65536 1000) $(./direct 10007 99999999999 1000)
CRASH=1 ./direct 1009 65536 1000
echo after-crash $(./direct 10007 65536 100000 | cut -d' ' -f1) $(perf stat -x, -e instructions:u true 2>&1 | cut -d, -f1)
rmmod perftax && dmesg | grep -c -E 'BUG|WARNING|general protection'
",
        // Two seconds of the guest's time.
        250_000_000
    );
    let (output, errors, _) = boot(&script, |_| ());
    let said =
        |name: &str| output.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{output}{errors}")).trim();
    assert_eq!(said("beside-perf"), "refused Device or resource busy");
    assert!(said("beside-us").contains("Device or resource busy"), "{output}");
    assert!(output.contains("in-use"));
    assert_eq!(said("version"), "refused Protocol error");
    assert_eq!(said("absurd"), "refused Invalid argument refused Invalid argument");
    let after = said("after-crash");
    assert!(after.starts_with("done ") && after["done ".len()..].parse::<u64>().unwrap() > 1000, "{output}");
    assert_eq!(output.lines().last(), Some("0"), "{output}");
}

/// Two processors: one goes offline and comes back during a run, users come two at a time, are killed, have no rights.
#[test]
fn the_kernel_survives_its_users() {
    let script = "\
dmesg -c >/dev/null; insmod perftax.ko || exit 9
./direct 10007 65536 100000000 >/tmp/first & sleep 1.2
echo second $(./direct 10007 65536 1000)
echo 0 >/sys/devices/system/cpu/cpu1/online; sleep 0.1; echo 1 >/sys/devices/system/cpu/cpu1/online; wait
echo first $(cat /tmp/first)
for i in 1 2 3 4 5 6 7 8 9 10; do ./direct 1009 65536 50000000 >/dev/null & sleep 0.$i; kill -9 $!; done; wait
echo user::1000:1000::/:/bin/sh >>/etc/passwd; chmod 666 /dev/perftax; chmod 755 . direct
echo unprivileged $(su user -c '/share/direct 10007 65536 1000')
echo then $(./direct 10007 65536 100000)
rmmod perftax && dmesg | grep -c -E 'BUG|WARNING|Call Trace|general protection'
";
    let (output, errors, _) = boot(script, |guest| guest.processor.count = 2);
    let said =
        |name: &str| output.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{output}{errors}")).trim();
    assert_eq!(said("second"), "refused Device or resource busy");
    assert!(said("first").starts_with("done"), "{output}");
    assert_eq!(said("unprivileged"), "refused Operation not permitted");
    assert!(said("then").starts_with("done"), "{output}");
    assert_eq!(output.lines().last(), Some("0"), "{output}{errors}");
}

#[test]
fn what_it_cannot_do_is_said() {
    let script = "insmod perftax.ko; dmesg | grep 'perftax: [^lm]' | tail -1\n";
    let (output, errors, _) = boot(script, |guest| guest.append = String::new());
    assert!(errors.contains("Operation not permitted"), "{errors}");
    assert!(output.contains("page-table isolation is on") && output.contains("nopti"), "{output}");
}
