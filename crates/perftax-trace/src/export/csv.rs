//! One row a message.

use std::io::{Result, Write};

use super::{Context, Export};
use crate::cause::Cause;
use crate::message::Message;

/// Comma-separated values (RFC 4180): id, label, begin_ns (CLOCK_MONOTONIC_RAW), latency_ns (empty where it never ended), the time by
/// cause, samples, faults, migrations.
pub struct Csv<'a, W> {
    context: Context<'a>,
    out: W,
}

impl<'a, W: Write> Csv<'a, W> {
    /// Begins with the names of the columns.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn new(context: Context<'a>, mut out: W) -> Result<Self> {
        let causes: Vec<String> = Cause::ALL.into_iter().map(|cause| format!("{}_ns", cause.name().replace(' ', "_"))).collect();
        writeln!(out, "id,label,begin_ns,latency_ns,{},samples,faults,migrations", causes.join(","))?;
        Ok(Self { context, out })
    }
}

impl<W: Write> Export for Csv<'_, W> {
    fn take(&mut self, message: &Message) -> Result<()> {
        let label = self.context.labels.get(&message.id).map_or_else(String::new, |label| quoted(label));
        let latency = message.latency_ns().map_or_else(String::new, |ns| ns.to_string());
        write!(self.out, "{},{label},{},{latency}", message.id, message.begin_ns)?;
        for ns in message.shares.values() {
            write!(self.out, ",{ns}")?;
        }
        writeln!(self.out, ",{},{},{}", message.hits.len(), message.faults, message.migrations)
    }

    fn finish(mut self: Box<Self>, _: &mut dyn Write) -> Result<()> {
        self.out.flush()
    }
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}
