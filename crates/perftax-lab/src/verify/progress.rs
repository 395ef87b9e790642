//! What a verification says while it runs.

use std::time::Duration;

/// What is needed, foreseen after the pilot rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foreseen {
    /// Rounds that the noisiest cell needs.
    pub rounds: u32,
    /// Time that they take.
    pub duration: Duration,
    /// The smallest A/A difference that would then be detected, a fraction.
    pub detects: f64,
}

/// One round of one subject was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The subject.
    pub subject: String,
    /// Its rounds so far.
    pub rounds: u32,
    /// Half-width of E in its widest cell, once there is one.
    pub widest: Option<f64>,
    /// Elapsed time.
    pub elapsed: Duration,
    /// Said once, after the pilot.
    pub foreseen: Option<Foreseen>,
}
