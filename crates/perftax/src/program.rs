//! The program that predictions are about, measured: run several times, or looked at while it runs.

use std::time::{Duration, Instant};

use anyhow::Result;
use perftax_doc::Warning;
use perftax_doc::{Origin, WorkloadProfile};
use perftax_lab::run::{CodeClock, Lifetime, Survey, check_process, remarks, survey, survey_machine, survey_process};
use perftax_pmu::Error;
use perftax_pmu::event::Event;
use perftax_pmu::guard::{check_interrupted, online_cpus};
use perftax_pmu::sys::children_of;
use perftax_report::units;

use crate::folder::{self, FolderChoice};
use crate::host::Host;
use crate::input::LifetimeChoice;
use crate::progress::{Progress, announce};
use crate::target::Target;

/// The program to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Program {
    /// Unmonitored runs that the program is measured by
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub runs: u32,
    /// Look at a process that runs already, N times for --for (2s) each, and plan for it and what it creates from now on, as perf record -p watches
    /// it. Nothing is sampled, and it goes on; somebody else's needs the right to trace it
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["command", "workload", "load", "ready", "stdin", "scratch"])]
    pub pid: Option<u32>,
    #[command(flatten)]
    lasts: LifetimeChoice,
    #[command(flatten)]
    folder: FolderChoice,
    #[command(flatten)]
    pub target: Target,
    /// All CPUs, whoever runs there, instead of a program.
    #[arg(skip)]
    is_machine: bool,
}

/// Runs that take longer than this together are told of before, s.
const SAID_FROM_S: f64 = 30.0;

/// How long each look at a process takes.
const PROCESS_LOOK: Duration = Duration::from_secs(2);

impl Program {
    /// The same about this command.
    pub fn about(self, target: Target) -> Self {
        Self { target, ..self }
    }

    /// The same about all CPUs, whoever runs there.
    pub fn of_machine(self) -> Self {
        Self { is_machine: true, ..self }
    }

    /// The same about a process that runs.
    pub fn of_process(self, pid: u32) -> Self {
        Self { pid: Some(pid), ..self }
    }

    /// Measures it: `runs` unmonitored runs, one with counters only, one that counts threads.
    pub fn survey(&self, here: &Host, events: Vec<Event>, origin: &mut Origin) -> Result<WorkloadProfile> {
        let bar = Progress::new("measuring the program", u64::from(self.runs) + 1);
        let plan = Survey {
            // A process may run where perftax may not.
            cpus: if self.pid.is_some() || self.is_machine { online_cpus()? } else { here.cpus.clone() },
            runs: self.runs,
            events,
            task_clock: here.task_clock()?,
            dummy: here.event("dummy:u")?,
            code: self.code_clock(here)?,
        };
        let mut began = Instant::now();
        let between = |run: u32| {
            bar.at(u64::from(run), format!("run {run} of {}", self.runs));
            if run == 0 {
                began = Instant::now();
            }
            if run == 1 {
                self.say_how_long(began.elapsed());
            }
            check_interrupted()
        };
        let profile = match self.pid {
            _ if self.is_machine => {
                let time = self.look()?;
                announce(&format!(
                    "looking at all CPUs {} times for {:.1} s, nothing sampled; one more look samples them 99 times a second of CPU time (0.1 to 0.3 %)",
                    self.runs,
                    time.as_secs_f64()
                ));
                survey_machine(time, &plan, between)?
            }
            Some(pid) => self.survey_process(pid, &plan, between, origin)?,
            None => {
                let command = self.folder.place(self.target.command()?.lasting(self.lasts.lifetime()), &plan.events, 1)?;
                let profile = survey(&command, &plan, between)?;
                origin.warnings.extend(folder::warning(&command));
                profile
            }
        };
        origin.warnings.extend(remarks(&profile));
        Ok(profile)
    }

    /// The clock that its code is looked at with, in the kernel's mode too where one may; none where there is no such clock.
    fn code_clock(&self, here: &Host) -> Result<Option<CodeClock>> {
        let runs_for_others = self.pid.is_some() || self.is_machine;
        let period_ns = if runs_for_others { CodeClock::OF_A_PROCESS_NS } else { CodeClock::OF_A_RUN_NS };
        for name in ["cpu-clock", "cpu-clock:u"] {
            let event = here.event(name)?;
            if here.check_usable(&event).is_ok() {
                return Ok(Some(CodeClock { event, period_ns }));
            }
        }
        Ok(None)
    }

    /// Where the runs to come take long, when they will be over; `so_far`: what those took that are over.
    fn say_how_long(&self, so_far: Duration) {
        // The one that looks at tasks, and the one that counts; of a process both are one look.
        let before = if self.pid.is_some() || self.is_machine { 1 } else { 2 };
        let left_s = so_far.as_secs_f64() / f64::from(before) * f64::from(self.runs);
        if left_s > SAID_FROM_S {
            let what = if self.pid.is_some() || self.is_machine { "looks" } else { "runs" };
            let can_be_fewer = (self.runs > 2).then_some("-r 2");
            // A load ends by itself, and a time was chosen.
            let can_be_shorter = (self.lasts.lifetime.is_none() && self.lasts.load.is_none()).then_some("--for 10s");
            let less: Vec<&str> = can_be_fewer.into_iter().chain(can_be_shorter).collect();
            let less = if less.is_empty() { String::new() } else { format!(" ({} takes less)", less.join(" or ")) };
            announce(&format!("{} more {what}, about {}{less}", self.runs, units::span(left_s)));
        }
    }

    /// How long each look at a process takes.
    fn look(&self) -> Result<Duration> {
        match self.lasts.lifetime {
            None => Ok(PROCESS_LOOK),
            Some(Lifetime::For(time)) => Ok(time),
            Some(_) => {
                let needed = "how long to look at a process each time, such as 2s".into();
                Err(Error::Argument { argument: "--for", value: "end".into(), needed }.into())
            }
        }
    }

    /// Whether it can be measured at all, before anything is calibrated for it.
    pub fn check(&self) -> Result<()> {
        let Some(pid) = self.pid else { return Ok(()) };
        self.look()?;
        Ok(check_process(pid)?)
    }

    /// The same of a process, in looks at it.
    fn survey_process(
        &self,
        pid: u32,
        plan: &Survey,
        between: impl FnMut(u32) -> perftax_pmu::Result<()>,
        origin: &mut Origin,
    ) -> Result<WorkloadProfile> {
        let time = self.look()?;
        let before = children_of(pid as i32).len();
        if before > 0 {
            origin.warnings.push(Warning::Other {
                message: format!(
                    "process {pid} had created {} already: nothing here is of them, nor does perf record -p follow them",
                    if before == 1 { "another process".into() } else { format!("{before} processes") }
                ),
                remedy: "-p for each of them; or its command after --, from its beginning".into(),
            });
        }
        announce(&format!(
            "looking at process {pid} {} times for {:.1} s, nothing sampled; one more look counts its threads, which makes its context switches a little slower, and samples it 99 times a second of CPU time (0.1 to 0.3 %)",
            self.runs,
            time.as_secs_f64()
        ));
        Ok(survey_process(pid, time, plan, between)?)
    }
}
