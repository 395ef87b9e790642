//! How much a program loses when its caches are taken away: the live counterpart of the model's pollution term.

mod evictor;
mod experiment;
mod means;

pub use evictor::INTERVAL;
pub use experiment::{Experiment, Goal};
pub use means::Means;
