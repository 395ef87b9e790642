//! `perftax sim`: what sampling would do on a machine that is not at hand.

mod comm;
#[cfg(feature = "parquet")]
mod samples;
pub mod stat;

use std::ffi::OsString;

use anyhow::Result;
use perftax_doc::Warning;
use perftax_doc::{MachineId, Origin, SCHEMA, SimulatedRun, Simulation};
use perftax_lab::published::Published;
use perftax_lab::simulation::{Guest, simulate, summary};
use perftax_model::Event;
use perftax_model::machine::{Handler, LlcShare, Machine, Mechanism};
use perftax_model::run::{Outcome as Came, Request, Sampling};
use perftax_model::unit::LONGEST_PERIOD;
use perftax_pmu::Error;

use crate::failure::Outcome;
use crate::output::Output;
use crate::target::Target;

/// Simulate what sampling would do on another machine
///
/// The program runs in qemu-user with a software PMU: no hardware counters are needed. Its counts and samples are exact for the
/// model; times come from the machine's description. The program keeps stdin and stdout, and its exit code is ours.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax sim -- bzip2 -kc big > /dev/null
  perftax sim --machine zen2 --mechanism ibs-op -c 100000 -- ./server
  perftax sim --machine haswell --sweep buffer=16K,256K,4M -c 2000 --discard -- ./solver
  perftax sim --comm -c 10007 --html comm.html -- xz -T4 -k FILE   (which threads share which cache lines)
  perftax sim --count -- ls
  perftax sim stat --baseline app.baseline.json -- ./app input   (perftax sim stat --help)")]
#[command(args_conflicts_with_subcommands = true, subcommand_value_name = "stat", subcommand_help_heading = "Or")]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The machine: a shipped one (broadwell, haswell, skylake, cascade-lake, sapphire-rapids, clearwater-forest, ivy-bridge, zen2, zen3, zen4, zen5) or a .toml
    #[arg(long, value_name = "NAME", default_value = "broadwell")]
    machine: String,
    /// The event: instructions, uops, loads, l1-misses, … or a vendor's name for it
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// Events between samples
    #[arg(short = 'c', long = "period", value_name = "R", value_parser = clap::value_parser!(u64).range(1..=LONGEST_PERIOD))]
    period: Option<u64>,
    /// How it samples; the machine's own precise mechanism by default
    #[arg(long, value_name = "NAME", value_enum)]
    mechanism: Option<MechanismName>,
    /// Size of the buffer that the hardware writes records to
    #[arg(long, value_name = "BYTES", value_parser = size)]
    buffer: Option<u64>,
    /// Records are counted and thrown away at the interrupt, not copied: the hardware's cost alone
    #[arg(long)]
    discard: bool,
    /// One run for each value: buffer=16K,64K,1M or period=1009,10007
    #[arg(long, value_name = "WHAT=V,…", value_parser = sweep)]
    sweep: Option<Sweep>,
    /// Count only, sample nothing
    #[cfg_attr(feature = "parquet", arg(conflicts_with = "samples"))]
    #[arg(long, conflicts_with_all = ["event", "period", "mechanism", "buffer", "discard", "sweep"])]
    count: bool,
    /// Leave the caches out: several times faster, but no misses, memory traffic or pollution
    #[arg(long)]
    no_caches: bool,
    /// The other cores are busy likewise: each core has its share of the last-level cache only
    #[arg(long)]
    all_busy: bool,
    /// Modelled cores that threads are dealt to in turn; as many as the machine has by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: Option<u32>,
    /// Write every sample to FILE, a Parquet table (docs/guide/sim.md)
    #[cfg(feature = "parquet")]
    #[arg(long, value_name = "FILE")]
    samples: Option<std::path::PathBuf>,
    /// Add a variable to the program's environment, which is otherwise fixed
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<(OsString, OsString)>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    comm: comm::CommArgs,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Stat(Box<stat::Args>),
}

/// A mechanism on the command line.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum MechanismName {
    Pebs,
    IbsOp,
    IbsFetch,
    Interrupt,
    Spe,
}

impl From<MechanismName> for Mechanism {
    fn from(name: MechanismName) -> Self {
        match name {
            MechanismName::Pebs => Self::Pebs,
            MechanismName::IbsOp => Self::IbsOp,
            MechanismName::IbsFetch => Self::IbsFetch,
            MechanismName::Interrupt => Self::Interrupt,
            MechanismName::Spe => Self::Spe,
        }
    }
}

