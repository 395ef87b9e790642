//! Marks: a program says which message (request, packet, transaction) a thread works on, and `perftax trace record` listens.
//!
//! ```
//! # let id = 8317;
//! perftax_tag::begin(id); // the thread starts to work on message `id`
//! perftax_tag::switch(0); // it turns to something else …
//! perftax_tag::switch(id); // … and back
//! perftax_tag::end(id);
//! ```
//!
//! Where nobody listens a mark is a load and a branch. Where somebody does, it is a time stamp and sixteen bytes in a ring of the thread's
//! own: no system call, no allocation, and a full ring drops marks and counts them. Threads and forks are fine. The rings and their format
//! are those of `include/perftax_tag.h`, which C and C++ programs include.
//!
//! `no_std`; Linux on x86-64 or AArch64 with a libc.

#![no_std]
#![warn(missing_docs)]

use core::sync::atomic::{AtomicU32, Ordering};

/// Nobody listens (`perftax_tag_state` of the header).
const NOBODY: u32 = 1;
/// Kinds of marks, as in the header.
const BEGIN: u32 = 1;
const END: u32 = 2;
const SWITCH: u32 = 3;

unsafe extern "C" {
    static perftax_tag_state: AtomicU32;
    fn perftax_tag_record(id: u64, kind: u32);
}

#[inline(always)]
fn mark(id: u64, kind: u32) {
    // SAFETY: the C side declares it as a 32-bit integer that it changes by atomic stores alone.
    if unsafe { perftax_tag_state.load(Ordering::Relaxed) } != NOBODY {
        // SAFETY: takes two integers, may be called from any thread at any time, and keeps its state by thread.
        unsafe { perftax_tag_record(id, kind) }
    }
}

/// The calling thread starts to work on message `id`: a number below 2^62 but 0, unique among the messages under way.
#[inline(always)]
pub fn begin(id: u64) {
    mark(id, BEGIN);
}

/// Message `id` is done.
#[inline(always)]
pub fn end(id: u64) {
    mark(id, END);
}

/// The calling thread goes on with message `id`, which has begun already; 0: with none.
#[inline(always)]
pub fn switch(id: u64) {
    mark(id, SWITCH);
}
