//! What a process has started, directly or not.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::process::{PidfdFlags, pidfd_open};

/// What a process has started, directly or not, and still runs (as [`kill_with_descendants`] finds it).
pub(super) fn started_by(pid: i32) -> Vec<OwnedFd> {
    children_of(pid).into_iter().fold(Vec::new(), |mut all, child| {
        let process = rustix::process::Pid::from_raw(child);
        all.extend(process.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok()));
        all.extend(started_by(child));
        all
    })
}

/// Children of all threads of a process, as the kernel lists them (`/proc/PID/task/TID/children`, CONFIG_PROC_CHILDREN); none where it does not.
pub fn children_of(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok()).collect::<String>();
    children.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// A process and all that it has started, directly or not, as the kernel lists them; each once, whatever numbers are given out again meanwhile.
pub fn process_tree(pid: u32) -> BTreeSet<u32> {
    process_trees([pid], &BTreeSet::new())
}

/// The same of several; without those of `others`, and what these have started.
pub fn process_trees(roots: impl IntoIterator<Item = u32>, others: &BTreeSet<u32>) -> BTreeSet<u32> {
    let (mut waiting, mut found) = (Vec::from_iter(roots), BTreeSet::new());
    while let Some(pid) = waiting.pop() {
        if !others.contains(&pid) && found.insert(pid) {
            waiting.extend(children_of(pid as i32).into_iter().map(|child| child as u32));
        }
    }
    found
}

/// Kills a process and all that it has started, directly or not, as the kernel lists them (CONFIG_PROC_CHILDREN; without it, the process alone).
/// Those that `is_spared` are not killed, but what they have started is, unless it is spared, too.
pub fn kill_with_descendants(pid: i32, is_spared: &dyn Fn(i32) -> bool) {
    // Asked before it is killed: its children are somebody else's then. What it starts meanwhile is missed.
    let children = children_of(pid);
    if let Some(pid) = rustix::process::Pid::from_raw(pid).filter(|pid| !is_spared(pid.as_raw_nonzero().get())) {
        // One that is gone already is no error.
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
    }
    children.into_iter().for_each(|child| kill_with_descendants(child, is_spared));
}
