//! Microbenchmarks with truths by construction: assembly generated from parameters, counts computed from the same parameters.

mod accuracy;
mod bias;

use std::path::{Path, PathBuf};
use std::process::Command;

use perftax_pmu::{Error, Result};

pub use accuracy::Accuracy;
pub use bias::Bias;

/// A program with known counts.
pub trait Microbench {
    /// Its assembly, for the GNU assembler: position-independent is not needed, it starts at `_start` and links with nothing.
    fn assembly(&self) -> String;

    /// A name for its file.
    fn name(&self) -> String;

    /// Assembles and links it in a folder.
    ///
    /// # Errors
    /// Where there is no gcc, or the folder cannot be written.
    fn build(&self, folder: &Path) -> Result<PathBuf> {
        let (source, program) = (folder.join(format!("{}.S", self.name())), folder.join(self.name()));
        std::fs::write(&source, self.assembly()).map_err(Error::file(&source))?;
        let output = Command::new("gcc")
            .args(["-nostdlib", "-static", "-Wl,--build-id=none", "-o"])
            .args([&program, &source])
            .output()
            .map_err(|source| Error::Exec { program: "gcc".into(), source })?;
        if output.status.success() {
            return Ok(program);
        }
        let how = format!("failed: {}", String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default());
        Err(Error::CommandFailed { command: format!("gcc {}", source.display()), how })
    }
}

/// Ends the process with code 0.
const EXIT: &str = "\
    movl $60, %eax
    xorl %edi, %edi
    syscall
";
/// Instructions of [`EXIT`].
const EXIT_INSTRUCTIONS: u64 = 3;
