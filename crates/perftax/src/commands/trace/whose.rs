//! Whose messages are recorded: a command's, or those of processes that run already.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::Result;
use perftax_pmu::Error;
use perftax_pmu::process::{has_ended, maps, refusal};
use perftax_pmu::sys::process_tree;
use perftax_record::Whom;
use perftax_trace::record::Subject;

use crate::progress;
use crate::target::program;

/// Whose messages are recorded.
#[derive(Debug, clap::Args)]
pub struct Whose {
    /// Record processes that run already, and what they will start, until ^C (or --time): one, or several with commas between them
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',', conflicts_with = "command", group = "running")]
    pids: Vec<u32>,
    /// Record the processes of a control group and of those below it, and what they will start, by its path below /sys/fs/cgroup
    #[arg(long, value_name = "PATH", conflicts_with_all = ["command", "pids"], group = "running")]
    cgroup: Option<PathBuf>,
    /// Record all processes that may be watched, and what they will start
    #[arg(short, long, conflicts_with_all = ["command", "pids", "cgroup"], group = "running")]
    all: bool,
    /// With -p, --cgroup or -a: stop after so many seconds
    #[arg(long, value_name = "S", requires = "running")]
    pub time: Option<f64>,
    /// The program, after --
    #[arg(last = true, required_unless_present = "running", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Processes of a result's heading.
const NAMED: usize = 4;

impl Whose {
    /// Who that is now.
    ///
    /// # Errors
    /// Where there is nobody, or somebody who may not be watched.
    pub fn subject(&self) -> Result<Subject> {
        let (pids, value) = match &self.cgroup {
            None if !self.command.is_empty() => return Ok(Subject::Command(self.command.clone())),
            None if !self.all => {
                if let Some(gone) = self.pids.iter().find(|pid| has_ended(**pid)) {
                    let needed = "the numbers of processes that run".into();
                    return Err(Error::Argument { argument: "-p", value: gone.to_string(), needed }.into());
                }
                let mut seen = BTreeSet::new();
                return Ok(Subject::Processes(self.pids.iter().copied().filter(|pid| seen.insert(*pid)).collect()));
            }
            None => (all_processes(), "-a".to_string()),
            Some(path) => (of_group(path)?, path.display().to_string()),
        };
        // Those of the kernel have no memory of their own, and whoever watches is not watched.
        let own = process_tree(std::process::id());
        let others = pids.into_iter().filter(|pid| !own.contains(pid) && !has_ended(*pid));
        let (closed, open): (Vec<u32>, Vec<u32>) = others.partition(|pid| refusal(*pid).is_some());
        let watched: Vec<u32> = open.into_iter().filter(|pid| maps(*pid).is_ok_and(|maps| !maps.is_empty())).collect();
        if !closed.is_empty() {
            progress::announce(&format!(
                "processes of others that may not be watched are left out: {} (as root none is)",
                closed.len()
            ));
        }
        if watched.is_empty() {
            let argument = if self.all { "--all" } else { "--cgroup" };
            return Err(Error::Argument { argument, value, needed: "processes that may be watched".into() }.into());
        }
        Ok(Subject::Processes(watched))
    }
}

/// What results call who is watched.
pub fn words(subject: &Subject) -> Vec<String> {
    match subject {
        Subject::Command(command) => program(None, command),
        Subject::Processes(pids) => {
            let named = pids.iter().take(NAMED).flat_map(|pid| program(Some(*pid), &[]));
            let left_out = pids.len().saturating_sub(NAMED);
            named.chain((left_out > 0).then(|| format!("and {left_out} more processes"))).collect()
        }
    }
}

fn all_processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// The processes of a group and of those below it.
fn of_group(path: &Path) -> Result<Vec<u32>> {
    let folder = match Whom::group("--cgroup", path)? {
        Whom::Group(folder) => folder,
        _ => unreachable!("a group is a group"),
    };
    let mut waiting = vec![PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))];
    let mut pids = BTreeSet::new();
    while let Some(place) = waiting.pop() {
        // A group may be gone meanwhile.
        let procs = std::fs::read_to_string(place.join("cgroup.procs")).unwrap_or_default();
        pids.extend(procs.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()).filter(|pid| *pid > 0));
        let below = std::fs::read_dir(&place).into_iter().flatten().flatten();
        waiting.extend(below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()));
    }
    Ok(pids.into_iter().collect())
}
