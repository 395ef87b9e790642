//! The registers of AMD's PMU: core performance counters (AMD64 APM volume 2, 13.2) and instruction-based sampling (13.3), as a driver
//! writes and reads them, and what happens when instructions retire.

mod branches;
mod fetch;
mod generation;
pub mod msr;
mod op;
mod pmu;
mod random;
mod select;

pub use branches::Branches;
pub use fetch::Fetch;
pub use generation::Generation;
pub use op::Op;
pub use pmu::Pmu;
pub use random::Random;
pub use select::counted;
