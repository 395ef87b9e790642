//! What this crate offers, from outside. One program: what its tests need is compiled once.

#![allow(clippy::unwrap_used)] // tests may

mod events_against_perf;
mod events_fuzz;
mod events_live;
mod events_machines;
mod machine_id;
mod machine_oracle;
mod machine_trees;
mod records_bytes;
mod records_fuzz;
mod records_hardware;
mod records_kinds;
mod records_recorded;
mod records_samples;
