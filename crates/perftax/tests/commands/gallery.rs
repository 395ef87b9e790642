//! docs/gallery: each fixed recording has its words, and is rendered by today's perftax.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use crate::links::root;

const ENDS: [&str; 2] = [".json.gz", ".trace.tar.gz"];

fn folder() -> PathBuf {
    root().join("docs/gallery")
}

fn is_recording(name: &str) -> bool {
    ENDS.iter().any(|end| name.ends_with(end))
}

fn recordings() -> BTreeSet<String> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    files.filter(|name| name != "README.md").collect()
}

#[test]
fn every_recording_is_named_once_and_every_name_is_a_recording() {
    let text = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let linked = || text.split("[the page](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(name, _)| name);
    let named: BTreeSet<String> = linked().map(str::to_string).collect();
    assert_eq!(linked().count(), named.len(), "a recording has two pages");
    assert_eq!(named, recordings());
    let other: Vec<String> = recordings().into_iter().filter(|name| !is_recording(name)).collect();
    assert!(other.is_empty(), "neither of {ENDS:?}: {other:?}");
}

/// What a clone carries for them.
#[test]
fn recordings_are_small() {
    let sizes: Vec<(String, u64)> = recordings()
        .into_iter()
        .map(|name| {
            let size = std::fs::metadata(folder().join(&name)).unwrap().len();
            (name, size)
        })
        .collect();
    let large: Vec<_> = sizes.iter().filter(|(_, size)| *size > 800_000).collect();
    assert!(large.is_empty(), "{large:?}");
    assert!(sizes.iter().map(|(_, size)| size).sum::<u64>() < 2_000_000, "{sizes:?}");
}

#[cfg(all(feature = "trace", feature = "html"))]
#[test]
fn every_recording_is_rendered() {
    let pages = tempfile::tempdir().unwrap();
    let output =
        Command::new(root().join("scripts/gallery")).arg(pages.path()).env("PERFTAX", env!("CARGO_BIN_EXE_perftax")).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in recordings() {
        let name = ENDS.iter().find_map(|end| name.strip_suffix(end)).unwrap();
        let page = std::fs::read_to_string(pages.path().join(format!("{name}.html"))).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h1>"), "{name}");
    }
}
