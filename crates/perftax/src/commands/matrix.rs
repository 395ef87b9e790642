//! `perftax matrix`: what counting and sampling cost, over modes × events × instances × periods × programs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use perftax_doc::{Matrix, MatrixMode};
use perftax_lab::journal::Journal;
use perftax_lab::matrix::{Campaign, Cells, EventSet, Grid, Limits, Monitors, Told, conclude};
use perftax_lab::run::{Command, usual_ring_pages};
use perftax_lab::workload::{Workload, default_cache_dir, find_program};
use perftax_pmu::Error;
use perftax_pmu::event::Event;
use perftax_pmu::fnv::{FNV_OFFSET, fnv1a};
use perftax_pmu::machine::Right;
use perftax_pmu::sys::{Ring, Stdio};
use perftax_report::text;

use crate::commands::publish::Publish;
use crate::failure::Outcome;
use crate::folder::{self, FolderChoice};
use crate::host::{Host, NO_REFERENCE_LOOP};
use crate::input::InputChoice;
use crate::output::Output;
use crate::progress::{Progress, announce};
use crate::wait::Wait;

/// Measure what counting and sampling cost: modes × events × periods
///
/// Each cell of the grid is made of pairs of an unmonitored and a monitored run, in random order, until its overhead is known as well as
/// was asked for; off against off is always among the cells. The plan comes first, with the time that it will take. Copies of a program
/// are pinned, to one CPU of each core first and to their SMT siblings last. Exits with 4 where off differs from off.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax matrix -w perl -w bzip2 --dry-run           the plan, and the time it takes
  perftax matrix -w perl --resume grid.state          goes on where it was killed
  perftax matrix -g cern-counting --events 1,4 --one-group -w perl    the CERN study's events, as one group
  perftax matrix -g clock --events 1,4 --divide 1,10 --instances 1,2 -- bzip2 -kf big
  perftax report node1.json node2.json                several machines in one grid")]
