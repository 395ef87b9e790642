//! What this crate offers, from outside. One program: what its tests need is compiled once.

#![allow(clippy::unwrap_used)] // tests may

mod alpha;
mod buffering;
mod coverage;
mod properties;
mod verification;
