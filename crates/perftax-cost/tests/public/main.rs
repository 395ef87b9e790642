//! What this crate offers, from outside. One program: what its tests need is compiled once.

#![allow(clippy::unwrap_used)] // tests may

mod alpha;
mod buffering;
mod coverage;
mod left_out;
mod properties;
mod tasks;
mod verification;
