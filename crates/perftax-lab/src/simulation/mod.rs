//! Programs under the software PMU: any x86-64 program in qemu-user, with `perftax-model` as its plugin.

mod comm;
mod install;
mod runner;
mod summary;
mod symbols;

pub use comm::{SimulatedComm, comm_document, simulate_comm};
pub use install::{Brought, Installation};
pub use runner::{Guest, Simulated, simulate};
pub use summary::summary;
pub use symbols::Symbols;
