//! `perftax sim --comm`: which threads share which cache lines, by every access.

use anyhow::Result;
use perftax_comm::run::Request;
use perftax_doc::MachineId;
use perftax_doc::Warning;
use perftax_lab::simulation::{Guest, Installation, SimulatedComm, comm_document, simulate_comm};

use crate::commands::comm::Tables;
use crate::failure::Outcome;

/// What `--comm` takes.
#[derive(Debug, clap::Args)]
pub struct CommArgs {
    /// See which threads share which cache lines: every access, and with -c also what samples and debug registers make of it
    #[arg(long, help_heading = "Communication",
          conflicts_with_all = ["event", "mechanism", "buffer", "discard", "sweep", "count", "no_caches", "all_busy", "cores"])]
    pub comm: bool,
    /// Debug registers of each thread for the estimate
    #[arg(long, value_name = "N", default_value_t = 4, requires = "comm", help_heading = "Communication",
          value_parser = clap::value_parser!(u32).range(1..=4))]
    watchpoints: u32,
    /// Accesses that a thread makes in the mean before another has its turn
    #[arg(long, value_name = "N", default_value_t = 16, requires = "comm", help_heading = "Communication",
          value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    quantum: u32,
    /// Accesses of the whole program from a sample until its registers are armed
    #[arg(long, value_name = "N", default_value_t = 0, requires = "comm", help_heading = "Communication")]
    delay: u64,
    #[command(flatten)]
    tables: Tables,
}

/// Runs the command: the model has no part in it but its name, which the origin bears.
pub fn run(args: &super::Args, installation: &Installation, guest: &Guest) -> Result<Outcome> {
    args.comm.tables.check_writable()?;
    let request = Request {
        periods: args.period.into_iter().collect(),
        registers: args.comm.watchpoints,
        delay: args.comm.delay,
        quantum: args.comm.quantum,
        seed: args.seed,
        most_lines: args.comm.tables.most_lines(),
        outcome: String::new(),
    };
    let simulated = simulate_comm(installation, guest, &request)?;
    let code = u8::try_from(simulated.code).unwrap_or(1);
    let Some(outcome) = &simulated.outcome else {
        anstream::eprintln!("perftax: {}", simulated.without(&guest.argv[0].to_string_lossy()));
        return Ok(Outcome::Passed(code.max(1)));
    };
    let mut origin = super::modelled("comm", caches_of_their_own());
    origin.warnings = warnings(&simulated, outcome.accesses[1]);
    let program = guest.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let document = comm_document(origin, program, outcome, outcome.estimates.first(), request.registers);
    args.comm.tables.write_all(&args.output, &document, true)?;
    Ok(Outcome::Passed(code))
}

/// The machine that transfers are counted on.
fn caches_of_their_own() -> MachineId {
    let name = "modelled: each thread has a core of its own, with a cache that never evicts";
    MachineId { name: name.into(), fingerprint: "model-caches".into(), ..MachineId::default() }
}

fn warnings(simulated: &SimulatedComm, stores: u64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |message: &str, remedy: &str| {
        warnings.push(Warning::Other { message: message.into(), remedy: remedy.into() });
    };
    if simulated.forked {
        warn(
            "the program forked: what its children did was not simulated",
            "simulate the program that does the work, not a shell or driver around it",
        );
    }
    if stores == 0 {
        warn("no store was seen", "perftax sim --count -- /bin/true must count some: if not, reinstall qemu-user");
    }
    warnings
}
