//! What programs write into their rings: read byte by byte, by the header's layout and nothing of ours.

#![allow(clippy::unwrap_used)] // tests may

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const BEGIN: u64 = 1;
const END: u64 = 2;
const SWITCH: u64 = 3;

/// A ring's file.
#[derive(Debug)]
struct Ring {
    pid: u32,
    tid: u32,
    dropped: u64,
    /// Whether marks come with counts (1), the thread was refused them (2, and errno), or nobody asked (0).
    counters: (u32, u32),
    marks: Vec<(u64, u64, u64)>,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn read(path: &Path) -> Ring {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"PTXMARK2");
    let (capacity, head, dropped) = (word(&bytes, 16), word(&bytes, 64), word(&bytes, 72));
    assert_eq!(bytes.len() as u64, 4096 + 16 * capacity);
    assert!(head <= capacity);
    let mark = |i: u64| {
        let at = 4096 + 16 * i as usize;
        (word(&bytes, at), word(&bytes, at + 8) >> 2, word(&bytes, at + 8) & 3)
    };
    let ids = word(&bytes, 8);
    let counters = (word(&bytes, 88) as u32, (word(&bytes, 88) >> 32) as u32);
    Ring { pid: ids as u32, tid: (ids >> 32) as u32, dropped, counters, marks: (0..head).map(mark).collect() }
}

fn rings(folder: &Path) -> Vec<Ring> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "marks"));
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn compiled(folder: &Path, compiler: &[&str]) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("marker");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]).arg(here.join("include"));
    command.arg("-o").arg(&program);
    command.args(["marker.c", "other.c"].map(|name| here.join("tests/programs").join(name)));
    assert!(command.status().unwrap().success(), "{compiler:?}");
    program
}

/// Runs the program with rings in a folder; what they hold, and whether it found that somebody listens.
fn run(arguments: &[&str], capacity: Option<&str>) -> (Vec<Ring>, String) {
    run_listening(arguments, capacity, false)
}

/// The same for a listener who wants counts with marks.
fn run_listening(arguments: &[&str], capacity: Option<&str>, wants_counters: bool) -> (Vec<Ring>, String) {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), &["gcc", "-std=gnu99"]);
    let marks = folder.path().join("marks");
    std::fs::create_dir(&marks).unwrap();
    if wants_counters {
        std::fs::write(marks.join("counters"), []).unwrap();
    }
    let mut command = Command::new(program);
    command.args(arguments).env("PERFTAX_MARKS", &marks).env_remove("PERFTAX_MARKS_CAPACITY");
    if let Some(capacity) = capacity {
        command.env("PERFTAX_MARKS_CAPACITY", capacity);
    }
    let output = command.output().unwrap();
    assert!(output.status.success());
    (rings(&marks), String::from_utf8(output.stdout).unwrap())
}

/// Every message of a thread: begun, left, taken up, ended, in this order and in order of time.
fn is_complete(ring: &Ring, first: u64, messages: u64) {
    let expected = (first..first + messages).flat_map(|id| [(id, BEGIN), (0, SWITCH), (id, SWITCH), (id, END)]);
    assert!(ring.marks.iter().map(|(_, id, kind)| (*id, *kind)).eq(expected), "{first}");
    assert!(ring.marks.is_sorted_by_key(|(counter, ..)| *counter));
    assert_eq!(ring.dropped, 0);
}

#[test]
fn each_thread_writes_a_ring_of_its_own() {
    let (rings, said) = run(&["4", "1000"], None);
    assert_eq!(said, "2\n");
    assert_eq!(rings.len(), 4);
    let by_first: BTreeMap<u64, &Ring> = rings.iter().map(|ring| (ring.marks[0].1, ring)).collect();
    for thread in 0..4 {
        is_complete(by_first[&(thread * 1_000_000 + 1)], thread * 1_000_000 + 1, 1000);
    }
    let tids: std::collections::BTreeSet<u32> = rings.iter().map(|ring| ring.tid).collect();
    assert_eq!(tids.len(), 4);
    assert!(rings.iter().all(|ring| ring.pid == rings[0].pid));
}

#[test]
fn a_child_writes_its_own_and_the_parent_goes_on() {
    let (rings, _) = run(&["1", "10", "fork"], None);
    assert_eq!(rings.len(), 2);
    let (child, parent) = if rings[0].marks[0].1 == 50_000_001 { (&rings[0], &rings[1]) } else { (&rings[1], &rings[0]) };
    is_complete(child, 50_000_001, 10);
    assert_ne!(child.pid, parent.pid);
    let ids: Vec<u64> = parent.marks.iter().map(|(_, id, _)| *id).filter(|id| *id != 0).collect();
    assert_eq!((ids[0], *ids.last().unwrap(), ids.len()), (1, 51_000_010, 60));
}

