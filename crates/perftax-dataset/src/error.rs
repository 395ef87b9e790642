//! What can fail, each with the place that it is about.

/// Result with [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a data set cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder.
    #[error("cannot {what} {path}: {source}")]
    File {
        /// What was tried, a verb.
        what: &'static str,
        /// The file or folder.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// An object of a store.
    #[error("cannot {what} {path}: {why}")]
    Object {
        /// What was tried, a verb.
        what: &'static str,
        /// Its address.
        path: String,
        /// Why not.
        why: String,
    },
    /// The place of a data set.
    #[error("a data set at {place}: needs {needed}")]
    Place {
        /// As it was given.
        place: String,
        /// What it needs to be.
        needed: String,
    },
    /// A file's content.
    #[error("{path}: {why}")]
    Content {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    pub(crate) fn file(what: &'static str, path: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_string();
        move |source| Self::File { what, path, source }
    }

    pub(crate) fn content(path: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Content { path: path.into(), why: why.to_string() }
    }
}
