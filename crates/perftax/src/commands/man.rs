//! `perftax man`: the manual pages, one a command.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Command;
use clap_mangen::Man;
use roff::{Roff, roman};

use crate::failure::Outcome;
use crate::output::write_atomically;

/// Write the manual pages, one a command, into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  perftax man ~/.local/share/man/man1")]
pub struct Args {
    /// The folder, which is made where it is missing
    folder: PathBuf,
}

/// Runs the command, for the whole command line.
pub fn run(args: &Args, mut root: Command) -> Result<Outcome> {
    std::fs::create_dir_all(&args.folder).with_context(|| format!("cannot make {}", args.folder.display()))?;
    root.build();
    write_pages(&root, &args.folder)?;
    Ok(Outcome::Done)
}

/// The page of a command, and those of the commands below it.
fn write_pages(command: &Command, folder: &Path) -> Result<()> {
    let path = folder.join(format!("{}.1", name(command)));
    write_atomically(&path, &page(command)?)?;
    shown(command).try_for_each(|below| write_pages(below, folder))
}

/// `perftax-vm-run`.
fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_string()
}

/// Commands that have a page: clap's own `help` has none.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

/// Name, synopsis, examples, and only then what there is to read.
fn page(command: &Command) -> Result<Vec<u8>> {
    let name = name(command);
    // No date: the same source makes the same page.
    let man = Man::new(command.clone()).title(name.to_uppercase()).section("1").manual("perftax");
    let man = man.source(format!("perftax {}", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    let (examples, rest) = examples(&command.get_after_help().map(ToString::to_string).unwrap_or_default());
    if !examples.is_empty() {
        let mut section = Roff::new();
        section.control("SH", ["EXAMPLES"]).control("nf", []);
        // A line each, indented.
        section.control("RS", ["2"]);
        section.text(examples.iter().map(|line| roman(format!("{line}\n"))).collect::<Vec<_>>());
        section.control("RE", []).control("fi", []);
        section.to_writer(&mut page)?;
    }
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if shown(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    if !rest.is_empty() {
        let mut section = Roff::new();
        section.control("SH", ["NOTES"]);
        for paragraph in &rest {
            section.control("PP", []).text([roman(paragraph.as_str())]);
        }
        section.to_writer(&mut page)?;
    }
    let mut section = Roff::new();
    let above = name.rsplit_once('-').map(|(above, _)| format!("{above}(1)"));
    let below = shown(command).map(|below| format!("{}(1)", self::name(below)));
    let related: Vec<_> = above.into_iter().chain(below).chain(["perf(1)".to_string()]).collect();
    section.control("SH", ["SEE ALSO"]).text([roman(related.join(", "))]);
    section.to_writer(&mut page)?;
    Ok(page)
}

/// What help says behind a command's options: the lines of its examples, and paragraphs of other things.
fn examples(help: &str) -> (Vec<String>, Vec<String>) {
    let (mut examples, mut rest) = (Vec::new(), Vec::new());
    let mut are_examples = false;
    for line in help.lines().map(str::trim_end) {
        match line.strip_prefix("  ") {
            _ if line.is_empty() => are_examples = false,
            Some(example) if are_examples => examples.push(example.to_string()),
            _ if line == "Examples:" || line == "Example:" => are_examples = true,
            _ => rest.push(line.trim().to_string()),
        }
    }
    (examples, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_examples_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut root = <crate::cli::Cli as clap::CommandFactory>::command();
        run(&Args { folder: folder.path().join("man1") }, root.clone()).unwrap();
        root.build();
        let mut left: Vec<&Command> = vec![&root];
        let mut pages = 0;
        while let Some(command) = left.pop() {
            left.extend(shown(command));
            let text = std::fs::read_to_string(folder.path().join(format!("man1/{}.1", name(command)))).unwrap();
            let position = |section: &str| text.find(&format!(".SH {section}\n"));
            let (synopsis, description) = (position("SYNOPSIS").unwrap(), position("DESCRIPTION").unwrap());
            assert!(text.starts_with(".ie") || text.starts_with(".TH"), "{}", &text[..40]);
            // What has commands below it has their examples.
            let examples = position("EXAMPLES");
            assert!(examples.is_some() || shown(command).next().is_some(), "{}: no examples", name(command));
            assert!(examples.is_none_or(|at| synopsis < at && at < description), "{}", name(command));
            pages += 1;
        }
        assert_eq!(std::fs::read_dir(folder.path().join("man1")).unwrap().count(), pages);
    }

    #[test]
    fn examples_are_told_from_what_else_help_says() {
        let (lines, rest) = examples("Examples:\n  perftax a\n    b\n\nExit codes: 0 done\n");
        assert_eq!((lines, rest), (vec!["perftax a".to_string(), "  b".into()], vec!["Exit codes: 0 done".to_string()]));
        assert_eq!(examples(""), (Vec::new(), Vec::new()));
    }
}
