//! `perftax comm`: which threads share which cache lines.

mod lines;
mod price;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use perftax_comm::live::{MemoryEvents, PlaceName, Sampling, Subject, Terms, Watching, sample, watch};
use perftax_doc::{Comm, Estimate, Warning};
use perftax_model::unit::LONGEST_PERIOD;
use perftax_pmu::Error;
use perftax_pmu::guard::online_cpus;
use perftax_pmu::machine::{Root, Topology};
use perftax_pmu::sampler::ring_pages_within_rights;
use perftax_pmu::sys::Ended;
use perftax_report::{csv, text};

use self::lines::lines_of;
use self::price::{is_throttled, price};
use super::plan::budget_share;
use crate::failure::{Outcome, code_of_end};
use crate::host::Host;
use crate::output::{Output, check_file, write_atomically};
use crate::target::program;
use crate::wait::Wait;

/// Find which threads share which cache lines, truly or falsely
///
/// Where loads and stores can be sampled (Intel PEBS), samples name lines, and debug registers of all threads watch each for a moment:
/// how many transfers there are, between whom, of which lines. With --watch no PMU is needed: debug registers watch the places that
/// you name, and nothing else. Nothing runs in the program, and it needs no rebuild. Every access to a watched place traps (some 10 µs
/// each in a guest, 1 to 2 else), so registers are on for a part of the time alone, that a tenth of the program's CPU time pays for: see --budget.
/// Accesses by the kernel are not seen.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax comm -c 10007 --html comm.html -- ./server
  perftax comm --watch counters/16 --json comm.json -- ./server
  perftax comm --watch queue+0x40/8 --watch queue+0x48/8 --budget 2% --time 10 -p 4711
  perftax comm --watch heap:make_queue+0x40/16 -- ./server
  perftax comm --budget none --watch lock -- ./short_program")]
pub struct Args {
    /// A place to watch, again and again: SYMBOL[+OFFSET][/BYTES], as nm prints it, or 0xADDRESS[/BYTES]; without BYTES all of the
    /// symbol, or 8 at an address. heap:FUNCTION[#N][+OFFSET][/BYTES] is the N-th object of the heap that FUNCTION allocates, itself
    /// or by what it calls, from some milliseconds after its allocation on (with --heap)
    #[arg(long, value_name = "PLACE")]
    watch: Vec<String>,
    /// Watch the lines of a file: an address 0x... at the beginning of each of its lines, or a document of perftax comm --json, of which
    /// what was touched is watched, or a recording by perf c2c record: lines that loads found modified, the first 16. Addresses are those
    /// of one run: take them from this very process (-p), or a program that is not position-independent
    #[arg(long, value_name = "FILE")]
    lines_from: Option<PathBuf>,
    /// Stores between samples; loads are sampled an eighth as often
    #[arg(short = 'c', long = "period", value_name = "R", default_value_t = 10_007, conflicts_with_all = ["watch", "lines_from"],
          value_parser = clap::value_parser!(u64).range(100..=LONGEST_PERIOD))]
    period: u64,
    /// Loads that take long (30 cycles and more) between samples, where the machine tells where they found their data; without it a 32nd of
    /// -c, 10 at least. The shorter, the better lines with few transfers are told apart
    #[arg(long, value_name = "R", conflicts_with_all = ["watch", "lines_from"],
          value_parser = clap::value_parser!(u64).range(1..=LONGEST_PERIOD))]
    slow_loads_period: Option<u64>,
    /// Seed of what is drawn where a line has more words than registers
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["watch", "lines_from"])]
    seed: u64,
    /// Say which object of the heap a line lies in, and who allocated it: by probes on malloc, free and their like in what the program
    /// has loaded. Each call of them traps, malloc twice: some 10 µs each in a guest, 1 to 2 else, whatever the --budget. Needs root
    #[arg(long)]
    heap: bool,
    /// Debug registers to take of each thread (x86 has 4)
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=4))]
    watchpoints: u64,
    /// Spend at most this share of the program's CPU time: registers are on in slices, and what is between them is estimated. `none`: registers are on
    /// all the time, and every access to a watched place traps, however slow that makes the program
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = budget)]
    budget: Budget,
    /// Pages of each CPU's ring; a power of two (usual: 128, or as many as may be locked)
    #[arg(short = 'm', long, alias = "ring-pages", value_name = "PAGES")]
    mmap_pages: Option<usize>,
    /// Watch for so many seconds; a command goes on by itself
    #[arg(long, value_name = "S")]
    time: Option<f64>,
    /// Watch a process that runs already, until it ends, ^C or --time
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    #[command(flatten)]
    tables: Tables,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    output: Output,
    /// The program, after --
    #[arg(last = true, required_unless_present = "pid", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Tables beside the main one, which is of pairs of threads.
