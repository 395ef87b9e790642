//! `perftax doctor`: what this machine can and cannot measure.

mod needs;
mod question;
mod text;

use anyhow::Result;
use perftax_doc::Origin;
use perftax_pmu::Error;
use perftax_pmu::event::Catalog;
use perftax_pmu::machine::{Capability, Fact, Machine, MechanismStatus, Probe, RightStatus};
use perftax_pmu::oracle::LargePebs;
use perftax_pmu::sampler::LiveProbe;
use serde::Serialize;

use self::needs::Ability;
use self::question::{Answer, Question};
use crate::failure::Outcome;
use crate::origin;
use crate::output::Output;

/// Say what you can measure here, and what stands in the way
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Say what this command would lack here, and what gives it
    #[arg(long = "for", value_name = "COMMAND", conflicts_with = "event", value_parser = clap::builder::PossibleValuesParser::new(needs::ALL.iter().map(|needs| needs.command)))]
    for_command: Option<String>,
    #[command(flatten)]
    question: Question,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  perftax doctor                                           everything about this machine
  perftax doctor --for trace                               what would this command lack, as who I am?
  perftax doctor -e cycles:pp -c 100003 --call-graph fp    which attribute takes large PEBS away?
  perftax doctor -e cycles:pp -c 100003 --cpu skylake      the same on another CPU generation
  perftax doctor -e cpu_atom/cycles/pp -c 100003 --cpu lunarlake    … on one of its kinds of cores";

/// The document that `--json` writes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    origin: Origin,
    facts: &'a [Fact],
    mechanisms: &'a [MechanismStatus],
    rights: &'a [RightStatus],
    capabilities: Table<'a>,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    ability: Option<&'a Ability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    large_pebs: Option<LargePebsDocument<'a>>,
}

/// The capability table of the vendor at hand.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Table<'a> {
    mechanism: &'static str,
    visible_here: bool,
    rows: &'a [Capability],
}

/// The oracle's answer with what was asked.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LargePebsDocument<'a> {
    event: &'a str,
    cpu: &'a str,
    hypothetical: bool,
    #[serde(flatten)]
    answer: &'a LargePebs,
    /// By kind of core, where there are several and the event names none; the answer beside it is the first one's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cores: Vec<OfCoreDocument<'a>>,
}

/// The answer for a kind of core.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OfCoreDocument<'a> {
    pmu: &'a str,
    #[serde(flatten)]
    answer: &'a LargePebs,
}

impl<'a> LargePebsDocument<'a> {
    fn of(answer: &'a Answer) -> Option<Self> {
        let first = answer.cores.first()?;
        let several = answer.cores.iter().filter(|_| answer.cores.len() > 1);
        Some(Self {
            event: &first.attr.event,
            cpu: &first.cpu.name,
            hypothetical: answer.is_hypothetical,
            answer: &first.large_pebs,
            cores: several.map(|core| OfCoreDocument { pmu: &core.cpu.pmu, answer: &core.large_pebs }).collect(),
        })
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    if args.output.html.is_some() {
        let needed = "--json, -x or plain text: doctor has nothing to plot".into();
        return Err(Error::Argument { argument: "--html", value: "given".into(), needed }.into());
    }
    args.output.check_writable()?;
    let machine = Machine::here();
    let catalog = Catalog::of_this_machine();
    let probe: &dyn Probe = &LiveProbe::new(&catalog);
    let answer = args.question.answer(&machine, probe)?;
    let rights = machine.rights(probe);
    let needs = args.for_command.as_ref().and_then(|name| needs::ALL.iter().find(|needs| needs.command == name));
    let ability = needs.map(|needs| Ability::of(needs, &rights));
    let facts = machine.facts(probe);
    let mechanisms = machine.mechanisms(probe);
    let rows = machine.cpu.vendor.capabilities();
    let visible = mechanisms.iter().any(|m| m.available && text::is_precise(m.mechanism));
    let document = Document {
        origin: origin::here("doctor", machine.id(), machine.kernel()),
        facts: &facts,
        mechanisms: &mechanisms,
        rights: &rights,
        ability: ability.as_ref(),
        capabilities: Table { mechanism: machine.cpu.vendor.mechanism_name(), visible_here: visible, rows: &rows },
        large_pebs: answer.as_ref().and_then(LargePebsDocument::of),
    };
    args.output.write_json(&document)?;
    let shown = match (&args.output.separator, &answer) {
        (None, None) if ability.is_some() => ability.as_ref().map(text::ability).unwrap_or_default(),
        (Some(separator), None) => text::separated_facts(&facts, separator),
        (Some(separator), Some(answer)) => text::separated_killers(answer, separator),
        (None, None) => text::machine(&machine, &rights, &facts, &mechanisms, visible),
        (None, Some(answer)) => text::answer(answer),
    };
    args.output.write_text(&shown)?;
    if let Some(error) = ability.and_then(|ability| ability.refusal()) {
        return Err(error.into());
    }
    finish(answer)
}

/// A question about an event that cannot be sampled here is answered, and then ends with exit code 3.
fn finish(answer: Option<Answer>) -> Result<Outcome> {
    match answer.and_then(|answer| answer.unsupported) {
        Some(error) => Err(error.into()),
        None => Ok(Outcome::Done),
    }
}
