//! `perftax vm` as its users meet it, and against `perftax sim`. Needs the machine built and the plugin; `make test` sees to both.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command as Process;
use std::time::{Duration, Instant};

use snapbox::cmd::{Command, OutputAssert, cargo_bin};

/// More than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);

fn perftax(arguments: &[&str]) -> OutputAssert {
    Command::new(cargo_bin!("perftax")).args(arguments).env("NO_COLOR", "1").assert()
}

fn stderr(outcome: &OutputAssert) -> String {
    String::from_utf8(outcome.get_output().stderr.clone()).unwrap()
}

fn stdout(outcome: &OutputAssert) -> String {
    String::from_utf8(outcome.get_output().stdout.clone()).unwrap()
}

fn program(name: &str, folder: &Path) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../perftax-vm/tests/guests/programs/{name}.S"));
    let program = folder.join(name);
    let mut gcc = Process::new("gcc");
    gcc.args(["-nostdlib", "-static", "-no-pie", "-DN=200000", "-o"]).arg(&program).arg(source);
    assert!(gcc.status().unwrap().success());
    program.to_str().unwrap().into()
}

/// The software PMU in qemu-user and the one under a real kernel count the same, and sample the same instructions.
#[test]
fn sim_and_vm_agree() {
    const EVENTS: [(&str, &str); 6] = [
        ("instructions", "instructions:u"),
        ("loads", "cpu/event=0xd0,umask=0x81/u"),
        ("stores", "cpu/event=0xd0,umask=0x82/u"),
        ("branches", "branches:u"),
        ("calls", "cpu/event=0xc4,umask=0x02/u"),
        ("locked-ops", "cpu/event=0xd0,umask=0x21/u"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let names = ["loop", "access"];
    let programs = names.map(|name| program(name, folder.path()));
    let one_by_one = |program: &str| {
        let count =
            |event: &str| format!("perf stat -x';' -e {event} -o /tmp/stat {program}; grep -v '^#' /tmp/stat | cut -d';' -f1\n");
        EVENTS.map(|(_, event)| count(event)).concat()
    };
    let sample =
        format!("perf record -q -o /tmp/data -e instructions:uppp -c 1008 {}\nperf script -i /tmp/data -F ip\n", programs[0]);
    let script = folder.path().join("script");
    // Neither kernel symbols nor a processor's own events are asked for, and perf reads them all the same.
    let short = "mount -o bind /dev/null /proc/kallsyms\n";
    std::fs::write(&script, format!("{short}{}{}echo samples\n{sample}", one_by_one(&programs[0]), one_by_one(&programs[1])))
        .unwrap();
    let with: Vec<&str> = programs.iter().flat_map(|program| ["--with", program]).collect();
    let run =
        [&["vm", "run", "--env", "PERF_CPUID=GenuineIntel-6-97-1"][..], &with, &["--", "sh", script.to_str().unwrap()]].concat();
    let said = stdout(&perftax(&run).success());
    let (counts, sampled) = said.split_once("samples\n").unwrap();
    let mut counts = counts.split_whitespace().map(|number| number.parse::<u64>().unwrap());

    let simulate = |program: &str, arguments: &[&str]| -> serde_json::Value {
        let at = folder.path().join("sim.json");
        let simulation = ["sim", "--machine", "skylake", "--no-caches", "--json", at.to_str().unwrap()];
        perftax(&[&simulation, arguments, &["--", program]].concat()).success();
        serde_json::from_str(&std::fs::read_to_string(&at).unwrap()).unwrap()
    };
    for program in &programs {
        let simulated = simulate(program, &["--count"]);
        for (event, _) in EVENTS {
            assert_eq!(Some(counts.next().unwrap()), simulated["counts"][event].as_u64(), "{event} of {program}");
        }
    }
    let mut by_address: BTreeMap<u64, u64> = BTreeMap::new();
    for ip in sampled.split_whitespace() {
        *by_address.entry(u64::from_str_radix(ip, 16).unwrap()).or_default() += 1;
    }
    let simulated = simulate(&programs[0], &["-c", "1008"]);
    let rows = simulated["by_address"].as_array().unwrap().iter();
    let simulated: BTreeMap<u64, u64> =
        rows.map(|row| (row["address"].as_u64().unwrap(), row["samples"].as_u64().unwrap())).collect();
    assert_eq!(by_address, simulated);
}

#[test]
fn a_command_keeps_its_output_and_its_code() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("input"), b"a\0b\n\xff").unwrap();
    let share = folder.path().to_str().unwrap();
    let run = ["vm", "run", "--share", share, "--env", "CODE=7", "--", "sh", "-c", "cat input; echo said >&2; exit $CODE"];
    let outcome = perftax(&run).code(7);
    assert_eq!(outcome.get_output().stdout, b"a\0b\n\xff");
    assert!(stderr(&outcome).contains("said"));
}

