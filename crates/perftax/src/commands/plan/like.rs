//! `perftax plan --like`: the options of a `perf record` line of the user's, of which period and buffer alone are chosen.

use anyhow::Result;
use perftax_cost::prediction::Cost;
use perftax_doc::{Mechanism, Origin, Plan, Warning};
use perftax_pmu::Error;
use perftax_tools::{Recording, Tool, ToolLine, Whom};

use super::{Args, whom};
use crate::host::Host;
use crate::measured::PayloadChoice;
use crate::perf_line;
use crate::program::Program;

/// What is asked for, by options of our own or by a line.
pub(super) struct Asked {
    /// The largest overhead, a fraction.
    pub(super) budget: f64,
    /// The event; none: the best there is.
    pub(super) event: Option<String>,
    /// What samples carry.
    pub(super) payload: PayloadChoice,
    /// Whether whole CPUs are watched.
    pub(super) all_cpus: bool,
    /// The program.
    pub(super) program: Program,
    /// The line, where there is one.
    pub(super) line: Option<(ToolLine, Recording)>,
}

impl Asked {
    /// From the options.
    ///
    /// # Errors
    /// Where the line is no `perf record` of one event.
    pub(super) fn of(args: &Args, here: &Host, origin: &mut Origin) -> Result<Self> {
        let Some(text) = &args.like else {
            return Ok(Self {
                budget: args.budget,
                event: args.event.clone(),
                payload: args.payload.clone(),
                all_cpus: args.watched.all_cpus,
                program: args.program.clone(),
                line: None,
            });
        };
        let line = perf_line::read("--like", text)?;
        let wrong = |needed: &str| Error::Argument { argument: "--like", value: format!("'{text}'"), needed: needed.into() };
        let Tool::Record(recording) = line.tool.clone() else {
            return Err(wrong("a perf record line: other tools have no period to choose").into());
        };
        let mut unpriced = Vec::new();
        let events = perf_line::events(here, &recording, origin, &mut unpriced)?;
        let [event] = &events[..] else {
            return Err(wrong("one event: each of several has a period of its own").into());
        };
        let left = line.left.unpriced.iter().map(|(option, why)| format!("{option} ({why})"));
        let left: Vec<String> =
            left.chain(unpriced.iter().map(|unpriced| format!("{} ({})", unpriced.what, unpriced.why))).collect();
        if !left.is_empty() {
            origin.warnings.push(Warning::Other {
                message: format!("of the line this has no price here, and is not in what the plan costs: {}", left.join("; ")),
                remedy: "leave it out, or check the plan by perftax verify".into(),
            });
        }
        Ok(Self {
            budget: args.budget,
            event: Some(event.name.clone()),
            payload: PayloadChoice { with: perf_line::carried(&recording) },
            all_cpus: line.whom.is_of_cpus(),
            program: perf_line::program("--like", &args.program, &line)?,
            line: Some((line, recording)),
        })
    }

    /// A calibration's terms for what the line has its samples carry.
    pub(super) fn size(&self, cost: &mut Cost, mechanism: Mechanism) {
        if let Some((_, recording)) = &self.line {
            *cost = perf_line::sized(cost.clone(), recording, mechanism);
        }
    }

    /// The line with the plan's event, period and buffer; none where there is no line.
    pub(super) fn like(&self, plan: &Plan) -> Option<Vec<String>> {
        let (line, recording) = self.line.as_ref()?;
        let event = recording.events.is_empty().then_some(plan.event.as_str());
        // perf_event_mlock_kb and rings count in pages.
        let mut words = line.sampling(event, plan.period, plan.buffer_bytes / 4096);
        words.extend(whom(&plan.workload, !matches!(line.whom, Whom::Processes(_))));
        Some(words)
    }
}
