//! perftax: what event sampling costs, and what it buys.

mod asked;
mod calibration;
mod cli;
mod commands;
mod completion;
mod endpoint;
mod failure;
mod folder;
mod host;
mod input;
mod measured;
mod origin;
mod output;
mod perf_line;
mod profile;
mod program;
mod progress;
#[cfg(test)]
mod reference;
mod saved;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod shown;
mod simulated;
mod size;
#[cfg(test)]
mod spelled;
mod stat;
mod target;
mod wait;

use std::process::ExitCode;

use clap::FromArgMatches as _;

use cli::{Cli, Command};

fn main() -> ExitCode {
    if perftax_pmu::guard::served_as_guardian() {
        return ExitCode::SUCCESS;
    }
    if perftax_lab::tool::served_as_battery() {
        return ExitCode::SUCCESS;
    }
    perftax_report::speak();
    completion::answer();
    perftax_pmu::guard::repair();
    failure::notice_signals();
    let cli = Cli::from_arg_matches(&cli::command().get_matches()).unwrap_or_else(|error| error.exit());
    let outcome = match cli.command {
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::List(args) => commands::list::run(&args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Predict(args) => commands::predict::run(&args),
        Command::Record(args) => commands::record::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Bill(args) => commands::bill::run(&args),
        Command::Lint(args) => commands::lint::run(&args),
        Command::Sensitivity(args) => commands::sensitivity::run(&args),
        Command::Audit(args) => commands::audit::run(&args),
        Command::Selfcost(args) => commands::selfcost::run(&args),
        Command::FieldTest(args) => commands::field_test::run(&args),
        Command::Phase(args) => commands::phase::run(&args),
        Command::Matrix(args) => commands::matrix::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Comm(args) => commands::comm::run(&args),
        #[cfg(feature = "trace")]
        Command::Trace(args) => commands::trace::run(&args),
        Command::Dataset(args) => commands::dataset::run(&args),
        Command::Vm(args) => commands::vm::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Man(args) => commands::man::run(&args, <Cli as clap::CommandFactory>::command()),
    };
    failure::exit_code(outcome)
}
