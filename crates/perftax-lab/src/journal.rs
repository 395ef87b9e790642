//! A file of what is done already: a line that says whose it is, then one line of JSON for each thing done. A line that was cut off when
//! somebody was killed does not count.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use perftax_doc::steps::Setting;
use perftax_pmu::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Characters that are shown of a foreign file's first line.
const SHOWN: usize = 100;

/// What is done, and the file that it stands in.
#[derive(Debug)]
pub struct Journal<T> {
    path: PathBuf,
    file: File,
    entries: Vec<T>,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Opens one, or makes it; `head` says whose it is.
    ///
    /// # Errors
    /// Where it cannot be written, or belongs to something else.
    pub fn open(path: &Path, head: &str) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::file(path)(error)),
        };
        // Whole lines alone.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines();
        // Without a whole line it can only be a head that was cut off.
        let foreign = match lines.next() {
            Some(found) => Some(found).filter(|found| *found != head),
            None => text.lines().next().filter(|cut| !head.starts_with(cut)),
        };
        if let Some(found) = foreign {
            let found: String = found.chars().take(SHOWN).collect();
            let value = format!("{}, which begins with '{found}'", path.display());
            let needed =
                format!("a file of this machine, kernel and kind of run ('{head}'), or a new one: rm {}", path.display());
            return Err(Error::Argument { argument: Setting::Resume.name(), value, needed });
        }
        let entry = |(line, number): (&str, usize)| {
            serde_json::from_str(line).map_err(|error| Error::Malformed {
                what: format!("{}, line {number},", path.display()),
                offset: error.column().saturating_sub(1) as u64,
                why: error.to_string(),
            })
        };
        let entries = lines.zip(2..).map(entry).collect::<Result<_>>()?;
        let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(Error::file(path))?;
        file.set_len(whole.len() as u64).map_err(Error::file(path))?;
        if whole.is_empty() {
            writeln!(file, "{head}").map_err(Error::file(path))?;
        }
        Ok(Self { path: path.into(), file, entries })
    }

    /// What is done.
    pub fn entries(&self) -> &[T] {
        &self.entries
    }

    /// Notes that something is done.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn add(&mut self, entry: T) -> Result<()> {
        let line = serde_json::to_string(&entry).map_err(|error| Error::file(&self.path)(error.into()))?;
        writeln!(self.file, "{line}").and_then(|()| self.file.sync_data()).map_err(Error::file(&self.path))?;
        self.entries.push(entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn what_was_cut_off_is_done_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut journal = Journal::<u32>::open(&path, "machine 1").unwrap();
        journal.add(7).unwrap();
        journal.add(8).unwrap();
        drop(journal);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 1]).unwrap();
        let mut journal = Journal::<u32>::open(&path, "machine 1").unwrap();
        assert_eq!(journal.entries(), [7]);
        journal.add(9).unwrap();
        assert_eq!(Journal::<u32>::open(&path, "machine 1").unwrap().entries(), [7, 9]);
        let error = Journal::<u32>::open(&path, "machine 2").unwrap_err().to_string();
        assert!(error.contains("'resume'") && error.contains("machine 1"), "{error}");
        // What has no whole line is somebody else's, unless it is a head that was cut off.
        std::fs::write(&path, "{\"precious\":1}").unwrap();
        assert!(Journal::<u32>::open(&path, "machine 1").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"precious\":1}");
        std::fs::write(&path, "machi").unwrap();
        assert!(Journal::<u32>::open(&path, "machine 1").unwrap().entries().is_empty());
        std::fs::write(&path, "machine 1\nseven\n").unwrap();
        assert!(Journal::<u32>::open(&path, "machine 1").unwrap_err().to_string().contains("line 2, is malformed"));
    }
}
