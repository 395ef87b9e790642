//! What people read on a terminal: short, aligned, an interval on every estimate, the next command ready to paste.
//!
//! Colour is ANSI escape sequences in the string; the writer strips them where there is no terminal. No meaning hangs on
//! colour alone.

use perftax_doc::Estimate;

use crate::units::plural;

mod audit;
mod bill;
mod calibration;
mod comm;
mod comm_comparison;
mod comm_lines;
mod comparison;
mod dataset;
mod field_test;
mod lint;
mod matrix;
mod phase;
mod plan;
mod prediction;
mod recorded;
mod selfcost;
mod selfcost_comparison;
mod sensitivity;
mod simulation;
mod stat;
mod tag;
mod tool;
mod trace;
mod trace_diff;
mod trace_join;
mod trace_message;
mod trace_top;
mod verification;

pub use audit::audit;
pub use bill::bill;
pub use calibration::calibration;
pub use comm::comm;
pub use comparison::comparison;
pub use dataset::{dataset_add, dataset_check, dataset_compact, trace_publish};
pub use field_test::field_test;
pub use lint::lint;
pub use matrix::{matrix, matrix_plan};
pub use phase::phase;
#[cfg(feature = "html")]
pub(crate) use plan::piece as plan_piece;
pub use plan::plan;
pub use prediction::prediction;
pub use recorded::recorded;
pub use selfcost::selfcost;
pub use sensitivity::sensitivity;
pub use simulation::simulation;
pub use stat::{perf_lines, stat};
pub use tool::tool_prediction;
pub use trace::trace;
pub use trace_diff::trace_diff;
pub use trace_join::trace_join;
#[cfg(feature = "html")]
pub(crate) use trace_join::{cause as request_cause, charged as request_charged};
pub use trace_message::trace_message;
pub use trace_top::trace_top;
pub use verification::verification;

#[cfg(feature = "html")]
pub(crate) use audit::{compared as audit_compared, error as audit_error, expected as audit_expected, found as audit_found};
#[cfg(feature = "html")]
pub(crate) use bill::{billed_period, idle, missing_rates, span, switches, tasks};
#[cfg(feature = "html")]
pub(crate) use calibration::unit_of_term;
#[cfg(feature = "html")]
pub(crate) use comm::{
    blind as comm_blind, evidence as comm_evidence, exact as comm_exact, lost as comm_lost, members as comm_members,
    own as comm_own, program as comm_program, thread_label as comm_thread, way as comm_way,
};
#[cfg(feature = "html")]
pub(crate) use comm_comparison::{compared_lines as comm_compared_lines, shared_pairs as comm_shared_pairs};
pub(crate) use comm_lines::allocations as comm_allocations;
#[cfg(feature = "html")]
pub(crate) use comm_lines::{
    access as comm_access, advice as comm_advice, bytes as comm_bytes, name as comm_name, pairs as comm_pairs,
    source as comm_source, threads as comm_threads, word as comm_word,
};
#[cfg(feature = "html")]
pub(crate) use comparison::{has_tables, keys as grid_keys, label, labelled, ratio, told_apart as grids_told_apart};
#[cfg(feature = "html")]
pub(crate) use field_test::verdicts;
#[cfg(feature = "html")]
pub(crate) use lint::{extent, found as lint_found, lint_verdict};
#[cfg(feature = "html")]
pub(crate) use matrix::{
    brief as matrix_brief, divisor as matrix_divisor, events_of, impossible_rows, marks as matrix_marks, skipped_rows,
    watched_how as matrix_watched_how, watcher,
};
#[cfg(feature = "html")]
pub(crate) use phase::interval as phase_interval;
pub(crate) use recorded::{
    budget as recorded_budget, expense_cost, expense_count, name as expense_name, on_cpus as recorded_place,
    rates as recorded_rates,
};
#[cfg(feature = "html")]
pub(crate) use selfcost::{
    cost as selfcost_cost, kept as selfcost_kept, method as selfcost_method, number as selfcost_number, points as selfcost_points,
};
#[cfg(feature = "html")]
pub(crate) use selfcost_comparison::{compared as selfcost_compared, compared_fits as selfcost_compared_fits};

/// An estimate as text, or the word that it is not known.
pub(crate) fn known(e: Option<&Estimate>, text: fn(&Estimate) -> String) -> String {
    e.map_or_else(|| "unknown".into(), text)
}

/// A count that may be below 0, its thousands apart.
pub(crate) fn signed(n: i64) -> String {
    let digits = crate::units::count(n.unsigned_abs());
    if n < 0 { format!("-{digits}") } else { digits }
}
