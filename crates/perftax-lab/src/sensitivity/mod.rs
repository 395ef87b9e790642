//! How much a program loses when its caches are taken away: the live counterpart of the model's pollution term.

mod evictor;
mod experiment;

pub use evictor::{Evictor, INTERVAL};
pub use experiment::{Experiment, Goal, SIZES};
