// SPDX-License-Identifier: GPL-2.0-or-later
//! The program's threads: when they begin, wait, and end.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

use crate::api;
use crate::lock::lock;

use super::memory::Asked;
use super::{comm, cpu};

/// Threads at a time.
pub const MAX: usize = 1024;

/// What a thread's own callbacks touch.
pub struct Slot {
    /// Its number, in the order of creation.
    pub thread: AtomicU32,
    /// Accesses left of its turn; 0: it has none.
    pub left: AtomicU32,
    /// Whether it is told to the engine.
    pub is_known: AtomicBool,
    /// Whether it was woken, or is new: who woke or created it may wait for it.
    pub came: AtomicBool,
    /// What it asked of futex(2), -1: nothing.
    asked: AtomicI64,
    /// What memory it asked for.
    memory: Asked,
}

impl Slot {
    const fn new() -> Self {
        Self {
            thread: AtomicU32::new(0),
            left: AtomicU32::new(0),
            is_known: AtomicBool::new(false),
            came: AtomicBool::new(true),
            asked: AtomicI64::new(-1),
            memory: Asked::new(),
        }
    }
}

/// Operations of futex(2) that return how many they woke, and those that wait (linux/futex.h); what is masked off them: flags.
const WAKES: [i64; 3] = [1, 5, 10];
const WAITS: [i64; 2] = [0, 9];
const OPERATION: i64 = 0x7f;

static SLOTS: [Slot; MAX] = [const { Slot::new() }; MAX];
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A thread's.
#[inline(always)]
pub fn slot(index: c_uint) -> &'static Slot {
    &SLOTS[index as usize % MAX]
}

/// Threads that were started.
pub fn started() -> u32 {
    STARTED.load(Ordering::Relaxed)
}

/// QEMU says that a thread is there. It may be its creator who is told; the thread's own first access waits for its turn.
pub extern "C" fn on_start(_: api::Id, index: c_uint) {
    if index as usize >= MAX {
        crate::say("perftax_sim_plugin: more than 1024 threads at a time\n");
        std::process::abort();
    }
    let slot = slot(index);
    let thread = STARTED.fetch_add(1, Ordering::Relaxed);
    slot.thread.store(thread, Ordering::Relaxed);
    slot.left.store(0, Ordering::Relaxed);
    slot.came.store(true, Ordering::Relaxed);
    lock(&comm().engine).thread_started(thread);
    comm().turns.start(thread);
    slot.is_known.store(true, Ordering::Release);
}

/// QEMU says that a thread has ended.
pub extern "C" fn on_end(_: api::Id, index: c_uint) {
    let slot = slot(index);
    if slot.is_known.swap(false, Ordering::AcqRel) {
        let thread = slot.thread.load(Ordering::Relaxed);
        lock(&comm().engine).thread_ended(thread);
        comm().turns.end(thread);
    }
}

/// It may wait in the kernel, for another thread even.
pub extern "C" fn on_system_call(
    _: api::Id,
    index: c_uint,
    number: i64,
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    let slot = slot(index);
    slot.left.store(0, Ordering::Relaxed);
    let asked = if number == libc::SYS_futex { second as i64 & OPERATION } else { -1 };
    slot.asked.store(asked, Ordering::Relaxed);
    slot.memory.before(number, [first, second, third, fourth]);
    comm().turns.leave(slot.thread.load(Ordering::Relaxed));
    cpu::before(number);
}

/// It is back; its next access waits for its turn.
pub extern "C" fn on_return(_: api::Id, index: c_uint, number: i64, result: i64) {
    cpu::after(number);
    let slot = slot(index);
    slot.left.store(0, Ordering::Relaxed);
    slot.memory.after(number, result);
    let asked = slot.asked.load(Ordering::Relaxed);
    if WAITS.contains(&asked) && result == 0 {
        slot.came.store(true, Ordering::Relaxed);
    }
    let woke = match number {
        libc::SYS_futex if WAKES.contains(&asked) => u32::try_from(result).unwrap_or(0),
        // A process that was created is not ours to see; whoever created it waits in vain, and not for long.
        libc::SYS_clone | libc::SYS_clone3 => u32::from(result > 0),
        _ => 0,
    };
    if woke > 0 {
        comm().turns.woke(woke, number != libc::SYS_futex);
    }
}