#[test]
fn what_cannot_be_is_said() {
    for (arguments, code, words) in [
        (&["vm", "run", "--", "no-such-program"][..], 127, "no-such-program: no such program here"),
        (&["vm", "run", "--share", "/nowhere", "--", "true"], 3, "/nowhere is no folder"),
        (&["vm", "run", "--cpu", "icelake", "--caches", "--", "true"], 1, "no PMU with caches is modelled"),
        (&["vm", "run", "--boot", "--timeout", "1", "--", "true"], 1, "was still booting after 1 s"),
        (&["vm", "run", "--env", "1=2", "--", "true"], 2, "no name of a variable"),
        (&["vm", "run", "--out", "x", "--out-folder", "/nowhere", "--", "true"], 2, "--out-folder"),
        (&["vm", "run", "--root", "/nowhere", "--", "true"], 2, "--root"),
        (&["vm", "run", "--without", "cpu", "--", "true"], 2, "--without"),
        (&["vm", "run"], 2, "COMMAND"),
    ] {
        let outcome = perftax(arguments).code(code);
        assert!(stderr(&outcome).contains(words), "{arguments:?}: {}", stderr(&outcome));
    }
}

/// What a command finds: a tree over the guest's own, folders, a script's interpreter, its input, the kernel's own limits, pseudo-terminals.
#[test]
fn a_command_finds_what_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, text) in [("tree/etc/given", "over\n"), ("more/deep/file", "along\n"), ("input", "read\n")] {
        std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        std::fs::write(at(name), text).unwrap();
    }
    let script = at("script.pl");
    let text = "#!/usr/bin/env -S perl -w\nprint 'perl read ', <STDIN>;\n                open my $f, '<', $_ or die for '/etc/given'; open $f, '<', '/etc/given'; print <$f>;\n                open $f, '<', \"$ARGV[0]/deep/file\"; print <$f>;\n                open $f, '<', '/proc/sys/kernel/perf_cpu_time_max_percent'; print <$f>;\n                print -e '/dev/pts/ptmx' && -d '/dev/shm' && -w '/tmp' ? \"mounted\\n\" : \"not mounted\\n\";\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (tree, more) = (at("tree"), at("more"));
    let mut command = Process::new(cargo_bin!("perftax"));
    command
        .args(["vm", "run", "--root"])
        .arg(tree)
        .arg("--with")
        .arg(&more)
        .args(["--stock-limits", "--stdin", "--"])
        .arg(&script)
        .arg(&more);
    command.stdin(std::fs::File::open(at("input")).unwrap());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, "perl read read\nover\nalong\n25\nmounted\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_does_not_fit_and_what_counted_nothing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::File::create(folder.path().join("large")).unwrap().set_len(300 << 20).unwrap();
    let share = folder.path().to_str().unwrap();
    let outcome = perftax(&["vm", "run", "--memory", "512", "--share", share, "--", "true"]).code(3);
    let said = stderr(&outcome);
    assert!(said.contains("memory of the machine") && said.contains("--memory 1024"), "{said}");

    let outcome = perftax(&["vm", "run", "--", "perf", "stat", "-e", "cpu/event=0xa3,umask=4/u", "true"]).success();
    let said = stderr(&outcome);
    assert!(said.contains("event 0xa3, unit mask 0x04") && said.contains("does not model"), "{said}");
}

/// rr records programs by a counter of branches and its interrupts, and replays them to the same instruction: threads and signals, a program by itself,
/// processes.
#[test]
fn rr_replays_what_it_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../perftax-vm/tests/guests/programs");
    for name in ["threads", "calls"] {
        let mut gcc = Process::new("gcc");
        gcc.args(["-O1", "-pthread", "-o"]).arg(folder.path().join(name)).arg(programs.join(format!("{name}.c")));
        assert!(gcc.status().unwrap().success());
    }
    let script = "export _RR_TRACE_DIR=/tmp/traces
again() {
    rr record \"$@\" >recorded 2>errors && rr replay -a >replayed 2>>errors && cmp recorded replayed && echo \"$1: $(cat recorded)\" || cat errors
    rm -rf /tmp/traces
}
again ./threads
again ./calls 20 500
again /bin/busybox sh -c 'for i in 1 2 3; do (echo $i); done | wc -l'
";
    std::fs::write(folder.path().join("script"), script).unwrap();
    let share = folder.path().to_str().unwrap();
    for cpu in ["skylake", "zen3"] {
        let run = [
            "vm",
            "run",
            "--cpu",
            cpu,
            "--with",
            "/usr/bin/rr",
            "--with",
            "/usr/lib/rr",
            "--share",
            share,
            "--",
            "sh",
            "./script",
        ];
        let outcome = perftax(&run).success();
        assert_eq!(stdout(&outcome), "./threads: 2000\n./calls: \n/bin/busybox: 3\n", "{cpu}: {}", stderr(&outcome));
    }
}

/// Takes a machine down, also where a test fails.
struct Down(String);

impl Drop for Down {
    fn drop(&mut self) {
        Process::new(cargo_bin!("perftax")).args(["vm", "down", &self.0]).output().unwrap();
    }
}

