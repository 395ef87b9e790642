//! A load beside a program that does not end: it is started when the program is ready, and when it ends, so does the program.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use perftax_doc::steps::Setting;
use perftax_pmu::sys::{Child, ChildSpec, Ended, Exit, Stdio};
use perftax_pmu::{Error, Result};

use super::ready::{Heard, Ready, STARTING, Stale, Waiting};

/// What a program that serves is given to do in each run.
#[derive(Clone, Debug)]
pub struct Load {
    /// A command for the shell, which ends.
    command: String,
    /// When it may begin.
    ready: Ready,
    /// Of the run to come.
    next: Arc<Mutex<Next>>,
}

/// What is known of a run before it begins.
#[derive(Clone, Debug, Default)]
struct Next {
    place: Place,
    stale: Stale,
}

/// Where a run is, and its load with it.
#[derive(Clone, Debug, Default)]
struct Place {
    /// None: the current folder.
    directory: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
}

impl PartialEq for Load {
    fn eq(&self, other: &Self) -> bool {
        (&self.command, &self.ready) == (&other.command, &other.ready)
    }
}

impl Eq for Load {}

/// From one look to the next: how exactly the end of the load is seen.
const LOOK: Duration = Duration::from_millis(5);
/// How long a load may take.
const LONGEST: Duration = Duration::from_secs(1800);

/// What is under way.
enum Phase<'a> {
    Starting(Waiting<'a>),
    Loaded { load: Child, said: Heard, began: Instant },
    Done { elapsed_s: f64 },
}

impl Load {
    /// A command for the shell, and when it may begin.
    pub fn new(command: &str, ready: Ready) -> Self {
        Self { command: command.into(), ready, next: Arc::default() }
    }

