// SPDX-License-Identifier: GPL-2.0-or-later
//! What the program can write to without a file behind it, as its system calls say: told as the kernel tells perf of it
//! (`PERF_RECORD_MMAP2`), so that a run on a machine and a simulated one call it alike.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::lock::lock;

use super::comm;

/// Flags of memory that is its process's own, and no file's.
const PRIVATE: u64 = (libc::MAP_ANONYMOUS | libc::MAP_PRIVATE) as u64;
/// Pages are that large (Linux on x86-64).
const PAGE: u64 = 4096;

/// Memory that a thread has asked for, until the call returns.
#[derive(Default)]
pub struct Asked {
    /// Where, as far as that is known before the call returns.
    start: AtomicU64,
    /// 0: nothing.
    bytes: AtomicU64,
}

impl Asked {
    /// Nothing.
    pub const fn new() -> Self {
        Self { start: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// A system call begins.
    pub fn before(&self, number: i64, arguments: [u64; 4]) {
        let [start, bytes, protection, flags] = arguments;
        let is_writable = protection & libc::PROT_WRITE as u64 != 0;
        let is_asked = match number {
            // The kernel has a file behind what is shared (`/dev/zero`).
            libc::SYS_mmap => is_writable && flags & PRIVATE == PRIVATE,
            // What was reserved first: threads' stacks, arenas.
            libc::SYS_mprotect => is_writable,
            _ => false,
        };
        self.start.store(start, Ordering::Relaxed);
        self.bytes.store(if is_asked { bytes } else { 0 }, Ordering::Relaxed);
    }

    /// It has returned.
    pub fn after(&self, number: i64, result: i64) {
        if number == libc::SYS_brk {
            // The first answer, before anything was asked for, is where it begins.
            lock(&comm().anonymous).heap(result as u64, result as u64);
        }
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        let start = match number {
            libc::SYS_mmap => result as u64,
            _ => self.start.load(Ordering::Relaxed),
        };
        // An error is a small negative number.
        if bytes > 0 && !(-MAX_ERRORS..0).contains(&result) {
            lock(&comm().anonymous).writable(start, start.saturating_add(bytes.next_multiple_of(PAGE)));
        }
    }
}

/// Errors that Linux has room for (include/linux/err.h, MAX_ERRNO).
const MAX_ERRORS: i64 = 4095;
