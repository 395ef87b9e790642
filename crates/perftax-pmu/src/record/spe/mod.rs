//! Arm SPE: the packets that the hardware writes into the AUX area, and the samples that they make up.
//!
//! Source: Arm Architecture Reference Manual (DDI 0487), chapter D17, "Statistical Profiling Extension sample record
//! specification".

mod operation;
mod packet;
mod sample;

pub use operation::{Events, Operation};
pub use packet::{Address, AddressKind, CounterKind, Packet, Packets, packets};
pub use sample::{Samples, SpeSample, samples};