/// Values of one setting.
#[derive(Clone, Debug)]
enum Sweep {
    Buffer(Vec<u64>),
    Period(Vec<u64>),
}

/// A prime near the period that perf's users know.
const DEFAULT_PERIOD: u64 = 100_003;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    if let Some(Action::Stat(args)) = &args.action {
        return stat::run(args);
    }
    args.output.check_writable()?;
    let installation = crate::simulated::installation()?;
    let guest = args.guest()?;
    if args.comm.comm {
        return comm::run(args, &installation, &guest);
    }
    let published = Published::load(&args.machine)?;
    let machine = published.model()?;
    let requests = args.requests(machine)?;
    let mut origin = origin(&published);
    #[cfg(feature = "parquet")]
    let mut samples = args.samples.as_deref().map(samples::SampleFile::create).transpose()?;
    let mut runs = Vec::new();
    let mut code = 0;
    for (i, request) in requests.iter().enumerate() {
        // The program's output is wanted once.
        let guest = Guest { silent: guest.silent || i > 0, ..guest.clone() };
        #[cfg(feature = "parquet")]
        let request = &samples.as_ref().map_or_else(|| request.clone(), |samples| samples.asking(request));
        let simulated = simulate(&installation, &guest, request)?;
        let Some(outcome) = &simulated.outcome else {
            let error = simulated.without(&guest.argv[0].to_string_lossy());
            anstream::eprintln!("perftax: {error}");
            return Ok(Outcome::Passed(u8::try_from(simulated.code).unwrap_or(1).max(1)));
        };
        if i == 0 {
            code = simulated.code;
            origin.warnings.extend(warnings(outcome, simulated.forked, request));
        }
        #[cfg(feature = "parquet")]
        samples.iter_mut().try_for_each(|samples| samples.take(outcome, request))?;
        runs.push(summary(outcome, request));
        perftax_pmu::guard::check_interrupted()?;
    }
    #[cfg(feature = "parquet")]
    samples.map_or(Ok(()), samples::SampleFile::finish)?;
    let document = document(args, &published, machine, origin, &guest, runs, code);
    args.output.emit_beside_child(&document)?;
    Ok(Outcome::Passed(u8::try_from(code).unwrap_or(1)))
}

fn document(
    args: &Args,
    published: &Published,
    machine: &Machine,
    origin: Origin,
    guest: &Guest,
    mut runs: Vec<SimulatedRun>,
    exit_code: i32,
) -> Simulation {
    let first = runs.first().cloned().unwrap_or_default();
    let swept = args.sweep.as_ref().map(|sweep| match sweep {
        Sweep::Buffer(_) => "buffer".to_string(),
        Sweep::Period(_) => "period".to_string(),
    });
    if swept.is_none() {
        runs.clear();
    }
    Simulation {
        origin,
        program: guest.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        exit_code,
        model: published.name.clone(),
        model_sources: machine.sources.clone(),
        run: first,
        swept,
        sweep: runs,
    }
}

impl Args {
    fn guest(&self) -> Result<Guest> {
        Ok(Guest { environment: self.environment.clone(), ..self.target.guest()? })
    }

    /// One request, or one for each value of the sweep.
    fn requests(&self, machine: &Machine) -> Result<Vec<Request>> {
        let one = Request {
            sampling: if self.count { None } else { Some(self.sampling(machine)?) },
            caches: !self.no_caches,
            reference: !self.no_caches && !self.count,
            profile: !self.no_caches && !self.count,
            llc: if self.all_busy { LlcShare::PerCore } else { LlcShare::Whole },
            cores: self.cores.unwrap_or(machine.cores),
            seed: self.seed,
            ..Request::counting(machine.clone())
        };
        let with = |change: &dyn Fn(&mut Sampling)| {
            let mut request = one.clone();
            request.sampling.iter_mut().for_each(change);
            request
        };
        let requests: Vec<Request> = match &self.sweep {
            None => vec![one],
            Some(Sweep::Buffer(sizes)) => sizes.iter().map(|&bytes| with(&|s| s.buffer_bytes = Some(bytes))).collect(),
            Some(Sweep::Period(periods)) => periods.iter().map(|&period| with(&|s| s.period = period)).collect(),
        };
        for request in &requests {
            // Said before the program runs, not by the plugin.
            request.core(0).map_err(|error| Error::Unsupported {
                what: format!("simulate that on {}", self.machine),
                why: error.to_string(),
                remedy: "another --mechanism, --machine or -c".into(),
            })?;
        }
        Ok(requests)
    }

