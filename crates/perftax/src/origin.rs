//! The head of every document that this process writes.

use std::time::{SystemTime, UNIX_EPOCH};

use perftax_doc::{MachineId, Origin, SCHEMA};

/// Seconds since 1970, as documents say when they were taken.
pub fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The origin of a document of the given kind, taken now on this machine.
pub fn here(kind: &str, machine: MachineId, kernel: String) -> Origin {
    Origin {
        schema: SCHEMA,
        kind: kind.into(),
        perftax: env!("CARGO_PKG_VERSION").into(),
        machine,
        kernel,
        taken_at_s: now_s(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        warnings: Vec::new(),
    }
}
