//! docs/reference/commands.md: every command and option, as `--help` says it.

use std::path::Path;

use clap::{Command, CommandFactory};

use crate::cli::Cli;

/// Columns of a page that is read in a browser.
const COLUMNS: usize = 100;

const HEAD: &str = "\
# Commands

To look an option up. Every command is here, with all that its `--help` says; the [guide](../README.md) says when to use which.

Written by `PERFTAX_WRITE_REFERENCE=1 cargo test -p perftax --bin perftax reference::`; a test holds it to the program.
";

fn page() -> String {
    let mut root = Cli::command().term_width(COLUMNS);
    root.build();
    let mut text = HEAD.to_owned();
    add(&mut root, &mut text);
    text
}

fn add(command: &mut Command, text: &mut String) {
    let name = command.get_display_name().unwrap_or(command.get_name()).replace('-', " ");
    let is_root = !name.contains(' ');
    if !is_root {
        let help = command.render_long_help().to_string();
        text.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", help.trim_end()));
    }
    let below = command.get_subcommands_mut().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    below.for_each(|below| add(below, text));
}

#[test]
fn the_reference_says_what_help_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/commands.md");
    let now = page();
    if std::env::var_os("PERFTAX_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = now.lines().zip(recorded.lines()).find(|(now, recorded)| now != recorded);
    assert!(
        now == recorded,
        "docs/reference/commands.md is not what --help says, first here: {differs:?}; its first lines say how to write it"
    );
}