pub struct Args {
    /// A shipped workload by name, or a workload description (.toml); may be repeated
    #[arg(short, long, value_name = "NAME", conflicts_with = "command")]
    workload: Vec<String>,
    /// How programs are watched: counting, sampling, pebs, lbr, ibs
    #[arg(long, value_name = "MODE,…", value_delimiter = ',', default_values_t = MatrixMode::WATCHING)]
    modes: Vec<MatrixMode>,
    /// A set of events: cern-counting, cern-pebs, cern-lbr-inserts, cern-lbr-taken (the CERN study's), clock, core, ibs, kernel, retired, or a description (.toml); may be repeated (usual: core; clock and kernel without a PMU)
    #[arg(short = 'g', long = "group", value_name = "SET")]
    sets: Vec<String>,
    /// How many events of a set
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 4, 8, 16], value_parser = clap::value_parser!(u32).range(1..=1000))]
    events: Vec<u32>,
    /// How many copies of a program at once (usual: one, one a core, two a core)
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    instances: Vec<u32>,
    /// What the periods of a set are divided by
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 10, 100], value_parser = clap::value_parser!(u64).range(1..))]
    divide: Vec<u64>,
    /// Sessions that watch: each (one a copy), one (for all copies), cpus (one for whole CPUs)
    #[arg(long, value_name = "WHO", value_enum, default_value_t)]
    monitors: WhoWatches,
    /// The events of a cell are one group: all of them are on the counters together, or none. More than there are counters for cannot be had
    #[arg(long)]
    one_group: bool,
    /// Leave out events that a mode cannot have here, of all modes, list them, and take the next ones of the set instead
    #[arg(long)]
    skip_missing: bool,
    /// Go on until each overhead is known this well: half of its interval, in percentage points
    #[arg(long, value_name = "POINTS", default_value_t = 2.0)]
    precision: f64,
    /// Pairs of each cell at least
    #[arg(long, alias = "least-pairs", value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    min_pairs: u32,
    /// Pairs of each cell at most
    #[arg(long, alias = "most-pairs", value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    max_pairs: u32,
    /// Begin no further cell after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1200)]
    time: u64,
    /// Say what would be measured and how long it takes: each program is run three times, unmonitored
    #[arg(long)]
    dry_run: bool,
    /// Keep what is done in FILE, and start from what is there
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Pages of each ring, a power of two (usual: 512, or as many as may be locked)
    #[arg(short = 'm', long, value_name = "PAGES")]
    mmap_pages: Option<usize>,
    /// Run no reference loop beside the programs (it takes the machine's own variation out; without CAP_SYS_NICE there is none)
    #[arg(long, alias = "no-yardstick")]
    no_reference_loop: bool,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    input: InputChoice,
    #[command(flatten)]
    folder: FolderChoice,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    publish: Publish,
    /// The command, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What is watched where several copies of a program run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum WhoWatches {
    #[default]
    Each,
    One,
    Cpus,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    args.publish.check()?;
    args.check()?;
    let here = Host::read_waiting(args.wait)?;
    let mut origin = here.origin("matrix");
    let commands = args.commands()?;
    let grid = args.grid(&here, &commands)?;
    let cells = grid.cells(&here.catalog)?;
    if let (true, Some(first)) = (cells.planned.iter().all(|cell| cell.watch.is_none()), cells.impossible.first()) {
        let remedy = "perftax doctor shows what this machine can measure".into();
        return Err(Error::Unsupported { what: "measure any cell".into(), why: first.why.clone(), remedy }.into());
    }
    // Emulated time is the same each time: nothing is left to be taken out.
    let reference_loops =
        !args.no_reference_loop && !Host::is_emulated() && here.may(Right::RealTime, NO_REFERENCE_LOOP, &mut origin);
    let head = args.head(&here, &grid, &commands, reference_loops);
    let journal = args.resume.as_deref().map(|path| Journal::open(path, &head)).transpose()?;
    let guard = here.throttle_guard(&mut origin)?;
    perftax_pmu::guard::raise_descriptor_limit();
    let commands = args.placed(commands, &cells)?;
    let counters = here.counters().map(|counters| counters as u32);
    let mut campaign =
        Campaign { commands: &commands, topology: here.topology(), counters, reference_loops, limits: args.limits(), journal };
    let pilots = campaign.pilots(&grid)?;
    let mut document = campaign.planned(origin, &grid, &cells, pilots);
    if !args.dry_run {
        announce(&format!("the plan\n{}", text::matrix_plan(&document).trim_end()));
        measure(&mut campaign, &mut document, cells)?;
        conclude(&mut document);
    }
    drop(guard);
    document.origin.warnings.extend(commands.iter().filter_map(folder::warning));
    if args.dry_run {
        args.output.write_json(&document)?;
        args.output.write_text(&text::matrix_plan(&document))?;
    } else {
        args.output.emit(&document)?;
        args.publish.publish(&document)?;
    }
    let is_refused = document.controls.iter().any(|control| !control.control.passed);
    Ok(if is_refused { Outcome::Negative } else { Outcome::Done })
}

/// Measures the cells that are left, with a bar.
fn measure(campaign: &mut Campaign<'_>, document: &mut Matrix, cells: Cells) -> Result<()> {
    let mut bar = None;
    campaign.measure(document, cells, |told| match told {
        Told::Begin { kept, left } => {
            if kept > 0 {
                announce(&format!("{kept} cells are done already, {left} are left"));
            }
            bar = Some(Progress::new("measuring", left as u64));
        }
        Told::Pair { done, key, pairs, half_width } => {
            let width = half_width.map_or(String::new(), |width| format!(" ±{:.2} points", width * 100.0));
            bar.iter().for_each(|bar| bar.at(done as u64, format!("{key} pair {pairs}{width}")));
        }
    })?;
    if let Some(bar) = bar {
        bar.finish();
    }
    Ok(())
}

impl Args {
    fn check(&self) -> Result<()> {
        if !(self.precision > 0.0 && self.precision < 100.0) {
            let needed = "above 0 and below 100 percentage points".into();
            return Err(Error::Argument { argument: "--precision", value: self.precision.to_string(), needed }.into());
        }
        if self.dry_run && (self.output.html.is_some() || self.output.separator.is_some()) {
            let needed = "without --html and -x: a plan has a text and JSON".into();
            return Err(Error::Argument { argument: "--dry-run", value: "given".into(), needed }.into());
        }
        self.mmap_pages.map(Ring::check_pages).transpose()?;
        Ok(())
    }

