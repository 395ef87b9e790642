//! A load beside a program that does not end: it is started when the program is ready, and when it ends, so does the program.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use perftax_pmu::sys::{Child, ChildSpec, Ended, Exit, Stdio};
use perftax_pmu::{Error, Result};

use super::lifetime::cpu_ticks;

/// What a program that serves is given to do in each run.
#[derive(Clone, Debug)]
pub struct Load {
    /// A command for the shell, which ends.
    command: String,
    /// When it may begin.
    ready: Ready,
    /// What a run before, or somebody else, has left under the name of the file that says so: it says nothing of this run.
    stale: Arc<Mutex<Option<Identity>>>,
}

impl PartialEq for Load {
    fn eq(&self, other: &Self) -> bool {
        (&self.command, &self.ready) == (&other.command, &other.ready)
    }
}

impl Eq for Load {}

/// What makes a file another one of the same name: a socket that is bound anew is a new file, a file that is written anew has a new time.
type Identity = (u64, u64, i64, i64);

fn identity(path: &Path) -> Option<Identity> {
    let of = std::fs::metadata(path).ok()?;
    Some((of.dev(), of.ino(), of.mtime(), of.mtime_nsec()))
}

/// How a program shows that it is ready to serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// It has done nothing for a while.
    #[default]
    Idle,
    /// Somebody listens on this TCP port of this machine.
    Port(u16),
    /// This file (a socket, a file that holds a process's number) is there.
    File(PathBuf),
}

/// From one look to the next: how exactly the end of the load is seen.
const LOOK: Duration = Duration::from_millis(5);
/// A program that has had no tick of CPU time for so long is idle.
const IDLE: Duration = Duration::from_millis(250);
/// How long one may take to be ready.
const STARTING: Duration = Duration::from_secs(60);
/// How long a load may take.
const LONGEST: Duration = Duration::from_secs(1800);

/// What is under way.
enum Phase {
    Starting { ticks: u64, since: Instant },
    Loaded { load: Child, began: Instant },
    Done { elapsed_s: f64 },
}

impl Load {
    /// A command for the shell, and when it may begin.
    pub fn new(command: &str, ready: Ready) -> Self {
        let load = Self { command: command.into(), ready, stale: Arc::default() };
        load.note_stale();
        load
    }

    /// What is there now was not made by the run to come.
    fn note_stale(&self) {
        if let Ready::File(path) = &self.ready {
            *self.stale.lock().unwrap_or_else(PoisonError::into_inner) = identity(path);
        }
    }

    /// Waits until the program is ready, runs the load, and has the program end. The run's elapsed time is the load's.
    ///
    /// # Errors
    /// Where the program ends before, or is never ready; where the load fails, or does not end.
    pub(super) fn wait(&self, child: Child) -> Result<Exit> {
        let mut phase = Phase::Starting { ticks: 0, since: Instant::now() };
        let waited = child.wait_asking(LOOK, |child, ran| self.step(&mut phase, child, ran));
        self.note_stale();
        let exit = waited?;
        match phase {
            Phase::Done { elapsed_s } => Ok(Exit { elapsed_s, ..exit }),
            // A load that is under way is killed with what it was dropped with.
            _ if exit.ended != Ended::Code(0) => Ok(exit),
            _ => Err(Error::Argument {
                argument: "--load",
                value: self.command.clone(),
                needed: "a program that serves until it is told to end: this one ended by itself before the load had".into(),
            }),
        }
    }

    fn step(&self, phase: &mut Phase, child: &Child, ran: Duration) -> Result<Option<Duration>> {
        let next = match phase {
            Phase::Starting { ticks, since } => {
                if !self.is_ready(child, ticks, since) {
                    return if ran < STARTING { Ok(Some(LOOK)) } else { Err(self.never_ready()) };
                }
                let argv = ["sh", "-c", &self.command].map(Into::into).to_vec();
                let spec =
                    ChildSpec { argv, directory: None, stdin: None, output: Stdio::Discard, cpus: None, environment: Vec::new() };
                let mut load = Child::spawn(&spec)?;
                load.release()?;
                Phase::Loaded { load, began: Instant::now() }
            }
            Phase::Loaded { load, .. } if load.has_ended() => Phase::Done { elapsed_s: 0.0 },
            Phase::Loaded { began, .. } if began.elapsed() > LONGEST => {
                return Err(Error::Argument {
                    argument: "--load",
                    value: self.command.clone(),
                    needed: format!("a command that ends: it has run for {} s", LONGEST.as_secs()),
                });
            }
            Phase::Loaded { .. } => return Ok(Some(LOOK)),
            Phase::Done { .. } => return Ok(None),
        };
        let Phase::Loaded { load, .. } = std::mem::replace(phase, next) else { return Ok(Some(LOOK)) };
        let exit = load.wait()?;
        let how = match exit.ended {
            Ended::Code(0) => {
                *phase = Phase::Done { elapsed_s: exit.elapsed_s };
                return Ok(None);
            }
            Ended::Code(code) => format!("exited with code {code}"),
            Ended::Signal(signal) => format!("was killed by signal {signal}"),
        };
        Err(Error::CommandFailed { command: self.command.clone(), how })
    }

