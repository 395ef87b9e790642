//! Which threads of a simulated program share which lines.

use perftax_comm::LINE_BYTES;
use perftax_comm::document::{Naming, simulated_document};
use perftax_comm::run::{Estimated, Mapped, Outcome, Request};
use perftax_doc::{Comm, Origin};
use perftax_pmu::{Error, Result};
use perftax_symbols::naming::{CodePlace, Names};

use super::runner::{no_outcome, run_with_plugin};
use super::{Guest, Installation, mapping};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct SimulatedComm {
    /// What was seen; none where the program ended so that it could not be told.
    pub outcome: Option<Outcome>,
    /// How the program ended: its exit code, or 128 + the signal that killed it.
    pub code: i32,
    /// It forked; what the children did was not seen.
    pub forked: bool,
}

/// Runs a program and sees its every access.
///
/// # Errors
/// Where the program cannot be executed.
pub fn simulate_comm(installation: &Installation, guest: &Guest, request: &Request) -> Result<SimulatedComm> {
    let (outcome, code, forked) = run_with_plugin(installation, guest, request.seed, "comm", |outcome| {
        serde_json::to_vec(&Request { outcome, ..request.clone() })
    })?;
    Ok(SimulatedComm { outcome, code, forked })
}

impl SimulatedComm {
    /// Why there is no outcome.
    pub fn without(&self, program: &str) -> Error {
        no_outcome(self.code, program)
    }
}

/// The document of a run: the truth, with the estimate of one of its periods beside it where there is one.
pub fn comm_document(
    origin: Origin,
    program: Vec<String>,
    outcome: &Outcome,
    estimated: Option<&Estimated>,
    registers: u32,
) -> Comm {
    let mut names = Named::of(outcome);
    simulated_document(origin, program, outcome, estimated, registers, &mut names)
}

/// What stands where.
struct Named<'a> {
    names: Names,
    outcome: &'a Outcome,
}

impl<'a> Named<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        let mapping = |mapped: &Mapped| mapping(mapped.start, mapped.end, mapped.offset, &mapped.path);
        Self { names: Names::of(outcome.mappings.iter().map(mapping).collect()), outcome }
    }
}

impl Naming for Named<'_> {
    fn data(&mut self, address: u64) -> String {
        let found = self.names.lying_in(address, LINE_BYTES);
        if found.is_known() {
            return found.name;
        }
        self.outcome.anonymous.name(address).unwrap_or(found.name)
    }

    fn code(&mut self, ip: u64) -> (String, Option<String>) {
        let CodePlace { function, source } = self.names.code(ip);
        (function, source)
    }
}
