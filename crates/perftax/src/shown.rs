//! Every command line of ours that docs show, and that `--help` gives as an example, is one that this program takes.

use std::path::{Path, PathBuf};

use clap::CommandFactory;

use crate::cli::Cli;

/// The words after `perftax` of each of our commands in a line of a shell, up to what a shell takes for itself.
fn ours(line: &str) -> Vec<Vec<String>> {
    // A pause of the text, or a word of a person's.
    if line.contains('…') || line.contains("...") {
        return Vec::new();
    }
    let mut words = shlex::Shlex::new(line);
    let mut all: Vec<String> = Vec::new();
    for word in words.by_ref() {
        match word.strip_suffix(';') {
            Some(last) => all.extend([last.to_owned(), ";".to_owned()]),
            // A process of the shell's.
            None => all.push(if ["$$", "$!"].contains(&word.as_str()) { "1".to_owned() } else { word }),
        }
    }
    if words.had_error {
        // A quotation that goes on in the next line.
        return Vec::new();
    }
    let is_ours = |word: &String| word == "perftax" || word.ends_with("/perftax") && !word.contains('=');
    let mut found = Vec::new();
    for part in all.split(|word| matches!(word.as_str(), "|" | "||" | "&&" | ";" | "&")) {
        let part = part.split(|word| word.starts_with(['>', '<']) || word.starts_with("2>")).next().unwrap_or_default();
        // What stands before a command: who runs it, where, with what environment.
        let Some(at) = part.iter().position(is_ours) else { continue };
        let is_before = |word: &String| {
            ["$", "sudo", "env", "time", "nice", "su", "-n"].contains(&word.as_str())
                || word.contains('=')
                || part[0] == "setpriv"
                || part[0] == "nice"
        };
        if part[..at].iter().all(is_before) {
            found.push(part[at + 1..].to_vec());
        }
    }
    found
}

/// Lines of code of a page: fenced or indented.
fn code(text: &str) -> impl Iterator<Item = String> {
    let mut is_fenced = false;
    let mut lines = text.lines();
    std::iter::from_fn(move || {
        loop {
            let line = lines.next()?;
            if line.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
            } else if is_fenced || line.starts_with("    ") {
                let mut whole = line.trim().to_owned();
                while whole.ends_with('\\') {
                    whole.pop();
                    whole.push_str(lines.next().unwrap_or_default().trim());
                }
                return Some(whole);
            }
        }
    })
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.extension() {
            _ if entry.is_dir() => found.extend(pages(&entry)),
            Some(extension) if extension == "md" => found.push(entry),
            _ => {}
        }
    }
    found
}

/// Why our program would not take a line, if it would not.
fn refused(words: &[String]) -> Option<String> {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    let error = Cli::command().try_get_matches_from(std::iter::once("perftax").chain(words.iter().map(String::as_str))).err()?;
    let is_refused = !matches!(error.kind(), DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand);
    is_refused.then(|| format!("perftax {}: {}", words.join(" "), error.to_string().lines().next().unwrap_or_default()))
}

/// The examples of every command's help, without what they say of themselves after two spaces.
fn examples(command: &clap::Command) -> Vec<String> {
    let text = command.get_after_help().or(command.get_after_long_help()).map(ToString::to_string).unwrap_or_default();
    let own = text.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| line.starts_with("perftax "));
    let own = own.map(|line| line.split("  ").next().unwrap_or_default().to_owned());
    own.chain(command.get_subcommands().flat_map(examples)).collect()
}

#[test]
fn every_example_of_the_help_is_taken() {
    let examples = examples(&Cli::command());
    assert!(examples.len() > 80, "only {} examples were found", examples.len());
    let wrong: Vec<String> = examples.iter().flat_map(|line| ours(line)).filter_map(|words| refused(&words)).collect();
    assert!(wrong.is_empty(), "these are refused:\n{}", wrong.join("\n"));
}

#[test]
fn every_command_line_of_the_docs_is_taken() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // The help, whose examples are looked at as they are.
    let mut all: Vec<_> = pages(&root.join("docs")).into_iter().filter(|page| !page.ends_with("reference/commands.md")).collect();
    all.extend(["README.md", "CONTRIBUTING.md", "vm/README.md", "fleet/README.md"].map(|page| root.join(page)));
    all.extend(pages(&root.join("examples")));
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in all {
        let text = std::fs::read_to_string(&page).unwrap();
        for words in code(&text).flat_map(|line| ours(&line)) {
            seen += 1;
            wrong.extend(refused(&words).map(|why| format!("{}: {why}", page.strip_prefix(&root).unwrap().display())));
        }
    }
    assert!(seen > 150, "only {seen} command lines were found");
    assert!(wrong.is_empty(), "{} of {seen} are refused:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_line_is_read_as_a_shell_does() {
    let of = |line: &str| ours(line).iter().map(|words| words.join(" ")).collect::<Vec<_>>();
    assert_eq!(of("$ sudo perftax plan -- ls   # what it costs"), ["plan -- ls"]);
    assert_eq!(of("PERFTAX_WAIT=9 perftax bill - <perf.data | perftax lint -; ls"), ["bill -", "lint -"]);
    assert!(of("PERFTAX=target/debug/perftax scripts/judges").is_empty());
    assert_eq!(
        of("target/release/perftax list 2>said && perftax predict --tool 'strace -f' -- ls"),
        ["list", "predict --tool strace -f -- ls"]
    );
    assert!(of("the word perftax in a sentence").is_empty());
    assert!(refused(&["plan".into(), "--no-such-option".into()]).is_some());
}
