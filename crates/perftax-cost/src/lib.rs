//! The cost model of event sampling, as pure mathematics: no I/O, no clocks, no kernel.
//!
//! Elapsed time of a workload that takes `T0` unmonitored is modelled as
//!
//! ```text
//! T = T0 + N·c_rec + K·c_pmi + N·c_copy + S·c_signal + X·c_switch + F·c_task + pollution
//! ```
//!
//! and what users ask for is α, nanoseconds per sample: the slope of elapsed time against the number of samples.
//! Raw observations ([`perftax_doc::observation`]) go in, estimates ([`perftax_doc::Estimate`]) and documents come out.

pub mod alpha;
mod average;
pub mod bootstrap;
pub mod buffering;
pub mod busiest;
pub mod code;
mod cost;
pub mod direct;
pub mod drive;
pub mod foresight;
pub mod governor;
pub mod left_out;
pub mod matrix;
pub mod order;
pub mod payload;
pub mod period;
pub mod planning;
pub mod prediction;
pub mod price_list;
pub mod reference_loop;
pub mod regression;
mod setting;
pub mod stoker;
pub mod stretches;
mod sums;
pub mod tasks;
pub mod tool;
pub mod verification;
