//! What this crate offers, from outside. One program: what its tests need is compiled once.

#![allow(clippy::unwrap_used)] // tests may

mod bill_built;
mod bill_fixtures;
mod bill_order;
mod bill_perf;
mod bill_records;
mod bill_support;
mod bill_traces;
mod lint_built;
mod lint_cases;
mod lint_pairs;
mod writing;
