//! The CPU limit of the control groups that this process is in.

use super::Root;

/// A bandwidth limit: so much CPU time in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLimit {
    /// Microseconds of CPU time in each period.
    pub quota_us: u64,
    /// Length of the period, in microseconds.
    pub period_us: u64,
}

impl CpuLimit {
    /// The tightest limit on the way from this process's group to the root; `None` where there is none.
    pub fn read(root: &Root) -> Option<Self> {
        let groups = root.proc("self/cgroup").unwrap_or_default();
        let limits = groups.lines().flat_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
            match controllers {
                "" => ["fs/cgroup", "fs/cgroup/unified"].iter().flat_map(|mount| upward(root, mount, path, unified)).collect(),
                _ if controllers.split(',').any(|c| c == "cpu") => {
                    upward(root, &format!("fs/cgroup/{controllers}"), path, legacy)
                }
                _ => Vec::new(),
            }
        });
        // Compared as fractions: a/b < c/d where a·d < c·b.
        limits.min_by(|a: &Self, b: &Self| {
            (u128::from(a.quota_us) * u128::from(b.period_us)).cmp(&(u128::from(b.quota_us) * u128::from(a.period_us)))
        })
    }

    /// How many CPUs' worth of time it allows.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }
}

/// The limits of a group and of all above it. Inside a container the path may not exist below the mount: the mount's
/// own files, which then are the container's, are always looked at.
fn upward(root: &Root, mount: &str, path: &str, read: fn(&Root, &str) -> Option<CpuLimit>) -> Vec<CpuLimit> {
    let mut folder = path.trim_matches('/');
    let mut limits = Vec::new();
    loop {
        limits.extend(read(root, &format!("{mount}/{folder}")));
        if folder.is_empty() {
            return limits;
        }
        folder = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
}

/// `cpu.max` of control groups v2: `max 100000` or `50000 100000`.
fn unified(root: &Root, folder: &str) -> Option<CpuLimit> {
    let text = root.sys(&format!("{folder}/cpu.max"))?;
    let (quota, period) = text.split_once(' ')?;
    limit(quota.parse().ok()?, period.trim().parse().ok()?)
}

/// `cpu.cfs_quota_us` of v1: -1 where unlimited, which does not parse as a quota.
fn legacy(root: &Root, folder: &str) -> Option<CpuLimit> {
    let number = |file: &str| root.sys(&format!("{folder}/{file}")).and_then(|text| text.parse::<u64>().ok());
    limit(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

fn limit(quota_us: u64, period_us: u64) -> Option<CpuLimit> {
    (period_us > 0).then_some(CpuLimit { quota_us, period_us })
}
