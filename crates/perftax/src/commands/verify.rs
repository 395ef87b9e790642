//! `perftax verify`: did the prediction hold?

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Result, anyhow};
use perftax_doc::Origin;
use perftax_lab::run::{Attach, Command};
use perftax_lab::verify::{Experiment, Finished, Grid, Request, Subject, Unusable, conclude};
use perftax_lab::workload::{Workload, default_cache_dir};
use perftax_pmu::Error;
use perftax_pmu::event::Event;
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::machine::Right;
use perftax_pmu::sampler::Payload;
use perftax_pmu::sys::{Ring, Stdio};

use super::calibrate::check_period;
use crate::failure::Outcome;
use crate::folder::{self, FolderChoice};
use crate::host::{Host, NO_REFERENCE_LOOP};
use crate::input::InputChoice;
use crate::output::Output;
use crate::progress::{Progress, announce};
use crate::wait::Wait;

/// Run programs with and without sampling: did the prediction hold
///
/// Rounds of two unmonitored runs and one monitored run a period, in random order, with the cost of a sample measured again
/// inside every round. What an interruption makes each program lose in caches and TLBs is probed at two overheads that no cell
/// has. E = (measured − expected)/expected, with intervals; exit code 4 when the prediction did not hold.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax verify -- bzip2 -kf big
  perftax verify -w bzip2 -w perl --overheads 5,20     shipped workloads
  perftax verify -e page-faults -c 1,3 -- ls -R /usr")]
pub struct Args {
    /// The event, in perf's syntax; the best mechanism's default otherwise
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// A shipped workload by name, or a workload description (.toml); may be repeated
    #[arg(short, long, value_name = "NAME", conflicts_with = "command")]
    workload: Vec<String>,
    /// Sampling periods, in events (nanoseconds for clocks)
    #[arg(short = 'c', long = "count", value_name = "R,…", value_delimiter = ',')]
    periods: Vec<u64>,
    /// Overheads that periods are chosen for, in per cent (time-driven events)
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_values_t = [2.0, 5.0, 10.0, 20.0, 50.0], conflicts_with = "periods")]
    overheads: Vec<f64>,
    /// Ring of a monitored run, in pages; one that holds all samples needs no reader beside the program (usual: 512)
    #[arg(short = 'm', long, value_name = "PAGES")]
    mmap_pages: Option<usize>,
    /// Samples without times: where records hold none (Intel before Skylake), each needs an interrupt otherwise
    #[arg(long)]
    no_timestamp: bool,
    /// Go on until E is known this well, in per cent of the elapsed time
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    half_width: f64,
    /// Rounds at least
    #[arg(long, alias = "least-rounds", value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    min_rounds: u32,
    /// Rounds at most
    #[arg(long, alias = "most-rounds", value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    max_rounds: u32,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    time: u64,
    /// How events are attached: inherited, separate (switching is then part of the prediction), per-cpu
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    attach: AttachMode,
    /// Add the cost of context switches to what is expected
    #[arg(long)]
    switches: bool,
    /// Cells per core: for programs that keep several cores busy (default for workloads that say so)
    #[arg(long)]
    per_core: bool,
    /// Let single-threaded programs run on any CPU instead of one of their own
    #[arg(long)]
    no_pin: bool,
    /// Overheads at which every program's own pollution term is probed, in per cent (with --overheads)
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_values_t = [8.0, 40.0])]
    probe: Vec<f64>,
    /// Predict from the calibrated cost alone, without probing what the program itself adds to it
    #[arg(long, conflicts_with = "probe")]
    no_probe: bool,
    /// Run no reference loop beside the programs (it takes the machine's own variation out; without CAP_SYS_NICE there is none)
    #[arg(long, alias = "no-yardstick")]
    no_reference_loop: bool,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Slow one unmonitored arm by this share, to show that the control catches it
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, hide = true)]
    plant_bias: f64,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    input: InputChoice,
    #[command(flatten)]
    folder: FolderChoice,
    #[command(flatten)]
    output: Output,
    /// The command, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Who has events of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum AttachMode {
    #[default]
    Inherited,
    Separate,
    PerCpu,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    let here = Host::read_waiting(args.wait)?;
    let mut origin = here.origin("verify");
    let request = args.request(&here, &mut origin)?;
    let guard = here.throttle_guard(&mut origin)?;
    let finished = measure(&request, &here)?;
    drop(guard);
    origin.warnings.extend(request.subjects.iter().filter_map(|subject| folder::warning(&subject.command)));
    let document = conclude(origin, &request, finished).map_err(with_remedy)?;
    args.output.emit(&document)?;
    Ok(if document.held { Outcome::Done } else { Outcome::Negative })
}

