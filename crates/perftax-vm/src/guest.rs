//! What is run in the machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use perftax_doc::steps::Setting;

use crate::archive::Archive;
use crate::closure::{find, interpreters, libraries};
use crate::error::{Error, Result};
use crate::processor::Processor;

/// A command and what it needs.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Guest {
    /// The command; nothing: a shell.
    pub argv: Vec<String>,
    /// The processor.
    pub processor: Processor,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// Arguments of the kernel, beside ours.
    pub append: String,
    /// A folder of the host's that is copied to /share before the command starts, which runs there.
    pub share: Option<PathBuf>,
    /// The machine was booted with such a folder, and has it: the command runs there.
    pub has_share: bool,
    /// Programs, libraries and folders that are brought along beside what the command names.
    pub with: Vec<String>,
    /// A folder of the host's whose files lie over the guest's own, from its root on.
    pub root: Option<PathBuf>,
    /// What the command reads from its standard input; nothing: it is empty.
    pub input: Vec<u8>,
    /// The kernel's limits of sampling are as it has them.
    pub stock_limits: bool,
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
    /// The machine boots for this command, also where one is saved that has.
    pub boots: bool,
}

/// Where the command runs.
const HOME: &str = "/root";
const SHARE: &str = "/share";
/// Where our own program stands in the guest.
const US: &str = "/usr/local/bin/perftax";

impl Guest {
    /// A command on the default processor.
    pub fn new(argv: Vec<String>) -> Self {
        Self {
            argv,
            processor: Processor::default(),
            memory_mib: 1024,
            append: String::new(),
            share: None,
            has_share: false,
            with: Vec::new(),
            root: None,
            input: Vec::new(),
            stock_limits: false,
            outputs: Vec::new(),
            output_folder: PathBuf::from("."),
            environment: Vec::new(),
            timeout: Duration::from_secs(600),
            fast: false,
            seed: 1,
            boots: false,
        }
    }

