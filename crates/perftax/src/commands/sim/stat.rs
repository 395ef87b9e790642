//! `perftax sim stat`: exact counts of a program's user mode, without a boot.

use std::ffi::OsString;

use anyhow::Result;
use perftax_doc::{MachineId, Stat, StatCount, StatFixed, Warning};
use perftax_lab::simulation::{Exactly, Guest, KERNEL, PROCESSOR, count_exactly, exact_environment};
use perftax_lab::stat::{merged_counts, merged_functions};
use perftax_model::Event;
use perftax_pmu::Error;

use crate::failure::Outcome;
use crate::stat::{StatArgs, identity};
use crate::target::Target;

/// Count a program's instructions exactly, in all and by function: the same on every machine
///
/// It runs in qemu-user, and what differs from run to run is fixed: environment, addresses, random numbers, the clock, processors, its path,
/// in which order threads go on. User mode alone is counted; perftax vm stat counts the kernel, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax sim stat -- ./app input
  perftax sim stat --write-baseline app.baseline.json -- ./app input
  perftax sim stat --baseline app.baseline.json -- ./app input       (exit 4 where one instruction differs)
  perftax sim stat -e instructions:u,loads:u,stores:u -r 3 -- ./app")]
pub struct Args {
    #[command(flatten)]
    stat: StatArgs,
    /// Add a variable to the program's environment, which is otherwise fixed
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = super::variable)]
    environment: Vec<(OsString, OsString)>,
    /// Run the program where it stands, not as a copy by a path that is as long everywhere: for one that looks for files beside itself
    #[arg(long)]
    in_place: bool,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let baseline = args.stat.baseline()?;
    let events = args.stat.event.split(',').map(event).collect::<Result<Vec<_>>>()?;
    let installation = crate::simulated::installation()?;
    let guest = Guest { environment: args.environment.clone(), ..args.target.guest()? };
    let mut runs = Vec::new();
    for run in 0..args.stat.repeat {
        // The program's output is wanted once.
        let guest = Guest { silent: guest.silent || run > 0, ..guest.clone() };
        runs.push(count_exactly(&installation, &guest, args.seed, args.in_place)?);
        perftax_pmu::guard::check_interrupted()?;
    }
    let emulator = installation.version();
    let machine = MachineId {
        name: format!("{emulator} (user mode), everything that varies fixed"),
        fingerprint: "qemu-user".into(),
        ..MachineId::default()
    };
    let mut origin = super::modelled("stat", machine);
    let first = &runs[0];
    origin.warnings = warnings(&runs);
    let counts: Vec<Vec<StatCount>> = runs.iter().map(|run| counts(run, &events)).collect();
    let functions: Vec<_> = runs.iter().map(|run| run.functions.clone()).collect();
    let stat = Stat {
        origin,
        program: guest.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        exit_code: first.code,
        fixed: StatFixed {
            kind: "sim".into(),
            emulator,
            processor: PROCESSOR.into(),
            processors: 1,
            kernel: KERNEL.into(),
            seed: args.seed,
            environment: environment(&args.environment),
        },
        runs: args.stat.repeat,
        counts: merged_counts(&counts),
        functions: Some(merged_functions(&functions)),
        files: first.files.iter().map(|file| identity(file)).collect::<Result<_>>()?,
        comparison: None,
        written_to: None,
    };
    args.stat.finish(stat, baseline.as_ref())
}

/// The environment, as NAME=VALUE.
fn environment(added: &[(OsString, OsString)]) -> Vec<String> {
    let all = exact_environment(added).into_iter();
    all.map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy())).collect()
}

/// An event by perf's name or the model's, with or without `:u`.
fn event(text: &str) -> Result<(String, Event)> {
    let refused = |needed: &str| Error::Argument { argument: "-e", value: text.into(), needed: needed.into() };
    let (name, modes) = text.split_once(':').unwrap_or((text, "u"));
    if modes != "u" {
        return Err(refused("user mode alone (:u): the kernel does not run here; perftax vm stat has one").into());
    }
    let event = Event::parse(name).map_err(|error| refused(&error.to_string()))?;
    if event.needs_caches() || matches!(event, Event::TakenBranches | Event::Fetches) {
        return Err(refused(
            "what the instructions themselves tell; of this event perftax vm stat --caches tells, or perftax sim",
        )
        .into());
    }
    Ok((text.into(), event))
}

fn counts(run: &Exactly, events: &[(String, Event)]) -> Vec<StatCount> {
    let count = |(name, event): &(String, Event)| {
        let count = run.outcome.cores.iter().map(|core| core.counts[*event]).sum::<u64>() as f64;
        let all = Some(count);
        StatCount { event: name.clone(), count: all, unit: String::new(), least: all, most: all, running: 1.0, enabled_ns: None }
    };
    events.iter().map(count).collect()
}

/// What was not counted, and what could not be fixed.
pub fn warnings(runs: &[Exactly]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |message: String, remedy: &str| warnings.push(Warning::Other { message, remedy: remedy.into() });
    if runs.iter().any(|run| run.forked) {
        warn(
            "the program forked: what its children did was not counted".into(),
            "count the program that does the work, not a shell or driver around it; perftax vm stat counts children, too",
        );
    }
    let unfixed: Vec<&str> = runs.iter().flat_map(|run| run.unfixed.keys()).map(String::as_str).collect();
    if let Some(first) = unfixed.first() {
        let mut names = unfixed.clone();
        names.sort_unstable();
        names.dedup();
        warn(
            format!(
                "the program used {}, whose answer is not fixed here",
                if names.len() == 1 { first.to_string() } else { names.join(", ") }
            ),
            "-r 3 shows whether its counts vary by it; in perftax vm stat all of it is fixed",
        );
    }
    if let Some(most) = runs.iter().map(|run| run.strays).max().filter(|strays| *strays > 0) {
        warn(
            format!(
                "threads waited for something from outside of the program, or for a long time, {most} times: their order may vary"
            ),
            "-r 3 shows whether its counts vary by it; in perftax vm stat all of it is fixed",
        );
    }
    warnings
}