    /// The programs, each name once.
    fn commands(&self) -> Result<Vec<Command>> {
        let mut commands: Vec<Command> = Vec::new();
        for name in &self.workload {
            let command = Command::from_workload(&Workload::load(name)?.prepare(&default_cache_dir())?);
            match commands.iter().find(|known| known.name == command.name) {
                None => commands.push(command),
                Some(known) if known.words() == command.words() => {}
                Some(known) => {
                    let needed = format!("another name than that of {}", known.words().join(" "));
                    return Err(Error::Argument { argument: "-w", value: name.clone(), needed }.into());
                }
            }
        }
        if commands.is_empty() {
            if self.command.is_empty() {
                let needed = "a command after --, or workloads with -w".into();
                return Err(Error::Argument { argument: "COMMAND", value: "missing".into(), needed }.into());
            }
            commands.push(Command::from_argv(self.command.clone(), Stdio::Discard).reading(self.input.input()?));
        }
        Ok(commands)
    }

    /// The same, where they are to run. Those that are shipped have folders of their own.
    fn placed(&self, commands: Vec<Command>, cells: &Cells) -> Result<Vec<Command>> {
        let watches = cells.planned.iter().filter_map(|planned| planned.watch.as_ref());
        let events: Vec<Event> = watches.flat_map(|watch| watch.events.iter().map(|(event, _)| event.clone())).collect();
        let copies = cells.planned.iter().map(|planned| planned.key.instances).max().unwrap_or(1);
        commands.into_iter().map(|command| self.folder.place(command, &events, copies.into())).collect()
    }

    fn grid(&self, here: &Host, commands: &[Command]) -> Result<Grid> {
        let usual: &[&str] = if here.catalog.core_pmu().is_some() { &["core"] } else { &["clock", "kernel"] };
        let names: Vec<&str> = if self.sets.is_empty() { usual.to_vec() } else { self.sets.iter().map(String::as_str).collect() };
        let sets = once(names.iter().map(|name| EventSet::load(name)).collect::<Result<Vec<_>, _>>()?);
        if let Some(twice) = sets.iter().enumerate().find_map(|(at, set)| sets[..at].iter().find(|other| other.name == set.name))
        {
            let needed = "sets of different names".into();
            return Err(Error::Argument { argument: "-g", value: twice.name.clone(), needed }.into());
        }
        let cores = here.topology().cores.len().max(1) as u32;
        let instances = if self.instances.is_empty() { vec![1, cores, 2 * cores] } else { self.instances.clone() };
        Ok(Grid {
            workloads: commands.iter().map(|command| command.name.clone()).collect(),
            modes: once(self.modes.clone()),
            sets,
            events: once(self.events.clone()),
            instances: once(instances),
            divisors: once(self.divide.clone()),
            monitors: match self.monitors {
                WhoWatches::Each => Monitors::Each,
                WhoWatches::One => Monitors::One,
                WhoWatches::Cpus => Monitors::Cpus,
            },
            one_group: self.one_group,
            skip_missing: self.skip_missing,
            ring_pages: self.mmap_pages.unwrap_or_else(usual_ring_pages),
            generation: here.generation(),
        })
    }

    /// What a file of `--resume` belongs to: everything that a cell's numbers depend on.
    fn head(&self, here: &Host, grid: &Grid, commands: &[Command], reference_loops: bool) -> String {
        let words: Vec<Vec<String>> = commands.iter().map(Command::words).collect();
        let programs: Vec<_> = commands.iter().map(fingerprint).collect();
        let all = format!(
            "{grid:?} {words:?} {programs:?} {:?} {} {} {} {}",
            here.topology().order(),
            self.min_pairs,
            self.max_pairs,
            !reference_loops,
            env!("CARGO_PKG_VERSION"),
        );
        let hash = fnv1a(FNV_OFFSET, all.as_bytes());
        let precision = self.precision;
        format!("{} {} matrix {hash:016x} ±{precision} points of {}", here.id.fingerprint, here.kernel, grid.workloads.join(","))
    }

    fn limits(&self) -> Limits {
        Limits {
            precision: self.precision / 100.0,
            min_pairs: self.min_pairs,
            max_pairs: self.max_pairs.max(self.min_pairs),
            time: Duration::from_secs(self.time),
            seed: self.seed,
        }
    }
}

/// Size and time of the last change of a program's file, as far as it is found: a program that was compiled anew is another one.
fn fingerprint(command: &Command) -> Option<(u64, Option<std::time::SystemTime>)> {
    let found = find_program(command.words().first()?)?;
    let file = found.metadata().ok()?;
    Some((file.len(), file.modified().ok()))
}

/// Without repetitions, in the same order.
fn once<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    let mut kept = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}
