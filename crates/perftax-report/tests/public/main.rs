//! What this crate offers, from outside. One program: what its tests need is compiled once.

#![allow(clippy::unwrap_used)] // tests may

#[cfg(feature = "html")]
mod browser;
mod comm_heap;
mod likeness;
#[cfg(feature = "html")]
mod pages;
mod samples;
mod texts;
#[cfg(feature = "html")]
mod trace_page;
