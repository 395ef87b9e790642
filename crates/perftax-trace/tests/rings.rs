//! Rings that real programs write, and that broken ones do.

#![allow(clippy::unwrap_used)] // tests may

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use perftax_trace::{Anchors, Kind, Mark, MarkFolder, Message, Record, Tracker};

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
            .drain(|owner, counter, id, kind| {
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

fn written(folder: &Path, name: &str, words: &[(u64, u64)], bytes: u64) {
    let file = std::fs::File::create(folder.join(name)).unwrap();
    file.set_len(bytes).unwrap();
    for (at, word) in words {
        file.write_all_at(&word.to_le_bytes(), *at).unwrap();
    }
}

#[test]
fn what_is_no_ring_is_left_alone_and_said() {
    const MAGIC: u64 = 0x314b_5241_4d58_5450;
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
    written(path, "other", &[], 10);
    let mut rings = MarkFolder::new(path);
    let mut seen = Vec::new();
    for _ in 0..2 {
        rings.drain(|owner, counter, id, kind| seen.push((owner.pid, owner.tid, counter, id, kind))).unwrap();
    }
    assert_eq!(seen, [(5, 7, 9, 3, Kind::Begin)]);
    let broken: Vec<&str> = rings.broken().collect();
    assert_eq!(broken.len(), 3, "{broken:?}");
    assert!(broken[2].contains("65 marks wait in a ring of 64"), "{broken:?}");
    assert!(MarkFolder::new("/nonexistent").drain(|_, _, _, _| ()).is_err());
}
