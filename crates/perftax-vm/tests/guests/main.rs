//! Guests that are booted, two at a time: one program of tests, so that no processor waits for the last guest of a file. They need the machine,
//! the module and perftax built (`make build machine kmod`); `make test` sees to that.

#![allow(clippy::unwrap_used)] // tests may

mod audit;
mod clearwater_forest;
mod comm;
mod common;
mod direct_cost;
mod exactness;
mod executed;
mod generic;
mod hotplug;
mod ibs;
mod kept;
mod kernel;
mod kmod;
mod machine;
mod matrix;
mod misses;
mod oracle;
mod phase;
mod resident;
mod rights;
mod sapphire_rapids;
mod selfcost;
mod stat;
mod surroundings;
mod tasks;
mod trace;
mod zen4;
mod zen5;
