//! `perftax vm stat`: perf stat in the emulated machine, where every run is like the last, and what differs from a baseline.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use perftax_doc::{MachineId, Origin, SCHEMA, Stat, StatCount, StatFixed, Warning};
use perftax_lab::simulation::{Exactly, Guest as UserGuest, count_exactly};
use perftax_lab::stat::{merged_counts, merged_functions};
use perftax_pmu::Error;
use perftax_pmu::guard::interrupted;
use perftax_vm::{Finished, Guest, Installation, Terminal};

use super::MachineArgs;
use crate::commands::sim::stat::warnings;
use crate::failure::Outcome;
use crate::stat::{StatArgs, identity};

/// Count events of a command in the emulated machine, by perf stat: the same counts on every host
///
/// Each run starts from the machine as it had booted: kernel, clock, seed, environment, files. Threads, timers and children are counted and repeat, and
/// with -e instructions:k the kernel, too. For a baseline the program runs once more in qemu-user, which counts user instructions by function.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax vm stat -e instructions:u,branches:u -- bzip2 -kc /bin/ls > /dev/null
  perftax vm stat --share . --write-baseline app.baseline.json -- ./app input
  perftax vm stat --share . --baseline app.baseline.json --tolerance 0.1% -- ./app input
  perftax vm stat --caches -e L1-dcache-load-misses:u -- gzip -kc /bin/ls > /dev/null")]
pub struct StatCommandArgs {
    #[command(flatten)]
    stat: StatArgs,
    /// Real seconds that a run may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Leave functions out, which the program runs once more for
    #[arg(long)]
    no_functions: bool,
    #[command(flatten)]
    machine: MachineArgs,
    /// The command, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Where perf writes its counts in the guest.
const COUNTS: &str = "/tmp/perftax-counts";
/// Where a shared folder stands in the guest, and programs that are named by a path of the host's.
const SHARE: &str = "/share";

/// Runs the command.
pub fn stat(args: &StatCommandArgs) -> Result<Outcome> {
    let baseline = args.stat.baseline()?;
    let installation = Installation::find(args.machine.kernel.as_deref())?;
    // A program that is named by its path stands at the same one in the guest, wherever it stands here.
    let own = tempfile::tempdir().context("cannot make a folder for the program")?;
    let mut machine = args.machine.guest(words(args))?;
    machine.timeout = std::time::Duration::from_secs(args.timeout);
    let program = Path::new(&args.command[0]);
    if machine.share.is_none() && args.command[0].contains('/') && program.is_file() {
        let name = program.file_name().unwrap_or(program.as_os_str());
        std::fs::copy(program, own.path().join(name)).with_context(|| format!("cannot read {}", program.display()))?;
        machine.with.extend(args.command[..1].iter().cloned());
        machine.share = Some(own.path().into());
        let at = machine.argv.len() - args.command.len();
        machine.argv[at] = format!("{SHARE}/{}", name.to_string_lossy());
    }
    let mut runs = Vec::new();
    let mut code = 0;
    for run in 0..args.stat.repeat {
        let (finished, counts) = once(&installation, &machine, run == 0)?;
        if run == 0 {
            code = finished.code;
            super::ended(&finished);
        }
        match counts {
            Some(counts) => runs.push(counts),
            // perf has said why.
            None => return Ok(Outcome::Passed(u8::try_from(finished.code).unwrap_or(1).max(1))),
        }
    }
    let mut origin = origin(&installation, &machine);
    let wants_functions = args.stat.needs_functions() && !args.no_functions && code == 0;
    let exactly = if wants_functions { by_function(args, &mut origin)? } else { None };
    let files = match &exactly {
        Some(exactly) => exactly.files.iter().map(|file| identity(file)).collect::<Result<_>>()?,
        None => host_program(args).map(|file| identity(&file)).into_iter().collect::<Result<_>>()?,
    };
    let stat = Stat {
        fixed: fixed(args, &origin, &machine),
        origin,
        program: args.command.clone(),
        exit_code: code,
        runs: args.stat.repeat,
        counts: merged_counts(&runs),
        functions: exactly.map(|exactly| merged_functions(&[exactly.functions])),
        files,
        comparison: None,
        written_to: None,
    };
    args.stat.finish(stat, baseline.as_ref())
}

/// perf stat and the command.
fn words(args: &StatCommandArgs) -> Vec<String> {
    let perf = ["perf", "stat", "-j", "-o", COUNTS, "-e", &args.stat.event, "--"];
    perf.into_iter().map(String::from).chain(args.command.iter().cloned()).collect()
}

/// One run; none where perf has counted nothing.
fn once(installation: &Installation, machine: &Guest, is_heard: bool) -> Result<(Finished, Option<Vec<StatCount>>)> {
    let folder = tempfile::tempdir().context("cannot make a folder for what is counted")?;
    let guest = Guest { outputs: vec![PathBuf::from(COUNTS)], output_folder: folder.path().into(), ..machine.clone() };
    let (output, errors): (Box<dyn Write + Send>, Box<dyn Write + Send>) = match is_heard {
        true => (Box::new(std::io::stdout()), Box::new(std::io::stderr())),
        false => (Box::new(std::io::sink()), Box::new(std::io::sink())),
    };
    let mut finished =
        perftax_vm::run(installation, &guest, &std::env::current_exe()?, Terminal { output, errors, interrupted })?;
    // Not the user's output, and said by what is missing then.
    finished.missing.clear();
    let name = Path::new(COUNTS).file_name().unwrap_or_default();
    let text = std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let counts: Vec<StatCount> = text.lines().filter_map(counted).collect();
    Ok((finished, Some(counts).filter(|counts| !counts.is_empty())))
}

/// A line of `perf stat -j`; none of what is no count.
fn counted(line: &str) -> Option<StatCount> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    // "<not counted>" and "<not supported>" are no numbers.
    let count = text("counter-value").parse().ok();
    Some(StatCount {
        event: line["event"].as_str()?.to_owned(),
        count,
        unit: text("unit"),
        least: count,
        most: count,
        running: line["pcnt-running"].as_f64().unwrap_or(0.0) / 100.0,
        enabled_ns: line["event-runtime"].as_u64(),
    })
}

