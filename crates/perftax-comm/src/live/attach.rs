//! All threads of a process that runs, while they come and go.

use std::collections::HashMap;
use std::time::Duration;

use perftax_pmu::Result;
use perftax_pmu::process::threads;
use perftax_pmu::record::Record;
use perftax_target::Program;

use super::plan::Plan;
use super::watcher::Watcher;

/// Times that a process's threads are looked up again where they change while their events are opened.
const ATTEMPTS: usize = 50;
/// What a thread that was just created needs to be told of.
const TELLING: Duration = Duration::from_millis(1);

/// How a thread that runs already has come to be watched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    /// By breakpoints of its own, or all of its parent's.
    Watched,
    /// It was created while its parent's were opened: it has some of them.
    Partly,
    /// It was gone.
    Gone,
}

/// Opens the events of all threads of a process, off; returns those that are watched in part alone.
///
/// First all threads are made to tell what they create, then each gets its breakpoints, unless those of the CPUs watch it: whoever is created meanwhile has all of its
/// parent's, or none, or (told by when it was created) some.
///
/// # Errors
/// Where the kernel refuses, or the process is gone.
pub fn attach(pid: u32, watcher: &mut Watcher, plan: &Plan) -> Result<Vec<i32>> {
    let mut births: HashMap<i32, (i32, u64)> = HashMap::new();
    for _ in 0..ATTEMPTS {
        drain_forks(watcher, &mut births)?;
        let is_new = |tid: &i32| !watcher.is_followed(*tid) && !births.contains_key(tid);
        let new: Vec<i32> = threads(pid).into_iter().filter(is_new).collect();
        if new.is_empty() {
            break;
        }
        for tid in new {
            watcher.follow(tid)?;
        }
        std::thread::sleep(TELLING);
    }
    let mut known: HashMap<i32, Status> = HashMap::new();
    for _ in 0..ATTEMPTS {
        drain_forks(watcher, &mut births)?;
        let mut new: Vec<i32> = threads(pid).into_iter().filter(|tid| !known.contains_key(tid)).collect();
        if new.is_empty() {
            break;
        }
        // Parents before children.
        new.sort_by_key(|tid| births.get(tid).map_or(0, |(_, time_ns)| *time_ns));
        for tid in new {
            if watcher.is_everywhere() {
                known.insert(tid, Status::Watched);
                continue;
            }
            let inherited =
                births.get(&tid).and_then(|&(parent, time_ns)| match (watcher.opened_ns(parent), known.get(&parent)) {
                    (Some((from_ns, _)), _) if time_ns < from_ns => None,
                    (Some((_, to_ns)), _) if time_ns > to_ns => Some(Status::Watched),
                    (Some(_), _) => Some(Status::Partly),
                    (None, Some(Status::Gone) | None) => None,
                    (None, Some(status)) => Some(*status),
                });
            let status = match inherited {
                Some(status) => status,
                None if watcher.open_breakpoints(tid, plan)? => Status::Watched,
                None => Status::Gone,
            };
            known.insert(tid, status);
        }
        std::thread::sleep(TELLING);
    }
    if known.values().all(|status| *status == Status::Gone) {
        return Err(Program::gone(pid));
    }
    Ok(known.into_iter().filter(|(_, status)| *status == Status::Partly).map(|(tid, _)| tid).collect())
}

/// Notes who was created, by whom and when.
fn drain_forks(watcher: &mut Watcher, births: &mut HashMap<i32, (i32, u64)>) -> Result<()> {
    watcher.drain(|_, record| {
        if let Record::Fork(fork) = record {
            births.insert(fork.task.tid as i32, (fork.parent.tid as i32, fork.time_ns));
        }
    })
}
