//! Real programs, run in turn without sampling, with it, and with a signal to each sample.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process;

use perftax_cost::bootstrap::{REPLICATES, cluster_bootstrap};
use perftax_cost::verification::AVERAGE;
use perftax_doc::Estimate;
use perftax_doc::observation::Run;
use perftax_pmu::event::{Retired, parse_one};
use perftax_pmu::{Error, Result};

use super::Setting;
use super::core_event::{CoreEvent, Overflow};
use crate::run::{Command, Monitor, Watched, run_once};
use crate::workload::{Workload, default_cache_dir};

/// What is done to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nothing.
    Alone,
    /// It is sampled.
    Sampled,
    /// It is sampled, and each sample is a signal to it.
    Signalled,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Alone, Self::Sampled, Self::Signalled];
    /// Without signals.
    pub const QUIET: [Self; 2] = [Self::Alone, Self::Sampled];

    fn arm(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Sampled => "sampled",
            Self::Signalled => "signalled",
        }
    }
}

/// The signal: one that is ignored until the handler is there (SIGURG's default, signal(7)).
const SIGNAL: i32 = libc::SIGURG;
/// Instructions to a sample where the core has a PMU: the study's most used interval.
const INSTRUCTIONS: u64 = 100_000;
/// Nanoseconds to a sample where it has none: a guest's timer takes some twenty microseconds each time, which is a fifth of that, far more than
/// one run differs from the next.
const NANOSECONDS: u64 = 100_000;
/// Runs of a round that may be discarded before the program is given up.
const DISCARDED: usize = 4;
/// Seed of orders and intervals.
const SEED: u64 = 20_230_501;

/// The preloaded handler's source.
const HANDLER: &str = include_str!("handler.c");

/// A round: the program once in each of some ways, alone among them.
pub struct Round(Vec<(Way, Run)>);

impl Round {
    /// The run in a way that the round has.
    pub fn of(&self, way: Way) -> &Run {
        let run = self.0.iter().find(|(of, _)| *of == way);
        &run.expect("a round is asked for its own ways").1
    }

    /// By how much the run in a way is longer than the one alone, seconds.
    fn more_s(&self, way: Way) -> f64 {
        self.of(way).elapsed_s - self.of(Way::Alone).elapsed_s
    }
}

/// What samples programs, and what makes their signals harmless.
pub struct Programs {
    monitor: Monitor,
    cpu: u32,
    /// How the event is called, with its period.
    pub sampled_by: String,
    // Removed with it.
    _folder: tempfile::TempDir,
    handler: PathBuf,
}

impl Programs {
    /// Builds the handler, and chooses the event: instructions by PEBS or by interrupts, else the CPU clock.
    ///
    /// # Errors
    /// Where there is no gcc.
    pub fn new(setting: &Setting) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(Error::file(std::env::temp_dir()))?;
        let (source, handler) = (folder.path().join("handler.c"), folder.path().join("handler.so"));
        std::fs::write(&source, HANDLER).map_err(Error::file(&source))?;
        let built = process::Command::new("gcc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&handler).arg(&source).output();
        let missing = |why: String| Error::Unsupported {
            what: "build the signal handler that programs get".into(),
            why,
            remedy: "sudo apt-get install gcc".into(),
        };
        let output = built.map_err(|error| missing(format!("gcc: {error}")))?;
        if !output.status.success() {
            return Err(missing(format!("gcc: {}", String::from_utf8_lossy(&output.stderr).trim())));
        }
        let (event, period, unit) = if setting.catalog.core_pmu().is_some() {
            let by = Overflow::most_precise(setting.catalog.vendor());
            (CoreEvent { counted: Retired::Instructions, by }.event(false, setting.catalog)?, INSTRUCTIONS, "instructions")
        } else {
            (parse_one("cpu-clock", setting.catalog)?, NANOSECONDS, "ns")
        };
        let sampled_by = format!("{} every {period} {unit}", event.name);
        let cpu = setting.cpus.last().copied().unwrap_or(0);
        Ok(Self { monitor: Monitor::new(event, period), cpu, sampled_by, _folder: folder, handler })
    }

    /// Runs a shipped workload so many rounds, each way once, in random order.
    ///
    /// # Errors
    /// Where it is not installed, fails, or is disturbed again and again.
    pub fn rounds(&self, name: &str, count: usize, ways: &[Way]) -> Result<Vec<Round>> {
        let prepared = Workload::load(name)?.prepare(&default_cache_dir())?;
        let mut command = Command::from_workload(&prepared).on_cpus(vec![self.cpu]);
        // In every way alike, so that loading it is no difference.
        command.spec.environment.push((OsString::from("LD_PRELOAD"), self.handler.clone().into()));
        let mut rng = fastrand::Rng::with_seed(SEED);
        let watched = Watched { cpus: vec![self.cpu], steal_taken_off: Some(self.cpu), ..Watched::default() };
        let run = |way: Way, round: usize| -> Result<Run> {
            let monitor = Monitor { signal: (way == Way::Signalled).then_some(SIGNAL), ..self.monitor.clone() };
            let mut last = None;
            for _ in 0..DISCARDED {
                let run = run_once(&command, (way != Way::Alone).then_some(&monitor), &watched, way.arm(), round as u32)?;
                match &run.discarded {
                    None => return Ok(run),
                    Some(why) => last = Some(why.clone()),
                }
            }
            Err(Error::Unsupported {
                what: format!("time {name}"),
                why: format!("{DISCARDED} runs in a row were discarded, the last one: {}", last.unwrap_or_default()),
                remedy: "again, on a quieter machine".into(),
            })
        };
        // Once for the caches of files, uncounted.
        run(Way::Alone, 0)?;
        let one = |round: usize| {
            let mut order = ways.to_vec();
            rng.shuffle(&mut order);
            order.into_iter().map(|way| Ok((way, run(way, round)?))).collect::<Result<_>>().map(Round)
        };
        (1..=count).map(one).collect()
    }
}

/// How far an interval reaches that is not known: a finite number, since documents hold no other.
const UNKNOWN: f64 = 1e12;

/// A statistic of rounds with its interval.
pub fn over_rounds(rounds: &[Round], of: impl Fn(&[&Round]) -> f64) -> Estimate {
    cluster_bootstrap(rounds, of, REPLICATES, SEED).unwrap_or(Estimate::new(0.0, -UNKNOWN, UNKNOWN))
}

/// By how much a way is longer than running alone, averaged over the rounds as `verify` does.
pub fn longer(rounds: &[&Round], way: Way) -> f64 {
    AVERAGE.of(rounds.iter().map(|round| round.more_s(way) / round.of(Way::Alone).elapsed_s))
}

/// What a sample takes in a way, seconds, averaged likewise.
pub fn a_sample_s(rounds: &[&Round], way: Way) -> f64 {
    AVERAGE.of(rounds.iter().map(|round| round.more_s(way) / round.of(way).samples.max(1) as f64))
}
