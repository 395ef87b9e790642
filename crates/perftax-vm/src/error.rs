//! What can go wrong, and what to do about it.

use std::path::PathBuf;

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the emulated machine could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something is missing here.
    #[error("{what} is missing: {why}\n  {remedy}")]
    Missing {
        /// What.
        what: String,
        /// Where it was looked for.
        why: String,
        /// What makes it.
        remedy: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A step of the build failed.
    #[error("{what} failed: {why}")]
    Build {
        /// The step.
        what: String,
        /// Its last words.
        why: String,
    },
    /// No program of that name, here or in the guest.
    #[error("{program}: no such program here, and the guest has none of its own")]
    NoProgram {
        /// As the user wrote it.
        program: String,
    },
    /// A bundle of the machine is not to be used.
    #[error("{}: {why}", file.display())]
    Bundle {
        /// Which.
        file: PathBuf,
        /// Why not.
        why: String,
    },
    /// The user broke off what does not run the machine.
    #[error("interrupted: {left}")]
    Stopped {
        /// What that leaves.
        left: String,
    },
    /// The user broke it off.
    #[error("interrupted: the machine is switched off, no output was brought back")]
    Interrupted,
    /// The guest did not get as far as the command, or not to its end.
    #[error("the guest {how}{}", console(console_tail))]
    Guest {
        /// What happened.
        how: String,
        /// The last lines of its console.
        console_tail: Vec<String>,
    },
}

impl Error {
    /// About a file.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

fn console(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  | {line}")).collect()
}
