//! Verification: rounds of unmonitored and monitored runs in random order, with the cost of a sample measured again in each.

mod conclusion;
mod experiment;
mod plan;
mod progress;

pub use conclusion::{Unusable, conclude};
pub use experiment::{Experiment, Finished};
pub use plan::{Grid, Request, Subject};
pub use progress::{Foreseen, Step};
