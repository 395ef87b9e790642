//! The commands on this machine, as their users meet them. One program, not one for each command: what all of them need of the library (documents
//! that are read above all) is compiled once.

#![allow(clippy::unwrap_used)] // tests may

mod audit;
mod cli;
#[cfg(target_arch = "x86_64")]
mod comm;
#[cfg(target_arch = "x86_64")]
mod comm_heap;
mod common;
mod faults;
mod feedback;
mod field_test;
mod gallery;
mod input;
#[cfg(feature = "trace")]
mod languages;
mod links;
mod matrix;
mod phase;
#[cfg(all(feature = "trace", feature = "html"))]
mod plain_user;
mod predict_tool;
mod programs;
#[cfg(all(feature = "trace", feature = "html"))]
#[cfg(feature = "trace")]
mod publish;
mod record;
mod selfcost;
mod servers;
mod shape;
mod sharing;
mod sim;
mod sim_comm;
mod sim_stat;
mod sources;
mod spoken;
#[cfg(all(feature = "trace", feature = "html"))]
mod streams;
mod tasks;
#[cfg(feature = "trace")]
mod trace;
#[cfg(all(feature = "trace", target_arch = "x86_64"))]
mod trace_contexts;
#[cfg(all(feature = "trace", target_arch = "x86_64"))]
mod trace_events;
mod trace_functions;
mod trace_join;
#[cfg(feature = "trace")]
mod trace_pictures;
#[cfg(all(feature = "trace", target_arch = "x86_64"))]
mod trace_probes;
#[cfg(feature = "trace")]
mod trace_processes;
#[cfg(all(feature = "trace", target_arch = "x86_64"))]
mod trace_register;
#[cfg(feature = "trace")]
mod trace_sockets;
#[cfg(feature = "trace")]
mod trace_top;
mod vm;
