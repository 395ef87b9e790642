//! The program that is watched: started by us and held where it begins, or running already.

use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Duration;

use perftax_pmu::process::{has_ended, threads};
use perftax_pmu::record::Record;
use perftax_pmu::sys::{AtExec, Child, ChildSpec, Ended, Stdio, Stopped, TreeClock};
use perftax_pmu::{Error, Result};

use super::maps::Variables;
use super::place::{Place, PlaceName};
use super::plan::Plan;
use super::watcher::Watcher;

/// Who is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A command that is started, and all that it starts.
    Command(Vec<OsString>),
    /// A process that runs already, and what it will start.
    Process(u32),
}

/// How long a program may take to be loaded.
const LOADING: Duration = Duration::from_secs(60);
/// Times that a process's threads are looked up again where they change while their events are opened.
const ATTEMPTS: usize = 50;
/// What a thread that was just created needs to be told of.
const TELLING: Duration = Duration::from_millis(1);
/// signal(7).
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;

/// Whether a program's libraries must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libraries {
    /// Where a place is not in the program itself.
    AsNeeded,
    /// At any rate.
    Loaded,
}

/// A program under watch.
pub enum Program {
    /// Ours, and the CPU time of it and of what it starts.
    Child(Child, Option<TreeClock>),
    /// Somebody else's: its process, what it had used when we came, and whether we have left it.
    Process {
        /// Process.
        pid: u32,
        /// CPU time that it uses from now on, with what it has started.
        clock: TreeClock,
        /// We look no more.
        is_left: bool,
    },
}

impl Program {
    /// Starts it up to its gate, or finds it.
    ///
    /// # Errors
    /// Where it cannot be started, or is gone.
    pub fn open(subject: &Subject) -> Result<Self> {
        match subject {
            Subject::Command(argv) => {
                let argv = argv.clone();
                let spec =
                    ChildSpec { argv, directory: None, stdin: None, output: Stdio::Inherit, cpus: None, environment: Vec::new() };
                let child = Child::spawn(&spec)?;
                let clock = TreeClock::new(child.pid() as u32);
                Ok(Self::Child(child, clock))
            }
            Subject::Process(pid) => {
                let clock = TreeClock::new(*pid).filter(|_| !has_ended(*pid)).ok_or_else(|| gone(*pid))?;
                Ok(Self::Process { pid: *pid, clock, is_left: false })
            }
        }
    }

    /// CPU time that it has used since we came, ns; none where it is gone.
    pub fn cpu_ns(&mut self) -> Option<u64> {
        match self {
            Self::Child(_, clock) => clock.as_mut()?.elapsed_ns(),
            Self::Process { clock, .. } => clock.elapsed_ns(),
        }
    }

    /// Whether there is nothing to come any more.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Child(child, _) => child.has_ended(),
            Self::Process { is_left: true, .. } => true,
            Self::Process { pid, .. } => has_ended(*pid),
        }
    }

    /// Somebody wants an end: what is ours is told to, what is not is left alone.
    pub fn stop(&mut self) {
        match self {
            Self::Child(child, _) => child.signal(SIGINT),
            Self::Process { is_left, .. } => *is_left = true,
        }
    }

    /// It has not ended when told to.
    pub fn kill(&mut self) {
        match self {
            Self::Child(child, _) => child.signal(SIGKILL),
            Self::Process { .. } => self.stop(),
        }
    }

    /// How it ended, and what CPU time it used in all, ns, where that is told; one that is not ours goes on.
    ///
    /// # Errors
    /// Where the command could not be executed.
    pub fn finish(self) -> Result<(Ended, Option<u64>)> {
        match self {
            Self::Child(child, _) => {
                let exit = child.wait()?;
                Ok((exit.ended, Some(((exit.usage.user_s + exit.usage.system_s) * 1e9) as u64)))
            }
            Self::Process { .. } => Ok((Ended::Code(0), None)),
        }
    }
}

