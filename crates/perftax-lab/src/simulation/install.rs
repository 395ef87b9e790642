//! What a simulation needs on this machine: qemu-user, and our plugin.

use std::path::{Path, PathBuf};

use perftax_pmu::{Error, Result};

/// Where the plugin is, instead of beside the program.
const PLUGIN_VARIABLE: &str = "PERFTAX_SIM_PLUGIN";
const PLUGIN: &str = "libperftax_sim_plugin.so";
const QEMU: &str = "qemu-x86_64";

/// The two files found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// qemu-user for x86-64.
    pub qemu: PathBuf,
    /// The plugin.
    pub plugin: PathBuf,
}

impl Installation {
    /// Looks for qemu in PATH, and for the plugin where `PERFTAX_SIM_PLUGIN` says, beside this program, or in `../lib/perftax`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with what installs what is missing.
    pub fn find() -> Result<Self> {
        let missing = |what: &str, why: String, remedy: &str| Error::Unsupported {
            what: format!("simulate without {what}"),
            why,
            remedy: remedy.into(),
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let qemu = std::env::split_paths(&path).map(|folder| folder.join(QEMU)).find(|file| file.is_file());
        let qemu = qemu.ok_or_else(|| missing(QEMU, "it is not in PATH".into(), "apt-get install qemu-user"))?;
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
        let plugin = found.cloned().ok_or_else(|| {
            missing(
                "its plugin",
                format!("there is no {PLUGIN} beside {}", program.display()),
                "cargo build --release -p perftax-sim-plugin   (or set PERFTAX_SIM_PLUGIN to its path)",
            )
        })?;
        Ok(Self { qemu, plugin })
    }
}
