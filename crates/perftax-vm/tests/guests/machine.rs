//! The emulated machine, under Debian's kernel and perf: what they count and sample is what the programs do. Needs the machine built
//! (`perftax vm build`); `make test` sees to that.

use crate::common;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use perftax_vm::{Arm, Finished, Generation, Guest, Processor, Sources, Terminal, run};

const TURNS: u64 = 200_000;

fn programs(folder: &Path) {
    for name in ["loop", "repeat", "access"] {
        let source = common::source(&format!("{name}.S"));
        common::assemble(folder, name, &[&format!("-DN={TURNS}"), source.to_str().unwrap()]);
    }
}

/// Runs a script beside the programs; its output, its errors, and how it ended.
fn boot(script: &str, change: impl FnOnce(&mut Guest)) -> (String, String, Finished) {
    boot_with(script, &common::perftax(), change)
}

/// The same, with this program as the guest's `perftax`.
fn boot_with(script: &str, perftax: &Path, change: impl FnOnce(&mut Guest)) -> (String, String, Finished) {
    let folder = tempfile::tempdir().unwrap();
    programs(folder.path());
    std::fs::write(folder.path().join("script"), format!("{}{script}", common::SHORT_PERF)).unwrap();
    common::boot_with(&["sh", "script"].map(String::from), perftax, |guest| {
        guest.share = Some(folder.path().into());
        change(guest);
    })
}

/// Sections of an output: `== name` begins one.
fn sections(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        match line.strip_prefix("== ") {
            Some(next) => name = next.trim().into(),
            None => sections.entry(name.clone()).or_default().push(line.into()),
        }
    }
    sections
}

/// Counts of `perf stat -x,`: event and count.
fn counts(lines: &[String]) -> BTreeMap<String, u64> {
    let count = |line: &String| {
        let fields: Vec<&str> = line.split(',').collect();
        Some((fields.get(2)?.to_string(), fields.first()?.parse().ok()?))
    };
    lines.iter().filter_map(count).collect()
}

