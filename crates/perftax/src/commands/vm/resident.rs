//! A machine that stays: booted once by `vm up`, used by `vm exec`, gone with `vm down`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use perftax_vm::keeper::{self, Keeper, Lent, Lifetime};
use perftax_vm::{Guest, Installation, Resident};

use super::{BackArgs, BroughtArgs, MachineArgs, ended, terminal};
use crate::failure::Outcome;

/// Boot a machine once and keep it: each vm exec runs in a copy of it, within a fraction of a second
///
/// Every command finds the machine as it stood when it had booted: the same clock, the same seed, the same files, counters at the same values.
/// What one leaves behind, the next does not see. A process of yours keeps it, and lets go of it with vm down, after a while without a user, or
/// with another process.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax vm up ci
  perftax vm up amd --cpu zen2 --smp 2 --share tests --idle 60
  perftax vm up ci --while $$             gone with this shell")]
pub struct UpArgs {
    /// Its name: letters, digits, '-', '_', '.'
    name: String,
    #[command(flatten)]
    machine: MachineArgs,
    /// Let it go after so many seconds without a user
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    idle: u64,
    /// Let it go with this process
    #[arg(long = "while", value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    process: Option<u32>,
    /// Real seconds that booting may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

/// Run a command in a machine that is up: its output is ours, its exit code too
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax vm exec ci -- perf stat -e instructions:u true
  perftax vm exec ci --share tests --out samples.data -- perf record -o samples.data -e instructions:uppp -c 10007 ./prog")]
pub struct ExecArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    brought: BroughtArgs,
    #[command(flatten)]
    back: BackArgs,
    /// The command, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Let a machine go that is up; commands that run in it go on to their end
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax vm down ci
  perftax vm down --all")]
pub struct DownArgs {
    /// Its name
    #[arg(required_unless_present = "all")]
    name: Option<String>,
    /// All that are up
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

/// Which machines are up, and what memory each holds
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  perftax vm list")]
pub struct ListArgs {}

/// Says to ourselves, started once more, that we are to keep the machine.
const KEEPER_VARIABLE: &str = "PERFTAX_VM_KEEPER";
/// What the keeper says when the machine is there.
const READY: &str = "ready";

/// Starts a keeper, and waits until the machine has booted.
pub fn up(args: &UpArgs) -> Result<Outcome> {
    if std::env::var_os(KEEPER_VARIABLE).is_some() {
        return keep(args);
    }
    // What can be said at once is said by us.
    args.machine.guest(Vec::new())?;
    let mut keeper = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(KEEPER_VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the machine's keeper")?;
    // It outlives us, and so gets lines of its own: whoever waits for ours to end does not wait for it.
    let errors = keeper
        .stderr
        .take()
        .map(|errors| std::thread::spawn(move || std::io::copy(&mut BufReader::new(errors), &mut std::io::stderr()).ok()));
    let mut said = String::new();
    if let Some(output) = keeper.stdout.take() {
        BufReader::new(output).read_line(&mut said).context("cannot hear the machine's keeper")?;
    }
    if said.trim() == READY {
        let idle = args.idle;
        let process = args.process.map_or(String::new(), |pid| format!(", or with process {pid}"));
        anstream::eprintln!("{} is up; it goes with vm down, after {idle} s without a user{process}", args.name);
        return Ok(Outcome::Done);
    }
    let status = keeper.wait().context("cannot wait for the machine's keeper")?;
    if let Some(errors) = errors {
        errors.join().ok();
    }
    Ok(Outcome::Passed(status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(1)))
}

/// What the keeper does: boots the machine, says so, lends it.
fn keep(args: &UpArgs) -> Result<Outcome> {
    let installation = Installation::find(args.machine.kernel.as_deref())?;
    let guest = Guest { timeout: Duration::from_secs(args.timeout), ..args.machine.guest(vec!["true".into()])? };
    let keeper = Keeper::of(&args.name)?;
    let resident = Resident::boot(&installation, &guest, &std::env::current_exe()?, perftax_pmu::guard::interrupted)?;
    keeper::detach().context("cannot leave the terminal")?;
    // What the machine has is there; a command brings its own.
    let has_share = guest.share.is_some();
    let lent = Lent { guest: Guest { with: Vec::new(), share: None, has_share, ..guest }, installation };
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{READY}").and_then(|()| stdout.flush()).ok();
    keeper.keep(&resident, &lent, Lifetime { idle: Duration::from_secs(args.idle), with: args.process })?;
    Ok(Outcome::Done)
}

/// Runs the command.
pub fn exec(args: &ExecArgs) -> Result<Outcome> {
    let loan = keeper::borrow(&args.name)?;
    let kept = loan.lent.guest.environment.clone();
    let mut guest = Guest { argv: args.command.clone(), ..loan.lent.guest.clone() };
    args.brought.complete(&mut guest)?;
    guest.environment = [kept, guest.environment].concat();
    args.back.complete(&mut guest)?;
    Ok(ended(&loan.resident.exec(&loan.lent.installation, &guest, terminal())?))
}

/// Lets them go.
pub fn down(args: &DownArgs) -> Result<Outcome> {
    match &args.name {
        Some(name) => keeper::take_down(name)?,
        None => keeper::names()?.iter().try_for_each(|name| keeper::unless_gone(name, keeper::take_down(name)).map(drop))?,
    }
    Ok(Outcome::Done)
}

/// A line for each.
pub fn list(_: &ListArgs) -> Result<Outcome> {
    let mut text = String::new();
    for name in keeper::names()? {
        let Some(loan) = keeper::unless_gone(&name, keeper::look_at(&name))? else { continue };
        let (guest, held) = (&loan.lent.guest, loan.resident.bytes() >> 20);
        let kernel = loan.lent.installation.kernel.parent().unwrap_or(Path::new("")).join("kernel");
        let kernel = std::fs::read_to_string(kernel).unwrap_or_default();
        let (model, count) = (guest.processor.generation.model(), guest.processor.count);
        text.push_str(&format!("{name:<16} {model} x{count}, Linux {}, holds {held} MiB\n", kernel.trim()));
    }
    anstream::print!("{text}");
    Ok(Outcome::Done)
}