    fn sampling(&self, machine: &Machine) -> Result<Sampling> {
        let own = if machine.pebs.is_some() {
            Mechanism::Pebs
        } else if machine.ibs.is_some() {
            Mechanism::IbsOp
        } else {
            Mechanism::Interrupt
        };
        let mechanism = self.mechanism.map_or(own, Mechanism::from);
        let tied = match mechanism {
            Mechanism::IbsOp | Mechanism::Spe => Some(Event::DispatchedOps),
            Mechanism::IbsFetch => Some(Event::Fetches),
            Mechanism::Pebs | Mechanism::Interrupt => None,
        };
        let argument = |needed: String| Error::Argument { argument: "-e", value: self.event.clone().unwrap_or_default(), needed };
        let event = match (&self.event, tied) {
            (None, tied) => tied.unwrap_or(Event::Instructions),
            (Some(name), tied) => {
                let event = Event::parse(name).map_err(|error| argument(error.to_string()))?;
                if let Some(tied) = tied.filter(|&tied| tied != event) {
                    return Err(argument(format!("{}: {} samples nothing else", tied.name(), mechanism.name())).into());
                }
                event
            }
        };
        if matches!(event, Event::Cycles | Event::PageCrossings) {
            return Err(argument("a class that the simulation can sample; cycles and page crossings are not".into()).into());
        }
        if event.needs_caches() && self.no_caches {
            return Err(argument("the caches: leave --no-caches out".into()).into());
        }
        let handler = if self.discard { Handler::Discards } else { Handler::Copies };
        let period = self.period.unwrap_or(DEFAULT_PERIOD);
        Ok(Sampling { mechanism, event, period, buffer_bytes: self.buffer, handler })
    }
}

/// The head of the document: the modelled machine.
fn origin(published: &Published) -> Origin {
    let mut machine = published.machine_id();
    machine.name = format!("{} ({}), modelled", published.cpu, published.microarchitecture);
    machine.fingerprint = format!("model-{}", published.name);
    modelled("sim", machine)
}

/// A head of no date, so that the same command gives the same bytes.
fn modelled(kind: &str, machine: MachineId) -> Origin {
    Origin {
        schema: SCHEMA,
        kind: kind.into(),
        perftax: env!("CARGO_PKG_VERSION").into(),
        machine,
        kernel: String::new(),
        taken_at_s: 0.0,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        warnings: Vec::new(),
    }
}

fn warnings(outcome: &Came, forked: bool, request: &Request) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |message: String, remedy: &str| warnings.push(Warning::Other { message, remedy: remedy.into() });
    if forked {
        warn(
            "the program forked: what its children did was not simulated".into(),
            "simulate the program that does the work, not a shell or driver around it",
        );
    }
    if outcome.threads.len() > 1 && request.caches {
        warn(
            "threads took turns as this machine scheduled them: counts repeat, misses and which thread met them vary a little"
                .into(),
            "",
        );
    }
    if outcome.cores.iter().all(|core| core.counts[Event::Instructions] == 0) {
        warn("no instruction was seen".into(), "perftax sim --count -- /bin/true must count some: if not, reinstall qemu-user");
    }
    warnings
}

/// A size of a buffer: of records it must leave room for what lies behind it in the model.
fn size(text: &str) -> Result<u64, String> {
    const MAX: u64 = 128 << 20;
    crate::size::size(text, MAX)
}

fn sweep(text: &str) -> Result<Sweep, String> {
    let (what, values) = text.split_once('=').ok_or("needs buffer=V,… or period=V,…")?;
    let all = |parse: &dyn Fn(&str) -> Result<u64, String>| values.split(',').map(parse).collect::<Result<Vec<u64>, String>>();
    match what {
        "buffer" => Ok(Sweep::Buffer(all(&size)?)),
        "period" => {
            let period = |text: &str| {
                let period = text.parse::<u64>().ok().filter(|p| (1..=LONGEST_PERIOD).contains(p));
                period.ok_or_else(|| format!("period {text}: needs 1 to {LONGEST_PERIOD}"))
            };
            Ok(Sweep::Period(all(&period)?))
        }
        other => Err(format!("cannot sweep {other}: it is buffer or period")),
    }
}

fn variable(text: &str) -> Result<(OsString, OsString), String> {
    let (name, value) = text.split_once('=').ok_or("needs NAME=VALUE")?;
    if name.is_empty() { Err("needs a name before =".into()) } else { Ok((name.into(), value.into())) }
}