#[derive(Debug, clap::Args)]
pub struct Tables {
    /// Write the lines, and who touches them, as comma-separated values to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    lines_csv: Option<PathBuf>,
    /// Write the pairs of cores likewise
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    cores_csv: Option<PathBuf>,
    /// Lines in the result at most, those with the most transfers first, where they are estimated by their intervals' lower ends
    #[arg(long, alias = "most-lines", value_name = "N", default_value_t = 1000, help_heading = "Output", value_parser = clap::value_parser!(u32).range(1..))]
    max_lines: u32,
}

impl Tables {
    /// Lines in the document at most.
    pub fn most_lines(&self) -> usize {
        self.max_lines as usize
    }

    /// Fails early where one could not be written afterwards.
    pub fn check_writable(&self) -> Result<()> {
        [&self.lines_csv, &self.cores_csv].into_iter().flatten().try_for_each(|path| check_file(path))
    }

    /// Writes the document wherever it was asked for, these tables among others; what cannot be written keeps nothing else from being.
    /// A command that ran keeps its stdout, but for values that were asked for there.
    pub fn write_all(&self, output: &Output, document: &Comm, ran_a_command: bool) -> Result<()> {
        let table = |path: &Option<PathBuf>, table: fn(&Comm, &str) -> String| match path {
            Some(path) => write_atomically(path, table(document, ",").as_bytes()),
            None => Ok(()),
        };
        let written = [
            output.write_json(document),
            output.write_page(document),
            table(&self.lines_csv, csv::comm_lines),
            table(&self.cores_csv, csv::comm_cores),
            match &output.separator {
                Some(separator) => output.write_text(&csv::comm(document, separator)),
                None if ran_a_command => output.write_beside_child(&text::comm(document)),
                None => output.write_text(&text::comm(document)),
            },
        ];
        written.into_iter().collect()
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    args.tables.check_writable()?;
    let here = Host::read_waiting(args.wait)?;
    let (mut document, ended) = if args.names_places() { watched(args, &here)? } else { sampled(args, &here)? };
    document.origin.warnings.extend(trapped(ended));
    document.lines.truncate(args.tables.most_lines());
    args.tables.write_all(&args.output, &document, args.pid.is_none())?;
    let code = code_of_end(ended);
    Ok(if code == 0 { Outcome::Done } else { Outcome::Passed(code) })
}

/// Hypervisors that lose a debug exception's reason (`perftax_pmu::sys::stray_traps`) have the kernel kill who is watched.
fn trapped(ended: Ended) -> Option<Warning> {
    ended.is_by_trap().then(|| Warning::Other {
        message: "the program was killed by SIGTRAP, maybe since a debug register's exception came without its reason, as under some hypervisors: \
                  this result ends there"
            .into(),
        remedy: "again; or on bare metal, where that does not happen".into(),
    })
}

/// Debug registers on the places that were named.
fn watched(args: &Args, here: &Host) -> Result<(Comm, Ended)> {
    let places = args.places()?;
    let mut origin = here.origin("comm");
    let program = program(args.pid, &args.command);
    let is_heap_told = args.heap || places.iter().any(PlaceName::is_of_heap);
    let trap_ns = price(here, args.budget, is_heap_told)?;
    let watching = Watching { terms: args.terms(trap_ns, is_heap_told)?, places };
    // Whoever traps no faster than the kernel's limit leaves it alone. Where another perftax holds it, throttling is counted and said.
    let guard = match is_throttled(trap_ns).then(|| here.throttle_guard(&mut origin)).transpose() {
        Err(error) if matches!(error.downcast_ref(), Some(Error::Busy { .. })) => None,
        raised => raised?,
    };
    let watched = watch(&watching, &here.catalog)?;
    drop(guard);
    Ok((watched.document(origin, program), watched.ending.ended))
}

/// Samples of loads and stores, and debug registers on the lines that they name.
fn sampled(args: &Args, here: &Host) -> Result<(Comm, Ended)> {
    let events = MemoryEvents::of(&here.catalog)?;
    let mut origin = here.origin("comm");
    let program = program(args.pid, &args.command);
    let trap_ns = price(here, args.budget, args.heap)?;
    let sampling = Sampling {
        terms: args.terms(trap_ns, args.heap)?,
        events,
        period: args.period,
        slow_loads_period: args.slow_loads_period,
        seed: args.seed,
    };
    let guard = here.throttle_guard(&mut origin)?;
    let found = sample(&sampling, &here.catalog)?;
    drop(guard);
    found.check()?;
    Ok((found.document(origin, program, args.tables.most_lines()), found.ending.ended))
}

impl Args {
    fn names_places(&self) -> bool {
        !self.watch.is_empty() || self.lines_from.is_some()
    }