/// Functions of a guest's script: `count EVENTS PROGRAM`, `sample OPTIONS PROGRAM` and what was sampled.
const FUNCTIONS: &str = "\
count() { events=$1; shift; perf stat -x, -e \"$events\" -o /tmp/stat \"$@\" >/dev/null; grep -v '^#' /tmp/stat; }
sample() { perf record -q -o /tmp/data \"$@\"; }
script() { perf script -i /tmp/data -F \"$1\" 2>/dev/null; }
";

#[test]
fn counts_are_exact() {
    let script = format!(
        "{FUNCTIONS}
echo == kernel
dmesg | grep -o 'Performance Events: .*'
echo == loop
count instructions:u,cycles:u,branches:u ./loop
count cpu/event=0xd0,umask=0x81/u,cpu/event=0xd0,umask=0x82/u,cpu/event=0xc4,umask=0x20/u ./loop
echo == repeat
count instructions:u,branches:u ./repeat
echo == repeat again
count instructions:u,branches:u,cpu/event=0xc2,umask=0x01,cmask=2/u ./repeat
echo == access
count instructions:u,cpu/event=0xd0,umask=0x81/u,cpu/event=0xd0,umask=0x82/u,cpu/event=0xd0,umask=0x21/u ./access
echo == kernel only
count instructions:k,instructions:u ./loop
exit 7
"
    );
    let (output, errors, finished) = boot(&script, |_| ());
    assert_eq!(finished.code, 7, "{errors}");
    let said = sections(&output);
    assert!(said["kernel"][0].contains("PEBS fmt3+, Skylake events, 32-deep LBR, full-width counters"), "{output}");
    let of = |section: &str| counts(&said[section]);
    let (looped, repeated, again, accessed) = (of("loop"), of("repeat"), of("repeat again"), of("access"));
    let instructions = 5 + 8 * TURNS + 3;
    assert_eq!((looped["instructions:u"], looped["cycles:u"], looped["branches:u"]), (instructions, instructions, TURNS + 2));
    let data = ["cpu/event=0xd0,umask=0x81/u", "cpu/event=0xd0,umask=0x82/u", "cpu/event=0xd0,umask=0x21/u"];
    assert!(output.contains("umask=0x81"), "{output}");
    let numbers =
        |section: &str| -> Vec<u64> { said[section].iter().filter_map(|line| line.split(',').next()?.parse().ok()).collect() };
    // perf's separator is in the event's name, too: numbers stand in the order of the events.
    assert_eq!(
        numbers("loop")[3..],
        [TURNS, TURNS, TURNS + 1],
        "loads, stores, taken: the jump into the loop, all but the last of its own, and the system call"
    );
    assert_eq!((repeated["instructions:u"], repeated["branches:u"]), (2 + 14_000 + 3, 2001));
    assert_eq!((again["instructions:u"], again["branches:u"]), (2 + 14_000 + 3, 2001), "followed by instruction");
    assert_eq!(numbers("access"), [3 + 10_000 + 3, 6000, 6000, 2000], "{accessed:?} {data:?}");
    let kernel = of("kernel only");
    assert!(kernel["instructions:k"] > 1000 && kernel["instructions:u"] == instructions);
}

/// Samples, addresses and registers of PEBS, on each generation; the rule is one in period + 1.
#[test]
fn samples_are_exact_on_every_generation() {
    let script = format!(
        "{FUNCTIONS}
echo == kernel
dmesg | grep -o 'Performance Events: .*'
echo == precise
sample -e instructions:uppp -c 1008 --intr-regs=r8,cx ./loop
script ip,iregs
echo == ordinary
sample -e instructions:u -c 10007 ./loop
script ip
echo == loads
sample -d -e cpu/event=0xd0,umask=0x81/upp -c 1000 ./loop
script ip,addr
echo == branches
sample -b -e instructions:upp -c 20011 ./loop
script brstack
echo == symbols
nm ./loop 2>/dev/null || true
"
    );
    let words = [
        (Generation::Broadwell, "PEBS fmt2+, Broadwell events, 16-deep LBR", 16),
        (Generation::Skylake, "PEBS fmt3+, Skylake events, 32-deep LBR", 32),
        (Generation::IceLake, "PEBS fmt4+-baseline, Icelake events, AnyThread deprecated, 32-deep LBR", 32),
        (Generation::SapphireRapids, SAPPHIRE_RAPIDS, 32),
    ];
    for (generation, events, depth) in words {
        let arm = if generation == Generation::Broadwell { Arm::Same } else { Arm::Next };
        let (output, errors, _) = boot(&script, |guest| guest.processor = Processor { generation, arm, ..guest.processor });
        let said = sections(&output);
        assert!(said["kernel"][0].contains(events), "{output}{errors}");
        let every = |period: u64| if arm == Arm::Next { period + 1 } else { period };
        let instructions = 5 + 8 * TURNS + 3;
        let precise = &said["precise"];
        assert_eq!(precise.len() as u64, instructions / every(1008), "{generation:?} {errors}");
        let turn = u64::from_str_radix(precise[0].split_whitespace().next().unwrap(), 16).unwrap() & !63;
        let mut seen = BTreeMap::new();
        for line in precise {
            let ip = u64::from_str_radix(line.split_whitespace().next().unwrap(), 16).unwrap();
            let register = |name: &str| {
                let word = line.split_whitespace().find_map(|word| word.strip_prefix(&format!("{name}:0x"))).unwrap();
                u64::from_str_radix(word, 16).unwrap()
            };
            *seen.entry(ip - turn).or_insert(0) += 1;
            // Behind the addition to r8 and before the subtraction from rcx their sum is one more.
            let sum = if ip - turn >= DECREMENT { TURNS } else { TURNS + 1 };
            assert_eq!(register("R8") + register("CX"), sum, "{generation:?} {line}");
        }
        assert!(seen.keys().all(|offset| OFFSETS.contains(offset)), "{generation:?} {seen:?}");
        assert_eq!(said["ordinary"].len() as u64, instructions / 10_007, "{generation:?}");
        let loads = &said["loads"];
        assert_eq!(loads.len() as u64, TURNS / every(1000), "{generation:?}");
        assert!(
            loads.iter().all(|line| line.split_whitespace().nth(1) == Some(&format!("{:x}", turn + OFFSETS[1]))),
            "{loads:?}"
        );
        let branches: Vec<Vec<&str>> = said["branches"].iter().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(branches.len() as u64, instructions / every(20_011), "{generation:?}");
        // A turn is eight cycles, where records tell of cycles.
        let cycles = if generation == Generation::Broadwell { 0 } else { OFFSETS.len() };
        let jump = format!("0x{:x}/0x{turn:x}/P/-/-/{cycles}", turn + OFFSETS[7]);
        assert!(
            branches.iter().all(|line| line.len() == depth && line.iter().all(|word| word.starts_with(&jump))),
            "{:?}",
            branches[0]
        );
    }
}

/// What the driver says of hardware, but for the state of branch records that XSAVES would save there.
const SAPPHIRE_RAPIDS: &str =
    "Architectural LBR, PEBS fmt4+-baseline, Sapphire Rapids events, AnyThread deprecated, 32-deep LBR, full-width counters";

/// Offsets of the loop's instructions, and of the one that decrements.
const OFFSETS: [u64; 8] = [0, 4, 7, 11, 15, 18, 19, 22];
const DECREMENT: u64 = 19;

/// The same command and seed give the same samples and the same time; another seed may not.
#[test]
fn two_runs_are_alike() {
    let script = format!("{FUNCTIONS}\nsample -a -e instructions:ppp -c 5003 ./loop\nscript time,ip,cpu\ncat /proc/uptime\n");
    let once = || boot(&script, |_| ()).0;
    let (first, second) = (once(), once());
    assert!(first.lines().count() > 300, "{first}");
    assert_eq!(first, second);
}

/// Runs a script of calibrations, in which KNOB reads and writes registers of the emulation; the numbers of its lines `name: number`, and
/// all that it said.
fn calibrated(script: &str) -> (Vec<f64>, String) {
    let perftax = common::perftax();
    let folder = common::compiled("knob.c");
    let knob = folder.path().join("knob").to_string_lossy().into_owned();
    let (output, errors, finished) =
        boot_with(&format!("{}{}", common::CALIBRATE, script.replace("KNOB", &knob)), &perftax, |guest| {
            guest.with = vec!["chrt".into(), knob.clone()];
        });
    assert_eq!(finished.code, 0, "{output}{errors}");
    let number = |line: &str| line.split(':').nth(1)?.trim().trim_end_matches(',').parse::<f64>().ok();
    let numbers: Vec<f64> = output.lines().filter_map(number).collect();
    (numbers, output)
}

/// `perftax calibrate` in the guest finds the cost of an assist that was injected, of which it knows nothing: its work executes in blocks
/// that differ in nothing but sampling, and what a record delays the work by is the hardware's, what stopping takes the kernel's. And
/// its terms for an interrupt and the records that it finds are the instructions that the handler executed, as the emulator counts them.
#[test]
fn calibrate_finds_what_was_injected() {
    let costs = common::last_of(2, &[232.0, 238.0, 1000.0, 0.0, 286.0]);
    let listed = costs.iter().map(|cost| format!("{cost} ")).collect::<String>();
    // Registers of the emulation: the assist's cost; interrupts raised, and instructions in their handlers.
    let script = "\
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
for cost in COSTS; do
    KNOB 0x50540000 $cost || exit 9
    interrupts=$(KNOB 0x50540012) instructions=$(KNOB 0x50540013)
    calibrate -e instructions:uppp --quick --no-save --time 2 --json $cost.json || exit 8
    for term in assist copy interrupt; do grep -A3 \"\\\"$term\\\"\" $cost.json | head -4; done
    echo interrupts: $(($(KNOB 0x50540012) - interrupts))
    echo instructions: $(($(KNOB 0x50540013) - instructions))
done
";
    let (numbers, output) = calibrated(&script.replace("COSTS", &listed));
    assert_eq!(numbers.len(), 11 * costs.len(), "{output}");
    for (cost, found) in costs.into_iter().zip(numbers.chunks(11)) {
        // Whether its interval holds the truth is counted over many: scripts/vm-known-answers.
        let estimate = found[0];
        assert!((estimate - cost).abs() <= (0.03 * cost).max(12.0), "{cost}: {estimate}\n{output}");
        let (copy, interrupt) = (found[3], found[6]);
        let truth = found[10] / found[9];
        let drain = interrupt + RECORDS_PER_INTERRUPT * copy;
        assert!((drain / truth - 1.0).abs() < 0.05, "{cost}: {drain} ns an interrupt, {truth} instructions of 1 ns\n{output}");
    }
}

/// Of 200 bytes each in a buffer of 64 KiB, four fewer than fit (perftax-pmu's oracle).
const RECORDS_PER_INTERRUPT: f64 = 323.0;

/// Ordinary interrupts likewise: what one takes to be delivered is found beside the handler's own instructions.
#[test]
fn calibrate_finds_what_an_interrupt_takes() {
    let script = "\
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
for cost in 0 3000; do
    KNOB 0x50540001 $cost || exit 9
    interrupts=$(KNOB 0x50540012) instructions=$(KNOB 0x50540013)
    calibrate --mechanism pmi --quick --no-save --time 2 --json $cost.json || exit 8
    grep -A3 '\"alpha_ns\"' $cost.json | head -4
    echo interrupts: $(($(KNOB 0x50540012) - interrupts))
    echo instructions: $(($(KNOB 0x50540013) - instructions))
done
";
    let (numbers, output) = calibrated(script);
    assert_eq!(numbers.len(), 10, "{output}");
    for (injected, found) in [0.0, 3000.0].into_iter().zip(numbers.chunks(5)) {
        let truth = injected + found[4] / found[3];
        assert!((found[0] / truth - 1.0).abs() < 0.05, "{} ns, {truth} by the emulator\n{output}", found[0]);
    }
    assert!((numbers[5] - numbers[0] - 3000.0).abs() < 0.02 * 3000.0, "{output}");
}

/// A guest writes where it was told, and nowhere else; it has no network.
#[test]
fn outputs_come_back_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mkdir made; echo inside >made/file; echo other >other; ln -s /etc/passwd link; ip link 2>/dev/null | grep -c '^[0-9]'; \
                  echo bad >../escaped; exit 3";
    let (output, _, finished) = boot(script, |guest| {
        guest.outputs = ["made", "link", "nothing"].map(PathBuf::from).to_vec();
        guest.output_folder = folder.path().into();
    });
    assert_eq!((output.trim(), finished.code), ("1", 3), "the loopback device alone");
    assert_eq!(std::fs::read_to_string(folder.path().join("made/file")).unwrap(), "inside\n");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1 + usize::from(folder.path().join("link").exists()));
    assert!(finished.missing.iter().any(|what| what.contains("nothing")), "{finished:?}");
}