    fn is_ready(&self, child: &Child, ticks: &mut u64, since: &mut Instant) -> bool {
        match &self.ready {
            Ready::Idle => {
                let now = cpu_ticks(child.pid());
                if now != *ticks {
                    (*ticks, *since) = (now, Instant::now());
                }
                since.elapsed() >= IDLE
            }
            Ready::Port(port) => {
                let listens = |address: SocketAddr| TcpStream::connect_timeout(&address, LOOK * 20).is_ok();
                listens((Ipv4Addr::LOCALHOST, *port).into()) || listens((Ipv6Addr::LOCALHOST, *port).into())
            }
            Ready::File(path) => {
                let stale = *self.stale.lock().unwrap_or_else(PoisonError::into_inner);
                identity(path).is_some_and(|now| Some(now) != stale)
            }
        }
    }

    fn never_ready(&self) -> Error {
        let (value, needed) = match &self.ready {
            Ready::Idle => {
                ("missing".to_string(), "a port or a file that says when the program is ready: it has been busy".to_string())
            }
            Ready::Port(port) => (port.to_string(), "a TCP port of this machine on which the program listens: nobody has".into()),
            Ready::File(path) => (path.display().to_string(), "a file that the program makes: it was not there".into()),
        };
        Error::Argument { argument: "--ready", value, needed: format!("{needed} for {} s", STARTING.as_secs()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn serve(script: &str, load: &str, ready: Ready) -> Result<Exit> {
        let argv = ["sh", "-c", script].map(Into::into).to_vec();
        let spec = ChildSpec { argv, directory: None, stdin: None, output: Stdio::Discard, cpus: None, environment: Vec::new() };
        let mut child = Child::spawn(&spec)?;
        child.release()?;
        Load::new(load, ready).wait(child)
    }

    #[test]
    fn a_server_lives_as_long_as_its_load() {
        let folder = tempfile::tempdir().unwrap();
        let (ready, served) = (folder.path().join("it is ready"), folder.path().join("served"));
        let server = format!("sleep 0.4; : >'{}'; sleep 1000", ready.display());
        // It fails where the server was not ready before it began.
        let load = format!("test -e '{}' && sleep 0.3 && : >'{}'", ready.display(), served.display());
        let exit = serve(&server, &load, Ready::File(ready.clone())).unwrap();
        assert!(exit.stopped && served.exists(), "{exit:?}");
        // The load's time, not the server's.
        assert!((0.3..20.0).contains(&exit.elapsed_s), "{exit:?}");
        let idle = serve("sleep 1000", "sleep 0.2", Ready::Idle).unwrap();
        assert!(idle.stopped && (0.2..20.0).contains(&idle.elapsed_s), "{idle:?}");
    }

    /// A file that a run before has left says nothing of this one.
    #[test]
    fn a_file_of_the_run_before_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        std::fs::write(&ready, "of yesterday").unwrap();
        let served = folder.path().join("served");
        let load = Load::new(&format!("cat '{}' >>'{}'", ready.display(), served.display()), Ready::File(ready.clone()));
        for run in ["first ", "second"] {
            let script = format!("sleep 0.3; echo {run} >'{}'; sleep 1000", ready.display());
            let argv = ["sh", "-c", &script].map(Into::into).to_vec();
            let spec =
                ChildSpec { argv, directory: None, stdin: None, output: Stdio::Discard, cpus: None, environment: Vec::new() };
            let mut child = Child::spawn(&spec).unwrap();
            child.release().unwrap();
            load.wait(child).unwrap();
        }
        let served = std::fs::read_to_string(&served).unwrap();
        // The file may be seen before it is written.
        assert!(!served.contains("yesterday"), "{served}");
    }

    #[test]
    fn what_goes_wrong_is_said() {
        let error = serve("sleep 1000", "exit 3", Ready::Idle).unwrap_err().to_string();
        assert!(error.contains("exit 3") && error.contains("exited with code 3"), "{error}");
        let error = serve("sleep 0.5", "sleep 1000", Ready::Idle).unwrap_err().to_string();
        assert!(error.contains("--load") && error.contains("ended by itself"), "{error}");
        let exit = serve("exit 9", "sleep 1000", Ready::Port(1)).unwrap();
        assert!(exit.ended == Ended::Code(9) && !exit.stopped, "{exit:?}");
    }
}
