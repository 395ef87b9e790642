//! `perftax calibrate`: what one sample costs.

use std::time::Duration;

use anyhow::Result;
use perftax_cost::period::Rule;
use perftax_doc::Mechanism;
use perftax_lab::calibrate::{Buffers, Depth, Goal, Spec};
use perftax_pmu::Error;
use perftax_pmu::sampler::{Pages, Payload};

use crate::commands::publish::Publish;
use crate::failure::Outcome;
use crate::host::Host;
use crate::output::Output;
use crate::wait::Wait;
use crate::{calibration, profile, progress};

/// Measure what one sample costs on this machine
///
/// Fixed work is timed with and without sampling, in random order, in sessions spread over a minute or two. Reports the
/// ambient cost (what to expect) and the floor (undisturbed), their split, and keeps them in this machine's profile.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax calibrate                              the best mechanism of this machine
  perftax calibrate -e page-faults               one event
  perftax calibrate --mechanism uprobe --json -  one mechanism, as JSON
  perftax calibrate --mechanism pebs-direct --buffer 64K,4M --html cost.html
                                                 the hardware's own cost, by our kernel module")]
pub struct Args {
    /// The event, in perf's syntax
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// The mechanism: pebs, ibs-op, ibs-fetch, spe, pmi, cpu-clock, software, breakpoint, tracepoint, uprobe,
    /// pebs-direct (our kernel module: the hardware's cost apart from perf's, and figure 2 of ROSS'17)
    #[arg(long, value_name = "M")]
    mechanism: Option<Mechanism>,
    /// Main sampling period, in events (nanoseconds for clocks)
    #[arg(short = 'c', long = "count", value_name = "R")]
    period: Option<u64>,
    /// Stop when the 95 % interval of the cost is this narrow, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    precision: f64,
    /// Stop after this many seconds; what is under way then is finished within 30 s more, or broken off
    #[arg(long, value_name = "SECONDS", default_value_t = 118)]
    time: u64,
    /// Seconds from one session to the next: closer ones are not independent
    #[arg(long, value_name = "SECONDS", default_value_t = 0.75)]
    spacing: f64,
    /// The CPU to measure on; the last one by default, unless another is less busy
    #[arg(long, value_name = "CPU")]
    cpu: Option<u32>,
    /// Only the cost and its control, without linearity and terms
    #[arg(long)]
    quick: bool,
    /// Do not keep the result in the machine profile
    #[arg(long)]
    no_save: bool,
    /// Samples without times: where records hold none (Intel before Skylake), each needs an interrupt otherwise. Not kept, for plan
    /// and predict speak of samples with times
    #[arg(long)]
    no_timestamp: bool,
    /// Buffers of pebs-direct, bytes a CPU (K, M, G)
    #[arg(long = "buffer", value_name = "SIZE,…", value_delimiter = ',', value_parser = buffer_size)]
    buffers: Vec<u64>,
    /// The pages of those buffers
    #[arg(long, value_enum, value_name = "PAGES", default_value_t)]
    pages: PagesArg,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Slow one unmonitored arm by this share, to show that the control catches it
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, hide = true)]
    plant_bias: f64,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    publish: Publish,
}

/// Pages of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum PagesArg {
    /// As large as can be had
    #[default]
    Any,
    /// 4 KiB
    Small,
    /// 2 MiB or more, or an error
    Huge,
}

/// The largest buffer that the module gives.
fn buffer_size(text: &str) -> Result<u64, String> {
    crate::size::size(text, 1 << 30)
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    args.publish.check()?;
    let goal = args.goal()?;
    let here = Host::read_waiting(args.wait)?;
    let (event, mechanism) = here.choose(args.event.as_deref(), args.mechanism)?;
    check_period(args.period, mechanism)?;
    let buffers = args.buffers(mechanism)?;
    if let Some(period) = args.period.filter(|period| *period != 1 && fires_at_every_event(mechanism)) {
        let needed =
            format!("1 for {mechanism}: its cost is split into counting and recording there, which gives every other period's");
        return Err(Error::Argument { argument: "-c", value: period.to_string(), needed }.into());
    }
    let spec = Spec {
        buffers,
        event,
        mechanism,
        cpu: args.cpu.unwrap_or_else(|| here.measuring_cpu()),
        depth: if args.quick { Depth::Alpha } else { Depth::Full },
        period: args.period,
        payload: if args.no_timestamp { Payload::BASIC.without_time() } else { Payload::BASIC },
        planted_bias: args.plant_bias,
    };
    let mut origin = here.origin("calibrate");
    let guard = here.throttle_guard(&mut origin)?;
    progress::announce(&format!(
        "calibrating {mechanism} on CPU {}: sessions of {} rounds every {} s until ±{} %, at most {} s",
        spec.cpu, goal.rounds, args.spacing, args.precision, args.time
    ));
    let outcome = calibration::run(&spec, goal, args.seed)?;
    drop(guard);
    let document = perftax_lab::calibrate::document(&here.catalog, origin, &spec, &goal, outcome)?;
    if !(args.no_save || args.no_timestamp || mechanism.only_measures()) {
        let path = profile::save(&document)?;
        progress::announce(&format!("kept in {}", path.display()));
    }
    args.output.emit(&document)?;
    args.publish.publish(&document)?;
    Ok(Outcome::Done)
}

