//! Sampling within a budget: what is spent, window by window, and at which rate to go on.
//!
//! ```text
//! pricing     from what a profile says to prices, for periods that a program allows
//! tariff      what each thing costs that sampling takes time for
//! window      what happened in a piece of time
//! ledger      what it all came to, with the interval of the prices
//! overdraft   by how much spending went beyond the budget, at every scale of time from a second up
//! course      how it went over time, in as few pieces as fit
//! witness     what it costs by the work that a program does: a second opinion
//! governed    the rate to go on with, so that the upper end of what was spent stays within the budget
//! ```
//!
//! **The rule.** A program that uses CPU time earns the budget's share of it; everything that sampling takes is paid from that, at the *upper ends* of its
//! prices. What is not spent is saved up to a burst and no further. There is a finest rate, at which samples alone cost what is earned, so a program that
//! does more is sampled more, and only what does not follow its CPU time (threads created, context switches, the recorder itself) makes the rate coarser.
//! Nothing depends on how busy the program was: of a load of 50 ms a second each of those is sampled as finely as a busy second.

mod course;
mod governed;
mod ledger;
mod overdraft;
mod pricing;
mod tariff;
mod window;
mod witness;

pub use governed::{Decision, Governor};
pub use ledger::Ledger;
pub use pricing::Pricing;
pub use tariff::Tariff;
pub use window::Window;
pub use witness::Witness;
