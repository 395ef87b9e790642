//! `perftax dataset`: the data set of a fleet, as a whole.

mod add;

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Result;
use perftax_dataset::check::Finding;
use perftax_dataset::{check, compact, days_of};
use perftax_doc::{CorruptFile, DatasetCheck, DatasetCompact};
use perftax_report::text;

use crate::commands::publish::{Of, place, publication};
use crate::failure::Outcome;
use crate::host::Host;
use crate::output::Output;

/// Add to a fleet's data set, check it, make its small files few
///
/// `perftax trace publish` and --publish write it; DuckDB and Spark query it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax dataset add fleet calibrate.json             a result that was saved
  perftax dataset check fleet                          whether all that counts is there, as it was written
  perftax dataset compact fleet --before 2026-11-29    the days before that one, in few files")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Add results that were saved with --json, or what was published of others' machines
    Add(add::Args),
    /// Read all that counts, and say what is missing or corrupt (exit code 4)
    Check(CheckArgs),
    /// Write what many publications hold into few files; whenever it is broken off, each counts once
    Compact(CompactArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax dataset check fleet
  perftax dataset check fleet --remove-orphans")]
struct CheckArgs {
    /// A folder, or an object store such as s3://bucket/prefix
    #[arg(value_name = "DATASET")]
    dataset: String,
    /// Remove files that no publication lists, and that are older than a day
    #[arg(long)]
    remove_orphans: bool,
    /// Write the result as JSON to FILE, or to stdout with -
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  perftax dataset compact fleet --before 2026-11-29")]
struct CompactArgs {
    /// A folder, or an object store such as s3://bucket/prefix
    #[arg(value_name = "DATASET")]
    dataset: String,
    /// Days before this one alone, as 2026-11-29 (UTC); without it, all
    #[arg(long, value_name = "DATE", value_parser = date)]
    before: Option<String>,
    /// Write the result as JSON to FILE, or to stdout with -
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn date(text: &str) -> Result<String, String> {
    days_of(text).map(|_| text.into()).ok_or_else(|| "needs a day, as 2026-11-29".into())
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    match &args.command {
        Command::Add(args) => add::run(args),
        Command::Check(args) => run_check(args),
        Command::Compact(args) => run_compact(args),
    }
}

fn run_check(args: &CheckArgs) -> Result<Outcome> {
    let output = Output { json: args.json.clone(), ..Output::default() };
    output.check_writable()?;
    let place = place("DATASET", &args.dataset)?;
    let origin = Host::read()?.origin("dataset-check");
    let checked = check(&place, args.remove_orphans, SystemTime::now())?;
    let document = DatasetCheck {
        origin,
        dataset: args.dataset.clone(),
        publications: checked.publications,
        replaced: checked.replaced,
        files: checked.files,
        rows: checked.rows,
        bytes: checked.bytes,
        corrupt: wrong(checked.corrupt, checked.newer),
        unlisted: checked.orphans,
        unlisted_bytes: checked.orphan_bytes,
        removed: checked.removed,
    };
    output.write_json(&document)?;
    output.write_text(&text::dataset_check(&document))?;
    Ok(if document.corrupt.is_empty() { Outcome::Done } else { Outcome::Negative })
}

/// What counts and cannot be read.
fn wrong(corrupt: Vec<Finding>, newer: Vec<(String, u32)>) -> Vec<CorruptFile> {
    let newer = newer
        .into_iter()
        .map(|(path, schema)| CorruptFile { path, why: format!("schema {schema} is newer than this perftax knows") });
    corrupt.into_iter().map(|Finding { path, why }| CorruptFile { path, why }).chain(newer).collect()
}

fn run_compact(args: &CompactArgs) -> Result<Outcome> {
    let output = Output { json: args.json.clone(), ..Output::default() };
    output.check_writable()?;
    let place = place("DATASET", &args.dataset)?;
    let origin = Host::read()?.origin("dataset-compact");
    let before = args.before.as_deref().and_then(days_of);
    let compacted = compact(&place, before, publication(&Of::new(&origin, ""), String::new()), SystemTime::now())?;
    let document = DatasetCompact {
        origin,
        dataset: args.dataset.clone(),
        publications: compacted.publications,
        files_before: compacted.files_before,
        bytes_before: compacted.bytes_before,
        files_after: compacted.files_after,
        bytes_after: compacted.bytes_after,
        corrupt: wrong(compacted.corrupt, compacted.newer),
    };
    output.write_json(&document)?;
    output.write_text(&text::dataset_compact(&document))?;
    Ok(if document.corrupt.is_empty() { Outcome::Done } else { Outcome::Negative })
}
