//! One file per command.

pub mod audit;
pub mod bill;
pub mod calibrate;
pub mod comm;
pub mod dataset;
pub mod doctor;
pub mod field_test;
pub mod lint;
pub mod list;
pub mod man;
pub mod matrix;
pub mod phase;
pub mod plan;
pub mod predict;
pub mod publish;
pub mod record;
pub mod report;
pub mod selfcost;
pub mod sensitivity;
pub mod sim;
#[cfg(feature = "trace")]
pub mod trace;
pub mod verify;
pub mod vm;
