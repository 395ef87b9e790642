//! The audit: whether samples tell the truth, by experiments whose truth is known by construction.
//!
//! One file an experiment, one line in [`ALL`]. What all of them share: [`Source`], events that a piece of work makes so many of, and
//! [`Taking`], which has the work done while an event watches.

mod address;
mod bias;
mod compare;
