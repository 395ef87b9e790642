//! Rings that real programs write, and that broken ones do.

#![allow(clippy::unwrap_used)] // tests may

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use perftax_trace::{Anchors, Kind, Mark, MarkFolder, Message, Record, Saying, Statement, TraceIdentity, Tracker};

const MESSAGES: u64 = 50_000;

/// Marks while somebody reads: none is lost, and messages come out as they went in. Runs itself as the program that writes.
#[test]
fn a_program_is_read_while_it_writes() {
    if std::env::var_os("PERFTAX_MARKS").is_some() {
        let threads: Vec<_> = (0..2u64)
            .map(|thread| {
                std::thread::spawn(move || {
                    for i in 1..=MESSAGES {
                        let id = thread * MESSAGES + i;
                        perftax_tag::begin(id);
                        perftax_tag::end(id);
                        // As fast as a reader can follow: without room marks are dropped, which is another test.
                        if i % 1000 == 0 {
                            std::thread::sleep(std::time::Duration::from_millis(2));
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_program_is_read_while_it_writes", "--test-threads=1"])
        .env("PERFTAX_MARKS", folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut marks = Vec::new();
    let mut rings = MarkFolder::new(folder.path());
    // A clock whose nanoseconds are the counter's ticks.
    let mut clock = Anchors::default();
    clock.push(1, 1);
    clock.push(u64::MAX / 2, u64::MAX / 2);
    let mut ended = false;
    loop {
        rings
            .drain(|owner, counter, statement| {
                let Statement::Mark(id, kind) = statement else { return };
                marks.push(Mark { time_ns: clock.time_ns(counter).unwrap(), tid: owner.tid, id, kind });
            })
            .unwrap();
        if ended {
            break;
        }
        ended = child.try_wait().unwrap().is_some();
    }
    assert_eq!((rings.rings(), rings.dropped(), rings.broken().count()), (2, 0, 0));
    assert_eq!(marks.len() as u64, 4 * MESSAGES);
    marks.sort_by_key(|mark| mark.time_ns);
    let mut tracker = Tracker::default();
    let mut messages = Vec::new();
    let mut out = |message: &Message| messages.push(message.clone());
    marks.into_iter().for_each(|mark| tracker.take(&Record::Mark(mark), &mut out));
    tracker.finish(&mut out);
    assert_eq!(messages.len() as u64, 2 * MESSAGES);
    assert_eq!(tracker.trouble, Default::default());
    assert!(messages.iter().all(|message| message.latency_ns().is_some()));
    let mut ids: Vec<u64> = messages.iter().map(|message| message.id).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(1..=2 * MESSAGES));
}

/// What a ring says beyond marks: what does not fit, or is not known, is left out, and what follows it is read.
#[test]
fn sayings_are_read_and_odd_ones_left_out() {
    const MAGIC: u64 = u64::from_le_bytes(*b"PTXMARK2");
    let folder = tempfile::tempdir().unwrap();
    let says = |what: u64, more: u64, number: u64| number << 16 | more << 8 | what << 2;
    let text = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let places = [
        (10, says(1, 1, 0)),
        (5, 6),
        (11, says(5, 2, 9)),
        (5, 0),
        (text(b"GET /car"), text(b"t\xff\xff\xff\xff\xff\xff\xff")),
        // Of no kind that is known; a text longer than its places; one with a place too many.
        (12, says(60, 2, 0)),
        (1 << 2 | 1, 1 << 2 | 1),
        (1 << 2 | 1, 1 << 2 | 1),
        (13, says(5, 2, 17)),
        (5, 0),
        (0, 0),
        (14, says(1, 2, 0)),
        (5, 6),
        (7, 8),
        (15, says(4, 2, 0)),
        (5, 3),
        (1, 2),
        (16, 5 << 2 | 2),
        // Longer than what was written.
        (17, says(6, 200, 0)),
        (5, 0),
    ];
    let words: Vec<(u64, u64)> =
        places.iter().zip((4096..).step_by(16)).flat_map(|((a, b), at)| [(at, *a), (at + 8, *b)]).collect();
    let header = [(0, MAGIC), (8, 7 << 32 | 5), (16, 64), (64, places.len() as u64)];
    written(folder.path(), "1.1.a.marks", &[&header[..], &words].concat(), 4096 + 64 * 16);
    let mut seen = Vec::new();
    let mut rings = MarkFolder::new(folder.path());
    rings.drain(|_, counter, statement| seen.push((counter, statement))).unwrap();
    let identity = TraceIdentity { trace: 1 << 64 | 2, span: 3 };
    let expected = [
        (10, Statement::Of(Saying::Child { id: 5, parent: 6 })),
        (11, Statement::Of(Saying::Name { id: 5, text: "GET /cart".into() })),
        (15, Statement::Of(Saying::Identity { id: 5, identity })),
        (16, Statement::Mark(5, Kind::End)),
    ];
    assert_eq!(seen, expected);
    assert_eq!(rings.broken().count(), 0);
}

fn written(folder: &Path, name: &str, words: &[(u64, u64)], bytes: u64) {
    let file = std::fs::File::create(folder.join(name)).unwrap();
    file.set_len(bytes).unwrap();
    for (at, word) in words {
        file.write_all_at(&word.to_le_bytes(), *at).unwrap();
    }
}

#[test]
fn what_is_no_ring_is_left_alone_and_said() {
    const MAGIC: u64 = u64::from_le_bytes(*b"PTXMARK1");
    const NEWER: u64 = u64::from_le_bytes(*b"PTXMARK3");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    written(
        path,
        "1.1.good.marks",
        &[(0, MAGIC), (8, 7 << 32 | 5), (16, 64), (64, 1), (4096, 9), (4104, 3 << 2 | 1)],
        4096 + 64 * 16,
    );
    written(path, "2.1.half.marks", &[], 4096 + 64 * 16);
    written(path, "3.1.short.marks", &[(0, MAGIC), (16, 64)], 4096 + 63 * 16);
    written(path, "4.1.vast.marks", &[(0, MAGIC), (16, 1 << 60)], 4096 + 64 * 16);
    written(path, "5.1.ahead.marks", &[(0, MAGIC), (16, 64), (64, 65)], 4096 + 64 * 16);
    written(path, "6.1.empty.marks", &[], 0);
    written(path, "7.1.newer.marks", &[(0, NEWER), (16, 64)], 4096 + 64 * 16);
    written(path, "other", &[], 10);
    let mut rings = MarkFolder::new(path);
    let mut seen = Vec::new();
    for _ in 0..2 {
        rings.drain(|owner, counter, statement| seen.push((owner.pid, owner.tid, counter, statement))).unwrap();
    }
    assert_eq!(seen, [(5, 7, 9, Statement::Mark(3, Kind::Begin))]);
    let broken: Vec<&str> = rings.broken().collect();
    assert_eq!(broken.len(), 4, "{broken:?}");
    assert!(broken[3].contains("version 3 of perftax_tag.h, of which this perftax knows 1 and 2"), "{broken:?}");
    assert!(broken[2].contains("65 marks wait in a ring of 64"), "{broken:?}");
    assert!(MarkFolder::new("/nonexistent").drain(|_, _, _| ()).is_err());
}