#[test]
fn a_machine_stays_until_it_is_taken_down() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("input"), "shared\n").unwrap();
    let share = folder.path().to_str().unwrap();
    let name = format!("test-{}", std::process::id());
    let _down = Down(name.clone());
    perftax(&["vm", "up", &name, "--share", share, "--while", &std::process::id().to_string()]).success();
    let twice = perftax(&["vm", "up", &name]).code(1);
    assert!(stderr(&twice).contains("vm down"), "{}", stderr(&twice));
    let listed = stdout(&perftax(&["vm", "list"]).success());
    assert!(listed.lines().any(|line| line.starts_with(&name) && line.contains("Skylake") && line.contains("MiB")), "{listed}");
    // Its folder is there, what a command brings, its code, its streams, its outputs; nothing of an earlier one.
    let command = "cat input; cat /proc/uptime; ls; echo said >&2; echo out >made; exit $CODE";
    let exec = ["vm", "exec", &name, "--env", "CODE=7", "--out", "made", "--out-folder", share, "--", "sh", "-c", command];
    let first = perftax(&exec).code(7);
    assert!(stdout(&first).starts_with("shared\n") && stderr(&first).contains("said"), "{}", stderr(&first));
    assert_eq!(std::fs::read_to_string(folder.path().join("made")).unwrap(), "out\n");
    assert_eq!(stdout(&perftax(&exec).code(7)), stdout(&first), "the same clock, and nothing that the first one made");
    let killed = perftax(&["vm", "exec", &name, "--", "sh", "-c", "kill -9 $$"]).code(137);
    assert_eq!(stdout(&killed), "");
    let doctor = perftax(&["vm", "exec", &name, "--", "perftax", "doctor", "-e", "cycles:pp", "--json", "-"]).success();
    let doctor: serde_json::Value = serde_json::from_str(&stdout(&doctor)).unwrap();
    assert!(doctor["machine"]["name"].as_str().unwrap().contains("Skylake"), "{doctor}");
    perftax(&["vm", "down", &name]).success();
    let gone = perftax(&["vm", "exec", &name, "--", "true"]).code(3);
    assert!(stderr(&gone).contains(&format!("perftax vm up {name}")), "{}", stderr(&gone));
}

#[test]
fn a_machine_goes_when_nobody_uses_it() {
    let name = format!("idle-{}", std::process::id());
    let _down = Down(name.clone());
    perftax(&["vm", "up", &name, "--idle", "1"]).success();
    let began = std::time::Instant::now();
    while stdout(&perftax(&["vm", "list"]).success()).contains(&name) {
        // Asking is no use; a minute is for machines that are busy.
        assert!(began.elapsed().as_secs() < 60, "it stays");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    for (name, words) in [("a/b", "letters, digits"), (".x", "no '.' first"), ("", "1 to 64")] {
        let refused = perftax(&["vm", "up", name]).failure();
        assert!(stderr(&refused).contains(words), "{name}: {}", stderr(&refused));
    }
}

/// A machine may go between being seen and being asked: it is none that is up then, and no failure.
#[test]
fn a_machine_that_goes_while_it_is_asked_is_none() {
    use std::os::unix::fs::DirBuilderExt;
    for command in [&["vm", "list"][..], &["vm", "down", "--all"]] {
        let runtime = tempfile::tempdir().unwrap();
        let folder = runtime.path().join("perftax/vm");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
        let socket = folder.join("going");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        // Once it can be reached; after that nobody is there.
        let going = std::thread::spawn(move || drop(listener.accept().unwrap()));
        let mut asked = std::process::Command::new(env!("CARGO_BIN_EXE_perftax"));
        let asked = asked.args(command).env("XDG_RUNTIME_DIR", runtime.path()).output().unwrap();
        going.join().unwrap();
        let said = String::from_utf8_lossy(&asked.stderr);
        assert_eq!((asked.status.code(), asked.stdout.as_slice()), (Some(0), &b""[..]), "{command:?}: {said}");
    }
}

/// Ids of a process's children.
fn children(of: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).unwrap().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok()).collect::<String>();
    lists.split_whitespace().map(String::from).collect()
}

/// A process that has not ended; a zombie has.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

/// Its emulator goes with it, however it went.
#[test]
fn a_machine_ends_with_who_started_it() {
    let mut running = Process::new(env!("CARGO_BIN_EXE_perftax"))
        .args(["vm", "run", "--", "sleep", "1000"])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let is_qemu =
        |pid: &String| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.display().to_string().contains("qemu"));
    let started = || children(running.id());
    while !(started().iter().any(is_qemu) && started().len() > 1) {
        assert!(began.elapsed() < LONG, "no emulator among {:?}", started());
        std::thread::sleep(Duration::from_millis(20));
    }
    let all = started();
    running.kill().unwrap();
    running.wait().unwrap();
    let killed = Instant::now();
    while all.iter().any(|pid| lives(pid)) {
        assert!(killed.elapsed() < LONG, "{all:?} go on");
        std::thread::sleep(Duration::from_millis(20));
    }
}
