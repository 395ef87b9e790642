//! `perftax bill`: what a recording cost.

use std::path::{Path, PathBuf};

use anyhow::Result;
use perftax_doc::{Bill, Untold};
use perftax_perfdata::bill;
use perftax_perfdata::recording::Recording;
use perftax_pmu::Error;

use crate::failure::Outcome;
use crate::output::Output;
use crate::profile;

/// Say what a recording by perf record cost
///
/// Counts the samples of each event (delivered, lost, throttled) and multiplies them by the cost of one sample, out of the
/// profile of this machine or the one given. Reads perf.data files, the directories of perf record --threads, and pipes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The recording; - reads standard input
    #[arg(value_name = "FILE", default_value = "perf.data")]
    recording: PathBuf,
    /// Price with this machine profile (or the --json of calibrate) instead of this machine's own
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  perftax bill perf.data
  perf record -o - -e page-faults -c 1 -- make | perftax bill -
  perftax bill --profile server.json --json bill.json perf.data

Exit codes: 0 billed; 1 not a readable recording; 2 usage; 3 counted, but no event could be priced.";

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    args.output
        .check_spares(&[Some(args.recording.as_path()), args.profile.as_deref()].into_iter().flatten().collect::<Vec<_>>())?;
    let profile = profile::asked_or_own(args.profile.as_deref())?;
    let recording = Recording::open(&args.recording)?;
    let bill = bill::bill(&recording, profile.as_ref(), profile::origin("bill", profile.as_ref()));
    args.output.emit(&bill)?;
    if let Some(fault) = recording.fault.filter(|_| bill.events.iter().any(|event| event.untold == Some(Untold::CutOff))) {
        let why = format!("{}; nothing was recorded before that", fault.why);
        return Err(Error::Malformed { what: recording.name, offset: fault.at_byte, why }.into());
    }
    if recording.events.is_empty() {
        let why = "it names no event, so nothing tells what was sampled".into();
        return Err(Error::Malformed { what: bill.recording, offset: 0, why }.into());
    }
    let unknown = recording.counts.unknown_samples;
    if bill.cost_s.is_none() && unknown > 0 && bill.events.iter().all(|event| event.cost_s.is_some()) {
        let why = format!("its {unknown} samples belong to no event that it names");
        return Err(Error::Malformed { what: bill.recording, offset: 0, why }.into());
    }
    if bill.cost_s.is_none() {
        return Err(unpriced(&bill, args.profile.as_deref()).into());
    }
    Ok(Outcome::Done)
}

fn unpriced(bill: &Bill, profile: Option<&Path>) -> Error {
    let unpriced = || bill.events.iter().filter(|event| event.cost_s.is_none());
    let events: Vec<_> = unpriced().map(|e| e.event.as_str()).collect();
    let what = format!("price {}", events.join(", "));
    let Some(sampled) = unpriced().find(|event| event.untold.is_none()) else {
        let (why, remedy) = match unpriced().any(|event| event.untold == Some(Untold::Overwritten)) {
            true => ("the samples that were overwritten are in nobody's count", "perf record without --overwrite"),
            false => ("what filling AUX buffers costs has no price", "time the program with the recording and without it"),
        };
        return Error::Unsupported { what, why: why.into(), remedy: remedy.into() };
    };
    let why = match profile {
        Some(path) => format!("{} has no calibration for its mechanism", path.display()),
        None => "this machine has no calibration for its mechanism yet".into(),
    };
    let remedy = match sampled.mechanism {
        Some(mechanism) => bill::calibrate(mechanism, &[&sampled.event]).to_string(),
        None => "none: perftax cannot tell how it is sampled".into(),
    };
    Error::Unsupported { what, why, remedy }
}
