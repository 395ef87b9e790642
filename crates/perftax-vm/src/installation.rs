//! What is built once: QEMU with the PMU, a kernel, a file system.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use perftax_doc::steps::Operation;

use crate::error::{Error, Result};

/// Where the folder `vm/` of the project is, instead of where it was when this was built.
const SOURCES_VARIABLE: &str = "PERFTAX_VM_SOURCES";
/// Another QEMU than the one that was built: a benchmark's, without a PMU.
const QEMU_VARIABLE: &str = "PERFTAX_VM_QEMU";
/// Firmware and boot code, as Debian's seabios and qemu-system-data install them.
const FIRMWARE: [&str; 2] = ["/usr/share/seabios", "/usr/share/qemu"];
/// What starts programs that came with libraries of their own.
pub(crate) const LOADER: &str = "ld-linux-x86-64.so.2";
const ENGINE: &str = "libperftax_engine.a";
/// What the engine is compiled from, below the project's folder.
const ENGINE_SOURCES: [&str; 3] = ["crates/perftax-engine-c/src", "crates/perftax-model/src", "crates/perftax-model/machines"];

/// What it is built from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The folder `vm/` of the project.
    folder: PathBuf,
}

/// The parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Installation {
    /// QEMU.
    pub qemu: PathBuf,
    /// The kernel.
    pub kernel: PathBuf,
    /// The file system, without what a command needs.
    pub base: PathBuf,
    /// Names of the programs in it.
    pub programs: BTreeSet<String>,
    /// Folders of QEMU's firmware and boot code.
    pub firmware: Vec<PathBuf>,
    /// The folder of QEMU's libraries, their loader among them; none: the host's.
    pub libraries: Option<PathBuf>,
}

