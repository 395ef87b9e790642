//! Who is looked at.

use std::ffi::OsString;
use std::path::PathBuf;

use perftax_pmu::process::file_of;

/// Who is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A command that is started, and all that it starts.
    Command(Vec<OsString>),
    /// Processes that run already, one at least, and what they will start.
    Processes(Vec<u32>),
}

impl Subject {
    /// A process that runs already, and what it will start.
    pub fn process(pid: u32) -> Self {
        Self::Processes(vec![pid])
    }

    /// Processes that run already; none where it is to be started.
    pub fn running(&self) -> &[u32] {
        match self {
            Self::Command(_) => &[],
            Self::Processes(pids) => pids,
        }
    }

    /// The file that is, or was, executed, of several processes by the first; empty where that may not be told.
    pub fn program(&self) -> PathBuf {
        match self {
            Self::Command(argv) => argv.first().map(PathBuf::from).unwrap_or_default(),
            Self::Processes(pids) => {
                let first = pids.first().map(|pid| std::fs::read_link(file_of(*pid, "exe")));
                first.and_then(Result::ok).unwrap_or_default()
            }
        }
    }
}
