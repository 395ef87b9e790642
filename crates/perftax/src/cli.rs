//! The command line: one variant a command; each command's options stand in its own file.

use clap::builder::StyledStr;
use clap::{CommandFactory, Parser, Subcommand};

use crate::commands;

/// What event sampling costs, and what it buys: measure it, predict it, plan it, check it.
#[derive(Debug, Parser)]
#[command(name = "perftax", version, max_term_width = 110, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 our failure, or the measured program failed; 2 usage; 3 this machine cannot do it; \
4 a negative verdict (the prediction did not hold, an audit row failed, no period fits the budget, a recording cannot be trusted, a count is not its baseline's); 126/127 cannot exec / not found; 130 interrupted.";

/// What people come for, and the commands for it, as the README has them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Before you profile", &["plan", "predict", "verify", "doctor", "list"]),
    ("Record within a budget", &["record"]),
    ("A recording that you have", &["bill", "lint"]),
    ("Why is it slow", &["trace", "comm", "phase", "sensitivity", "dataset"]),
    ("A PMU where there is none", &["vm", "sim"]),
    ("What sampling costs, and how true it is", &["calibrate", "audit", "selfcost", "matrix", "field-test", "report"]),
];

/// The command line, whose help has its commands by groups.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let template = template(&command);
    command.help_template(template)
}

/// clap knows no headings for commands: the list is part of the template.
fn template(command: &clap::Command) -> StyledStr {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (group, names) in GROUPS {
        text.push_str(&format!("\n{header}{group}:{header:#}\n"));
        for found in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = found.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {literal}{:<11}{literal:#}  {about}\n", found.get_name()));
        }
    }
    text.push_str(&format!("\n{header}Options:{header:#}\n{{options}}{{after-help}}"));
    text.into()
}

/// The commands, in the order in which a user meets them.
#[derive(Debug, Subcommand)]
pub enum Command {
    Doctor(commands::doctor::Args),
    List(commands::list::Args),
    Calibrate(commands::calibrate::Args),
    Predict(commands::predict::Args),
    Record(commands::record::Args),
    Plan(commands::plan::Args),
    Verify(commands::verify::Args),
    Bill(commands::bill::Args),
    Lint(commands::lint::Args),
    Sensitivity(commands::sensitivity::Args),
    Audit(commands::audit::Args),
    Selfcost(commands::selfcost::Args),
    FieldTest(commands::field_test::Args),
    Phase(commands::phase::Args),
    Matrix(commands::matrix::Args),
    Sim(commands::sim::Args),
    Comm(commands::comm::Args),
    #[cfg(feature = "trace")]
    Trace(commands::trace::Args),
    Dataset(commands::dataset::Args),
    Vm(commands::vm::Args),
    Report(commands::report::Args),
    /// For packagers and `cargo install`.
    #[command(hide = true)]
    Man(commands::man::Args),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn every_command_is_in_one_group_of_the_help_and_of_the_readme() {
        let help = command().render_help().to_string();
        let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
        let all = Cli::command();
        for shown in all.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = shown.get_name();
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert_eq!(groups, 1, "{name}");
            assert_eq!(help.matches(&format!("\n  {name:<11}  ")).count(), 1, "{name}: {help}");
        }
        for (group, names) in GROUPS {
            let (_, rest) =
                readme.split_once(&format!("\n### {group}\n")).unwrap_or_else(|| panic!("the README has no group {group:?}"));
            let part = rest.split("\n#").next().unwrap();
            names
                .iter()
                .for_each(|name| assert!(part.contains(&format!("`perftax {name}")), "{name} is not in the README's {group:?}"));
        }
        let long = help.lines().filter(|line| line.starts_with("  ") && line.chars().count() > 80).collect::<Vec<_>>();
        assert!(long.is_empty(), "{long:?}");
    }
}