impl Installation {
    /// QEMU, started by its own loader where it came with one.
    pub(crate) fn emulator(&self) -> Command {
        let words = self.words(&self.qemu);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// The words that start a program of this machine's.
    pub(crate) fn words(&self, program: &Path) -> Vec<OsString> {
        let Some(folder) = &self.libraries else { return vec![program.into()] };
        let loader = folder.join(LOADER).into_os_string();
        vec![loader, "--inhibit-cache".into(), "--library-path".into(), folder.into(), program.into()]
    }
}

/// Where the parts are kept ([`perftax_folders::cache`]).
pub fn cache_folder() -> PathBuf {
    perftax_folders::cache("vm")
}

impl Sources {
    /// Looks for the folder where `PERFTAX_VM_SOURCES` says, where it was built, or in `../share/perftax/vm`.
    ///
    /// # Errors
    /// [`Error::Missing`], with what makes them.
    pub fn find() -> Result<Self> {
        let program = std::env::current_exe().map_err(Error::file("/proc/self/exe"))?;
        let beside = program.parent().unwrap_or(Path::new("/"));
        // What is packaged for others holds no path of where it was built.
        let built = (option_env!("PERFTAX_PACKAGED").is_none()).then(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vm"));
        let given = std::env::var_os(SOURCES_VARIABLE).map(PathBuf::from);
        let places =
            given.map_or_else(|| built.into_iter().chain([beside.join("../share/perftax/vm")]).collect(), |given| vec![given]);
        let folder = places.iter().find(|folder| folder.join("build-qemu").is_file()).ok_or_else(|| Error::Missing {
            what: "the folder vm/ of the project".into(),
            why: format!("there is no build-qemu in {}", list(&places)),
            remedy: format!(
                "{}, with a machine that was built elsewhere; to build one here: set {SOURCES_VARIABLE} to that folder",
                Operation::InstallMachine
            ),
        })?;
        Ok(Self { folder: folder.canonicalize().map_err(Error::file(folder))? })
    }

    /// The engine, a static library: beside this program or in `../lib/perftax`.
    fn engine() -> Result<PathBuf> {
        let program = std::env::current_exe().map_err(Error::file("/proc/self/exe"))?;
        let beside = program.parent().unwrap_or(Path::new("/"));
        let places = [beside.join(ENGINE), beside.join("../lib/perftax").join(ENGINE)];
        places.iter().find(|file| file.is_file()).cloned().ok_or_else(|| Error::Missing {
            what: ENGINE.into(),
            why: format!("it is not at {}", list(&places)),
            remedy: format!(
                "cargo build --release -p perftax-engine-c, where perftax was built; or, with a machine that was built elsewhere: {}",
                Operation::InstallMachine
            ),
        })
    }

    /// Every file that the machine is built by, and what it is called below the project's folder.
    pub(crate) fn texts(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        let mut files = Vec::new();
        collect(&self.folder, &mut files)?;
        let named = |file: PathBuf| Some((Path::new("vm").join(file.strip_prefix(&self.folder).ok()?), file));
        Ok(files.into_iter().filter_map(named).collect())
    }

    /// A number that changes with these files and folders.
    fn fingerprint(paths: &[PathBuf]) -> Result<u64> {
        let mut files = Vec::new();
        paths.iter().try_for_each(|path| collect(path, &mut files))?;
        let mut hasher = DefaultHasher::new();
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        for file in files {
            std::fs::read(&file).map_err(Error::file(&file))?.hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    /// Where QEMU is compiled; all its objects depend on our hooks, none on the engine.
    pub(crate) fn qemu_folder(&self) -> Result<PathBuf> {
        let header = self.folder.join("../crates/perftax-engine-c/include");
        let number = Self::fingerprint(&[self.folder.join("qemu"), self.folder.join("build-qemu"), header])?;
        Ok(cache_folder().join(format!("qemu-{number:016x}")))
    }

    /// QEMU with the engine. The engine's own bytes differ from build to build, its sources do not; where these are not at hand (an
    /// installed perftax), its version stands for them.
    fn qemu(&self) -> Result<PathBuf> {
        let root = self.folder.join("..");
        let sources = ENGINE_SOURCES.map(|folder| root.join(folder));
        Ok(self.qemu_folder()?.join(format!("qemu-system-x86_64-{:016x}", Self::fingerprint(&sources)?)))
    }

    fn guest_folder(&self, kernel: Option<&Path>) -> Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        for name in ["build-guest", "guest/init", "guest/orders.c", "guest/rdmsr", "guest/wrmsr"] {
            let file = self.folder.join(name);
            std::fs::read(&file).map_err(Error::file(&file))?.hash(&mut hasher);
        }
        kernel.hash(&mut hasher);
        Ok(cache_folder().join(format!("guest-{:016x}", hasher.finish())))
    }

    /// The parts, as far as they are built; with another kernel than the distribution's: a package, an image, or the name of a suite of
    /// Debian's archive, whose kernel it is then.
    ///
    /// # Errors
    /// [`Error::Missing`] where they are not.
    pub fn installation(&self, kernel: Option<&Path>) -> Result<Installation> {
        let given = std::env::var_os(QEMU_VARIABLE).map(PathBuf::from);
        let (qemu, guest) = (given.map_or_else(|| self.qemu(), Ok)?, self.guest_folder(kernel)?);
        let names = std::fs::read_to_string(guest.join("programs")).unwrap_or_default();
        let found = Installation {
            qemu,
            kernel: guest.join("image"),
            base: guest.join("base.cpio"),
            programs: names.lines().map(String::from).collect(),
            firmware: FIRMWARE.map(PathBuf::from).into(),
            libraries: None,
        };
        if let Some(file) = [&found.qemu, &found.kernel, &found.base].into_iter().find(|file| !file.is_file()) {
            return Err(Error::Missing {
                what: "the emulated machine".into(),
                why: format!("there is no {}", file.display()),
                remedy: match kernel {
                    Some(kernel) => format!("{}   (once)", Operation::BuildMachine(Some(kernel.display().to_string()))),
                    None => format!(
                        "{}   (once; about five minutes), or {}, of a bundle",
                        Operation::BuildMachine(None),
                        Operation::InstallMachine
                    ),
                },
            });
        }
        Ok(found)
    }

    /// Builds what is missing; progress goes to stderr.
    ///
    /// # Errors
    /// Where a step fails, with its last words.
    pub fn build(&self, kernel: Option<&Path>, tarball: Option<&Path>) -> Result<Installation> {
        let (qemu, guest) = (self.qemu()?, self.guest_folder(kernel)?);
        // One build at a time; whoever waited finds the other's.
        let lock = cache_folder().join("lock");
        std::fs::create_dir_all(cache_folder()).map_err(Error::file(cache_folder()))?;
        let held = std::fs::File::create(&lock).map_err(Error::file(&lock))?;
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).map_err(|e| Error::file(&lock)(e.into()))?;
        if !qemu.is_file() {
            let mut command = Command::new(self.folder.join("build-qemu"));
            command.arg(&qemu).arg(Self::engine()?);
            command.args(tarball);
            step(command, "building QEMU")?;
        }
        if !guest.join("base.cpio").is_file() {
            let mut command = Command::new(self.folder.join("build-guest"));
            command.arg(&guest).args(kernel);
            step(command, "making the guest")?;
        }
        forget_oldest(&cache_folder(), &self.qemu_folder()?);
        self.installation(kernel)
    }

    /// QEMU for one program, with plugins; built where it is not there.
    ///
    /// # Errors
    /// Where it cannot be built.
    pub(crate) fn user_emulator(&self) -> Result<PathBuf> {
        let program = self.qemu_folder()?.join("qemu-x86_64");
        if !program.is_file() {
            let mut command = Command::new(self.folder.join("build-qemu-user"));
            command.arg(&program);
            step(command, "building QEMU for one program")?;
        }
        Ok(program)
    }

    /// Removes what was built.
    ///
    /// # Errors
    /// Where it cannot be removed.
    pub fn clean(&self, kernel: Option<&Path>) -> Result<()> {
        for folder in [self.qemu_folder()?, self.guest_folder(kernel)?] {
            if folder.exists() {
                std::fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
            }
        }
        Ok(())
    }
}

/// Builds of QEMU that are kept beside the one in use: each is 600 MB, and checkouts of two versions may take turns.
const KEPT: usize = 1;

/// Removes all other builds of QEMU but the newest; one that cannot be removed (somebody else's) stays.
fn forget_oldest(cache: &Path, mine: &Path) {
    let is_other = |folder: &PathBuf| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.strip_prefix("qemu-").unwrap_or_default();
        number.len() == 16 && number.chars().all(|c| c.is_ascii_hexdigit()) && folder != mine
    };
    let Ok(entries) = std::fs::read_dir(cache) else { return };
    let mut others: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_other).collect();
    others.sort_by_key(|folder| std::fs::metadata(folder).and_then(|found| found.modified()).ok());
    let too_many = others.len().saturating_sub(KEPT);
    others[..too_many].iter().for_each(|folder| drop(std::fs::remove_dir_all(folder)));
}

