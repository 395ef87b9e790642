//! Who is sampled.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use perftax_pmu::sys::Target;
use perftax_pmu::{Error, Result};

use crate::place::Place;

/// Who is sampled.
#[derive(Clone, Debug)]
pub enum Whom {
    /// The program, and all that it creates.
    Program,
    /// One thread of the program, and nothing that it creates, by its number.
    Thread(u32),
    /// Everything on the CPUs, whoever it is.
    Cpus,
    /// A control group and those below it, whoever joins it: its folder.
    Group(Arc<File>),
}

/// Where control groups are, one after another (cgroups(7)): the unified hierarchy by itself or beside others, and the controller of version 1.
const MOUNTED: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/perf_event"];

impl Whom {
    /// A control group by its path: of the file system, or below where control groups are.
    ///
    /// # Errors
    /// [`Error::Argument`] where there is none.
    pub fn group(argument: &'static str, path: &Path) -> Result<Self> {
        let below = path.strip_prefix("/").unwrap_or(path);
        let places = MOUNTED.iter().map(|mounted| Path::new(mounted).join(below)).chain([path.to_path_buf()]);
        let found = places.filter(|place| place.join("cgroup.procs").is_file()).find_map(|place| File::open(place).ok());
        found.map(|folder| Self::Group(Arc::new(folder))).ok_or_else(|| Error::Argument {
            argument,
            value: path.display().to_string(),
            needed: format!("a control group, below {}", MOUNTED.join(" or ")),
        })
    }

    /// What events are opened on: of a program each of its threads, or CPUs.
    pub(crate) fn targets(&self, place: Place, threads: &[i32], cpus: &[u32]) -> Vec<Target> {
        let each = cpus.iter().copied();
        match self {
            Self::Program if place == Place::Threads => {
                threads.iter().flat_map(|&tid| cpus.iter().map(move |&cpu| Target::ThreadOnCpu(tid, cpu))).collect()
            }
            Self::Thread(tid) => each.map(|cpu| Target::ThreadOnCpu(*tid as i32, cpu)).collect(),
            Self::Program | Self::Cpus => each.map(Target::Cpu).collect(),
            Self::Group(folder) => each.map(|cpu| Target::GroupOnCpu(folder.as_raw_fd(), cpu)).collect(),
        }
    }

    /// CPU time that a thread (`schedstat`; Documentation/scheduler/sched-stats.rst) or a control group has used so far, ns, as it says itself (`cpu.stat`, `cpuacct.usage`; cgroups(7));
    /// none of others, or where it does not.
    ///
    /// Counters of control groups do not tell: their times go on from where the group's clock stood before anybody watched it (Linux 6.18).
    pub(crate) fn used_ns(&self) -> Option<u64> {
        let folder = match self {
            Self::Group(folder) => folder,
            Self::Thread(tid) => {
                let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
                return text.split_whitespace().next()?.parse().ok();
            }
            Self::Program | Self::Cpus => return None,
        };
        let file = |name: &str| std::fs::read_to_string(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd())).ok();
        let of_line = |line: &str| Some(1_000 * line.strip_prefix("usage_usec ")?.parse::<u64>().ok()?);
        let unified = file("cpu.stat").and_then(|text| text.lines().find_map(of_line));
        unified.or_else(|| file("cpuacct.usage")?.trim().parse().ok())
    }

    /// Whether it is a program, or a thread of one, and not CPUs or a group.
    pub fn is_of_threads(&self) -> bool {
        matches!(self, Self::Program | Self::Thread(_))
    }

    /// Whether events are on CPUs and count whoever runs there.
    pub(crate) fn is_of_cpus(&self, place: Place) -> bool {
        match self {
            Self::Program => place == Place::Cpus,
            Self::Cpus => true,
            Self::Thread(_) | Self::Group(_) => false,
        }
    }

    /// Whether it is a program by itself, whose events what it creates inherits.
    pub(crate) fn is_program(&self) -> bool {
        matches!(self, Self::Program)
    }
}
