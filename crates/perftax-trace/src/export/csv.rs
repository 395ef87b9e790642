//! One row a message.

use std::io::{Result, Write};

use super::{Context, Export};
use crate::cause::Cause;
use crate::executed::ExecutedOfMessage;
use crate::mark::TraceIdentity;
use crate::marked::Relation;
use crate::message::Message;

/// Comma-separated values (RFC 4180): id, label, begin_ns (CLOCK_MONOTONIC_RAW), latency_ns (empty where it never ended), the time by
/// cause, samples, faults, migrations, the message that it is part of and its trace and span (empty where nobody said), instructions and cycles in user mode, each
/// shared out, at least and at most (empty where they are not known).
pub struct Csv<'a> {
    context: Context<'a>,
    is_begun: bool,
}

/// Columns of what messages executed.
const EXECUTED: &str = "instructions,instructions_low,instructions_high,cycles,cycles_low,cycles_high";

impl<'a> Csv<'a> {
    /// Nothing is written yet.
    pub fn new(context: Context<'a>) -> Self {
        Self { context, is_begun: false }
    }

    /// The names of the columns.
    fn begin(&mut self, out: &mut dyn Write) -> Result<()> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        let causes: Vec<String> = Cause::ALL.into_iter().map(|cause| format!("{}_ns", cause.name().replace(' ', "_"))).collect();
        writeln!(out, "id,label,begin_ns,latency_ns,{},samples,faults,migrations,parent,trace,{EXECUTED}", causes.join(","))
    }
}

impl Export for Csv<'_> {
    fn take(&mut self, message: &Message, out: &mut dyn Write) -> Result<()> {
        self.begin(out)?;
        let label = self.context.labels.get(&message.id).map_or_else(String::new, |label| quoted(label));
        let latency = message.latency_ns().map_or_else(String::new, |ns| ns.to_string());
        write!(out, "{},{label},{},{latency}", message.id, message.begin_ns)?;
        for ns in message.shares.values() {
            write!(out, ",{ns}")?;
        }
        let Relation { parent, identity } = self.context.relations.of(message.id);
        let parent = if parent == 0 { String::new() } else { parent.to_string() };
        let trace = if identity == TraceIdentity::default() { String::new() } else { identity.to_string() };
        write!(out, ",{},{},{},{parent},{trace}", message.hits.len(), message.faults, message.migrations)?;
        match message.executed.known() {
            Some(ExecutedOfMessage { low, high, estimate, .. }) => writeln!(
                out,
                ",{},{},{},{},{},{}",
                estimate.instructions, low.instructions, high.instructions, estimate.cycles, low.cycles, high.cycles
            ),
            None => writeln!(out, "{}", ",".repeat(EXECUTED.split(',').count())),
        }
    }

    fn finish(mut self: Box<Self>, out: &mut dyn Write) -> Result<()> {
        self.begin(out)?;
        out.flush()
    }
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}
