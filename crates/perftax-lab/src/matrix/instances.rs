//! Several copies of a program at once, each on its CPU.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use perftax_doc::MatrixRun;
use perftax_pmu::guard::{check_interrupted, interrupted};
use perftax_pmu::sys::{Child, Exit, kill_with_descendants};
use perftax_pmu::{Error, Result};

use super::watch::{Seen, Waiting, Watch};
use crate::run::{Command, ReferenceLoopThread, succeeded};
use crate::system::steal_ns;

/// Copies of a program.
#[derive(Clone, Debug)]
pub struct Instances {
    /// The program.
    pub command: Command,
    /// The CPU of each copy.
    pub cpus: Vec<u32>,
    /// Whether a reference loop runs beside each; only where each has a CPU of its own.
    pub reference_loops: bool,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub enum Ran {
    /// All copies did their work.
    Done(MatrixRun, Seen),
    /// They had not ended when the time was up, and were killed.
    Stopped,
}

/// Share of a run's time that the hypervisor may take before it is somebody else's measurement.
const STEAL_LIMIT: f64 = 0.02;
/// From one look at the clock, and for signals, to the next.
const LOOK: Duration = Duration::from_millis(100);

impl Instances {
    /// Copies of a program on the first CPUs of an order, from the first on again where there are more copies than CPUs.
    pub fn placed(command: &Command, instances: u32, order: &[u32], reference_loops: bool) -> Self {
        let cpus = order.iter().copied().cycle().take(instances as usize).collect();
        Self { command: command.clone(), cpus, reference_loops: reference_loops && instances as usize <= order.len() }
    }

    /// Runs all copies once, watched or not, for at most so long.
    ///
    /// # Errors
    /// Where the program cannot be executed or fails, where an event cannot be opened, or on a signal.
    pub fn run(&self, watch: Option<&Watch>, limit: Duration) -> Result<Ran> {
        check_interrupted()?;
        let (mut copies, mut children) = (Vec::new(), Vec::new());
        for &cpu in &self.cpus {
            let (copy, child) = self.command.clone().on_cpus(vec![cpu]).spawn()?;
            children.push(child);
            copies.extend(copy);
        }
        let waiting: Vec<Waiting> =
            children.iter().zip(&self.cpus).map(|(child, &cpu)| Waiting { pid: child.pid(), cpu }).collect();
        let watching = watch.map(|watch| watch.start(&waiting)).transpose()?;
        let measured: &[u32] = if self.reference_loops { &self.cpus } else { &[] };
        let reference_loops = measured.iter().map(|&cpu| ReferenceLoopThread::start(cpu)).collect::<Result<Vec<_>>>()?;
        let steal_before = self.steal_ns()?;
        let exits = release_and_wait(children, limit);
        let steal_s = self.steal_ns()?.saturating_sub(steal_before) as f64 * 1e-9;
        let reference_loops = reference_loops.into_iter().map(ReferenceLoopThread::finish).collect::<Result<Vec<_>>>()?;
        let seen = watching.map(|watching| watching.finish()).transpose()?.unwrap_or_default();
        check_interrupted()?;
        let Some(exits) = exits? else { return Ok(Ran::Stopped) };
        for exit in &exits {
            succeeded(&self.command, exit)?;
        }
        self.command.note_what_is_left();
        drop(copies);
        let elapsed_s: Vec<f64> = exits.iter().map(|exit| exit.elapsed_s).collect();
        // Of the time of the CPUs, however many copies shared each.
        let longest_s = elapsed_s.iter().copied().fold(0.0, f64::max);
        let share = steal_s / (longest_s * self.distinct_cpus().len() as f64);
        let discarded = (share > STEAL_LIMIT).then(|| format!("{:.0} ms stolen by the hypervisor", steal_s * 1e3));
        let run = MatrixRun {
            elapsed_s,
            adjusted_s: Vec::new(),
            reference_loops,
            steal_s,
            samples: seen.samples,
            lost: seen.lost,
            discarded,
        };
        Ok(Ran::Done(run, seen))
    }

    /// Time that the hypervisor has taken of its CPUs.
    fn steal_ns(&self) -> Result<u64> {
        self.distinct_cpus().into_iter().map(|cpu| steal_ns(Some(cpu))).sum()
    }