    /// Memory, bytes.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.memory_mib) << 20
    }

    /// Folder that the command runs in.
    pub fn folder(&self) -> &'static Path {
        Path::new(if self.has_share || self.share.is_some() { SHARE } else { HOME })
    }

    /// What the guest finds beside its base file system, which has `programs`: `us` as `perftax`, the shared folder, what the command names.
    ///
    /// # Errors
    /// Where something cannot be read, or the command's program is nowhere.
    pub fn bring_programs(&self, archive: &mut Archive, us: Option<&Path>, programs: &BTreeSet<String>) -> Result<()> {
        if let Some(us) = us {
            bring(archive, us, Path::new(US), Symbols::Left)?;
        }
        if let Some(folder) = &self.share {
            archive.copy_folder(folder, Path::new(SHARE))?;
        }
        if let Some(folder) = &self.root {
            archive.copy_folder(folder, Path::new("/"))?;
        }
        for program in &self.with {
            if let Some(folder) = Some(Path::new(program)).filter(|path| path.is_dir()) {
                let folder = std::path::absolute(folder).map_err(Error::file(folder))?;
                archive.copy_folder(&folder, &folder)?;
                continue;
            }
            let found = find(program).ok_or_else(|| Error::NoProgram { program: program.clone() })?;
            bring(archive, &found, &place(program, &found), Symbols::Brought)?;
        }
        for (position, word) in self.argv.iter().enumerate() {
            let own = word == "perftax" || programs.contains(word) || self.in_share(word) || is_kernels(word);
            match find(word) {
                _ if own => {}
                // A word may be anything; only the first must be a program.
                None if self.in_root(word) => {}
                Some(found) => bring(archive, &found, &place(word, &found), Symbols::Brought)?,
                None if position == 0 => return Err(Error::NoProgram { program: word.clone() }),
                None => {}
            }
        }
        Ok(())
    }

    /// What it is to do: the command, its environment, what is wanted of it afterwards.
    pub fn give_orders(&self, archive: &mut Archive) {
        if self.argv.is_empty() {
            archive.add(Path::new("/run/shell"), b"", false);
        } else {
            let words: Vec<String> = self.argv.iter().map(|word| quote(word)).collect();
            archive.add(Path::new("/run/command"), format!("exec {}\n", words.join(" ")).as_bytes(), true);
        }
        let with = [
            ("caches", self.processor.caches),
            ("ibs-random", self.processor.ibs_random),
            ("miss-time", self.processor.miss_time),
        ];
        let with: Vec<&str> = with.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
        let how = if self.fast { "fast" } else { "icount" };
        let mut environment = format!("export PERFTAX_EMULATED={how} PERFTAX_EMULATED_WITH={}\n", with.join(","));
        for (name, value) in &self.environment {
            environment.push_str(&format!("export {name}={}\n", quote(value)));
        }
        archive.add(Path::new("/run/environment"), environment.as_bytes(), false);
        let outputs: String = self.outputs.iter().map(|path| format!("{}\n", self.folder().join(path).display())).collect();
        archive.add(Path::new("/run/outputs"), outputs.as_bytes(), false);
        archive.add(Path::new("/run/input"), &self.input, false);
        if self.stock_limits {
            archive.add(Path::new("/run/stock-limits"), b"", false);
        }
    }

    /// Fails where what is brought along, beside the base files, does not fit into the guest's memory: its kernel would panic.
    ///
    /// # Errors
    /// Where it does not.
    pub(crate) fn enough_memory(&self, base: &Path, files: &Archive) -> Result<()> {
        /// For its kernel and what runs, MiB.
        const BESIDE_MIB: usize = 160;
        let base = std::fs::metadata(base).map_or(0, |base| base.len() as usize);
        // What comes to it, and what it unpacks.
        let needed = (2 * (base + files.bytes())).div_ceil(1 << 20) + BESIDE_MIB;
        if needed <= self.memory_mib as usize {
            return Ok(());
        }
        Err(Error::Missing {
            what: "memory of the machine".into(),
            why: format!(
                "{} MiB of files come along, which need {needed} MiB of it, and it has {}",
                files.bytes() >> 20,
                self.memory_mib
            ),
            remedy: format!("{} {}", Setting::Memory, needed.next_multiple_of(256)),
        })
    }

    fn in_root(&self, word: &str) -> bool {
        let below = |root: &PathBuf| match word.strip_prefix('/') {
            Some(path) => root.join(path).is_file(),
            None => ["bin", "usr/bin", "usr/local/bin"].iter().any(|folder| root.join(folder).join(word).is_file()),
        };
        self.root.as_ref().is_some_and(below)
    }

    fn in_share(&self, word: &str) -> bool {
        self.share.as_ref().is_some_and(|share| !Path::new(word).is_absolute() && share.join(word).exists())
    }
}

/// Whether a word names what the guest's own kernel shows.
fn is_kernels(word: &str) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|folder| Path::new(word).starts_with(folder))
}

/// Where a program stands in the guest: where the command names it.
fn place(word: &str, found: &Path) -> PathBuf {
    if word.contains('/') { found.to_path_buf() } else { Path::new("/usr/local/bin").join(word) }
}

/// Whether a program's symbols come along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbols {
    Brought,
    Left,
}

/// A program with its libraries; a file that is none, as it is.
fn bring(archive: &mut Archive, from: &Path, to: &Path, symbols: Symbols) -> Result<()> {
    let file = from.canonicalize().map_err(Error::file(from))?;
    match symbols {
        Symbols::Brought => archive.copy(&file, to)?,
        Symbols::Left => archive.add(to, &loaded_part(std::fs::read(&file).map_err(Error::file(&file))?), true),
    }
    for library in libraries(&file)? {
        let file = library.canonicalize().map_err(Error::file(&library))?;
        archive.copy(&file, &library)?;
    }
    // A script's interpreter, and the one that env looks up for it.
    for program in interpreters(&file)? {
        let found = find(&program).ok_or(Error::NoProgram { program: program.clone() })?;
        if !archive.has(&found) {
            bring(archive, &found, &found, Symbols::Brought)?;
        }
    }
    Ok(())
}

