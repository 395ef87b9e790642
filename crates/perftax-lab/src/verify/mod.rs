//! Verification: rounds of unmonitored and monitored runs in random order, with the cost of a sample measured again in each.

mod experiment;
mod plan;
mod progress;

pub use experiment::{Experiment, Finished};
pub use plan::{Grid, Request, Subject};
pub use progress::{Foreseen, Step};