/// A guest's program is root there, and may go on while its outputs are copied out: what it does then stays in the folder that is
/// thrown away, and what was asked for comes without the bits that would let it run as somebody else.
#[test]
fn a_hostile_guest_stays_inside() {
    let folder = tempfile::tempdir().unwrap();
    let escaped = Path::new("/tmp/escaped-from-the-guest");
    let script = "\
mkdir kept; echo fine >kept/file; cp /bin/busybox kept/evil; chmod 6755 kept/evil; ln -s /etc kept/etc; mknod kept/disk b 8 0
dd if=/dev/zero of=big bs=1M count=30 2>/dev/null
(
    while ! grep -q ' /out ' /proc/mounts; do :; done
    cp /bin/busybox /out/evil; chmod 6755 /out/evil; chown 0:0 /out/evil
    ln -s /etc/hostname /out/link; echo pwned >/out/link
    ln -s / /out/root; echo pwned >/out/root/tmp/escaped-from-the-guest
    echo pwned >/out/../escaped-from-the-guest; mkdir /out/a; echo pwned >/out/a/../../escaped-from-the-guest
    mknod /out/disk b 8 0; dd if=/out/disk of=/out/stolen bs=512 count=1
    echo done >/out/tried
) >/dev/null 2>&1 &
exit 0
";
    let before = std::fs::read("/etc/hostname").ok();
    let (_, errors, finished) = boot(script, |guest| {
        guest.outputs = ["kept", "big", "tried"].map(PathBuf::from).to_vec();
        guest.output_folder = folder.path().into();
    });
    assert_eq!(finished.code, 0, "{errors}");
    assert_eq!(std::fs::read("/etc/hostname").ok(), before);
    assert!(!escaped.exists());
    let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o7777;
    let names = |at: &Path| -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(at).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert!(
        names(folder.path()).iter().all(|name| ["big", "kept", "tried"].contains(&name.as_str())),
        "{:?}",
        names(folder.path())
    );
    assert!(names(folder.path()).contains(&"tried".into()), "it did try: {finished:?}");
    assert_eq!(names(&folder.path().join("kept")), ["evil", "file"], "{finished:?}");
    assert_eq!(mode("kept/evil"), 0o755);
    assert!(finished.missing.iter().any(|what| what.contains("etc")), "{finished:?}");
}

