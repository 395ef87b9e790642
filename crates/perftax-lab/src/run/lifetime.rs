//! When a run is over: at the program's end, or after a time; and how one that has no end is noticed.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use perftax_doc::steps::Setting;
use perftax_pmu::sys::{Child, ChildSpec, Exit, children_of};
use perftax_pmu::{Error, Result};

use super::Load;

/// How long a program runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// To its end; one that waits for work, as servers do, is refused once that is seen.
    #[default]
    ToItsEnd,
    /// To its end, however long it does nothing.
    ToItsEndHowever,
    /// So long, and it is told to end.
    For(Duration),
    /// For as long as its load takes, and it is told to end.
    Under(Load),
}

/// When the first look is taken at whether a program does anything, and how often from then on.
const LOOK: Duration = Duration::from_secs(1);

/// For how long a program has done nothing that is taken to wait for work. With the first look an answer comes within ten seconds.
const IDLE_LOOKS: usize = 8;

/// Ticks of CPU time (10 ms) of it and its children within these looks that are nothing: what a server's own timers take.
const IDLE_TICKS: u64 = 8;

impl Lifetime {
    /// Before a run that is to be waited for: what it must be executed with.
    ///
    /// # Errors
    /// Where its load cannot begin.
    pub(super) fn before_run(&self, spec: &mut ChildSpec) -> Result<()> {
        match self {
            Self::Under(load) => load.before_run(spec),
            _ => Ok(()),
        }
    }

    /// Waits until a run is over.
    ///
    /// # Errors
    /// As [`Child::wait`]; [`Error::Argument`] where the program waits for work, or its load is none; it is killed then.
    pub fn wait(&self, child: Child) -> Result<Exit> {
        match self {
            Self::ToItsEndHowever => child.wait(),
            Self::Under(load) => load.wait(child),
            Self::For(limit) => {
                child.wait_asking(*limit, |_, ran| Ok(Some(limit.saturating_sub(ran)).filter(|left| !left.is_zero())))
            }
            Self::ToItsEnd => {
                let mut looks: VecDeque<u64> = VecDeque::new();
                child.wait_asking(LOOK, |child, ran| {
                    // Where the kernel does not tell what a process has started, nobody knows what it does.
                    if !Path::new(&format!("/proc/{0}/task/{0}/children", child.pid())).exists() {
                        return Ok(Some(LOOK));
                    }
                    let now = cpu_ticks(child.pid());
                    // Some of it has left for another parent, or was reaped between two readings.
                    if looks.back().is_some_and(|last| now < *last) {
                        looks.clear();
                    }
                    looks.push_back(now);
                    if looks.len() > IDLE_LOOKS {
                        let before = looks.pop_front().unwrap_or_default();
                        if now.saturating_sub(before) <= IDLE_TICKS {
                            return Err(waits_for_work(ran));
                        }
                    }
                    Ok(Some(LOOK))
                })
            }
        }
    }
}

fn waits_for_work(ran: Duration) -> Error {
    Error::Argument {
        argument: Setting::For.name(),
        value: "missing".into(),
        needed: format!(
            "how long to measure a program that does not end: this one has run for {} s and has done nothing for {IDLE_LOOKS}, as servers do that \
             wait for work ({load} 'COMMAND' serves that command; {span} 30s is beside a load of yours; {process} PID looks at one that runs and has its load; {span} end waits on)",
            ran.as_secs(),
            load = Setting::Load,
            span = Setting::For,
            process = Setting::Process
        ),
    }
}

/// CPU time of a process, of what it has started, and of what that has waited for, ticks: `/proc/PID/stat` (proc_pid_stat(5)).
pub(super) fn cpu_ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before may have blanks and brackets of its own; utime to cstime are fields 14 to 17.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(11).take(4);
    let own: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    own + children_of(pid).into_iter().map(cpu_ticks).sum::<u64>()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use perftax_pmu::sys::{Ended, Stdio};
    use std::time::Instant;

    fn run(lifetime: Lifetime, script: &str) -> Result<Exit> {
        let argv = ["sh", "-c", script].map(Into::into).to_vec();
        let spec = ChildSpec {
            argv,
            directory: None,
            stdin: None,
            output: Stdio::Discard,
            cpus: None,
            environment: Vec::new(),
            survives: false,
        };
        let mut child = Child::spawn(&spec).unwrap();
        child.release().unwrap();
        lifetime.wait(child)
    }

    #[test]
    fn a_run_ends_when_its_time_is_over_and_by_force_where_it_must() {
        let began = Instant::now();
        // What it has started goes with it, be it a grandchild that the signal does not end.
        let folder = tempfile::tempdir().unwrap();
        let noted = folder.path().join("pid");
        let script = format!("(sh -c 'trap \"\" TERM; echo $$ >{}; while :; do sleep 0.1; done') & wait", noted.display());
        let exit = run(Lifetime::For(Duration::from_millis(500)), &script).unwrap();
        assert!(exit.stopped && exit.ended == Ended::Signal(15) && (0.5..5.0).contains(&exit.elapsed_s), "{exit:?}");
        let grandchild = std::fs::read_to_string(&noted).unwrap();
        // Its new parent may take a moment to reap it.
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", grandchild.trim())).unwrap_or_default();
        while !state().is_empty() && !state().contains(") Z ") {
            assert!(began.elapsed() < Duration::from_secs(60), "{}", state());
            std::thread::sleep(Duration::from_millis(10));
        }
        // What it takes to be killed is not the run's.
        let exit = run(Lifetime::For(Duration::from_millis(300)), "trap '' TERM; while :; do sleep 0.1; done").unwrap();
        assert!(exit.stopped && exit.ended == Ended::Signal(9) && (0.3..2.0).contains(&exit.elapsed_s), "{exit:?}");
        assert!(began.elapsed() < Duration::from_secs(60));
        let exit = run(Lifetime::For(Duration::from_secs(60)), "exit 3").unwrap();
        assert!(!exit.stopped && exit.ended == Ended::Code(3) && exit.elapsed_s < 50.0, "{exit:?}");
    }

    #[test]
    fn who_waits_for_work_is_told_apart_from_who_works() {
        // In its children, which come and go.
        let busy = "end=$(($(date +%s) + 12)); while [ $(date +%s) -lt $end ]; do i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done; done";
        std::thread::scope(|scope| {
            let works = scope.spawn(|| run(Lifetime::ToItsEnd, busy).unwrap().ended);
            let waits = scope.spawn(|| run(Lifetime::ToItsEndHowever, "sleep 10").unwrap().ended);
            let error = run(Lifetime::ToItsEnd, "sleep 1000").unwrap_err().to_string();
            assert!(error.contains("'duration' 30s") && error.contains("done nothing for 8"), "{error}");
            assert_eq!((works.join().unwrap(), waits.join().unwrap()), (Ended::Code(0), Ended::Code(0)));
        });
    }
}
