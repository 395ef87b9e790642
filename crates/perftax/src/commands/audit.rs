//! `perftax audit`: can samples be trusted?

use std::path::PathBuf;

use anyhow::Result;
use perftax_doc::Warning;
use perftax_doc::{Audit, AuditedExperiment};
use perftax_lab::audit::{ALL, Experiment, Fault, Name, Setting, compare, run as done, source_names};
use perftax_lab::journal::Journal;
use perftax_lab::published::pes::Pes;
use perftax_pmu::Error;
use perftax_pmu::guard::check_interrupted;

use crate::commands::publish::Publish;
use crate::failure::Outcome;
use crate::host::Host;
use crate::output::Output;
use crate::progress;
use crate::wait::Wait;
use perftax_lab::system::hidden_hits;

/// Check whether samples tell the truth on this machine
///
/// Work whose events are known by construction is counted and sampled; what came is held against what must come. Exits with 4 where a row
/// does not meet its criterion.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax audit                          every experiment
  perftax audit --quick                  fewer runs of each
  perftax audit --only interval,bias     two of them
  perftax audit --source pebs --runs 3   three runs of whatever PEBS samples
  perftax audit --resume audit.state     goes on where it was killed")]
pub struct Args {
    /// These experiments only: count, interval, misses, stability, threads, bias, overhead, memory, events, mode,
    /// address, generic
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// These sources only: parts of names as they stand in the rows (pebs, interrupt, ibs, page-faults, …)
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    source: Vec<String>,
    /// Three runs of each instead of ten
    #[arg(long)]
    quick: bool,
    /// Runs of each: 10, or 3 with --quick, unless said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: Option<u16>,
    /// Keep what is done in FILE, and start from what is there
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Have a fault in the sampler, to show that it is found: drop, period, skid, mode, address, alias, throttle, multiplex, pinned
    #[arg(long, value_name = "FAULT", hide = true)]
    plant: Option<Fault>,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    publish: Publish,
}

/// Runs of each case.
const RUNS: usize = 10;
const QUICK_RUNS: usize = 3;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    args.publish.check()?;
    let chosen = args.chosen()?;
    let here = Host::read_waiting(args.wait)?;
    let names = source_names(&here.catalog);
    if let Some(unknown) = args.source.iter().find(|part| !names.iter().any(|name| name.contains(part.as_str()))) {
        let needed = format!("a part of one of {}", names.join(", "));
        return Err(Error::Argument { argument: "--source", value: unknown.clone(), needed }.into());
    }
    let mut origin = here.origin("audit");
    let mut guard = here.throttle_guard(&mut origin)?;
    if let Some(limit_hz) = args.plant.and_then(Fault::limit_hz) {
        guard.limit(limit_hz)?;
    }
    if let Some(fault) = args.plant {
        let message = format!("a fault was planted in the sampler ({fault:?})");
        origin.warnings.push(Warning::Other { message, remedy: "the same without --plant".into() });
    }
    let kind = if args.quick { "quick" } else { "whole" };
    let runs = args.runs.map_or(if args.quick { QUICK_RUNS } else { RUNS }, usize::from);
    let head = format!("{} {} {kind} {runs} {} {:?}", here.id.fingerprint, here.kernel, args.source.join(","), args.plant);
    let mut journal = args.resume.as_deref().map(|path| Journal::<AuditedExperiment>::open(path, &head)).transpose()?;
    let setting = Setting {
        catalog: &here.catalog,
        cpus: &here.cpus,
        runs,
        is_quick: args.quick,
        is_exact: Host::is_emulated(),
        has_caches: Host::has_caches(),
        has_random_starts: Host::has_random_starts(),
        counters: here.counters(),
        fault: args.plant,
        sources: &args.source,
    };
    let mut experiments = Vec::new();
    for experiment in chosen {
        check_interrupted()?;
        let kept = journal.iter().flat_map(|journal| journal.entries()).find(|kept| kept.name == experiment.name().text());
        if let Some(kept) = kept {
            experiments.push(kept.clone());
            continue;
        }
        progress::announce(&format!("{}: {}", experiment.name(), experiment.question()));
        let experiment = done(experiment, &setting)?;
        if let Some(journal) = &mut journal {
            journal.add(experiment.clone())?;
        }
        experiments.push(experiment);
    }
    drop(guard);
    origin.warnings.extend(hidden_hits());
    let mut document = Audit { origin, is_quick: args.quick, experiments, comparisons: Vec::new() };
    document.comparisons = compare(&Pes::shipped()?, &document);
    args.output.emit(&document)?;
    args.publish.publish(&document)?;
    if let Some(why) = document.nothing_measured() {
        let remedy = "perftax doctor --for audit says what it needs".into();
        return Err(Error::Unsupported { what: "measure any of what was asked".into(), why: why.into(), remedy }.into());
    }
    Ok(if document.failed().next().is_some() { Outcome::Negative } else { Outcome::Done })
}

impl Args {
    /// The experiments asked for, in their own order.
    fn chosen(&self) -> Result<Vec<&'static dyn Experiment>> {
        let names: Vec<Name> = self.only.iter().map(|name| name.parse()).collect::<Result<_, Error>>()?;
        let is_chosen = |experiment: &&dyn Experiment| names.is_empty() || names.contains(&experiment.name());
        Ok(ALL.into_iter().filter(is_chosen).collect())
    }
}