#[test]
fn what_goes_wrong_is_said() {
    let installation = Sources::find().unwrap().installation(None).unwrap();
    let fails = |change: &dyn Fn(&mut Guest)| {
        // One that sleeps takes no time at all.
        let endless = ["sh", "-c", "while :; do :; done"].map(String::from).to_vec();
        let mut guest = Guest { boots: true, ..Guest::new(endless) };
        change(&mut guest);
        let terminal = Terminal { output: Box::new(std::io::sink()), errors: Box::new(std::io::sink()), interrupted: || false };
        run(&installation, &guest, Path::new("/bin/true"), terminal).unwrap_err().to_string()
    };
    let late = fails(&|guest| guest.timeout = std::time::Duration::from_secs(2));
    assert!(late.contains("still booting after 2 s"), "{late}");
    let panicked = fails(&|guest| guest.append = "rdinit=/nowhere init=/nowhere root=/dev/none".into());
    assert!(panicked.contains("panicked: Kernel panic - not syncing"), "{panicked}");
    // While it boots to be kept, and once it has.
    let panicked = fails(&|guest| (guest.boots, guest.append) = (false, "rdinit=/nowhere init=/nowhere root=/dev/none".into()));
    assert!(panicked.contains("panicked: Kernel panic - not syncing"), "{panicked}");
    let late = fails(&|guest| (guest.boots, guest.timeout, guest.seed) = (false, std::time::Duration::from_secs(1), 977));
    assert!(late.contains("still booting after 1 s"), "{late}");
    // A machine that others use takes longer to come so far.
    let after = |seconds| fails(&|guest| (guest.boots, guest.timeout) = (false, std::time::Duration::from_secs(seconds)));
    let late = [4, 16, 64].into_iter().map(after).find(|late| !late.contains("still booting")).unwrap();
    assert!(late.contains("still running the command after "), "{late}");
}
