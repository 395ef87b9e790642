//! `perftax report`: several machines or kernels side by side.

use std::path::{Path, PathBuf};

use anyhow::Result;
use perftax_report::{Document, Several};

use crate::failure::Outcome;
use crate::output::Output;
use crate::saved;

/// What files may hold.
const WANTED: &str =
    "the output of perftax calibrate, predict, plan, verify, bill, lint, selfcost, phase, matrix or comm with --json FILE";

/// Put several results side by side: machines, kernels, settings
///
/// Each FILE is what a command wrote with --json (calibrate, predict, plan, verify, bill, lint, selfcost, phase, matrix, comm),
/// or a saved machine profile.
/// All must be of one kind. A single result is shown as its command showed it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  perftax report old-kernel.json new-kernel.json --html compare.html\n  perftax report plan.json"
)]
pub struct Args {
    /// Results to put side by side
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let documents = read_all(&args.files)?;
    args.output.check_writable()?;
    match documents.as_slice() {
        [one] => args.output.emit(one)?,
        many => args.output.emit(&Several::of(many))?,
    }
    Ok(Outcome::Done)
}

/// The documents of all files, which must be of one kind.
fn read_all(files: &[PathBuf]) -> Result<Vec<Document>> {
    let mut documents: Vec<Document> = Vec::new();
    let mut kind_of_first: Option<(&'static str, &Path)> = None;
    for file in files {
        for document in saved::read(file, WANTED)? {
            let (kind, first) = *kind_of_first.get_or_insert((document.kind(), file.as_path()));
            if document.kind() != kind {
                let value = format!("{} (a result of '{}')", file.display(), document.kind());
                return Err(saved::unfit(value, &format!("the same kind as {} (a result of '{kind}')", first.display())));
            }
            documents.push(document);
        }
    }
    Ok(documents)
}
