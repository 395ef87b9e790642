//! `perftax sensitivity`: how much a program loses with its caches, on this machine.

use std::time::Duration;

use anyhow::Result;
use perftax_cost::Warning;
use perftax_cost::document::Sensitivity;
use perftax_lab::sensitivity::{Experiment, Goal, INTERVAL, SIZES};
use perftax_pmu::Error;
use perftax_pmu::guard::check_interrupted;
use perftax_report::{csv, text};

use crate::failure::Outcome;
use crate::here::Here;
use crate::output::Output;
use crate::progress::{Progress, announce};
use crate::target::Target;

/// Measure how much a program loses when its caches are taken away
///
/// Somebody on the program's own CPU writes a working set every few milliseconds; what the program takes longer by its own CPU
/// time is what it had in the caches. That decides how large a buffer of samples may be. Needs root (or CAP_SYS_NICE).
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
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    least_rounds: u32,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    time: u64,
    /// The CPU to run on; the last by default
    #[arg(long, value_name = "CPU")]
    cpu: Option<u32>,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    output: Output,
}

/// A loss that is not felt, a share of the CPU time.
const TOLERANCE: f64 = 0.01;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    let here = Here::read()?;
    let mut origin = here.origin("sensitivity");
    let cpu = args.cpu(&here)?;
    let command = args.target.command()?.on_cpus(vec![cpu]);
    let goal =
        Goal { half_width: args.half_width / 100.0, least_rounds: args.least_rounds, time_limit: Duration::from_secs(args.time) };
    announce(&format!(
        "rounds of {} runs on CPU {cpu}, until every loss is known to ±{} % or for {} s",
        SIZES.len(),
        args.half_width,
        args.time
    ));
    let bar = Progress::new("evicting", u64::from(u32::MAX));
    let mut experiment = Experiment::new(&command, cpu, args.seed);
    loop {
        experiment.round()?;
        bar.at(u64::from(experiment.rounds()), format!("round {}", experiment.rounds()));
        check_interrupted()?;
        if experiment.is_done(&goal) {
            break;
        }
    }
    drop(bar);
    let rows = experiment.rows().ok_or_else(|| Error::Spoiled {
        why: "fewer than two rounds could be used".into(),
        remedy: "give it more time with --time, or quieten the machine".into(),
    })?;
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
        method: "eviction".into(),
        cpu,
        interval_s: INTERVAL.as_secs_f64(),
        buffer_bytes: Sensitivity::unfelt(&rows, TOLERANCE),
        rows,
        tolerance: TOLERANCE,
        runs: experiment.into_runs(),
    };
    args.output.write_json(&document)?;
    #[cfg(feature = "html")]
    args.output.write_html(|| Ok(perftax_report::html::sensitivity(&document)))?;
    match &args.output.separator {
        Some(separator) => args.output.write_text(&csv::sensitivity(&document, separator))?,
        None => args.output.write_beside_child(&text::sensitivity(&document))?,
    }
    Ok(Outcome::Done)
}

impl Args {
    fn cpu(&self, here: &Here) -> Result<u32> {
        match self.cpu {
            None => Ok(here.cpus.last().copied().unwrap_or(0)),
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
