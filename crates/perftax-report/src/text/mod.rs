//! What people read on a terminal: short, aligned, an interval on every estimate, the next command ready to paste.
//!
//! Colour is ANSI escape sequences in the string; the writer strips them where there is no terminal. No meaning hangs on
//! colour alone.

use perftax_cost::Estimate;

mod audit;
mod bill;
mod calibration;
mod comparison;
mod plan;
mod prediction;
mod sensitivity;
mod simulation;
mod tag;
mod trace;
mod trace_diff;
mod trace_message;
mod verification;

pub use audit::audit;
pub use bill::bill;
pub use calibration::calibration;
pub use comparison::comparison;
pub use plan::plan;
pub use prediction::prediction;
pub use sensitivity::sensitivity;
pub use simulation::simulation;
pub use trace::trace;
pub use trace_diff::trace_diff;
pub use trace_message::trace_message;
pub use verification::verification;

#[cfg(feature = "html")]
pub(crate) use audit::{compared as audit_compared, error as audit_error, expected as audit_expected, found as audit_found};
#[cfg(feature = "html")]
pub(crate) use bill::{billed_period, span};
#[cfg(feature = "html")]
pub(crate) use calibration::unit_of_term;
#[cfg(feature = "html")]
pub(crate) use comparison::{label, ratio};

/// An estimate as text, or the word that it is not known.
pub(crate) fn known(e: Option<&Estimate>, text: fn(&Estimate) -> String) -> String {
    e.map_or_else(|| "unknown".into(), text)
}

/// The singular or plural with its number: `1 thread`, `212 context switches`.
fn plural(n: &str, one: &str, many: &str) -> String {
    if n == "1" { format!("1 {one}") } else { format!("{n} {many}") }
}

/// A count that may be below 0, its thousands apart.
pub(crate) fn signed(n: i64) -> String {
    let digits = crate::units::count(n.unsigned_abs());
    if n < 0 { format!("-{digits}") } else { digits }
}
