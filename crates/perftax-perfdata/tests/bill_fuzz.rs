//! Bytes from anywhere never make the reader panic, hang or allocate more than they are.

#![allow(clippy::unwrap_used)] // tests may

use std::path::PathBuf;
use std::sync::Once;
use std::time::{Duration, Instant};

use bolero::check;
use perftax_doc::Origin;
use perftax_perfdata::bill;
use perftax_perfdata::lint::{Limits, lint_stream, rules};
use perftax_perfdata::recording::Recording;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Address space of the whole test process. A reader that believed a damaged length would ask for more and be killed.
const MAX_ADDRESS_SPACE_BYTES: u64 = 4 << 30;
/// One input may take this long: far above what any needs, far below a hang.
const MAX_TIME: Duration = Duration::from_secs(20);

fn limit_memory() {
    static ONCE: Once = Once::new();
    let limit = Rlimit { current: Some(MAX_ADDRESS_SPACE_BYTES), maximum: Some(MAX_ADDRESS_SPACE_BYTES) };
    ONCE.call_once(|| setrlimit(Resource::As, limit).unwrap());
}

fn origin(kind: &str) -> Origin {
    Origin {
        schema: 1,
        kind: kind.into(),
        perftax: String::new(),
        machine: Default::default(),
        kernel: String::new(),
        taken_at_s: 0.0,
        command: Vec::new(),
        warnings: Vec::new(),
    }
}

fn read(bytes: &[u8]) {
    let begin = Instant::now();
    if let Ok(recording) = Recording::read(bytes, "fuzzed") {
        let samples: u64 = recording.events.iter().map(|e| e.samples).sum();
        let compressed = recording.counts.records.contains_key(&81) || recording.counts.records.contains_key(&83);
        assert!(compressed || samples <= bytes.len() as u64 / 8, "{samples} samples in {} bytes", bytes.len());
        let bill = bill::bill(&recording, None, origin("bill"));
        serde_json::to_string(&bill).unwrap();
        let lint = lint_stream(bytes, "fuzzed", &Limits::default(), None, origin("lint")).unwrap();
        assert_eq!(lint.checks.len(), rules().len());
        serde_json::to_string(&lint).unwrap();
    }
    assert!(begin.elapsed() < MAX_TIME, "{} bytes took {:?}", bytes.len(), begin.elapsed());
}

/// Any bytes; most are foreign after eight.
#[test]
fn fuzz_perf_data() {
    limit_memory();
    check!().with_iterations(20_000).for_each(|bytes: &[u8]| read(bytes));
}

/// Any bytes behind a believable head: a pipe's records.
#[test]
fn fuzz_perf_data_of_a_pipe() {
    limit_memory();
    check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        for magic in [*b"PERFILE2", *b"2ELIFREP"] {
            let size = if magic[0] == b'P' { 16u64.to_le_bytes() } else { 16u64.to_be_bytes() };
            read(&[&magic[..], &size, bytes].concat());
        }
    });
}

/// Real recordings with a few bytes changed, a piece cut out or doubled.
#[test]
fn fuzz_perf_data_mutated() {
    limit_memory();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recordings");
    let names = [
        "cpu-clock.data",
        "several.data",
        "piped.data",
        "piped-tracepoint.data",
        "compressed.data",
        "lost.data",
        "two-layouts.data",
    ];
    let seeds: Vec<Vec<u8>> = names.iter().map(|name| std::fs::read(folder.join(name)).unwrap()).collect();
    check!().with_iterations(20_000).with_type::<(u8, Vec<(u8, u16, u64)>)>().for_each(|(seed, changes)| {
        let mut bytes = seeds[usize::from(*seed) % seeds.len()].clone();
        for &(how, at, value) in changes.iter().take(8) {
            if bytes.is_empty() {
                break;
            }
            // Half of the changes fall into the head, where the lengths are.
            let at = usize::from(at) % if how & 1 == 0 { bytes.len() } else { bytes.len().min(700) };
            match how >> 1 & 3 {
                0 => bytes[at] = value as u8,
                1 => {
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
                }
                2 => bytes.truncate(at),
                _ => {
                    let end = (at + (value % 512) as usize).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        read(&bytes);
    });
}

/// Lengths that no file can have: refused or cut short, never believed.
#[test]
fn absurd_lengths() {
    limit_memory();
    let seed = std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recordings/several.data")).unwrap();
    for word in (8..104).step_by(8) {
        for value in [0, 1, 103, 1 << 20, 1 << 26, 1 << 40, u64::MAX / 2, u64::MAX - 7, u64::MAX] {
            let mut bytes = seed.clone();
            bytes[word..word + 8].copy_from_slice(&value.to_le_bytes());
            read(&bytes);
        }
    }
}
