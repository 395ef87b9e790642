//! `perftax comm` on this machine, by real debug registers: planted sharing is found and named, whatever threads and processes do, and what
//! cannot be done is said.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use perftax_doc::{Comm, CommAdvice, CommSite, CommWay};

use crate::common::{Running, said};
use crate::sharing::Place;

impl Place {
    fn perftax(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The document of a run of the program, and how it ended.
    fn watch(&self, options: &[&str], program: &[&str]) -> (Comm, Option<i32>) {
        let document = self.folder.path().join("comm.json");
        let program = [&[self.program.to_str().unwrap()], program].concat();
        let output = self.perftax(&[options, &["--json", document.to_str().unwrap(), "--"], &program].concat());
        let text = std::fs::read_to_string(&document).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        std::fs::remove_file(&document).unwrap();
        (serde_json::from_str(&text).unwrap(), output.status.code())
    }

    /// A run of the program by itself, that goes on until it is dropped.
    fn running(&self, arguments: &[&str]) -> Running {
        let child = Command::new(&self.program).args(arguments).stdout(Stdio::null()).spawn().unwrap();
        Running(child)
    }

    fn attach(&self, running: &Running, options: &[&str]) -> (Comm, Output) {
        let output = self.perftax(&[&["-p", &running.pid().to_string(), "--json", "-", "-o", "/dev/null"], options].concat());
        let comm = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        (comm, output)
    }
}

impl Running {
    /// Waits until it has so many threads.
    fn with_threads(self, threads: usize) -> Self {
        let began = Instant::now();
        while std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().count() < threads {
            assert!(began.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(5));
        }
        self
    }
}

/// Descriptors that a process has.
fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Waits until perftax has events open, and no more of them come.
fn wait_for_events(watching: &Child) {
    let began = Instant::now();
    let (mut before, mut same) = (0, 0);
    // Three streams, and whatever else a program has; the events of two threads are more.
    while same < 10 {
        let now = descriptors(watching.id());
        same = if now == before && now > 12 { same + 1 } else { 0 };
        before = now;
        assert!(began.elapsed() < Duration::from_secs(30), "{now} descriptors");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The functions that touch a line, without where in them.
fn functions(comm: &Comm, line: usize) -> Vec<&str> {
    let sites = comm.lines[line].sites.iter();
    let mut names: Vec<&str> = sites.map(|site| site.function.split(['+', ' ']).next().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn seen(comm: &Comm) -> (u64, f64, f64) {
    (comm.total.evidence, comm.total.true_sharing.estimate, comm.total.false_sharing.estimate)
}

#[test]
fn counters_side_by_side_are_falsely_shared() {
    let place = Place::new(&[]);
    let (comm, code) = place.watch(&["--watch", "counters"], &["false", "150"]);
    assert_eq!(code, Some(0));
    // The token goes from one to the other and back 150 times: each hand-over but the first finds the line stale.
    assert_eq!(seen(&comm), (299, 0.0, 299.0), "{:?}", comm.origin.warnings);
    assert_eq!((comm.evidence.traps, comm.evidence.undecoded, comm.evidence.lost_traps), (600, 0, 0));
    assert_eq!(comm.lines.len(), 1);
    let line = &comm.lines[0];
    assert_eq!(functions(&comm, 0), ["bump_first", "bump_second"]);
    // Each access is named with its line of the source.
    let source = include_str!("sharing.c");
    for mark in ["FIRST", "SECOND"] {
        let number = source.lines().position(|line| line.contains(&format!("/* {mark} */"))).unwrap() + 1;
        let is_there = |site: &CommSite| site.source.as_deref().is_some_and(|at| at.ends_with(&format!("sharing.c:{number}")));
        assert!(line.sites.iter().any(is_there), "{mark} at line {number}: {:?}", line.sites);
    }
    assert_eq!((line.advice, line.address % 64), (CommAdvice::Pad, 0));
    for site in &line.sites {
        let (offset, thread) = if site.function.starts_with("bump_first") { (0, 0) } else { (8, 1) };
        assert_eq!((site.offset, site.bytes, &site.threads[..], site.seen), (offset, 8, &[thread][..], 150), "{site:?}");
    }
    assert_eq!(line.sites.iter().filter(|site| site.is_store).count(), 2);
    let names: Vec<&str> = comm.threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!(names, ["worker-0", "worker-1"]);
    let pairs: Vec<_> = comm.pairs.iter().map(|pair| (pair.from, pair.to, pair.share.evidence)).collect();
    assert_eq!(pairs, [(0, 1, 150), (1, 0, 149)]);
    assert!(matches!(comm.way, CommWay::Watched { watchpoints: 2, .. }), "{:?}", comm.way);
    let cost = comm.cost.unwrap();
    assert!(cost.armed > 0.9 && cost.budget.is_none() && cost.trap_ns.is_some(), "{cost:?}");
}

#[test]
fn values_that_are_asked_for_go_to_stdout() {
    let place = Place::new(&[]);
    let program = place.program.to_str().unwrap();
    let output = place.perftax(&["--watch", "counters", "-x", ";", "--", program, "false", "20"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let values = stdout.strip_prefix("done\n").expect("what the program says comes first");
    let rows: Vec<Vec<&str>> = values.lines().map(|line| line.split(';').collect()).collect();
    assert_eq!(rows.len(), 3, "a header and two pairs: {stdout}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len() && row.len() > 5), "{stdout}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("counters"), "the text was not asked for: {stderr}");
}

#[test]
fn one_lock_is_truly_shared() {
    let place = Place::new(&[]);
    let (comm, code) = place.watch(&["--watch", "one_lock", "--watch", "counters"], &["true", "150"]);
    assert_eq!((code, seen(&comm)), (Some(0), (299, 299.0, 0.0)));
    assert_eq!((functions(&comm, 0), comm.lines[0].advice), (vec!["take_lock"], CommAdvice::Move));
}

#[test]
fn two_hundred_threads_are_all_watched() {
    let place = Place::new(&[]);
    let (comm, code) = place.watch(&["--watch", "counters"], &["false", "2", "200"]);
    assert_eq!((code, comm.threads.len(), comm.evidence.unwatched_threads), (Some(0), 200, 0));
    assert_eq!((comm.total.evidence, comm.evidence.traps), (399, 800));
    let mut names: Vec<&str> = comm.threads.iter().map(|thread| thread.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 200);
    // They run already, and are joined one by one.
    let running = place.running(&["false", "1000000000", "200"]).with_threads(201);
    let (comm, output) = place.attach(&running, &["--watch", "counters", "--time", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(comm.threads.len() >= 2 && comm.evidence.unwatched_threads == 0, "{:?}", comm.evidence);
}

#[test]
fn children_have_memory_of_their_own_and_other_programs_are_not_meant() {
    let place = Place::new(&[]);
    let (comm, code) = place.watch(&["--watch", "one_lock"], &["fork", "100"]);
    assert_eq!((code, comm.evidence.traps, comm.total.evidence), (Some(0), 400, 0));
    let processes: Vec<_> = comm.threads.iter().map(|thread| thread.process).collect();
    assert!(processes.len() == 2 && processes[0] != processes[1], "{processes:?}");
    let warned = comm.origin.warnings.iter().any(|warning| warning.to_string().contains("executed another program"));
    assert!(warned, "{:?}", comm.origin.warnings);
}

#[test]
fn what_the_program_does_to_end_is_passed_on() {
    let place = Place::new(&[]);
    // The last: the first thread ends before those that it created.
    for (how, ends_with) in [("killed", 128 + 9), ("seven", 7), ("leave", 0)] {
        let (comm, code) = place.watch(&["--watch", "counters"], &[how, "50"]);
        // Every load and store of both threads; whose turn it was is another test's question.
        assert_eq!((code, comm.evidence.traps), (Some(ends_with), 200), "{how}: {:?} {:?}", comm.total, comm.origin.warnings);
    }
}

#[test]
fn more_places_than_registers_take_turns() {
    let place = Place::new(&[]);
    // Eight lines of two words: two lines fit four registers at once.
    let places: Vec<String> = (0..8).map(|line| format!("lines+{}/16", 64 * line)).collect();
    let options: Vec<&str> = places.iter().flat_map(|place| ["--watch", place]).collect();
    let running = place.running(&["lines", "1000000000"]).with_threads(3);
    let (comm, output) = place.attach(&running, &[&options[..], &["--time", "2"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(comm.lines.len(), 8);
    for line in &comm.lines {
        assert_eq!(line.advice, CommAdvice::Pad, "{line:?}");
        // Each was on for about a quarter of the time.
        let share = line.share.evidence as f64 / line.share.total.estimate;
        assert!((0.1..0.5).contains(&share), "{share} {line:?}");
        assert!(line.share.total.low < line.share.total.high && line.share.true_sharing.estimate == 0.0, "{:?}", line.share);
    }
    assert!(matches!(comm.way, CommWay::Watched { watchpoints: 4, .. }));
    assert!(comm.cost.unwrap().armed > 0.5, "{:?}", comm.cost);
}

#[test]
fn a_budget_is_kept() {
    let place = Place::new(&[]);
    let running = place.running(&["false", "1000000000"]).with_threads(3);
    let (comm, output) = place.attach(&running, &["--watch", "counters", "--budget", "5%", "--time", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let cost = comm.cost.unwrap();
    let overhead = cost.overhead.unwrap();
    assert!(cost.budget == Some(0.05) && overhead.estimate < 0.2 && overhead.low <= overhead.high, "{cost:?}");
    assert!((0.0..0.5).contains(&cost.armed), "{cost:?}");
    // How much a slice sees is how much of it the machine lets the program have; where traps take microseconds there may be no slice within the budget.
    if cost.armed > 0.0 {
        assert!(comm.total.evidence > 0 && comm.total.false_sharing.estimate > comm.total.evidence as f64, "{:?}", comm.total);
        assert_eq!(comm.lines[0].advice, CommAdvice::Pad);
    } else {
        assert!(cost.trap_ns.unwrap().estimate > 2000.0, "{cost:?}");
    }
}

/// Who says nothing of a budget has one, and is told before the program starts.
#[test]
fn a_tenth_of_the_programs_time_is_the_budget_by_default() {
    let place = Place::new(&[]);
    let running = place.running(&["false", "1000000000"]).with_threads(3);
    let watch = |time_s: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
        command.args(["comm", "--watch", "counters", "--time", time_s, "--json", "-", "-o", "/dev/null", "-p"]);
        command
            .arg(running.pid().to_string())
            .env("XDG_DATA_HOME", place.folder.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let comm: Comm = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        (comm, output)
    };
    // A program that others keep from running has no share to give for a while.
    let mut watched = watch("2");
    for time_s in ["8", "30"] {
        if watched.0.total.evidence == 0 {
            watched = watch(time_s);
        }
    }
    let (comm, output) = watched;
    let cost = comm.cost.unwrap();
    assert!(cost.budget == Some(0.1) && cost.overhead.unwrap().estimate < 0.3 && cost.armed < 0.6, "{cost:?}");
    let announced = said(&output);
    assert!(announced.contains("at most 10 % of the program's CPU time") && announced.contains("a trap costs"), "{announced}");
    // The pair is found all the same, by what its slices hold.
    assert!(comm.total.false_sharing.estimate > 0.0 && comm.lines[0].name.starts_with("counters"), "{comm:?}");
    assert_eq!(comm.lines[0].advice, CommAdvice::Pad);
    for refused in ["0", "60%", "all"] {
        let output = place.perftax(&["--budget", refused, "--watch", "counters", "--", "true"]);
        assert!(output.status.code() == Some(2) && said(&output).contains("0.01% to 50%, or none"), "{}", said(&output));
    }
}

/// A process that runs is joined, left alone, joined again by what was found first, and killed while it is watched.
#[test]
fn a_process_is_joined_and_left() {
    let place = Place::new(&[]);
    let mut running = place.running(&["false", "1000000000"]).with_threads(3);
    let (comm, output) = place.attach(&running, &["--watch", "counters", "--time", "0.5"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(comm.total.evidence > 10 && comm.total.true_sharing.estimate == 0.0, "{:?}", comm.total);
    assert!(comm.program[0].ends_with("sharing") && comm.program.last().unwrap().starts_with("(process"));
    let ended = running.0.try_wait().unwrap();
    assert!(ended.is_none(), "{ended:?}");
    let first = place.folder.path().join("first.json");
    std::fs::write(&first, &output.stdout).unwrap();
    let lines = place.folder.path().join("lines.txt");
    std::fs::write(&lines, format!("# the line\n{:#x} 12 %\n0x10 nowhere\n", comm.lines[0].address)).unwrap();
    for (file, absent) in [(first, false), (lines, true)] {
        let (again, output) = place.attach(&running, &["--lines-from", file.to_str().unwrap(), "--time", "0.5"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let is_said =
            again.origin.warnings.iter().any(|warning| warning.to_string().contains("--lines-from that are not watched: 1 "));
        assert_eq!(is_said, absent, "{:?}", again.origin.warnings);
        assert!(again.lines[0].address == comm.lines[0].address && again.total.evidence > 0, "{:?}", again.total);
    }
    // Killed: what was seen until then is shown.
    let watching = place.command(&["-p", &running.pid().to_string(), "--watch", "counters", "--json", "-", "-o", "/dev/null"]);
    let watching = { watching }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_events(&watching);
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    let output = watching.wait_with_output().unwrap();
    let comm: Comm = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    assert!(output.status.code() == Some(0) && comm.elapsed_s < 30.0, "{}", said(&output));
    let gone = place.perftax(&["-p", &running.pid().to_string(), "--watch", "counters"]);
    assert!(gone.status.code() == Some(2) && said(&gone).contains("-p is"), "{}", said(&gone));
}

#[test]
fn a_command_goes_on_when_its_time_is_over() {
    let place = Place::new(&[]);
    let (comm, code) = place.watch(&["--watch", "counters", "--time", "0.02"], &["seven", "2000"]);
    assert_eq!(code, Some(7));
    assert!(comm.elapsed_s < 5.0 && comm.evidence.traps < 8000, "{} {:?}", comm.elapsed_s, comm.evidence);
}

/// Descriptors that perftax has while it watches do not grow with what the program creates.
#[test]
fn threads_that_are_created_take_no_descriptors() {
    let place = Place::new(&[]);
    let program = place.program.to_str().unwrap();
    let mut most = Vec::new();
    for threads in ["2", "300"] {
        let mut watching = place.command(&["--watch", "counters", "-o", "/dev/null", "--", program, "false", "3", threads]);
        let mut watching = watching.stdout(Stdio::null()).spawn().unwrap();
        let mut of_run = 0;
        while watching.try_wait().unwrap().is_none() {
            of_run = of_run.max(descriptors(watching.id()));
            std::thread::sleep(Duration::from_millis(1));
        }
        most.push(of_run);
    }
    assert!(most[0] > 5 && most[1] <= most[0] + 4, "{most:?}");
}

#[test]
fn too_few_descriptors_and_registers_are_said() {
    let place = Place::new(&[]);
    let running = place.running(&["false", "1000000000", "40"]).with_threads(41);
    let perftax = env!("CARGO_BIN_EXE_perftax");
    let script = format!("ulimit -n 60; exec {perftax} comm --watch counters -p {} --time 1", running.pid());
    let few = Command::new("sh").args(["-c", &script]).env("XDG_DATA_HOME", place.folder.path()).output().unwrap();
    assert_eq!(few.status.code(), Some(3), "{}", said(&few));
    assert!(said(&few).contains("ulimit -n") && said(&few).contains("is 60"), "{}", said(&few));
    // Somebody else has three of the four registers.
    let mut other =
        place.command(&["--watch", "one_lock", "--watch", "counters", "-p", &running.pid().to_string(), "--time", "20"]);
    let mut other = other.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_events(&other);
    let taken = place.perftax(&["--watch", "one_lock", "--watch", "counters", "-p", &running.pid().to_string(), "--time", "0"]);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(taken.status.code(), Some(3), "{}", said(&taken));
    assert!(said(&taken).contains("debug registers are taken") && said(&taken).contains("--watchpoints"), "{}", said(&taken));
}

#[test]
fn wrong_arguments_are_said() {
    let place = Place::new(&[]);
    let program = place.program.to_str().unwrap();
    let absent = place.folder.path().join("absent");
    std::fs::write(&absent, "0x10\n0x1010\n").unwrap();
    let wrong: [(&[&str], i32, &str); 14] = [
        (&["--watch", "counters", "--json", "-", "-x", ",", "--", program], 2, "stdout is wanted by --json - and -x"),
        (&["--watch", "counters", "-c", "1009", "--", program], 2, "cannot be used with"),
        (&["--watch", "conters", "--", program], 2, "nearest: counters"),
        (&["--watch", "counters", "--", "env", program], 2, "name the program itself"),
        (&["--watch", "own", "--", program], 2, "thread-local"),
        (&["--watch", "counters/0", "--", program], 2, "behind the /"),
        (&["--watch", "0x10/8", "--", program], 2, "mapped"),
        (&["--watch", "0xffffffff81000000", "--", program], 2, "kernel"),
        (&["--watch", "counters", "--watchpoints", "5", "--", program], 2, "1..=4"),
        (&["--watch", "counters", "--budget", "90%", "--", program], 2, "0.01% to 50%"),
        (&["--watch", "counters", "-m", "9", "--", program], 2, "a power of two"),
        (&["--watch", "counters", "--", "/no/such/program"], 127, "/no/such/program"),
        (&["--lines-from", "/etc/hostname", "--", program], 2, "at the beginning of each line"),
        (&["--lines-from", absent.to_str().unwrap(), "--", program], 2, "--lines-from is 2 addresses, needs some that"),
    ];
    for (arguments, code, message) in wrong {
        let output = place.perftax(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(message), "{arguments:?}: {}", said(&output));
        assert!(output.stdout.is_empty(), "the program ran: {arguments:?}");
    }
}

/// Without a place lines are sampled, where loads and stores can be: elsewhere that is said, with what does without.
#[test]
fn who_names_no_place_needs_samples() {
    let place = Place::new(&[]);
    let output = place.perftax(&["--", place.program.to_str().unwrap(), "false", "3"]);
    let has_pmu = std::path::Path::new("/sys/bus/event_source/devices/cpu").exists();
    if has_pmu && output.status.success() {
        assert!(said(&output).contains("samples"), "{}", said(&output));
    } else {
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        assert!(said(&output).contains("perftax comm --watch SYMBOL"), "{}", said(&output));
        assert!(output.stdout.is_empty(), "the program ran");
    }
}
