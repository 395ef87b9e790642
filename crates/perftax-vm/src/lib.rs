//! The emulated machine: an unmodified Linux guest that sees an Intel PMU with PEBS, or AMD's with IBS, on hosts that have none.
//!
//! - [`Installation`]: the parts that are built once into a cache (QEMU with the PMU of `perftax-model`, a kernel, a file system).
//! - [`bundle`]: all of them as one file, for machines where nothing can be built.
//! - [`Guest`]: what is run in it: a command, its files, the processor.
//! - [`run`]: streams what a command in it says, brings its outputs and exit code back; the machine has booted before, or boots.
//! - [`Resident`]: a machine that has booted once; each command starts where it stood then.
//! - [`keeper`]: who keeps such a machine for others.

mod archive;
pub mod bundle;
mod closure;
mod conversation;
mod emulator;
mod error;
mod guest;
mod installation;
pub mod keeper;
mod kept;
mod processor;
mod resident;
mod run;

pub use archive::Archive;
pub use conversation::{Finished, Terminal};
pub use error::{Error, Result};
pub use guest::Guest;
pub use installation::{Installation, Sources, cache_folder};
pub use processor::{Arm, Generation, Processor, Without};
pub use resident::Resident;
pub use run::run;
