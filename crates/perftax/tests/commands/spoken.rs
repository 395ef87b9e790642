//! Libraries name what a user may set or do by type; options and commands are this program's to spell.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::links::root;
use crate::sources::{Source, sources};

/// Who may spell them: the program, what draws its reports, and what is no library of it.
const SPEAKERS: [&str; 3] = ["perftax", "perftax-report", "perftax-sim-plugin"];

/// Files that are about another program's options, which are called like some of ours: perf's, those of tools that are run, and why.
const OF_OTHERS: [(&str, &str); 9] = [
    ("perftax-lab/src/stimulus/known_loop.rs", "objdump is run"),
    ("perftax-lab/src/microbench", "a compiler is run"),
    ("perftax-perfdata/src", "recordings are made by perf record"),
    ("perftax-comm/src/live/recorded.rs", "recordings are made by perf c2c record"),
    ("perftax-pmu/src/oracle", "what perf record asks the kernel for"),
    ("perftax-pmu/src/oracle.rs", "likewise"),
    ("perftax-tools/src", "it is about other tools' lines"),
    ("perftax-vm/src/bundle", "curl, wget and dpkg are run"),
    ("perftax-vm/src/archive.rs", "cpio is run"),
];

/// Our commands and our long options.
struct Ours {
    commands: BTreeSet<String>,
    options: BTreeSet<String>,
}

impl Ours {
    fn read() -> Self {
        let help = Command::new(env!("CARGO_BIN_EXE_perftax")).arg("--help").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let rows = help.lines().filter_map(|line| line.strip_prefix("  ")).filter(|row| row.starts_with(char::is_alphabetic));
        let commands = rows.filter_map(|row| row.split_whitespace().next()).map(String::from).collect();
        let reference = std::fs::read_to_string(root().join("docs/reference/commands.md")).unwrap();
        Self { commands, options: options(&reference).map(String::from).collect() }
    }

    /// What a file spells.
    fn spelled(&self, source: &Source) -> Vec<String> {
        let is_of_others = OF_OTHERS.iter().any(|(path, _)| source.path.starts_with(path));
        let mut found = Vec::new();
        for text in &source.texts {
            let words: Vec<&str> =
                text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())).collect();
            let commands = words.windows(2).filter(|pair| pair[0] == "perftax" && self.commands.contains(pair[1]));
            found.extend(commands.map(|pair| pair.join(" ")));
            if !is_of_others {
                found.extend(options(text).filter(|option| self.options.contains(*option)).map(String::from));
            }
        }
        found
    }
}

/// Long options in a text.
fn options(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '-');
    words.filter(|word| word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase())))
}

#[test]
fn libraries_spell_no_option_and_no_command_of_ours() {
    let ours = Ours::read();
    assert!(ours.commands.contains("calibrate") && ours.options.contains("--budget"), "{:?}", ours.options);
    let wrong: Vec<String> = sources()
        .iter()
        .filter(|source| !SPEAKERS.contains(&source.krate().as_str()))
        .flat_map(|source| ours.spelled(source).into_iter().map(|text| format!("{}: {text}", source.path.display())))
        .collect();
    assert!(wrong.is_empty(), "perftax_doc::steps has types for\n{}", wrong.join("\n"));
    let planted = |path: &str, text: &str| ours.spelled(&Source::new(Path::new(path), text)).len();
    assert_eq!(planted("perftax-lab/src/x.rs", "fn f() { g(\"perftax calibrate finds it\", \"or --budget\") }"), 2);
    assert_eq!(
        planted("perftax-lab/src/x.rs", "// perftax calibrate --budget\nfn f() { g(\"perftax is busy\", \"--no-such\") }"),
        0
    );
    assert_eq!(planted("perftax-perfdata/src/x.rs", "fn f() { g(\"perf record --freq 9\", \"perftax plan\") }"), 1);
}
