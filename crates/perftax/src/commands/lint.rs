//! `perftax lint`: whether a recording can be trusted.

use std::path::PathBuf;

use anyhow::Result;
use perftax_doc::LintVerdict;
use perftax_perfdata::lint::{self, Limits};

use crate::failure::Outcome;
use crate::output::Output;
use crate::profile;

/// Say whether a recording by perf record can be trusted
///
/// Reads a recording once and names what spoils it, worst first: the evidence, what it does to conclusions, the remedy. Reads what perftax bill reads.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The recording; - reads standard input
    #[arg(value_name = "FILE", default_value = "perf.data")]
    recording: PathBuf,
    /// Thresholds, a TOML file: a table a check, with warning, error or off
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Price the recording's own cost with this machine profile (or the --json of calibrate) instead of this machine's own
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  perftax lint perf.data
  perf record -o - -- make | perftax lint -
  perftax lint --config ci.toml --json lint.json perf.data

Exit codes: 0 no error; 1 not a readable recording; 2 usage; 4 it cannot be trusted.";

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    let inputs = [Some(args.recording.as_path()), args.config.as_deref(), args.profile.as_deref()];
    args.output.check_spares(&inputs.into_iter().flatten().collect::<Vec<_>>())?;
    let limits = args.config.as_deref().map(Limits::read).transpose()?.unwrap_or_default();
    let profile = profile::asked_or_own(args.profile.as_deref())?;
    let lint = lint::lint(&args.recording, &limits, profile.as_ref(), profile::origin("lint", profile.as_ref()))?;
    args.output.emit(&lint)?;
    Ok(if lint.verdict == LintVerdict::Error { Outcome::Negative } else { Outcome::Done })
}
