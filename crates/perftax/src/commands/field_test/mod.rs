//! `perftax field-test`: one command for somebody with a PMU.

mod steps;

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::Result;
use perftax_doc::{ClaimVerdict, FieldTest};
use perftax_lab::field_test::{Private, claims, texts};
use perftax_pmu::Error;

use crate::failure::Outcome;
use crate::host::{Host, kernel_says};
use crate::output::Output;
use steps::Steps;

/// Measure all that can be here, for one file that names nobody
///
/// Doctor, a calibration by each mechanism that works here, the audit, the price list, the hardware's own cost where our kernel module is loaded: and which of perftax's
/// claims hold on this machine. What is done is kept in a folder: started again, it goes on there. The file has no host names, users or paths; each text in it is shown before it is written.
/// Exit code 4 where a claim is contradicted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax field-test                                  some forty minutes; ^C and start it again as you like
  perftax field-test --quick --json field-test.json   some ten minutes; and the file, once you have seen what is in it
  perftax report field-tests/*.json                   many machines beside each other")]
pub struct Args {
    /// Fewer rounds of each
    #[arg(long)]
    quick: bool,
    /// Where what is done is kept, and found again
    #[arg(long, value_name = "FOLDER", default_value = "perftax-field-test")]
    folder: PathBuf,
    /// Only these steps: parts of their names (calibrate, calibrate-pebs, audit, selfcost)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Write the file without asking, where nobody can be asked
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    if args.output.json.is_some() && !args.yes && !std::io::stdin().is_terminal() {
        let needed = "--yes beside it: nobody can be asked whether what is in the file may be written";
        return Err(Error::Argument { argument: "--json", value: "given".into(), needed: needed.into() }.into());
    }
    let here = Host::read()?;
    let steps = Steps::open(&here, &args.folder, args.quick, &args.only)?;
    steps.run()?;
    let found = steps.found()?;
    let mut origin = here.origin("field-test");
    origin.command.clear();
    let document = FieldTest {
        origin,
        is_quick: args.quick,
        is_emulated: Host::is_emulated(),
        claims: claims(&found.calibrations, found.audit.as_ref(), found.selfcost.as_ref()),
        steps: steps.done(),
        calibrations: found.calibrations,
        audit: found.audit,
        selfcost: found.selfcost,
    };
    let document = anonymous(document)?;
    if args.output.json.is_some() && !args.yes && !is_agreed_to(&document)? {
        let without =
            Output { json: None, separator: args.output.separator.clone(), html: None, output: args.output.output.clone() };
        without.emit(&document)?;
        return Ok(Outcome::Done);
    }
    args.output.emit(&document)?;
    let is_contradicted = document.of(ClaimVerdict::Contradicted).next().is_some();
    Ok(if is_contradicted { Outcome::Negative } else { Outcome::Done })
}

/// Without what tells whose machine it is.
fn anonymous(document: FieldTest) -> Result<FieldTest> {
    let variables = ["USER", "LOGNAME", "HOME", "HOSTNAME", "PWD"].into_iter().filter_map(|name| std::env::var(name).ok());
    let places = [std::env::current_dir(), std::env::current_exe()].into_iter().flatten();
    let names = variables.chain(places.map(|path| path.display().to_string())).chain([kernel_says("hostname")]);
    // Root is everybody's, and in many words.
    let private = Private::new(names.filter(|name| !["root", "/root", "/"].contains(&name.as_str())));
    let mut value = serde_json::to_value(document)?;
    private.remove_from(&mut value);
    Ok(serde_json::from_value(value)?)
}

/// Shows every text that the file would hold, and asks.
fn is_agreed_to(document: &FieldTest) -> Result<bool> {
    let mut terminal = std::io::stderr().lock();
    writeln!(terminal, "perftax: beside numbers the file would hold these texts:")?;
    for text in texts(&serde_json::to_value(document)?) {
        writeln!(terminal, "  {}", text.replace(char::is_control, " "))?;
    }
    write!(terminal, "Write it? [y/N] ")?;
    terminal.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
