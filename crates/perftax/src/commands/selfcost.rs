//! `perftax selfcost`: what it costs a program to measure itself.

use std::time::{Duration, Instant};

use anyhow::Result;
use perftax_doc::Warning;
use perftax_doc::{CostUnit, PriceSection, Selfcost};
use perftax_lab::selfcost::{Setting, run as measured};
use perftax_pmu::Error;

use crate::commands::publish::Publish;
use crate::failure::Outcome;
use crate::host::Host;
use crate::output::Output;
use crate::progress::{Progress, announce};
use crate::wait::Wait;
use perftax_lab::system::hidden_hits;

/// The price list of perf_event: start, stop, read, open, switches
///
/// 1 to 16 events are started, stopped and read by ioctl, prctl, read() and RDPMC, beside PAPI and perf stat where these are installed, with the
/// time stamp counter's own cost taken off. Compare kernels with perftax report.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax selfcost                             everything: less than two minutes
  perftax selfcost --json old.json             to be put beside another kernel's:
  perftax report old.json new.json
  perftax selfcost --quick --only measuring    starting, stopping and reading alone, in seconds
  perftax vm run -- perftax selfcost --quick   hardware events of an emulated PMU, in instructions")]
pub struct Args {
    /// These parts only: measuring, first-touch, call, switch, tool
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// 6 rounds of 16 runs, close together, instead of 32 rounds of 32
    #[arg(long)]
    quick: bool,
    /// CPU to measure on; without it the last one, unless another is less busy
    #[arg(long, value_name = "CPU")]
    cpu: Option<u32>,
    /// Seed of the order within a round
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    publish: Publish,
}

/// Rounds, and runs of each price in a round: 1024 runs, as in Weaver's study.
const WHOLE: (usize, usize) = (32, 32);
/// The same with `--quick`: the least number of rounds that has an interval of order statistics at 95 %.
const QUICK: (usize, usize) = (6, 16);
/// From a round to the next: what two share of the machine's mood is small then (docs/explain/methods.md: correlated 0.17 at 0.3 s).
const PACE: Duration = Duration::from_millis(1500);
/// Passes of the token in a round, for each condition of a ring of processes.
const PASSES: u64 = 800;
const QUICK_PASSES: u64 = 192;

/// Names of the parts.
const SECTIONS: [(&str, PriceSection); 6] = [
    ("measuring", PriceSection::Measuring),
    ("first-touch", PriceSection::FirstTouch),
    ("call", PriceSection::Call),
    ("switch", PriceSection::Switch),
    ("task", PriceSection::Task),
    ("tool", PriceSection::Tool),
];

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    args.publish.check()?;
    let sections = args.sections()?;
    let here = Host::read_waiting(args.wait)?;
    let mut origin = here.origin("selfcost");
    let cpu = args.cpu.unwrap_or_else(|| here.measuring_cpu());
    let guard = here.throttle_guard(&mut origin)?;
    let (rounds, runs) = if args.quick { QUICK } else { WHOLE };
    // Nothing drifts there, and sleeping is not free of instructions.
    let counts_instructions = Host::counts_instructions();
    let pace = if args.quick || counts_instructions { Duration::ZERO } else { PACE };
    let passes = if args.quick { QUICK_PASSES } else { PASSES };
    let setting = Setting {
        catalog: &here.catalog,
        cpu,
        rounds,
        runs,
        passes,
        pace,
        sections: &sections,
        counts_instructions,
        seed: args.seed,
    };
    announce(&format!("{rounds} rounds of {runs} runs of each price, on CPU {cpu}"));
    let began = Instant::now();
    let progress = Progress::new("rounds", rounds as u64);
    let measured = measured(&setting, |round| progress.at(round as u64, ""));
    progress.finish();
    drop(guard);
    origin.warnings.extend(hidden_hits());
    let measured = measured?;
    let scale = measured.scale;
    if scale.unit == CostUnit::Instructions && (scale.ticks_per_unit - 1.0).abs() > 1e-9 {
        let message = format!("the time stamp counter ticks {} times an instruction", scale.ticks_per_unit);
        origin.warnings.push(Warning::Other { message, remedy: "perftax vm run, without --fast".into() });
    }
    let document = Selfcost {
        origin,
        is_quick: args.quick,
        unit: scale.unit,
        ticks_per_unit: scale.ticks_per_unit,
        rounds: rounds as u32,
        runs_per_round: runs as u32,
        timer_ticks: measured.timer,
        sets: measured.sets,
        prices: measured.prices,
        ratios: measured.ratios,
        fits: measured.fits,
        elapsed_s: began.elapsed().as_secs_f64(),
    };
    args.output.emit(&document)?;
    args.publish.publish(&document)?;
    Ok(Outcome::Done)
}

impl Args {
    /// The parts asked for, in their own order.
    fn sections(&self) -> Result<Vec<PriceSection>> {
        let names: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
        if let Some(unknown) = self.only.iter().find(|name| !names.contains(&name.as_str())) {
            let needed = format!("one or more of {}", names.join(", "));
            return Err(Error::Argument { argument: "--only", value: unknown.clone(), needed }.into());
        }
        let is_wanted = |(name, _): &&(&str, PriceSection)| self.only.is_empty() || self.only.iter().any(|only| only == name);
        Ok(SECTIONS.iter().filter(is_wanted).map(|(_, section)| *section).collect())
    }
}
