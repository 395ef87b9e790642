//! The experiments of perftax: what is run, in which order, and what is written down. Statistics live in `perftax-cost`.

pub mod audit;
pub mod calibrate;
pub mod field_test;
pub mod journal;
pub mod matrix;
pub mod microbench;
pub mod phase;
pub mod prediction;
pub mod published;
pub mod refusal;
pub mod run;
pub mod selfcost;
pub mod sensitivity;
pub mod simulation;
pub mod stat;
pub mod stimulus;
pub mod system;
pub mod tool;
pub mod trap_cost;
pub mod verify;
pub mod workload;