fn measure(request: &Request, here: &Host) -> Result<Finished> {
    let mut experiment = Experiment::start(request, here.task_clock()?, &here.event("dummy:u")?)?;
    announce(&format!(
        "{} programs × {} periods: rounds of {} runs each in random order, at least {} and at most {} rounds or {} s",
        request.subjects.len(),
        experiment.periods().len(),
        experiment.runs(),
        request.least_rounds,
        request.most_rounds,
        request.time_limit.as_secs()
    ));
    let bar = Progress::new("verifying", request.time_limit.as_secs());
    experiment.run(|step| {
        let width = step.widest.map_or(String::new(), |w| format!(" ±{:.1} %", w * 100.0));
        bar.at(step.elapsed.as_secs(), format!("{} round {}{width}", step.subject, step.rounds));
        if let Some(foreseen) = &step.foreseen {
            announce(&format!(
                "{}: ±{:.1} % needs about {} rounds ({:.0} s); the A/A control will then detect a bias of {:.1} %",
                step.subject,
                request.half_width * 100.0,
                foreseen.rounds,
                foreseen.duration.as_secs_f64(),
                foreseen.detects * 100.0
            ));
        }
        check_interrupted()
    })?;
    Ok(experiment.finish())
}

/// What helps where there is nothing to judge.
fn with_remedy(error: Unusable) -> anyhow::Error {
    let remedy = match &error {
        Unusable::Discarded { .. } => "quieten the machine, lengthen the program, or give it more time with --time",
        Unusable::TooShort => "give it more time with --time, or a longer period with -c",
        Unusable::Control(_) => return error.into(),
    };
    anyhow!("{error}\n  {remedy}")
}

impl Args {
    fn request(&self, here: &Host, origin: &mut Origin) -> Result<Request> {
        let (event, mechanism) = here.choose(self.event.as_deref(), None)?;
        let event = match event {
            Some(event) => event,
            None => {
                let needed = format!("an event: {mechanism} has none of its own");
                return Err(Error::Argument { argument: "-e", value: "missing".into(), needed }.into());
            }
        };
        let argument = |argument, value: String, needed: &str| Error::Argument { argument, value, needed: needed.into() };
        for &period in &self.periods {
            check_period(Some(period), event.mechanism)?;
        }
        for (name, shares) in [("--overheads", &self.overheads), ("--probe", &self.probe)] {
            if let Some(bad) = shares.iter().find(|o| !(**o > 0.0 && **o <= 100.0)) {
                return Err(argument(name, format!("{bad} %"), "above 0 and at most 100 %").into());
            }
        }
        if !(self.half_width > 0.0 && self.half_width < 100.0) {
            return Err(argument("--half-width", format!("{} %", self.half_width), "between 0 and 100 %").into());
        }
        if self.periods.is_empty() && !event.mechanism.is_time_driven() {
            return Err(argument("-c", "missing".into(), "periods, for an event-driven source").into());
        }
        let grid = if self.periods.is_empty() {
            Grid::Overheads(self.overheads.iter().map(|percent| percent / 100.0).collect())
        } else {
            Grid::Periods(self.periods.clone())
        };
        self.mmap_pages.map(Ring::check_pages).transpose()?;
        let cpu = here.measuring_cpu();
        let subjects = self.subjects(here, cpu, &event)?;
        Ok(Request {
            event,
            subjects,
            grid,
            half_width: self.half_width / 100.0,
            least_rounds: self.min_rounds,
            most_rounds: self.max_rounds.max(self.min_rounds),
            time_limit: Duration::from_secs(self.time),
            cpu,
            seed: self.seed,
            reference_loops: !self.no_reference_loop && here.may(Right::RealTime, NO_REFERENCE_LOOP, origin),
            probes: if self.no_probe { Vec::new() } else { self.probe.iter().map(|percent| percent / 100.0).collect() },
            payload: if self.no_timestamp { Payload::BASIC.without_time() } else { Payload::BASIC },
            ring_pages: self.mmap_pages,
            planted_bias: self.plant_bias,
        })
    }

    fn subjects(&self, here: &Host, cpu: u32, event: &Event) -> Result<Vec<Subject>> {
        let mut commands = Vec::new();
        for name in &self.workload {
            commands.push(Command::from_workload(&Workload::load(name)?.prepare(&default_cache_dir())?));
        }
        if commands.is_empty() {
            if self.command.is_empty() {
                let needed = "a command after --, or workloads with -w".into();
                return Err(Error::Argument { argument: "COMMAND", value: "missing".into(), needed }.into());
            }
            let command = Command::from_argv(self.command.clone(), Stdio::Discard).reading(self.input.input()?);
            commands.push(self.folder.place(command, std::slice::from_ref(event), 1)?);
        }
        let attach = match self.attach {
            AttachMode::Inherited => Attach::Inherited,
            AttachMode::Separate => Attach::Separate,
            AttachMode::PerCpu => Attach::PerCpu,
        };
        let subjects = commands.into_iter().map(|command| {
            let per_core = self.per_core || (command.threads > 1 && !self.switches);
            let cpus = if per_core || self.no_pin { here.cpus.clone() } else { vec![cpu] };
            Subject { command: command.on_cpus(cpus.clone()), attach, per_core, cpus, switching: self.switches }
        });
        Ok(subjects.collect())
    }
}
