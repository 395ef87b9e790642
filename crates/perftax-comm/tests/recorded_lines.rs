//! Lines to be watched, taken from a recording by `perf c2c record` in the emulated machine: `-c 61`, of `sharing read-write 0.5 4 20000`
//! (crates/perftax-lab/workloads/sharing.c, linked statically). `perf c2c report` of it lists the lines 0x587c80 and 0x587d40 with 2 HITM loads each and 0x4bd400
//! with one, beside the kernel's.

#![allow(clippy::unwrap_used)] // tests may

use std::path::{Path, PathBuf};

use perftax_comm::live::{At, RecordedLines, recorded_lines};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../perftax-perfdata/tests/fixtures/recordings").join(name)
}

fn lines(recorded: &RecordedLines) -> Vec<u64> {
    let line = |at: &At| if let At::Address(address) = at { address / 64 * 64 } else { panic!("{at:?}") };
    let mut lines: Vec<u64> = recorded.places.iter().map(|place| line(&place.at)).collect();
    lines.dedup();
    lines
}

#[test]
fn lines_are_those_that_perf_lists() {
    let recorded = recorded_lines(&fixture("c2c.data"), None).unwrap();
    assert_eq!(lines(&recorded), [0x58_7c80, 0x58_7d40, 0x4b_d400]);
    assert_eq!((recorded.lines, recorded.lines_left_out, recorded.fetches, recorded.fetches_of_others), (3, 0, 5, 0));
    assert!(recorded.places.iter().all(|place| place.bytes == Some(8)), "{recorded:?}");
    // One that is not in there is nobody: whose lines they are is said.
    assert_eq!(recorded_lines(&fixture("c2c.data"), Some(1)).unwrap(), recorded);
    assert_eq!(recorded_lines(&fixture("c2c.data"), Some(recorded.process)).unwrap(), recorded);
}

#[test]
fn what_tells_no_lines_is_refused() {
    let refused = |path: &Path| {
        let error = recorded_lines(path, None).unwrap_err();
        assert!(matches!(error, perftax_pmu::Error::Argument { .. }), "{error:?}");
        error.to_string()
    };
    let error = refused(&fixture("cpu-clock.data"));
    assert!(error.contains("'lines from'") && error.contains("cpu-clock.data") && error.contains("perf c2c record"), "{error}");
    // Cut off before its first sample.
    assert!(refused(cut(1000).path()).contains("0 samples"));
}

#[test]
fn one_that_ends_early_says_so() {
    let recorded = recorded_lines(cut(3000).path(), None).unwrap();
    assert!(recorded.fetches < 5 && recorded.cut.as_ref().is_some_and(|cut| cut.contains("byte")), "{recorded:?}");
}

/// The recording's first bytes.
fn cut(bytes: usize) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &std::fs::read(fixture("c2c.data")).unwrap()[..bytes]).unwrap();
    file
}