fn step(mut command: Command, what: &str) -> Result<()> {
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).status();
    let program = PathBuf::from(command.get_program());
    let status = output.map_err(Error::file(program))?;
    if status.success() { Ok(()) } else { Err(Error::Build { what: what.into(), why: "see the lines above".into() }) }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(Error::file(path))?;
        let mut entries: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        entries.sort();
        entries.iter().try_for_each(|entry| collect(entry, files))
    } else {
        if path.is_file() {
            files.push(path.to_path_buf());
        }
        Ok(())
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// A folder that moved would be left out of the fingerprint, and an old emulator taken for a new one.
    #[test]
    fn an_emulator_is_known_by_all_that_its_engine_is_compiled_from() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let of =
            |folders: &[&str]| Sources::fingerprint(&folders.iter().map(|folder| root.join(folder)).collect::<Vec<_>>()).unwrap();
        let all = of(&ENGINE_SOURCES);
        for left_out in ENGINE_SOURCES {
            let others: Vec<&str> = ENGINE_SOURCES.into_iter().filter(|folder| *folder != left_out).collect();
            assert_ne!(of(&others), all, "there is nothing in {left_out}");
        }
    }

    #[test]
    fn old_builds_are_forgotten_and_nothing_else() {
        let cache = tempfile::tempdir().unwrap();
        let names = [
            "qemu-0000000000000001",
            "qemu-0000000000000002",
            "qemu-0000000000000003",
            "qemu-mine",
            "guest-0000000000000001",
            "plain",
        ];
        for (age, name) in names.iter().enumerate() {
            let folder = cache.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 + age as u64);
            std::fs::File::open(&folder).unwrap().set_modified(time).unwrap();
        }
        forget_oldest(cache.path(), &cache.path().join("qemu-0000000000000001"));
        let mut left: Vec<_> =
            std::fs::read_dir(cache.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["guest-0000000000000001", "plain", "qemu-0000000000000001", "qemu-0000000000000003", "qemu-mine"]);
    }
}
