// SPDX-License-Identifier: GPL-2.0-or-later
//! The program's threads, by QEMU's number of them.

use std::ffi::c_uint;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::api;
use crate::fixed;
use crate::lock::lock;
use crate::state::{State, state};
use crate::stream::Intake;
use crate::vcpu::ENDED;
use crate::vcpu::{MAX_BLOCKS, Vcpu};

/// Threads at a time.
const MAX_VCPUS: usize = 1024;

static VCPUS: [AtomicPtr<Vcpu>; MAX_VCPUS] = [const { AtomicPtr::new(ptr::null_mut()) }; MAX_VCPUS];
static INTAKES: [Intake; MAX_VCPUS] = [const { Intake::new() }; MAX_VCPUS];

/// The thread's own data.
#[inline]
pub fn vcpu(index: c_uint) -> &'static mut Vcpu {
    let at = VCPUS[index as usize % MAX_VCPUS].load(Ordering::Relaxed);
    // SAFETY: set when the thread started, freed after its last callback; each thread touches its own only.
    unsafe { &mut *at }
}

/// Where the thread's accesses go.
#[inline(always)]
pub fn intake(index: c_uint) -> &'static Intake {
    &INTAKES[index as usize % MAX_VCPUS]
}

/// QEMU says that a thread starts.
pub extern "C" fn on_start(_: api::Id, index: c_uint) {
    let state = state();
    let thread = state.threads.fetch_add(1, Ordering::Relaxed);
    if thread > 0 {
        // QEMU flushes its translations before a second thread runs (begin_parallel_context), and translates for several.
        state.parallel.store(true, Ordering::Relaxed);
        if thread == 1 {
            widen_the_first();
        }
    }
    if index as usize >= MAX_VCPUS {
        crate::say("perftax_sim_plugin: more than 1024 threads at a time\n");
        std::process::abort();
    }
    let fresh = Box::into_raw(Box::new(Vcpu::new(state, thread, intake(index))));
    let before = VCPUS[index as usize].swap(fresh, Ordering::AcqRel);
    end(state, before);
    fixed::on_start(index, thread);
}

/// The first thread's passes were counted in the blocks so far.
fn widen_the_first() {
    for slot in &VCPUS {
        let at = slot.load(Ordering::Acquire);
        // SAFETY: the only other thread waits for this one to be created, inside its clone system call.
        if let Some(first) = unsafe { at.as_mut() }
            && first.passes.is_empty()
        {
            first.passes = vec![0; MAX_BLOCKS].into();
        }
    }
}

/// QEMU says that a thread has ended.
pub extern "C" fn on_end(_: api::Id, index: c_uint) {
    let at = VCPUS[index as usize % MAX_VCPUS].swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: set when the thread started, and nobody else has it any more.
    let thread = unsafe { at.as_ref() }.map(|vcpu| vcpu.thread);
    end(state(), at);
    thread.into_iter().for_each(fixed::on_end);
}

fn end(state: &State, at: *mut Vcpu) {
    if at.is_null() {
        return;
    }
    // SAFETY: it came out of Box::into_raw, and whoever swaps it out of its slot owns it.
    let mut vcpu = unsafe { Box::from_raw(at) };
    vcpu.end(state);
    lock(&ENDED).push(*vcpu);
}

/// Ends all that still run.
pub fn end_all(state: &State) {
    for slot in &VCPUS {
        end(state, slot.swap(ptr::null_mut(), Ordering::AcqRel));
    }
}
