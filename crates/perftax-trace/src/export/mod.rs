//! Messages in the formats of other tools: one file a format, from messages to bytes. Which messages is in [`selection`].

mod csv;
mod firefox;
pub mod otlp;
mod perfetto;
mod pprof;
mod selection;
pub mod services;

use std::collections::BTreeMap;
use std::io::{Result, Write};

use crate::label::Labels;
use crate::message::{Message, Piece};
use crate::names::Names;
use crate::store::Relations;
use crate::store::Symbols;

pub use csv::Csv;
pub use firefox::Firefox;
pub use perfetto::{Perfetto, schema as perfetto_schema};
pub use pprof::{Pprof, schema as pprof_schema};
pub use selection::Selection;

/// A format in the making.
pub trait Export {
    /// Adds a message that is over; some formats write it at once.
    ///
    /// # Errors
    /// Where it cannot be written.
    fn take(&mut self, message: &Message, out: &mut dyn Write) -> Result<()>;

    /// Writes what is left.
    ///
    /// # Errors
    /// Where it cannot be written.
    fn finish(self: Box<Self>, out: &mut dyn Write) -> Result<()>;
}

/// What messages are exported with.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The program, as it was called.
    pub program: &'a str,
    /// What threads and interrupts are called.
    pub names: &'a Names,
    /// What functions are called.
    pub symbols: &'a Symbols,
    /// What messages are labelled.
    pub labels: &'a Labels,
    /// What else programs said of them.
    pub relations: &'a Relations,
    /// The process of each thread, where it is known.
    pub pids: &'a BTreeMap<u32, u32>,
    /// The event sampled.
    pub event: &'a str,
    /// Its period.
    pub period: u64,
    /// From one sample to the next, ns, where the event is a clock.
    pub sampling_gap_ns: Option<u64>,
    /// When it was recorded, s since 1970.
    pub taken_at_s: f64,
}

impl Context<'_> {
    /// What a message is called.
    fn message(&self, id: u64) -> String {
        match self.labels.get(&id) {
            Some(label) => format!("message {id}: {label}"),
            None => format!("message {id}"),
        }
    }

    /// What a piece is called: its cause, and which.
    fn piece(&self, piece: &Piece) -> String {
        match self.names.which(piece.cause, piece.which, self.symbols) {
            Some(which) => format!("{}: {which}", piece.cause.name()),
            None => piece.cause.name().into(),
        }
    }

    /// The process of a thread; one of which nothing is known counts to the first process.
    fn pid(&self, tid: u32) -> u32 {
        self.pids.get(&tid).or_else(|| self.pids.values().next()).copied().unwrap_or(tid)
    }

    fn function(&self, function: u32) -> String {
        let function = self.symbols.get(function);
        match (function.name.as_str(), function.module.as_str()) {
            ("", module) if module.starts_with('[') => module.into(),
            ("", module) => format!("[{module}]"),
            (name, _) => name.into(),
        }
    }

    fn thread(&self, tid: u32) -> String {
        self.names.threads.get(&tid).cloned().unwrap_or_else(|| format!("thread {tid}"))
    }
}

#[cfg(test)]
mod tests;
