//! `perftax sensitivity`: how much a program loses with its caches, on this machine.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use perftax_doc::Warning;
use perftax_doc::{Origin, Sensitivity};
use perftax_lab::sensitivity::{Experiment, Goal, INTERVAL, Means};
use perftax_pmu::Error;
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::machine::Right;
use perftax_pmu::resctrl::ROOT;

use crate::failure::Outcome;
use crate::folder::{self, FolderChoice};
use crate::host::Host;
use crate::output::Output;
use crate::progress::{Progress, announce};
use crate::target::Target;

/// Measure how much a program loses when its caches are taken away
///
/// The kernel leaves it fewer ways of the last-level cache (resctrl), or somebody on the program's own CPU writes a working set every
/// few milliseconds; what the program takes longer by its own CPU time is what it had in the caches. That decides how large a
/// buffer of samples may be. Resctrl needs root; eviction comes less regularly without CAP_SYS_NICE.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax sensitivity -- bzip2 -kc big
  perftax sensitivity -w glpsol --time 300 --json glpsol.json")]
pub struct Args {
    /// Go on until every loss is known this well, in per cent of the CPU time
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    half_width: f64,
    /// Rounds at least
    #[arg(long, alias = "least-rounds", value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    min_rounds: u32,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    time: u64,
    /// The CPU to run on; the last by default
    #[arg(long, value_name = "CPU")]
    cpu: Option<u32>,
    /// How the cache is taken away; by resctrl where the kernel has it mounted, else by eviction
    #[arg(long, value_name = "NAME", value_enum, default_value = "auto")]
    method: Method,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    folder: FolderChoice,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    output: Output,
}

/// Means of taking the cache away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Method {
    /// resctrl where the kernel has it, else eviction
    Auto,
    /// A thread on the same CPU writes a working set every few milliseconds: all levels, needs no hardware
    Eviction,
    /// The kernel leaves fewer ways of the last level (Intel CAT, AMD L3 allocation)
    Resctrl,
}

/// What a result is where the evictor is an ordinary thread.
const NOT_AHEAD: &str =
    "the thread that evicts runs when the scheduler lets it, not ahead of the program: its visits come less regularly";

/// A loss that is not felt, a share of the CPU time.
const TOLERANCE: f64 = 0.01;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    let here = Host::read()?;
    let mut origin = here.origin("sensitivity");
    let cpu = args.cpu(&here)?;
    let command = args.folder.place(args.target.command()?.on_cpus(vec![cpu]), &[], 1)?;
    let goal =
        Goal { half_width: args.half_width / 100.0, least_rounds: args.min_rounds, time_limit: Duration::from_secs(args.time) };
    let means = args.means(&here, cpu, &mut origin)?;
    announce(&format!(
        "rounds of {} runs on CPU {cpu} by {}, until every loss is known to ±{} % or for {} s",
        means.sizes().len(),
        means.name(),
        args.half_width,
        args.time
    ));
    let bar = Progress::new("evicting", u64::from(u32::MAX));
    let mut experiment = Experiment::new(&command, &means, cpu, args.seed);
    loop {
        experiment.round()?;
        bar.at(u64::from(experiment.rounds()), format!("round {}", experiment.rounds()));
        check_interrupted()?;
        if experiment.is_done(&goal) {
            break;
        }
    }
    drop(bar);
    let rows = experiment.rows().ok_or_else(|| Error::Discarded {
        why: "fewer than two rounds could be used".into(),
        remedy: "give it more time with --time, or quieten the machine".into(),
    })?;
    origin.warnings.extend(folder::warning(&command));
    let widest = rows.iter().map(|row| row.loss.half_width()).fold(0.0, f64::max);
    if widest > goal.half_width {
        origin.warnings.push(Warning::Other {
            message: format!("a loss is known to ±{:.1} % only, not ±{} %", 100.0 * widest, args.half_width),
            remedy: "give it more time with --time".into(),
        });
    }
    let document = Sensitivity {
        origin,
        program: command.words(),
        method: means.name().into(),
        cpu,
        interval_s: if matches!(means, Means::Eviction { .. }) { INTERVAL.as_secs_f64() } else { 0.0 },
        buffer_bytes: Sensitivity::unfelt(&rows, TOLERANCE),
        rows,
        tolerance: TOLERANCE,
        runs: experiment.into_runs(),
    };
    args.output.emit(&document)?;
    Ok(Outcome::Done)
}

impl Args {
    fn means(&self, here: &Host, cpu: u32, origin: &mut Origin) -> Result<Means> {
        let mut eviction = || Means::Eviction { ahead: here.may(Right::RealTime, NOT_AHEAD, origin) };
        if self.method == Method::Eviction {
            return Ok(eviction());
        }
        match (Means::allocation(Path::new(ROOT), cpu), self.method) {
            // It is there, and not for us.
            (Err(Error::Permission { .. }), Method::Auto) => Ok(eviction()),
            (Err(error), _) => Err(error.into()),
            (Ok(Some(means)), _) => Ok(means),
            (Ok(None), Method::Resctrl) => Err(Error::Unsupported {
                what: "allocate cache by resctrl".into(),
                why: format!("{ROOT}/info/L3/cbm_mask does not exist"),
                remedy: "mount -t resctrl resctrl /sys/fs/resctrl   (on a machine with Intel CAT or AMD L3 allocation), \
                         or --method eviction"
                    .into(),
            }
            .into()),
            (Ok(None), _) => Ok(eviction()),
        }
    }

    fn cpu(&self, here: &Host) -> Result<u32> {
        match self.cpu {
            None => Ok(here.measuring_cpu()),
            Some(cpu) if here.cpus.contains(&cpu) => Ok(cpu),
            Some(cpu) => Err(Error::Argument {
                argument: "--cpu",
                value: cpu.to_string(),
                needed: format!("one of the CPUs that we may run on: {:?}", here.cpus),
            }
            .into()),
        }
    }
}