/// A child that has executed its program, and the places that were found in it.
///
/// Libraries are waited for only where they are `wanted`, or the program itself does not have all places.
///
/// # Errors
/// Where it cannot be executed, or a place is not found: it is ended then before its first instruction.
pub fn hold(child: &mut Child, names: &[PlaceName], wanted: Libraries) -> Result<(AtExec, Located)> {
    let mut stops = AtExec::release(child)?;
    let places = find_held(&mut stops, child.pid() as u32, names, wanted)?;
    Ok((stops, places))
}

fn find_held(stops: &mut AtExec, pid: u32, names: &[PlaceName], wanted: Libraries) -> Result<Located> {
    let not_loaded = |stopped| Error::System {
        call: "loading the command".into(),
        source: std::io::Error::other(if stopped == Stopped::Ended { "it ended" } else { "it took more than a minute" }),
    };
    match stops.wait_for_exec(LOADING)? {
        Stopped::AtExec => {}
        // What could not be executed says why when it is waited for.
        Stopped::Ended => return Ok(Located::default()),
        stopped => return Err(not_loaded(stopped)),
    }
    let early = Variables::of(pid, false)?;
    let found = Located::of(&early, names)?;
    if found.absent == 0 && wanted == Libraries::AsNeeded {
        return Ok(found);
    }
    match stops.wait_for_entry(LOADING)? {
        Stopped::AtEntry => {}
        stopped => return Err(not_loaded(stopped)),
    }
    find(pid, names).map_err(|error| match error {
        Error::Argument { argument, value, needed } => {
            let needed =
                format!("{needed}\n  (name the program itself: one that starts another, as env or sh do, has places of its own)");
            Error::Argument { argument, value, needed }
        }
        other => other,
    })
}

/// The places in a process that runs.
///
/// # Errors
/// Where one is not found.
pub fn find(pid: u32, names: &[PlaceName]) -> Result<Located> {
    let found = Located::of(&Variables::of(pid, true)?, names)?;
    if found.places.is_empty() && found.absent > 0 {
        return Err(Error::Argument {
            argument: "--lines-from",
            value: format!("{} addresses", found.absent),
            needed: "some that the program has mapped when watching begins: in another run libraries, stacks and the heap lie elsewhere. \
                     Take them from the process itself (-p), or from a program that is not position-independent"
                .into(),
        });
    }
    Ok(found)
}

/// Places that were looked for.
#[derive(Debug, Default)]
pub struct Located {
    /// Those that were found.
    pub places: Vec<Place>,
    /// How each was named.
    pub names: Vec<PlaceName>,
    /// How many others there are.
    pub absent: usize,
}

impl Located {
    /// Those of objects that are not there yet stand where they wait.
    fn of(variables: &Variables, names: &[PlaceName]) -> Result<Self> {
        let mut all = Self::default();
        for (number, name) in names.iter().enumerate() {
            match name.awaited(number).map_or_else(|| variables.find(name), |place| Ok(Some(place)))? {
                Some(place) => {
                    all.places.push(place);
                    all.names.push(name.clone());
                }
                None => all.absent += 1,
            }
        }
        Ok(all)
    }
}

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
pub fn join(pid: u32, watcher: &mut Watcher, plan: &Plan) -> Result<Vec<i32>> {
    let mut births: HashMap<i32, (i32, u64)> = HashMap::new();
    for _ in 0..ATTEMPTS {
        hear(watcher, &mut births)?;
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
        hear(watcher, &mut births)?;
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
        return Err(gone(pid));
    }
    Ok(known.into_iter().filter(|(_, status)| *status == Status::Partly).map(|(tid, _)| tid).collect())
}

/// Notes who was created, by whom and when.
fn hear(watcher: &mut Watcher, births: &mut HashMap<i32, (i32, u64)>) -> Result<()> {
    watcher.drain(|_, record| {
        if let Record::Fork(fork) = record {
            births.insert(fork.task.tid as i32, (fork.parent.tid as i32, fork.time_ns));
        }
    })
}

/// What a thread is called.
pub fn thread_name(pid: u32, tid: i32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(name.trim_end().into())
}

fn gone(pid: u32) -> Error {
    Error::Argument { argument: "-p", value: pid.to_string(), needed: "the number of a process that runs".into() }
}
