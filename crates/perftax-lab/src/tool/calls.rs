//! Kinds of system calls, as a tracer pays for them: what a call takes besides numbers it has to fetch from the program's memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use perftax_doc::TrialStage;
use perftax_pmu::sys::Stdio;
use perftax_pmu::{Error, Result};

use crate::run::Command;

/// Those that programs make most of, by what they take (man 2 of each).
pub const PATHS: [&str; 20] = [
    "access",
    "chdir",
    "execve",
    "faccessat2",
    "getxattr",
    "lgetxattr",
    "lstat",
    "mkdir",
    "newfstatat",
    "open",
    "openat",
    "readlink",
    "readlinkat",
    "rename",
    "rmdir",
    "stat",
    "statfs",
    "statx",
    "unlink",
    "unlinkat",
];
/// Likewise, a buffer.
pub const BUFFERS: [&str; 11] =
    ["getdents64", "pread64", "pwrite64", "read", "readv", "recvfrom", "recvmsg", "sendmsg", "sendto", "write", "writev"];

/// System calls of a run, by the stage of a trial that makes such.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calls {
    /// All of them.
    pub all: f64,
    /// Those that take a path.
    pub paths: f64,
    /// Those that take a buffer.
    pub buffers: f64,
}

impl Calls {
    /// From counts by name, all together where that was counted by itself.
    pub fn of<'a>(counts: impl IntoIterator<Item = (&'a str, f64)>, all: Option<f64>) -> Self {
        let mut calls = Self::default();
        let mut sum = 0.0;
        for (name, count) in counts {
            sum += count;
            match kind_of(name) {
                TrialStage::Paths => calls.paths += count,
                TrialStage::Reads => calls.buffers += count,
                _ => {}
            }
        }
        Self { all: all.unwrap_or(sum), ..calls }
    }

    /// Those that take neither.
    pub fn bare(&self) -> f64 {
        (self.all - self.paths - self.buffers).max(0.0)
    }
}

/// The stage of a trial that makes calls like this one.
pub fn kind_of(name: &str) -> TrialStage {
    if PATHS.contains(&name) {
        TrialStage::Paths
    } else if BUFFERS.contains(&name) {
        TrialStage::Reads
    } else {
        TrialStage::Calls
    }
}

/// System calls of a command, by one run of it under `strace -c`: for whoever may not count them. They are strace's own count, of all processes.
///
/// # Errors
/// Where strace is not there, or says nothing.
pub fn count_calls(counted: &[OsString], directory: Option<&Path>) -> Result<Calls> {
    let folder = tempfile::tempdir().map_err(|source| Error::System { call: "a temporary folder".into(), source })?;
    let summary = folder.path().join("calls");
    let mut argv: Vec<OsString> = ["strace", "-f", "-c", "-o"].map(OsString::from).into();
    argv.push(summary.clone().into());
    argv.extend(counted.iter().cloned());
    let mut command = Command::from_argv(argv, Stdio::Discard);
    command.spec.directory = directory.map(Into::into);
    let (_, mut child) = command.spawn()?;
    child.release()?;
    child.wait()?;
    let text = std::fs::read_to_string(&summary).map_err(Error::file(&summary))?;
    let counts = by_name(&text);
    if counts.is_empty() {
        return Err(Error::CommandFailed { command: "strace -c".into(), how: "counts no call".into() });
    }
    Ok(Calls::of(counts.iter().map(|(name, count)| (name.as_str(), *count)), None))
}

/// The rows of strace's summary: `60.00 0.000012 3 4 [ERRORS] read`.
fn by_name(summary: &str) -> BTreeMap<String, f64> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.last()?;
        let is_row = words.len() >= 5 && *name != "total" && words[0].parse::<f64>().is_ok();
        is_row.then(|| Some(((*name).to_owned(), words[3].parse().ok()?))).flatten()
    };
    summary.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straces_summary_is_read_by_kinds() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n \
            60.00    0.000012           3         4           read\n  \
            1.00    0.000012           3        70        12 statx\n  \
            0.00    0.000000           0        10           brk\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.000020           2        84        12 total\n";
        let counts = by_name(summary);
        let calls = Calls::of(counts.iter().map(|(name, count)| (name.as_str(), *count)), None);
        assert_eq!(calls, Calls { all: 84.0, paths: 70.0, buffers: 4.0 });
        assert_eq!(calls.bare(), 10.0);
        assert!(by_name("").is_empty());
    }
}
