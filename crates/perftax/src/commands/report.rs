//! `perftax report`: several machines or kernels side by side.

use std::path::{Path, PathBuf};

use anyhow::Result;
use perftax_report::{Document, Several};

use crate::failure::Outcome;
use crate::output::Output;
use crate::saved;

/// Put several results side by side: machines, kernels, settings
///
/// Each FILE is what a command wrote with --json (calibrate, predict, predict --tool, plan, verify, bill, lint, record, sim, sim stat,
/// vm stat, sensitivity, audit, selfcost, phase, matrix, comm, sim --comm, field-test, report), or a saved machine profile.
/// All must be of one kind; beside the result of another command a field test gives its own of that kind.
/// A single result is shown as its command showed it.
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

/// What files may hold.
fn wanted() -> String {
    let commands: Vec<&str> = Document::KINDS.iter().map(|(_, commands)| *commands).collect();
    format!("the output of perftax {} or report with --json FILE", commands.join(", "))
}

/// The documents of all files, which must be of one kind.
fn read_all(files: &[PathBuf]) -> Result<Vec<Document>> {
    let mut read: Vec<(&Path, Document)> = Vec::new();
    for file in files {
        read.extend(saved::read(file, &wanted())?.into_iter().map(|document| (file.as_path(), document)));
    }
    let is_field_test = |document: &Document| matches!(document, Document::FieldTest(_));
    let Some((kind, first)) = read.iter().find(|(_, document)| !is_field_test(document)).map(|(file, doc)| (doc.kind(), *file))
    else {
        return Ok(read.into_iter().map(|(_, document)| document).collect());
    };
    let mut all = Vec::new();
    for (file, document) in read {
        let is_of = document.kind();
        let before = all.len();
        all.extend(document.results().into_iter().filter(|result| result.kind() == kind));
        if all.len() == before {
            let value = format!("{} (a result of '{is_of}')", file.display());
            return Err(saved::unfit(value, &format!("the same kind as {} (a result of '{kind}')", first.display())));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_command_whose_results_are_read() {
        let root = <crate::cli::Cli as clap::CommandFactory>::command();
        let help = root.find_subcommand("report").unwrap().get_long_about().unwrap().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, named) = help.split_once("with --json (").unwrap();
        let (named, _) = named.split_once("), or").unwrap();
        let commands: Vec<&str> = Document::KINDS.iter().map(|(_, commands)| *commands).chain(["report"]).collect();
        assert_eq!(named, commands.join(", "));
    }
}
