//! Real programs to measure, described as TOML data under `workloads/`: the command, its Debian package, and how to make
//! its input, deterministically and offline.

mod prepared;
mod program;
mod shipped;

use std::path::{Path, PathBuf};

use perftax_pmu::fnv::{FNV_OFFSET, fnv1a};
use perftax_pmu::{Error, Result};
use serde::Deserialize;

pub use prepared::{Prepared, default_cache_dir};
pub use program::find_program;
pub use shipped::{shipped, shipped_names};

/// A workload's description, as its TOML file has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Short name, the file's stem.
    pub name: String,
    /// Debian package that holds the program.
    pub package: String,
    /// Further Debian packages that the program or its `prepare` needs.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The benchmark of SPEC CPU 2006 that it stands for, where there is one.
    #[serde(default)]
    pub stands_for: Option<String>,
    /// What it does, one line.
    pub description: String,
    /// Threads (or processes) that do the work.
    pub threads: u32,
    /// The command; `{dir}` stands for the folder that `prepare` filled.
    pub command: Vec<String>,
    /// File to read as standard input (`{dir}` as in `command`); `/dev/null` where there is none.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Script for `sh -eu`, run once in an empty folder: makes the input.
    #[serde(default)]
    pub prepare: String,
}

impl Workload {
    /// Loads a description by path (anything with a `/` or ending in `.toml`) or by the name of a shipped one.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Malformed`] with the byte, or [`Error::Argument`] for a name that is not shipped.
    pub fn load(path_or_name: &str) -> Result<Self> {
        if path_or_name.contains('/') || path_or_name.ends_with(".toml") {
            let path = Path::new(path_or_name);
            let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
            return Self::parse(&text, path_or_name);
        }
        shipped::text(path_or_name).map_or_else(
            || {
                Err(Error::Argument {
                    argument: "workload",
                    value: path_or_name.into(),
                    needed: format!("the path of a description (.toml), or one of {}", shipped_names().join(", ")),
                })
            },
            |text| Self::parse(text, &format!("workloads/{path_or_name}.toml")),
        )
    }

    /// Reads a description from its text; `origin` names it in errors.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the byte where the text is not a description.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let malformed = |offset: usize, why: String| Error::Malformed { what: origin.into(), offset: offset as u64, why };
        let workload: Self =
            toml::from_str(text).map_err(|e| malformed(e.span().map_or(0, |span| span.start), e.message().to_owned()))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if workload.name.is_empty() || !workload.name.chars().all(plain) {
            return Err(malformed(0, format!("name is {:?}, needs letters, digits, - and _ only", workload.name)));
        }
        if program::of(&workload.command).is_none() {
            return Err(malformed(0, "command names no program".into()));
        }
        if workload.threads == 0 {
            return Err(malformed(0, "threads is 0, needs at least 1".into()));
        }
        Ok(workload)
    }

    /// Hash over everything that decides what `prepare` makes: names the folder in the cache.
    pub(crate) fn key(&self) -> u64 {
        [self.name.as_bytes(), &[0], self.prepare.as_bytes()].into_iter().fold(FNV_OFFSET, fnv1a)
    }
}

/// The descriptions in a folder, sorted by name.
///
/// # Errors
/// [`Error::File`] where the folder or a file cannot be read, [`Error::Malformed`] for a bad description.
pub fn list(dir: &Path) -> Result<Vec<Workload>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| entry.map(|e| e.path())).collect())
        .map_err(Error::file(dir))?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    let mut workloads = paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
            Workload::parse(&text, &path.display().to_string())
        })
        .collect::<Result<Vec<_>>>()?;
    workloads.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(workloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_lists_the_shipped_ones() {
        let error = Workload::load("bzip3").unwrap_err();
        assert!(matches!(error, Error::Argument { .. }), "{error:?}");
        assert!(error.to_string().contains("bzip2, "), "{error}");
    }

    #[test]
    fn a_bad_description_names_file_and_byte() {
        let error = Workload::parse("name = \"a\"\nthread = 3\n", "a.toml").unwrap_err();
        assert!(error.to_string().starts_with("a.toml is malformed at byte"), "{error}");
        let head = "package = 'p'\ndescription = 'd'\n";
        for bad in [
            "name = 'a/b'\nthreads = 1\ncommand = ['x']",
            "name = 'a'\nthreads = 0\ncommand = ['x']",
            "name = 'a'\nthreads = 1\ncommand = []",
            "name = 'a'\nthreads = 1\ncommand = ['env', 'A=1']",
        ] {
            assert!(Workload::parse(&format!("{head}{bad}"), "a.toml").is_err(), "{bad}");
        }
    }

    #[test]
    fn the_key_follows_the_preparation_only() {
        let text = "name = 'a'\npackage = 'p'\ndescription = 'd'\nthreads = 1\ncommand = ['x']\nprepare = 'true'\n";
        let one = Workload::parse(text, "a.toml").unwrap();
        let other_words = Workload { description: "e".into(), ..one.clone() };
        let other_input = Workload { prepare: "false".into(), ..one.clone() };
        assert_eq!(one.key(), other_words.key());
        assert_ne!(one.key(), other_input.key());
    }

    #[test]
    fn the_folder_holds_exactly_the_shipped_descriptions() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
        let names: Vec<_> = list(&dir).unwrap().into_iter().map(|w| w.name).collect();
        assert_eq!(names, shipped_names());
        assert_eq!(shipped().iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), shipped_names());
    }
}
