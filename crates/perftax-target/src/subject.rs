//! Who is looked at.

use std::ffi::OsString;
use std::path::PathBuf;

use perftax_pmu::process::file_of;

/// Who is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A command that is started, and all that it starts.
    Command(Vec<OsString>),
    /// A process that runs already, and what it will start.
    Process(u32),
}

impl Subject {
    /// The file that is, or was, executed; empty where that may not be told.
    pub fn program(&self) -> PathBuf {
        match self {
            Self::Command(argv) => argv.first().map(PathBuf::from).unwrap_or_default(),
            Self::Process(pid) => std::fs::read_link(file_of(*pid, "exe")).unwrap_or_default(),
        }
    }
}