/// A 64-bit ELF file without what no segment holds: nine tenths of ours are for debuggers, and the guest would unpack them at every boot.
/// Anything else, as it is.
fn loaded_part(mut file: Vec<u8>) -> Vec<u8> {
    // Figures 4 and 10 of the ELF-64 object file format: where headers stand, and their fields.
    let number = |file: &[u8], at: usize, bytes: usize| {
        file.get(at..at + bytes).map(|field| field.iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte)))
    };
    let end = |file: &[u8]| {
        let is_elf = file.starts_with(b"\x7fELF\x02\x01");
        let (headers, size, count) = (number(file, 32, 8)?, number(file, 54, 2)?, number(file, 56, 2)?);
        let ends = (0..count).map(|index| {
            let at = usize::try_from(headers + index * size).ok()?;
            Some(number(file, at + 8, 8)?.checked_add(number(file, at + 32, 8)?)?.max(headers + count * size))
        });
        let end = ends.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
        usize::try_from(end).ok().filter(|end| is_elf && *end <= file.len())
    };
    if let Some(end) = end(&file) {
        // No sections: their place, and how many and which names them.
        file[40..48].fill(0);
        file[60..64].fill(0);
        file.truncate(end);
    }
    file
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

    /// All that a guest finds.
    fn files(guest: &Guest, us: &Path) -> Result<Archive> {
        let mut archive = Archive::default();
        guest.bring_programs(&mut archive, Some(us), &own())?;
        guest.give_orders(&mut archive);
        Ok(archive)
    }

    #[test]
    fn programs_come_with_what_they_need() {
        let guest = Guest::new(["perf", "stat", "--", "bzip2", "it's"].map(String::from).to_vec());
        let archive = files(&guest, Path::new("/bin/true")).unwrap();
        assert!(archive.has(Path::new("/usr/local/bin/bzip2")) && archive.has(Path::new(US)));
        assert!(!archive.has(Path::new("/usr/local/bin/perf")), "the guest has its own");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(r"exec 'perf' 'stat' '--' 'bzip2' 'it'\''s'"));
        assert!(text.contains("libc.so.6"));
    }

    #[test]
    fn a_command_must_exist_somewhere() {
        let missing = files(&Guest::new(vec!["no-such-program".into()]), Path::new("/bin/true"));
        assert!(matches!(missing, Err(Error::NoProgram { .. })));
        assert!(files(&Guest::new(vec!["dmesg".into()]), Path::new("/bin/true")).is_ok());
        let own = files(&Guest::new(["dmesg", "/proc/uptime"].map(String::from).to_vec()), Path::new("/bin/true")).unwrap();
        assert!(!own.has(Path::new("/proc/uptime")), "the guest's kernel has its own");
    }

    #[test]
    fn what_no_segment_holds_stays_here_and_the_rest_runs() {
        let own = std::env::current_exe().unwrap();
        let whole = std::fs::read(&own).unwrap();
        let part = loaded_part(whole.clone());
        assert!(part.len() < whole.len());
        let folder = tempfile::tempdir().unwrap();
        let (bytes, program) = (folder.path().join("bytes"), folder.path().join("part"));
        std::fs::write(&bytes, part).unwrap();
        std::fs::set_permissions(&bytes, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        // Written by another process: a child that another test forks would hold this one's descriptor open for a moment, and what is open for writing
        // cannot be executed (ETXTBSY).
        assert!(std::process::Command::new("cp").args([&bytes, &program]).status().unwrap().success());
        assert!(std::process::Command::new(&program).arg("--list").output().unwrap().status.success());
        assert_eq!(loaded_part(b"\x7fELF\x02\x01 cut".to_vec()), b"\x7fELF\x02\x01 cut");
        assert_eq!(loaded_part(b"#!/bin/sh\n".to_vec()), b"#!/bin/sh\n");
    }
}
