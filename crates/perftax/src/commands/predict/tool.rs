//! `perftax predict --tool`: what another tool would cost a program.

use std::path::Path;

use anyhow::Result;
use perftax_cost::tool::{of_cpu_time, total};
use perftax_doc::{ToolPrediction, Unpriced, Warning};
use perftax_pmu::Error;
use perftax_tools::{Tool, ToolLine, Whom};

use super::{Args, sampler, tried};
use crate::failure::Outcome;
use crate::host::Host;
use crate::program::Program;

/// Runs it.
pub(super) fn run(args: &Args, text: &str) -> Result<Outcome> {
    let line = read(text)?;
    let program = program(args, &line)?;
    let here = Host::read_waiting(args.wait)?;
    let mut origin = here.origin("predict-tool");
    program.check()?;
    if line.whom.is_of_cpus() {
        origin.warnings.push(Warning::Other {
            message: "the tool watches whole CPUs: what it costs other programs is not in here".into(),
            remedy: "perftax predict for each of those that matter".into(),
        });
    }
    let mut document = match &line.tool {
        Tool::Record(recording) => sampler::predicted(&here, args, &program, &line, recording, origin)?,
        _ => tried::predicted(&here, args, &program, &line, origin)?,
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

/// The line; a script of bpftrace's out of its file.
fn read(text: &str) -> Result<ToolLine> {
    let wrong = |needed: String| Error::Argument { argument: "--tool", value: format!("'{text}'"), needed };
    let mut line = ToolLine::parse(text).map_err(|error| wrong(format!("a line that can be read: {error}")))?;
    if let Tool::Bpftrace(bpftrace) = &line.tool
        && let Some(file) = &bpftrace.file
    {
        let script = std::fs::read_to_string(file).map_err(Error::file(Path::new(file)))?;
        let with_text = bpftrace.clone().with_text(&script);
        line.tool = Tool::Bpftrace(with_text.map_err(|error| wrong(format!("a script that can be read: {error}")))?);
    }
    Ok(line)
}

/// The program that is predicted for: what was given, else the line's own.
fn program(args: &Args, line: &ToolLine) -> Result<Program> {
    if args.program.pid.is_some() || args.program.target.is_given() {
        return Ok(args.program.clone());
    }
    let whole = || format!("'{}'", line.words.join(" "));
    match &line.whom {
        Whom::Command(words) if !words.is_empty() => Ok(args.program.clone().about(args.program.target.or_command(words))),
        Whom::Processes(pid) => {
            let pid = pid.parse().map_err(|_| Error::Argument {
                argument: "--tool",
                value: whole(),
                needed: "one process: give the one that it is about with -p PID".into(),
            })?;
            Ok(args.program.clone().of_process(pid))
        }
        _ => Err(Error::Argument {
            argument: "COMMAND",
            value: "missing".into(),
            needed: format!("a program whose cost is asked for, since {} names none: -- COMMAND, -w or -p PID", whole()),
        }
        .into()),
    }
}

/// A document without prices yet.
pub(super) fn blank(line: &ToolLine, workload: perftax_doc::WorkloadProfile, origin: perftax_doc::Origin) -> ToolPrediction {
    let own = match &line.whom {
        Whom::Command(words) if !matches!(line.tool, Tool::Bpftrace(_)) => line.words.len() - words.len(),
        _ => line.words.len(),
    };
    ToolPrediction {
        origin,
        tool: line.name(),
        line: line.words[..own].to_vec(),
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
