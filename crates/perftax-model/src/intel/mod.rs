//! The registers of Intel's PMU (architectural performance monitoring, SDM volume 3, chapter 20): what a driver writes and reads, and
//! what happens when instructions retire.
//!
//! Whoever executes the instructions (an emulated machine) keeps a [`Budget`]: so many events of each class may pass before the
//! [`Pmu`] must be told. Between two such moments an event costs one subtraction there and nothing here.

mod architectural_pebs;
mod branches;
mod debug_store;
mod generation;
mod metrics;
pub mod msr;
mod pmu;
mod select;

pub use branches::{Branch, Branches, Kind};
pub use debug_store::Memory;
pub use generation::Generation;
pub use pmu::Pmu;
pub use select::counted;

pub use crate::emulated::{Actions, Arm, Budget, CLASSES, Class, Granularity, KERNEL, Retired, Settings, Tally, USER};
