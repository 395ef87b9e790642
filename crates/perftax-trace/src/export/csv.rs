//! One row a message.

use std::io::{Result, Write};

use super::{Context, Export};
use crate::cause::Cause;
use crate::mark::TraceIdentity;
use crate::marked::Relation;
use crate::message::Message;

/// Comma-separated values (RFC 4180): id, label, begin_ns (CLOCK_MONOTONIC_RAW), latency_ns (empty where it never ended), the time by
/// cause, samples, faults, migrations, the message that it is part of and its trace and span (empty where nobody said).
pub struct Csv<'a> {
    context: Context<'a>,
    is_begun: bool,
}

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
        writeln!(out, "id,label,begin_ns,latency_ns,{},samples,faults,migrations,parent,trace", causes.join(","))
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
        writeln!(out, ",{},{},{},{parent},{trace}", message.hits.len(), message.faults, message.migrations)
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
