//! What a program does when nobody looks.

use perftax_cost::bootstrap::{REPLICATES, SEED, cluster_bootstrap};
use perftax_doc::Estimate;
use perftax_doc::observation::Run;
use perftax_doc::{Warning, WorkloadProfile};
use perftax_pmu::event::Event;
use perftax_pmu::{Error, Result};

use super::code::CodeClock;
use super::monitor::TASK_CLOCK;
use super::tasks::{Look, Seen, look_at_tasks};
use super::{Command, Watched, run_once};

/// How a workload is surveyed.
#[derive(Clone, Debug)]
pub struct Survey {
    /// CPUs that it may run on.
    pub cpus: Vec<u32>,
    /// Unmonitored runs.
    pub runs: u32,
    /// Events to be counted, in a run of their own.
    pub events: Vec<Event>,
    /// `task-clock`, resolved.
    pub task_clock: Event,
    /// `dummy:u`, resolved: carries FORK records, and needs no right to the kernel's mode for it.
    pub dummy: Event,
    /// What code is looked at with; none where that is not wanted.
    pub code: Option<CodeClock>,
}

/// Elapsed time below which a program cannot be measured: start-up, page cache and a few interrupts are all there is.
const SHORTEST_S: f64 = 0.02;

/// Runs the command `runs` times with nothing open, and once with counters only. `between` is called before each run.
pub fn survey(command: &Command, survey: &Survey, mut between: impl FnMut(u32) -> Result<()>) -> Result<WorkloadProfile> {
    between(0)?;
    let Survey { cpus, events, task_clock, dummy, .. } = survey;
    let seen = look_at_tasks(command, &Look { cpus, task_clock, dummy, events, code: survey.code.as_ref() })?;
    let counted = {
        let mut counting = survey.events.clone();
        counting.push(survey.task_clock.clone());
        let watched = Watched { cpus: survey.cpus.clone(), counting, ..Watched::default() };
        run_once(command, None, &watched, "counting", 0)?
    };
    let watched = Watched { cpus: survey.cpus.clone(), ..Watched::default() };
    let mut runs = Vec::new();
    for round in 0..survey.runs {
        between(round + 1)?;
        runs.push(run_once(command, None, &watched, "off", round)?);
    }
    let profile = profile(command.words(), seen, &counted, runs);
    if profile.elapsed_s.estimate < SHORTEST_S {
        return Err(Error::Discarded {
            why: format!(
                "'{}' runs for {:.1} ms: too short to measure (at least {:.0} ms are needed)",
                command.line(),
                profile.elapsed_s.estimate * 1e3,
                SHORTEST_S * 1e3
            ),
            remedy: "lengthen it: a larger input, or a loop: sh -c 'for i in $(seq 100); do COMMAND; done'".into(),
        });
    }
    Ok(profile)
}

/// The profile of what was run, or looked at: which tasks there were and how wide their code is, a run with counters, and the others.
pub(super) fn profile(command: Vec<String>, seen: Seen, counted: &Run, all: Vec<Run>) -> WorkloadProfile {
    let Seen { tasks, code } = seen;
    let runs = WorkloadProfile::measured(&all);
    let elapsed: Vec<f64> = runs.iter().map(|r| r.elapsed_s).collect();
    let of = |value: fn(&Run) -> f64| estimate(&runs.iter().map(|run| value(run)).collect::<Vec<_>>());
    let cpu_s = of(|r| r.user_s + r.system_s);
    // Which core did how much: the shares come from the counted run, the amount from the unmonitored ones.
    let by_cpu_total: f64 = counted.cpu_s_per_cpu.iter().sum();
    let cpu_s_per_cpu = counted.cpu_s_per_cpu.iter().map(|s| cpu_s.scaled(s / by_cpu_total.max(f64::MIN_POSITIVE))).collect();
    let counts = counted.counts.iter().filter(|(name, _)| *name != TASK_CLOCK);
    WorkloadProfile {
        command,
        pid: None,
        elapsed_s: of(|r| r.elapsed_s),
        cpu_s,
        cpu_s_per_cpu,
        threads: u32::try_from(1 + tasks.created()).unwrap_or(u32::MAX),
        tasks: Some(tasks),
        code,
        switches: of(|r| (r.voluntary_switches + r.involuntary_switches) as f64),
        faults: of(|r| (r.minor_faults + r.major_faults) as f64),
        max_rss_bytes: runs.iter().map(|r| r.max_rss_bytes).max().unwrap_or(0),
        counts: counts.map(|(name, &count)| (name.clone(), Estimate::exact(count as f64))).collect(),
        variation: variation(&elapsed),
        runs: all,
    }
}

/// The coefficient of variation, a fraction; 0 of nothing.
pub(super) fn variation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len().max(2) - 1) as f64;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}

/// Mean with an interval; runs of whole programs are seconds apart, so each is taken as independent.
fn estimate(values: &[f64]) -> Estimate {
    let mean = |sample: &[&f64]| sample.iter().copied().sum::<f64>() / sample.len() as f64;
    cluster_bootstrap(values, mean, REPLICATES, SEED).unwrap_or_else(|| Estimate::exact(values.first().copied().unwrap_or(0.0)))
}

/// What is to be said of a program's runs: what was lost, discarded, or varies.
pub fn remarks(profile: &WorkloadProfile) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(tasks) = profile.tasks.as_ref().filter(|tasks| tasks.lost > 0) {
        warnings.push(Warning::Other {
            message: format!(
                "{} records of threads and processes were lost: there were more than the {} that are counted, and how many samples they give is not known",
                tasks.lost,
                tasks.created()
            ),
            remedy: "sysctl kernel.perf_event_mlock_kb=8192, for larger rings".into(),
        });
    }
    let discarded: Vec<_> = profile.runs.iter().filter_map(|run| run.discarded.clone()).collect();
    if let Some(reason) = discarded.first() {
        let (discarded, of) = (discarded.len() as u64, profile.runs.len() as u64);
        warnings.push(Warning::DiscardedRounds { discarded, of, reason: reason.clone() });
    }
    // The CERN study excluded what varied by more than this.
    if profile.variation > 0.10 {
        let what = if profile.pid.is_some() { "CPU time from look to look" } else { "elapsed time" };
        warnings.push(Warning::HighVariation { what: what.into(), variation: profile.variation });
    }
    warnings
}