/// The program as a file of this machine; none where it is the guest's own.
fn host_program(args: &StatCommandArgs) -> Option<PathBuf> {
    let word = Path::new(&args.command[0]);
    let shared = args.machine.brought.share.as_ref().map(|share| share.join(word)).filter(|_| word.is_relative());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = || std::env::split_paths(&path).map(|folder| folder.join(word)).find(|file| file.is_file());
    let found = shared
        .filter(|file| file.is_file())
        .or_else(|| Some(word.to_path_buf()).filter(|file| args.command[0].contains('/') && file.is_file()));
    found.or_else(in_path)
}

/// The program in qemu-user, by function; what keeps it from there is a warning.
fn by_function(args: &StatCommandArgs, origin: &mut Origin) -> Result<Option<Exactly>> {
    let counted = || -> Result<Exactly> {
        let program = host_program(args).ok_or_else(|| Error::Argument {
            argument: "COMMAND",
            value: args.command[0].clone(),
            needed: "a program of this machine: the guest's own is not here".into(),
        })?;
        let program = program.canonicalize().with_context(|| format!("cannot read {}", program.display()))?;
        let environment = args.machine.brought.environment.iter().map(|(name, value)| (name.into(), value.into()));
        let guest = UserGuest {
            argv: std::iter::once(program.into()).chain(args.command[1..].iter().map(OsString::from)).collect(),
            directory: args.machine.brought.share.clone(),
            stdin: Some("/dev/null".into()),
            silent: true,
            environment: environment.collect(),
            ..UserGuest::default()
        };
        Ok(count_exactly(&crate::simulated::installation()?, &guest, args.machine.seed, false)?)
    };
    match counted() {
        Ok(exactly) => {
            let seen = warnings(std::slice::from_ref(&exactly)).into_iter();
            origin.warnings.extend(seen.map(|warning| Warning::Other {
                message: format!("by function, in qemu-user: {warning}"),
                remedy: "counts of events are not affected: they are the machine's".into(),
            }));
            Ok(Some(exactly))
        }
        Err(error) if interrupted() => Err(error),
        Err(error) => {
            origin.warnings.push(Warning::Other {
                message: format!("instructions by function are not known, which qemu-user counts: {error:#}"),
                remedy: "perftax sim stat -- COMMAND shows it; --no-functions leaves them out".into(),
            });
            Ok(None)
        }
    }
}

/// A head of no date, so that the same command gives the same bytes.
fn origin(installation: &Installation, machine: &Guest) -> Origin {
    let kernel = std::fs::read_to_string(installation.kernel.with_file_name("kernel")).unwrap_or_default();
    let model = machine.processor.generation.model();
    Origin {
        schema: SCHEMA,
        kind: "stat".into(),
        perftax: env!("CARGO_PKG_VERSION").into(),
        machine: MachineId {
            name: format!("emulated {model}, {} processors", machine.processor.count),
            fingerprint: format!("vm-{model}"),
            cpus: machine.processor.count,
            virtualisation: "QEMU TCG".into(),
            ..MachineId::default()
        },
        kernel: kernel.trim().into(),
        taken_at_s: 0.0,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        warnings: Vec::new(),
    }
}

fn fixed(args: &StatCommandArgs, origin: &Origin, machine: &Guest) -> StatFixed {
    let limits = if machine.stock_limits { ",stock-limits" } else { "" };
    let fast = if machine.fast { ",fast" } else { "" };
    let caches = if machine.processor.caches { ",caches" } else { "" };
    let miss_time = if machine.processor.miss_time { ",miss-time" } else { "" };
    StatFixed {
        kind: "vm".into(),
        emulator: format!("QEMU with the PMU of perftax {}", env!("CARGO_PKG_VERSION")),
        processor: format!("{}{caches}{miss_time}{limits}{fast}", machine.processor.option()),
        processors: machine.processor.count,
        kernel: format!("{} {}", origin.kernel, machine.append).trim().into(),
        seed: machine.seed,
        environment: args.machine.brought.environment.iter().map(|(name, value)| format!("{name}={value}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn perfs_lines_are_read_and_what_was_not_counted_is_no_number() {
        let line = r#"{"counter-value" : "4388778.000000", "unit" : "", "event" : "instructions:u", "event-runtime" : 5808239, "pcnt-running" : 100.00, "metric-value" : 0.0, "metric-unit" : "insn per cycle"}"#;
        let count = counted(line).unwrap();
        assert_eq!(
            (count.event.as_str(), count.count, count.running, count.enabled_ns),
            ("instructions:u", Some(4_388_778.0), 1.0, Some(5_808_239))
        );
        let none = counted(r#"{"counter-value" : "<not supported>", "unit" : "", "event" : "slots", "event-runtime" : 0, "pcnt-running" : 0.00}"#).unwrap();
        assert_eq!((none.count, none.least), (None, None));
        assert_eq!(counted("# started on Mon Nov 30"), None);
        assert_eq!(counted(r#"{"metric-value" : 1.0}"#), None);
    }
}