    /// Before a run of a program that is executed so: what is there now was not made by it, and what it says is heard where that matters.
    ///
    /// # Errors
    /// Where somebody listens already on the port that is to show that the program is ready.
    pub(super) fn before_run(&self, spec: &mut ChildSpec) -> Result<()> {
        self.ready.check_free()?;
        if let Ready::Says(_) = self.ready {
            spec.output = Stdio::Pipe;
        }
        let place = Place { directory: spec.directory.clone(), environment: spec.environment.clone() };
        let next = Next { place, stale: self.ready.stale(spec.directory.as_deref()) };
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// Waits until the program is ready, runs the load, and has the program end. The run's elapsed time is the load's.
    ///
    /// # Errors
    /// Where the program ends before, or is never ready; where the load fails, or does not end.
    pub(super) fn wait(&self, child: Child) -> Result<Exit> {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut phase = Phase::Starting(Waiting::new(&self.ready, next.stale));
        let mut heard = Heard::default();
        let exit = child.wait_asking(LOOK, |child, ran| {
            heard.listen(child, Some(&self.ready));
            self.step(&mut phase, child, &heard, &next.place, ran)
        })?;
        match phase {
            Phase::Done { elapsed_s } => Ok(Exit { elapsed_s, ..exit }),
            // A load that is under way is killed with what it was dropped with.
            _ if exit.ended != Ended::Code(0) => Ok(exit),
            _ => Err(Error::Argument {
                argument: Setting::Load.name(),
                value: self.command.clone(),
                needed: "a program that serves until it is told to end: this one ended by itself before the load had".into(),
            }),
        }
    }

    fn step(&self, phase: &mut Phase, child: &Child, heard: &Heard, place: &Place, ran: Duration) -> Result<Option<Duration>> {
        let next = match phase {
            Phase::Starting(waiting) => {
                if !waiting.is_over(child, heard) {
                    return if ran < STARTING { Ok(Some(LOOK)) } else { Err(self.ready.never(heard)) };
                }
                let argv = ["sh", "-c", &self.command].map(Into::into).to_vec();
                let Place { directory, environment } = place.clone();
                let spec = ChildSpec {
                    argv,
                    directory,
                    stdin: None,
                    output: Stdio::PipeErrors,
                    cpus: None,
                    environment,
                    survives: false,
                };
                let mut load = Child::spawn(&spec)?;
                load.release()?;
                Phase::Loaded { load, said: Heard::default(), began: Instant::now() }
            }
            Phase::Loaded { load, said, began } => {
                // It would wait for somebody to read.
                said.listen(load, None);
                if !load.has_ended() {
                    if began.elapsed() <= LONGEST {
                        return Ok(Some(LOOK));
                    }
                    return Err(Error::Argument {
                        argument: Setting::Load.name(),
                        value: self.command.clone(),
                        needed: format!("a command that ends: it has run for {} s", LONGEST.as_secs()),
                    });
                }
                said.listen(load, None);
                Phase::Done { elapsed_s: 0.0 }
            }
            Phase::Done { .. } => return Ok(None),
        };
        let Phase::Loaded { load, said, .. } = std::mem::replace(phase, next) else { return Ok(Some(LOOK)) };
        let exit = load.wait()?;
        let how = match exit.ended {
            Ended::Code(0) => {
                *phase = Phase::Done { elapsed_s: exit.elapsed_s };
                return Ok(None);
            }
            Ended::Code(code) => format!("exited with code {code}"),
            Ended::Signal(signal) => format!("was killed by signal {signal}"),
        };
        let said = said.last_line().map_or_else(|| " without a word".into(), |line| format!(", its last words: {line}"));
        Err(Error::CommandFailed { command: self.command.clone(), how: format!("{how}{said}") })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::super::ready::Pattern;
    use super::*;

    fn serve(script: &str, load: &str, ready: Ready) -> Result<Exit> {
        run(&Load::new(load, ready), script, None)
    }

    fn run(load: &Load, script: &str, directory: Option<PathBuf>) -> Result<Exit> {
        let argv = ["sh", "-c", script].map(Into::into).to_vec();
        let mut spec = ChildSpec {
            argv,
            directory,
            stdin: None,
            output: Stdio::Discard,
            cpus: None,
            environment: Vec::new(),
            survives: false,
        };
        load.before_run(&mut spec)?;
        let mut child = Child::spawn(&spec)?;
        child.release()?;
        load.wait(child)
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
        for number in ["first ", "second"] {
            let script = format!("sleep 0.3; echo {number} >'{}'; sleep 1000", ready.display());
            run(&load, &script, None).unwrap();
        }
        let served = std::fs::read_to_string(&served).unwrap();
        // The file may be seen before it is written.
        assert!(!served.contains("yesterday"), "{served}");
    }

    #[test]
    fn a_server_says_that_it_is_ready() {
        let folder = tempfile::tempdir().unwrap();
        let load = |command: &str| Load::new(command, Ready::Says(Pattern::new("^listening on [0-9]+$").unwrap()));
        // In the server's folder, and not before it has said so; what it says from then on is read.
        let server = "echo not listening on 1x; sleep 0.3; : >ready; echo listening on 80 >&2; while :; do echo chatter; done";
        let exit = run(&load("test -e ready && sleep 0.2 && : >served"), server, Some(folder.path().into())).unwrap();
        assert!(exit.stopped && folder.path().join("served").exists(), "{exit:?}");
        let error = Pattern::new("listening (").unwrap_err();
        assert!(!error.is_empty());
    }

    #[test]
    fn what_goes_wrong_is_said() {
        let error = serve("sleep 1000", "echo no such port >&2; exit 3", Ready::Idle).unwrap_err().to_string();
        assert!(error.contains("exited with code 3") && error.contains("no such port"), "{error}");
        let error = serve("sleep 1000", "exit 3", Ready::Idle).unwrap_err().to_string();
        assert!(error.contains("exit 3") && error.contains("exited with code 3"), "{error}");
        let error = serve("sleep 0.5", "sleep 1000", Ready::Idle).unwrap_err().to_string();
        assert!(error.contains("'load'") && error.contains("ended by itself"), "{error}");
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let error = serve("sleep 1000", "true", Ready::Port(taken.local_addr().unwrap().port())).unwrap_err().to_string();
        assert!(error.contains("nobody listens before"), "{error}");
        let exit = serve("exit 9", "sleep 1000", Ready::Port(1)).unwrap();
        assert!(exit.ended == Ended::Code(9) && !exit.stopped, "{exit:?}");
    }
}
