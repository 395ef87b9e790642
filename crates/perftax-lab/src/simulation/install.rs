//! What a simulation needs on this machine: qemu-user, and our plugin.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use perftax_doc::steps::Operation;
use perftax_pmu::{Error, Result};

/// Where the plugin is, instead of beside the program.
const PLUGIN_VARIABLE: &str = "PERFTAX_SIM_PLUGIN";
const PLUGIN: &str = "libperftax_sim_plugin.so";
const QEMU: &str = "qemu-x86_64";
fn with_plugins() -> String {
    let (install, bundle) = (Operation::InstallMachine, Operation::BundleMachine);
    format!("{install}: a bundle of the emulated machine has a qemu-x86_64 with plugins, too ({bundle} makes one)")
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The words that start qemu-user for x86-64.
    pub qemu: Vec<OsString>,
    /// The plugin.
    pub plugin: PathBuf,
}

/// What a program has along, where the system lacks it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Brought<'a> {
    /// The plugin's bytes.
    pub plugin: Option<&'a [u8]>,
    /// Looks for the words that start a qemu-user with plugins: only where the system has none.
    pub qemu: Option<fn() -> Option<Vec<OsString>>>,
}

impl Installation {
    /// Looks for qemu in PATH, and for the plugin where `PERFTAX_SIM_PLUGIN` says, beside this program, or in `../lib/perftax`; what is nowhere may
    /// have been brought: a plugin's bytes are written into the user's cache.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with what installs what is missing.
    pub fn find(brought: &Brought<'_>) -> Result<Self> {
        let missing = |what: &str, why: String, remedy: &str| Error::Unsupported {
            what: format!("simulate without {what}"),
            why,
            remedy: remedy.into(),
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join(QEMU)).find(|file| file.is_file());
        let qemu = match found {
            Some(found) if has_plugins(&found) => vec![found.into()],
            found => brought.qemu.and_then(|look| look()).ok_or_else(|| match found {
                Some(found) => {
                    let why = format!("{} is built without them, as Debian 13's is, which is static", found.display());
                    missing("plugins of qemu-user", why, &with_plugins())
                }
                None => missing(QEMU, "it is not in PATH".into(), "apt-get install qemu-user"),
            })?,
        };
        if let Some(plugin) = std::env::var_os(PLUGIN_VARIABLE) {
            let plugin = PathBuf::from(plugin);
            if !plugin.is_file() {
                let why = format!("{PLUGIN_VARIABLE} is {}, which is no file", plugin.display());
                return Err(missing("its plugin", why, &format!("unset {PLUGIN_VARIABLE}")));
            }
            return Ok(Self { qemu, plugin });
        }
        let program =
            std::env::current_exe().map_err(|source| Error::System { call: "readlink /proc/self/exe".into(), source })?;
        let folder = program.parent().unwrap_or(Path::new("/"));
        // `deps` holds a test's program, one below what it was built beside.
        let places = [folder.join(PLUGIN), folder.join("../lib/perftax").join(PLUGIN), folder.join("..").join(PLUGIN)];
        let found = places.iter().find(|file| file.is_file());
        let plugin = match (found, brought.plugin) {
            (Some(found), _) => found.clone(),
            (None, Some(bytes)) => unpacked(bytes, &perftax_folders::cache("sim"))?,
            (None, None) => {
                return Err(missing(
                    "its plugin",
                    format!("there is no {PLUGIN} beside {}", program.display()),
                    "cargo build --release -p perftax-sim-plugin   (or set PERFTAX_SIM_PLUGIN to its path)",
                ));
            }
        };
        Ok(Self { qemu, plugin })
    }
}

impl Installation {
    /// QEMU's version, as it says it: `QEMU 7.2.22`; without a number where it says none.
    pub fn version(&self) -> String {
        let said = Command::new(&self.qemu[0]).args(&self.qemu[1..]).arg("--version").stdin(Stdio::null()).output();
        let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
        let number = said.split_whitespace().skip_while(|word| *word != "version").nth(1);
        number.map_or("QEMU".into(), |number| format!("QEMU {number}"))
    }
}

/// Whether a QEMU takes plugins: only then does its help name the option.
fn has_plugins(qemu: &Path) -> bool {
    let help = Command::new(qemu).arg("-h").stdin(Stdio::null()).output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).lines().any(|line| line.starts_with("-plugin ")))
}

/// The plugin as a file, which only a file can be loaded from; whole or not at all, for another perftax may be loading it.
fn unpacked(bytes: &[u8], folder: &Path) -> Result<PathBuf> {
    let file = folder.join(PLUGIN);
    let failed = |source| Error::System { call: format!("write {}", file.display()), source };
    if std::fs::read(&file).is_ok_and(|found| found == bytes) {
        return Ok(file);
    }
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut made = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    made.write_all(bytes).map_err(failed)?;
    made.persist(&file).map_err(|error| failed(error.error))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn a_plugin_that_came_along_is_written_once_and_again_where_it_differs() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let file = unpacked(b"first", &cache).unwrap();
        let written = std::fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(unpacked(b"first", &cache).unwrap(), file);
        assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), written);
        unpacked(b"second", &cache).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"second");
        assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 1);
    }
}