/// Where a thread has counters each mark comes behind what it has counted, at the same time; where it has none it says why. Both in a child, too.
#[test]
fn marks_come_with_counts_or_say_why_not() {
    let (rings, _) = run_listening(&["1", "10", "fork"], None, true);
    assert_eq!(rings.len(), 2);
    for ring in &rings {
        // Places of counts: none of the lower two bits, and 7 for what is said.
        let is_counts = |(_, id, kind): &(u64, u64, u64)| *kind == 0 && id & 0x3f == 7;
        let said = ring.marks.iter().filter(|place| is_counts(place)).count();
        match ring.counters {
            (1, 0) => {
                for of_mark in ring.marks.chunks(3) {
                    assert!(is_counts(&of_mark[0]) && of_mark[2].2 != 0 && of_mark[0].0 == of_mark[2].0, "{of_mark:?}");
                }
            }
            (2, errno) => assert!(errno != 0 && said == 0 && ring.marks.len() >= 40, "{ring:?}"),
            other => panic!("{other:?}"),
        }
    }
    let (rings, _) = run(&["1", "10"], None);
    assert_eq!(rings[0].counters, (0, 0), "nobody asked");
}

#[test]
fn a_full_ring_drops_and_counts() {
    let (rings, _) = run(&["1", "1000"], Some("128"));
    assert_eq!((rings[0].marks.len(), rings[0].dropped), (128, 4000 - 128));
    // What cannot be a size is the usual one.
    let (rings, _) = run(&["1", "1"], Some("100"));
    assert_eq!(rings[0].marks.len(), 4);
}

/// Places of 16 bytes: a counter and what is said, then what it is about.
#[test]
fn what_is_said_beyond_marks_takes_several_places() {
    let (rings, _) = run(&["1", "1", "says"], None);
    let places: Vec<(u64, u64)> = rings[0].marks.iter().map(|(counter, id, kind)| (*counter, id << 2 | kind)).collect();
    // Four marks of the message before.
    let mut said = Vec::new();
    let mut at = 4;
    while at < places.len() {
        let (counter, word) = places[at];
        assert!(word & 3 == 0 && counter > places[0].0);
        let more = (word >> 8 & 0xff) as usize;
        said.push((word >> 2 & 0x3f, word >> 16, &places[at + 1..at + 1 + more]));
        at += 1 + more;
    }
    let text = |places: &[(u64, u64)]| {
        let bytes = places.iter().flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat()).collect::<Vec<u8>>();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(
        (said[0].0, said[0].1, said[0].2[0], text(&said[0].2[1..])),
        (5, 18, (7, 0), format!("{:\0<32}", "GET /cart?of=eight"))
    );
    assert_eq!((said[1].0, said[1].1, said[1].2), (5, 0, &[(7, 0)][..]));
    assert_eq!((said[2].1, text(&said[2].2[1..])), (1024, "x".repeat(1024)));
    assert_eq!((said[3].0, said[3].2), (1, &[(7, 1 << 61)][..]));
    let identity = [(7, 0xf067_aa0b_a902_b700), (0x4bf9_2f35_77b3_4da6, 0xa3ce_929d_0e0e_4736)];
    assert_eq!((said[4].0, said[4].2), (4, &identity[..]));
    assert_eq!([said[5].0, said[6].0, said[7].0], [2, 3, 6]);
    assert_eq!((said[7].2, said.len()), (&[(9, 0)][..], 8));
    // All of it or nothing: of a text of 1024 bytes there is room for none.
    let (rings, _) = run(&["1", "1", "says"], Some("64"));
    assert_eq!((rings[0].dropped, rings[0].marks.len()), (1, places.len() - 66));
}

#[test]
fn nothing_happens_where_nobody_listens() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), &["gcc", "-std=gnu11"]);
    for marks in [None, Some(""), Some("/nonexistent/folder"), Some("/proc")] {
        let mut command = Command::new(&program);
        command.args(["2", "100", "fork"]).env_remove("PERFTAX_MARKS");
        if let Some(marks) = marks {
            command.env("PERFTAX_MARKS", marks);
        }
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"1\n"[..]), "{marks:?}");
    }
}

#[test]
fn the_header_is_cpp_too() {
    let folder = tempfile::tempdir().unwrap();
    compiled(folder.path(), &["g++", "-std=c++11", "-x", "c++"]);
}

/// From Rust, in a process of its own: the variable must be there before the first mark.
#[test]
fn rust_writes_the_same() {
    if std::env::var_os("PERFTAX_MARKS").is_some() {
        for id in 1..=10 {
            perftax_tag::begin(id);
            perftax_tag::switch(0);
            perftax_tag::switch(id);
            perftax_tag::end(id);
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "rust_writes_the_same", "--test-threads=1"])
        .env("PERFTAX_MARKS", folder.path())
        .status()
        .unwrap();
    assert!(status.success());
    let rings = rings(folder.path());
    assert_eq!(rings.len(), 1);
    is_complete(&rings[0], 1, 10);
}
