//! Why a program or library could not be read.

use std::path::{Path, PathBuf};

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a program or library could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened or read.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no ELF file, or a damaged one.
    #[error("{path} is malformed at byte {offset}: {why}", path = path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        why: String,
    },
}

impl Error {
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { path, source }
    }

    pub(crate) fn malformed(path: &Path, offset: u64, why: impl ToString) -> Self {
        Self::Malformed { path: path.into(), offset, why: why.to_string() }
    }
}
