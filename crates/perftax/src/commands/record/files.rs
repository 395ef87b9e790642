//! Where recordings go: one file, or a ring of segments.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use perftax_pmu::Error;
use perftax_record::Destination;
use perftax_report::units;

use crate::origin::now_s;
use crate::output::{Partial, folder_of, is_special, is_stdout};

/// Files that what is to be kept is divided into: one is given up at a time.
pub const SEGMENTS: u64 = 8;

/// When one file is followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchAt {
    /// At so many bytes.
    Bytes(u64),
    /// After so long.
    Age(Duration),
    /// When a signal comes alone.
    Signal,
}

/// One file, or segments of which the oldest go.
pub struct Files {
    path: PathBuf,
    switch_at: Option<SwitchAt>,
    /// Bytes that complete segments may take, all together.
    keep_bytes: Option<u64>,
    /// Those that are being written, the one that is complete first.
    open: VecDeque<Partial>,
    /// Complete segments, oldest first; those of an earlier recording, too.
    segments: Vec<(PathBuf, u64)>,
    /// Segments that were given up.
    pub dropped: u64,
    /// Bytes of all files that are complete.
    pub bytes: u64,
}

impl Files {
    /// At a place: one file, or with `switch_at` segments whose names go on with the time.
    pub fn new(path: &Path, switch_at: Option<SwitchAt>, keep_bytes: Option<u64>) -> Self {
        let segments = if switch_at.is_some() { segments(path) } else { Vec::new() };
        Self { path: path.into(), switch_at, keep_bytes, open: VecDeque::new(), segments, dropped: 0, bytes: 0 }
    }

    /// A new file, under a temporary name. The one before may be open still.
    pub fn open(&mut self) -> Result<Destination> {
        if is_stdout(&self.path) {
            let stdout = std::io::stdout().as_fd().try_clone_to_owned().context("cannot write stdout")?;
            return Ok(Destination::Pipe(File::from(stdout)));
        }
        // Renaming over a pipe or a device would replace it.
        if is_special(&self.path) {
            let opened = File::options().write(true).open(&self.path);
            return Ok(Destination::Pipe(opened.with_context(|| format!("cannot write {}", self.path.display()))?));
        }
        let partial = Partial::create(&self.path)?;
        let file = partial.file()?;
        self.open.push_back(partial);
        Ok(Destination::File(file))
    }

    /// Gives up the one that was opened last: nothing could be written into it.
    pub fn abandon(&mut self) {
        self.open.pop_back();
    }

    /// Puts the one that is complete in its place.
    pub fn close(&mut self, file: &File) -> Result<()> {
        let bytes = file.metadata().map_or(0, |it| it.len());
        self.bytes += bytes;
        let Some(partial) = self.open.pop_front() else { return Ok(()) };
        if self.switch_at.is_none() {
            keep_old(&self.path)?;
            return partial.finish();
        }
        let place = self.name_of_segment();
        partial.finish_at(&place)?;
        self.segments.push((place, bytes));
        // With room for the one that is being written.
        while self.keep_bytes.is_some_and(|keep| self.segment_bytes() > keep - keep / SEGMENTS) && self.segments.len() > 1 {
            self.drop_oldest();
        }
        Ok(())
    }

    /// Where recordings go, by what was asked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that is complete and newest; where none is, the one to come.
    pub fn newest(&self) -> &Path {
        self.segments.last().map_or(&self.path, |(path, _)| path)
    }

    /// Whether files follow each other.
    pub fn are_segments(&self) -> bool {
        self.switch_at.is_some()
    }

    /// Whether one of this size and age is to be followed by another.
    pub fn is_full(&self, bytes: u64, age: Duration) -> bool {
        let is_share_used = self.keep_bytes.is_some_and(|keep| bytes >= (keep / SEGMENTS).max(1));
        match self.switch_at {
            Some(_) if is_share_used => true,
            Some(SwitchAt::Bytes(most)) => bytes >= most,
            Some(SwitchAt::Age(most)) => age >= most && bytes > 0,
            Some(SwitchAt::Signal) | None => false,
        }
    }

    /// Gives the oldest segment up; whether there was one, and may be given up.
    pub fn drop_oldest(&mut self) -> bool {
        if self.segments.is_empty() || self.keep_bytes.is_none() {
            return false;
        }
        let (path, _) = self.segments.remove(0);
        // One that somebody else has taken away makes no room, and the next one may.
        if std::fs::remove_file(&path).is_ok() {
            self.dropped += 1;
        }
        true
    }

    fn segment_bytes(&self) -> u64 {
        self.segments.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The file's name, and when it was complete: `perf.data.20261127-175512-0003`.
    fn name_of_segment(&self) -> PathBuf {
        let stamp = units::stamp(now_s());
        let number = |n: u32| {
            let mut name = self.path.as_os_str().to_os_string();
            name.push(format!(".{stamp}-{n:04}"));
            PathBuf::from(name)
        };
        (0..10_000).map(number).find(|place| !place.exists()).unwrap_or_else(|| number(9_999))
    }
}

/// The segments that are there already, oldest first.
fn segments(path: &Path) -> Vec<(PathBuf, u64)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned() + ".";
    let is_stamp = |rest: &str| rest.len() >= 20 && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let entries = std::fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    let mut found: Vec<(PathBuf, u64)> = entries
        .filter(|entry| entry.file_name().to_str().and_then(|it| it.strip_prefix(&name)).is_some_and(is_stamp))
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.len())))
        .collect();
    // Their names are in order of time.
    found.sort();
    found
}

/// A recording that is there already is kept, as perf keeps it.
fn keep_old(path: &Path) -> Result<()> {
    if std::fs::symlink_metadata(path).is_ok_and(|it| it.is_file() && it.len() > 0) {
        let mut old = path.as_os_str().to_os_string();
        old.push(".old");
        std::fs::rename(path, &old).map_err(Error::file(path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use std::io::Write;

    fn written(files: &mut Files, bytes: usize) -> File {
        let Destination::File(mut file) = files.open().unwrap() else { panic!("no file") };
        file.write_all(&vec![7; bytes]).unwrap();
        file
    }

    #[test]
    fn the_oldest_segments_go_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.data");
        std::fs::write(folder.path().join("a.data.mine"), "somebody's").unwrap();
        std::fs::write(folder.path().join("a.data.20200101-000000-0000"), [1; 300]).unwrap();
        let mut files = Files::new(&path, Some(SwitchAt::Bytes(400)), Some(1_000));
        for _ in 0..5 {
            // The next is open before the one is complete.
            let first = written(&mut files, 400);
            files.close(&first).unwrap();
        }
        assert_eq!(files.dropped, 4, "one of an earlier recording, three of this one");
        let names: Vec<String> =
            std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(names.contains(&"a.data.mine".to_string()) && !names.iter().any(|name| name.contains("2020")), "{names:?}");
        assert!(files.drop_oldest() && files.drop_oldest() && !files.drop_oldest());
        // At its size, or at an eighth of what is kept.
        let full =
            |keep| move |bytes| Files::new(Path::new("a"), Some(SwitchAt::Bytes(400)), keep).is_full(bytes, Duration::ZERO);
        assert!(full(None)(400) && !full(None)(399) && full(Some(1_000))(125) && !full(Some(1_000))(124));
    }

    #[test]
    fn one_file_keeps_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.data");
        let mut files = Files::new(&path, None, None);
        for bytes in [3, 5] {
            let file = written(&mut files, bytes);
            files.close(&file).unwrap();
        }
        let length = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
        assert_eq!((length("a.data"), length("a.data.old")), (5, 3));
    }
}
