//! The command line: one variant a command; each command's options stand in its own file.

use clap::{Parser, Subcommand};

use crate::commands;

/// What event sampling costs, and what it buys: measure it, predict it, plan it, check it.
#[derive(Debug, Parser)]
#[command(name = "perftax", version, max_term_width = 110, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 our failure, or the measured program failed; 2 usage; 3 this machine cannot do it; \
4 a negative verdict (the prediction did not hold, an audit row failed, no period fits the budget, a recording cannot be trusted); 126/127 cannot exec / not found; 130 interrupted.";

/// The commands, in the order in which a user meets them.
#[derive(Debug, Subcommand)]
pub enum Command {
    Doctor(commands::doctor::Args),
    List(commands::list::Args),
    Calibrate(commands::calibrate::Args),
    Predict(commands::predict::Args),
    Plan(commands::plan::Args),
    Verify(commands::verify::Args),
    Bill(commands::bill::Args),
    Lint(commands::lint::Args),
    Sensitivity(commands::sensitivity::Args),
    Audit(commands::audit::Args),
    Selfcost(commands::selfcost::Args),
    Phase(commands::phase::Args),
    Matrix(commands::matrix::Args),
    Sim(commands::sim::Args),
    Comm(commands::comm::Args),
    #[cfg(feature = "trace")]
    Trace(commands::trace::Args),
    Vm(commands::vm::Args),
    Report(commands::report::Args),
    /// For packagers and `cargo install`.
    #[command(hide = true)]
    Man(commands::man::Args),
}
