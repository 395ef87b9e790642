//! Programs under the software PMU: any x86-64 program in qemu-user, with `perftax-model` as its plugin.

use perftax_symbols::Mapping;

mod comm;
mod counted;
mod exact;
mod install;
mod runner;
mod summary;

pub use comm::{SimulatedComm, comm_document, simulate_comm};
pub use counted::{Counted, count, usual_event};
pub use exact::{Exactly, KERNEL, PROCESSOR, count_exactly, exact_environment};
pub use install::{Brought, Installation};
pub use runner::{Guest, Simulated, simulate};
pub use summary::{functions, summary};

/// What a simulated program had mapped, as names are looked up by; the plugin tells no rights.
fn mapping(from: u64, to: u64, file_offset: u64, path: &str) -> Mapping {
    Mapping { from, to, file_offset, path: path.into(), ..Mapping::default() }
}
