//! What this crate offers, from outside. One program: what its tests need is compiled once.

#![allow(clippy::unwrap_used)] // tests may

mod amd;
mod architectural_pebs;
mod common;
mod figure3;
mod intel;
mod properties;
mod steady;
