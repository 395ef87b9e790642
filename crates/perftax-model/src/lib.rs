//! A software PMU: what a processor's sampling hardware does, as a deterministic model without I/O, clocks or threads.
//!
//! A [`unit::Unit`] counts events of one [`Event`] and acts at some of them (takes a sample, writes a record, interrupts). A
//! [`Core`] joins a unit to its costs and to the cache hierarchy that PEBS and SPE records are *written through*, so that
//! pollution and memory traffic come out by themselves. Machines are data ([`machine::Machine`]); nothing here knows a
//! processor by name.
//!
//! Whoever drives the model (a plugin of qemu-user, an emulated machine, a test) says how many events pass and which
//! addresses are touched; between two actions of a unit, that is one subtraction ([`unit::Unit::until_action`]).

pub mod advice;
pub mod amd;
pub mod cache;
mod core;
mod counts;
pub mod emulated;
mod event;
pub mod intel;
pub mod machine;
mod mode;
pub mod pollution;
mod rotation;
pub mod run;
mod terms;
pub mod unit;
mod watchpoint;

pub use self::core::{Core, Moment, RING_BYTES, Records, Sample};
pub use counts::Counts;
pub use event::Event;
pub use mode::{Filter, Mode};
pub use rotation::Rotation;
pub use terms::Terms;
pub use watchpoint::{DebugRegisters, NoFreeRegister, Watchpoint};