    fn subject(&self) -> Subject {
        self.pid.map_or_else(|| Subject::Command(self.command.clone()), Subject::process)
    }

    /// On what terms the program is watched, at a price of a trap.
    fn terms(&self, trap_ns: Option<Estimate>, is_heap_told: bool) -> Result<Terms> {
        Ok(Terms {
            subject: self.subject(),
            registers: self.watchpoints as u32,
            budget: self.budget.0,
            trap_ns,
            at_most: self.time.map(seconds).transpose()?,
            ring_pages: self.pages()?,
            core_of: cores()?,
            is_heap_told,
        })
    }

    /// What is named, of both kinds.
    fn places(&self) -> Result<Vec<PlaceName>> {
        let mut places = self.watch.iter().map(|text| PlaceName::parse(text)).collect::<Result<Vec<_>, Error>>()?;
        if let Some(path) = &self.lines_from {
            places.extend(lines_of(path, self.pid)?.into_iter().map(|place| PlaceName { may_be_absent: true, ..place }));
        }
        if places.is_empty() {
            let needed = "a file that names lines".into();
            return Err(Error::Argument { argument: "--lines-from", value: "one without any".into(), needed }.into());
        }
        Ok(places)
    }

    fn pages(&self) -> Result<usize> {
        let Some(pages) = self.mmap_pages else { return Ok(ring_pages_within_rights(RING_PAGES, online_cpus()?.len())) };
        if pages.is_power_of_two() && (8..=1 << 18).contains(&pages) {
            return Ok(pages);
        }
        let needed = "a power of two from 8 to 262144".into();
        Err(Error::Argument { argument: "-m", value: pages.to_string(), needed }.into())
    }
}

/// The core of each CPU that there is, by the first CPU of it.
fn cores() -> Result<HashMap<u32, u32>> {
    let topology = Topology::read(&Root::here(), &online_cpus()?);
    let of_core = |core: &Vec<u32>| core.first().map(|first| core.iter().map(|cpu| (*cpu, *first)).collect::<Vec<_>>());
    Ok(topology.cores.iter().filter_map(of_core).flatten().collect())
}

/// Pages of each CPU's ring: 512 KiB.
const RING_PAGES: usize = 128;

/// The share of the program's CPU time that watching may take; none: all that it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget(Option<f64>);

/// A share that watching can keep to, or none.
fn budget(text: &str) -> Result<Budget, String> {
    match text {
        "none" => Ok(Budget(None)),
        _ => budget_share(text).map(|share| Budget(Some(share))).map_err(|needs| needs + ", or none"),
    }
}

fn seconds(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        Error::Argument { argument: "--time", value: seconds.to_string(), needed: "seconds, 0 or more".into() }.into()
    })
}
