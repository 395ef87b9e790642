//! `perftax predict --tool`: what another tool would cost a program.

use anyhow::Result;
use perftax_cost::tool::{of_cpu_time, total};
use perftax_doc::{ToolPrediction, Unpriced, Warning};
use perftax_pmu::Error;
use perftax_pmu::machine::Right;
use perftax_tools::{Tool, ToolLine};

use super::{Args, sampler, tried};
use crate::failure::Outcome;
use crate::host::Host;
use crate::perf_line;

/// Runs it.
pub(super) fn run(args: &Args, text: &str) -> Result<Outcome> {
    let line = perf_line::read("--tool", text)?;
    let program = match args.watched.all_cpus {
        true if args.program.pid.is_some() || args.program.target.is_given() || !line.whom.is_of_cpus() => {
            let needed = "a line that watches whole CPUs (perf's -a), and no program beside it";
            return Err(Error::Argument { argument: "-a", value: format!("given with '{text}'"), needed: needed.into() }.into());
        }
        true => args.program.clone().of_machine(),
        false => perf_line::program("--tool", &args.program, &line)?,
    };
    let here = Host::read_waiting(args.wait)?;
    let mut origin = here.origin("predict-tool");
    program.check()?;
    if line.whom.is_of_cpus() {
        here.may(Right::WholeCpus, "the tool would be refused to you, as you are", &mut origin);
    }
    if line.whom.is_of_cpus() && !args.watched.all_cpus {
        origin.warnings.push(Warning::Other {
            message: "the tool watches whole CPUs: what it costs other programs is not in here".into(),
            remedy: "perftax predict for each of those that matter".into(),
        });
    }
    let mut document = match &line.tool {
        Tool::Record(recording) => sampler::predicted(&here, args, &program, &line, recording, origin)?,
        _ => tried::predicted(&here, &program, &line, origin)?,
    };
    let unpriced = line.left.unpriced.iter().map(|(what, why)| Unpriced { what: what.clone(), why: why.clone() });
    document.unpriced.extend(unpriced);
    document.beside.extend(line.left.beside.iter().cloned());
    document.terms.sort_by(|a, b| b.overhead.estimate.total_cmp(&a.overhead.estimate));
    document.priced_overhead = total(&document.terms);
    document.priced_cpu_overhead = of_cpu_time(&document.priced_overhead, &document.workload);
    args.output.emit(&document)?;
    Ok(Outcome::Done)
}

/// A document without prices yet.
pub(super) fn blank(line: &ToolLine, workload: perftax_doc::WorkloadProfile, origin: perftax_doc::Origin) -> ToolPrediction {
    ToolPrediction {
        origin,
        tool: line.name(),
        line: line.words[..line.own_words()].to_vec(),
        workload,
        samplers: Vec::new(),
        terms: Vec::new(),
        priced_overhead: perftax_doc::Estimate::exact(0.0),
        priced_cpu_overhead: None,
        unpriced: Vec::new(),
        beside: Vec::new(),
        opens: None,
        around_s: None,
        trial: None,
    }
}
