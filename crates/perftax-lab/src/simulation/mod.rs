//! Programs under the software PMU: any x86-64 program in qemu-user, with `perftax-model` as its plugin.

mod comm;
mod counted;
mod install;
mod runner;
mod summary;

pub use comm::{SimulatedComm, comm_document, simulate_comm};
pub use counted::{Counted, count, usual_event};
pub use install::{Brought, Installation};
pub use runner::{Guest, Simulated, simulate};
pub use summary::{functions, summary};