impl Args {
    /// The buffers asked for.
    fn buffers(&self, mechanism: Mechanism) -> Result<Buffers> {
        let pages = match self.pages {
            PagesArg::Any => Pages::Any,
            PagesArg::Small => Pages::Small,
            PagesArg::Huge => Pages::Huge,
        };
        if mechanism == Mechanism::PebsDirect {
            let bytes = if self.buffers.is_empty() { Buffers::default().bytes } else { self.buffers.clone() };
            return Ok(Buffers { bytes, pages });
        }
        let needed = || format!("--mechanism pebs-direct, not {mechanism}: perf's buffer has the size that the kernel gives it");
        if let Some(bytes) = self.buffers.first() {
            return Err(Error::Argument { argument: "--buffer", value: bytes.to_string(), needed: needed() }.into());
        }
        if pages != Pages::Any {
            return Err(Error::Argument {
                argument: "--pages",
                value: format!("{:?}", self.pages).to_lowercase(),
                needed: needed(),
            }
            .into());
        }
        Ok(Buffers::default())
    }

    fn goal(&self) -> Result<Goal> {
        let argument = |argument, value: String, needed: &str| Error::Argument { argument, value, needed: needed.into() };
        if !(self.precision > 0.0 && self.precision < 100.0) {
            return Err(argument("--precision", format!("{} %", self.precision), "a value between 0 and 100 %").into());
        }
        if !(self.spacing >= 0.0 && self.spacing <= 3600.0) {
            return Err(argument("--spacing", format!("{} s", self.spacing), "0 to 3600 s").into());
        }
        if self.time < 1 {
            return Err(argument("--time", format!("{} s", self.time), "at least 1 s").into());
        }
        Ok(Goal {
            half_width: self.precision / 100.0,
            time_limit: Duration::from_secs(self.time),
            spacing: Duration::from_secs_f64(self.spacing),
            ..Goal::STANDARD
        })
    }
}

/// Whether the mechanism traps at every event, sampled or not.
fn fires_at_every_event(mechanism: Mechanism) -> bool {
    matches!(mechanism, Mechanism::Software | Mechanism::Breakpoint | Mechanism::Tracepoint | Mechanism::Uprobe)
}

/// Longest period of a 48-bit counter.
const LONGEST_PERIOD: u64 = 1 << 48;
/// The kernel clamps cpu-clock to this, silently (kernel/events/core.c, perf_swevent_init_hrtimer).
const SHORTEST_CLOCK_NS: u64 = 10_000;

/// Refuses periods that hardware or kernel would not take as they are.
pub fn check_period(period: Option<u64>, mechanism: Mechanism) -> Result<()> {
    let Some(period) = period else { return Ok(()) };
    let needed = if period == 0 || period > LONGEST_PERIOD {
        "1 to 2^48".to_string()
    } else if mechanism.is_time_driven() && period < SHORTEST_CLOCK_NS {
        format!("at least {SHORTEST_CLOCK_NS} ns: the kernel clamps shorter ones silently")
    } else if matches!(mechanism, Mechanism::IbsOp | Mechanism::IbsFetch) {
        let rule = Rule::of(mechanism, None);
        if rule.allows(period) {
            return Ok(());
        }
        // Longer ones the kernel takes, and interrupts several times for one sample: no price covers that.
        format!("a multiple of {} from {} to {} for {mechanism}", rule.granule, rule.min, rule.max)
    } else {
        return Ok(());
    };
    Err(Error::Argument { argument: "-c", value: period.to_string(), needed }.into())
}
