//! `perftax comm --heap` on this machine, by real probes and debug registers: lines of the heap are named by who allocated them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use perftax_doc::{Comm, CommObject};

use crate::common::said;
use crate::sharing::Place;

impl Place {
    /// A run of the program under perftax.
    fn run(&self, options: &[&str], program: &[&str]) -> Output {
        let arguments = [options, &["--", self.program.to_str().unwrap()], program].concat();
        self.command(&arguments).output().unwrap()
    }

    /// Its document.
    fn watch_heap(&self, options: &[&str], program: &[&str]) -> Comm {
        let document = self.folder.path().join("comm.json");
        let output = self.run(&[options, &["--json", document.to_str().unwrap()]].concat(), program);
        let text = std::fs::read_to_string(&document).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        serde_json::from_str(&text).unwrap()
    }
}

/// The line of the source that has a mark.
fn line_of(mark: &str) -> usize {
    let source = include_str!("sharing.c");
    source.lines().position(|line| line.contains(&format!("/* {mark} */"))).unwrap() + 1
}

/// Whether an object was allocated where the program allocates what its threads share.
fn assert_is_made(object: &CommObject) {
    let frames: Vec<&str> = object.allocated_at.iter().map(|frame| frame.split(" (").next().unwrap()).collect();
    assert_eq!(frames, ["make_pairs", "make_all", "main"], "{object:?}");
    for (frame, mark) in object.allocated_at.iter().zip(["MADE", "CALLED"]) {
        assert!(frame.ends_with(&format!("sharing.c:{})", line_of(mark))), "{frame} is not at {mark}");
    }
    assert_eq!((object.bytes, object.times, object.is_sure), (4096, 1, true), "{object:?}");
}

/// Nothing of ours is left in the kernel.
fn assert_no_probes() {
    let probes = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap();
    assert!(!probes.contains("/heap_"), "{probes}");
}

#[test]
fn a_line_of_the_heap_is_named_by_who_allocated_it() {
    let place = Place::new(&[]);
    let mut program = Command::new(&place.program).args(["heap", "150"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let address = u64::from_str_radix(address.trim().strip_prefix("0x").unwrap(), 16).unwrap();
    let document = place.folder.path().join("comm.json");
    let (pid, watched) = (program.id().to_string(), format!("{address:#x}/16"));
    let options = ["--heap", "--watch", &watched, "-p", &pid, "--json", document.to_str().unwrap(), "-o", "/dev/null"];
    let mut perftax = place.command(&options).spawn().unwrap();
    wait_for_events(perftax.id());
    assert!(Command::new("kill").args(["-CONT", &pid]).status().unwrap().success());
    assert!(program.wait().unwrap().success());
    assert!(perftax.wait().unwrap().success());
    let comm: Comm = serde_json::from_str(&std::fs::read_to_string(&document).unwrap()).unwrap();
    let [line] = &comm.lines[..] else { panic!("{:?}", comm.lines) };
    let [object] = &line.objects[..] else { panic!("{:?}", line.objects) };
    assert_is_made(object);
    assert_eq!(line.address.wrapping_add_signed(-object.offset), address - 64, "where the object begins");
    assert_eq!((&line.name, &line.allocated_at), (&object.name(), &object.allocated_at));
    assert!(comm.total.evidence >= 299 && comm.evidence.lost_allocations == 0, "{:?}", comm.evidence);
    // The object, and what two threads need.
    assert!(comm.evidence.allocations >= 1 && comm.cost.unwrap().probes >= 2, "{:?} {:?}", comm.evidence, comm.cost);
    let warned = comm.origin.warnings.iter().any(|warning| warning.to_string().contains("before perftax came"));
    assert!(warned, "{:?}", comm.origin.warnings);
    assert_no_probes();
}

/// Waits until perftax has events open, and no more of them come.
fn wait_for_events(pid: u32) {
    let began = Instant::now();
    let (mut before, mut same) = (0, 0);
    while same < 10 {
        let now = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        same = if now == before && now > 30 { same + 1 } else { 0 };
        before = now;
        assert!(began.elapsed() < Duration::from_secs(60), "{now} descriptors");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_object_is_watched_once_it_is_there() {
    let place = Place::new(&[]);
    let comm = place.watch_heap(&["--watch", "heap:make_all#2+0x40/16"], &["late", "150"]);
    let [line] = &comm.lines[..] else { panic!("{:?} {:?}", comm.lines, comm.origin.warnings) };
    let [object] = &line.objects[..] else { panic!("{:?}", line.objects) };
    assert_is_made(object);
    assert_eq!(object.number, 2, "the second of these callers");
    assert!(line.name.starts_with("object #2 of 4096 bytes+0x"), "{}", line.name);
    // All hand-overs but what the first of them finds: armed before they began.
    assert_eq!((comm.total.evidence, comm.total.false_sharing.estimate), (299, 299.0), "{:?}", comm.origin.warnings);
    assert_no_probes();
}

#[test]
fn a_static_program_has_its_own_allocator() {
    let place = Place::new(&["-static"]);
    let comm = place.watch_heap(&["--watch", "heap:make_all+0x40/16"], &["late", "50"]);
    assert!(comm.lines.is_empty(), "the first object is not used: {:?}", comm.lines);
    let comm = place.watch_heap(&["--watch", "heap:make_pairs#2+0x40/16"], &["late", "50"]);
    assert_is_made(&comm.lines[0].objects[0]);
    let stripped = Place { program: place.folder.path().join("stripped"), ..place };
    let strip = Command::new("strip").arg(stripped.folder.path().join("sharing")).arg("-o").arg(&stripped.program).status();
    assert!(strip.unwrap().success());
    let output = stripped.run(&["--heap", "--watch", "0x400000"], &["late", "1"]);
    assert!(output.status.code() == Some(3) && said(&output).contains("malloc"), "{}", said(&output));
    assert_no_probes();
}

#[test]
fn what_is_not_there_is_said() {
    let place = Place::new(&[]);
    let output = place.run(&["--watch", "heap:make_pears"], &["late", "1"]);
    assert!(output.status.code() == Some(2) && said(&output).contains("nearest: make_pairs"), "{}", said(&output));
    let comm = place.watch_heap(&["--watch", "heap:make_pairs#7", "--watch", "counters"], &["false", "20"]);
    let warned = comm.origin.warnings.iter().any(|warning| warning.to_string().contains("heap:make_pairs#7 was never there"));
    assert!(warned && comm.total.evidence == 39, "{:?}", comm.origin.warnings);
    let many: Vec<String> = (0..5).map(|word| format!("--watch=heap:make_all+{}", word * 64)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let output = place.run(&many, &["late", "1"]);
    assert!(output.status.code() == Some(2) && said(&output).contains("take no turns"), "{}", said(&output));
    assert_no_probes();
}
