//! What is run in the machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::archive::Archive;
use crate::closure::{find, libraries};
use crate::error::{Error, Result};
use crate::processor::Processor;

/// A command and what it needs.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The command; nothing: a shell.
    pub argv: Vec<String>,
    /// The processor.
    pub processor: Processor,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// Arguments of the kernel, beside ours.
    pub append: String,
    /// A folder of the host's that is copied to /share before the machine boots; the command runs there.
    pub share: Option<PathBuf>,
    /// Programs that are brought along beside those that the command names.
    pub with: Vec<String>,
    /// Files and folders of the guest's that are copied out when the command has ended; relative ones to where it ran.
    pub outputs: Vec<PathBuf>,
    /// Where they go.
    pub output_folder: PathBuf,
    /// Variables of the command's environment.
    pub environment: Vec<(String, String)>,
    /// Real time that it may take, from the start.
    pub timeout: Duration,
    /// Time runs with the host's clock, processors run at the same time, and no two runs are alike.
    pub fast: bool,
    /// Seed of everything random.
    pub seed: u64,
}

/// Where the command runs.
const HOME: &str = "/root";
const SHARE: &str = "/share";

impl Guest {
    /// A command on the default processor.
    pub fn new(argv: Vec<String>) -> Self {
        Self {
            argv,
            processor: Processor::default(),
            memory_mib: 1024,
            append: String::new(),
            share: None,
            with: Vec::new(),
            outputs: Vec::new(),
            output_folder: PathBuf::from("."),
            environment: Vec::new(),
            timeout: Duration::from_secs(600),
            fast: false,
            seed: 1,
        }
    }

    /// Folder that the command runs in.
    pub fn folder(&self) -> &'static Path {
        Path::new(if self.share.is_some() { SHARE } else { HOME })
    }

    /// What the guest finds beside its base file system, which has `programs`: `us`, our own program, included.
    ///
    /// # Errors
    /// Where something cannot be read, or the command's program is nowhere.
    pub fn files(&self, us: &Path, programs: &BTreeSet<String>) -> Result<Archive> {
        let mut archive = Archive::default();
        bring(&mut archive, us, Path::new("/usr/local/bin/perftax"))?;
        if let Some(folder) = &self.share {
            archive.copy_folder(folder, Path::new(SHARE))?;
        }
        for program in &self.with {
            let found = find(program).ok_or_else(|| Error::NoProgram { program: program.clone() })?;
            bring(&mut archive, &found, &place(program, &found))?;
        }
        for (position, word) in self.argv.iter().enumerate() {
            let own = word == "perftax" || programs.contains(word) || self.in_share(word);
            match find(word) {
                _ if own => {}
                // A word may be anything; only the first must be a program.
                Some(found) => bring(&mut archive, &found, &place(word, &found))?,
                None if position == 0 => return Err(Error::NoProgram { program: word.clone() }),
                None => {}
            }
        }
        if self.argv.is_empty() {
            archive.add(Path::new("/run/shell"), b"", false);
        } else {
            let words: Vec<String> = self.argv.iter().map(|word| quote(word)).collect();
            archive.add(Path::new("/run/command"), format!("exec {}\n", words.join(" ")).as_bytes(), true);
        }
        let with = [("caches", self.processor.caches), ("ibs-random", self.processor.ibs_random)];
        let with: Vec<&str> = with.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
        let how = if self.fast { "fast" } else { "icount" };
        let mut environment = format!("export PERFTAX_EMULATED={how} PERFTAX_EMULATED_WITH={}\n", with.join(","));
        for (name, value) in &self.environment {
            environment.push_str(&format!("export {name}={}\n", quote(value)));
        }
        archive.add(Path::new("/run/environment"), environment.as_bytes(), false);
        let outputs: String = self.outputs.iter().map(|path| format!("{}\n", self.folder().join(path).display())).collect();
        archive.add(Path::new("/run/outputs"), outputs.as_bytes(), false);
        Ok(archive)
    }

    fn in_share(&self, word: &str) -> bool {
        self.share.as_ref().is_some_and(|share| !Path::new(word).is_absolute() && share.join(word).exists())
    }
}

/// Where a program stands in the guest: where the command names it.
fn place(word: &str, found: &Path) -> PathBuf {
    if word.contains('/') { found.to_path_buf() } else { Path::new("/usr/local/bin").join(word) }
}

/// A program with its libraries; a file that is none, as it is.
fn bring(archive: &mut Archive, from: &Path, to: &Path) -> Result<()> {
    let file = from.canonicalize().map_err(Error::file(from))?;
    archive.copy(&file, to)?;
    for library in libraries(&file)? {
        let file = library.canonicalize().map_err(Error::file(&library))?;
        archive.copy(&file, &library)?;
    }
    Ok(())
}

/// One word for a shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn own() -> BTreeSet<String> {
        ["perf", "dmesg"].map(String::from).into()
    }

    #[test]
    fn programs_come_with_what_they_need() {
        let guest = Guest::new(["perf", "stat", "--", "bzip2", "it's"].map(String::from).to_vec());
        let archive = guest.files(Path::new("/bin/true"), &own()).unwrap();
        assert!(archive.has(Path::new("/usr/local/bin/bzip2")) && archive.has(Path::new("/usr/local/bin/perftax")));
        assert!(!archive.has(Path::new("/usr/local/bin/perf")), "the guest has its own");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(r"exec 'perf' 'stat' '--' 'bzip2' 'it'\''s'"));
        assert!(text.contains("libc.so.6"));
    }

    #[test]
    fn a_command_must_exist_somewhere() {
        let missing = Guest::new(vec!["no-such-program".into()]).files(Path::new("/bin/true"), &own());
        assert!(matches!(missing, Err(Error::NoProgram { .. })));
        assert!(Guest::new(vec!["dmesg".into()]).files(Path::new("/bin/true"), &own()).is_ok());
    }
}