    fn distinct_cpus(&self) -> Vec<u32> {
        let mut cpus = self.cpus.clone();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

/// Lets all of them start and waits for them, each on a thread of its own, so that each one's end is seen when it comes. The threads are there
/// before the programs start: on a CPU that they share, their own start would be part of the programs' time. None where programs
/// had to be killed.
fn release_and_wait(children: Vec<Child>, limit: Duration) -> Result<Option<Vec<Exit>>> {
    let pids: Vec<i32> = children.iter().map(Child::pid).collect();
    let ended: Vec<AtomicBool> = pids.iter().map(|_| AtomicBool::new(false)).collect();
    let go = Barrier::new(children.len() + 1);
    let mut is_stopped = false;
    let exits: Vec<Result<Exit>> = std::thread::scope(|scope| {
        let (tell, told) = channel();
        let waits: Vec<_> = children
            .into_iter()
            .zip(&ended)
            .map(|(mut child, ended)| {
                let (tell, go) = (tell.clone(), &go);
                scope.spawn(move || {
                    go.wait();
                    let exit = child.release().and_then(|()| child.wait());
                    ended.store(true, Ordering::Release);
                    tell.send(()).ok();
                    exit
                })
            })
            .collect();
        go.wait();
        let (started, mut left) = (Instant::now(), waits.len());
        while left > 0 {
            match told.recv_timeout(LOOK) {
                Ok(()) => left -= 1,
                Err(RecvTimeoutError::Timeout) if interrupted() || started.elapsed() > limit => {
                    is_stopped = true;
                    for (pid, _) in pids.iter().zip(&ended).filter(|(_, ended)| !ended.load(Ordering::Acquire)) {
                        // What they have made would go on beside all later cells.
                        kill_with_descendants(*pid, &|_| false);
                    }
                }
                Err(_) => {}
            }
        }
        waits.into_iter().map(|wait| wait.join().unwrap_or_else(|_| Err(ended_early()))).collect()
    });
    if is_stopped {
        return Ok(None);
    }
    exits.into_iter().collect::<Result<Vec<_>>>().map(Some)
}

fn ended_early() -> Error {
    Error::System { call: "waiting for a program".into(), source: std::io::Error::other("ended early") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use perftax_pmu::sys::Stdio;

    fn shell(script: &str) -> Command {
        Command::from_argv(["sh", "-c", script].map(Into::into).to_vec(), Stdio::Discard)
    }

    fn cpu() -> u32 {
        perftax_pmu::guard::allowed_cpus().unwrap()[0]
    }

    #[test]
    fn copies_go_around_the_cpus_and_reference_loops_need_one_each() {
        let placed = |n| Instances::placed(&shell("true"), n, &[2, 0], true);
        assert_eq!((placed(1).cpus, placed(1).reference_loops), (vec![2], true));
        assert_eq!((placed(3).cpus, placed(3).reference_loops), (vec![2, 0, 2], false));
    }

    #[test]
    fn each_copy_has_its_own_time() {
        // The first one to find the folder gone sleeps no longer.
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("mkdir {} 2>/dev/null && sleep 0.4; true", mark.display());
        let Ran::Done(run, _) = Instances::placed(&shell(&script), 2, &[cpu()], false).run(None, LOOK * 100).unwrap() else {
            panic!("stopped");
        };
        let (least, most) = (run.elapsed_s[0].min(run.elapsed_s[1]), run.elapsed_s[0].max(run.elapsed_s[1]));
        assert!(most >= 0.4 && least < most / 2.0, "{run:?}");
    }

    #[test]
    fn what_takes_too_long_is_stopped_and_what_fails_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("sleeps").display().to_string();
        let ran = Instances::placed(&shell(&format!("sleep 61 & echo $! >{own}; wait")), 1, &[cpu()], false);
        assert!(matches!(ran.run(None, Duration::from_millis(300)).unwrap(), Ran::Stopped));
        let child = std::fs::read_to_string(&own).unwrap();
        let is_running = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
        };
        let begun = Instant::now();
        while is_running() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(LOOK);
        }
        assert!(!is_running(), "what a program that was stopped has started goes on");
        let ran = Instances::placed(&shell("sleep 60"), 2, &[cpu()], false).run(None, Duration::from_millis(150)).unwrap();
        assert!(matches!(ran, Ran::Stopped), "{ran:?}");
        let error = Instances::placed(&shell("exit 3"), 1, &[cpu()], false).run(None, LOOK * 100).unwrap_err();
        assert!(error.to_string().contains("code 3"), "{error}");
    }
}
