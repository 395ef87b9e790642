// SPDX-License-Identifier: GPL-2.0-or-later
//! The program's accesses to memory, as its translated code reports them.

use std::ffi::{c_uint, c_void};

use perftax_model::cache::{LINE_BYTES, line_of};

use crate::api;
use crate::decode::Decoded;
use crate::lock::lock;
use crate::state::{State, state};
use crate::threads::{intake, vcpu};

/// Registers what sees the memory accesses.
pub fn watch(state: &State, tb: *mut api::Tb, instructions: &[(u64, usize, Decoded)]) {
    for (index, (ip, _, decoded)) in instructions.iter().enumerate() {
        let (loads, stores) = decoded.accesses();
        if !loads && !stores {
            continue;
        }
        let number = {
            let mut accessing = lock(&state.accessing);
            accessing.push(*ip);
            accessing.len() as u64 - 1
        };
        // Above, the last place in a line at which the access stays within it; below, the number of the instruction.
        let last_inside = LINE_BYTES - u64::from(decoded.bytes.clamp(1, LINE_BYTES as u32));
        let data = (last_inside << 32 | number) as usize as *mut c_void;
        // QEMU 7.2 compares its filter with a number that is one too high, so that callbacks for reads see writes: all are asked
        // for, and the instruction says which they are.
        // SAFETY: QEMU's instruction, valid during translation; the data are a number.
        unsafe {
            let insn = api::qemu_plugin_tb_get_insn(tb, index);
            let callback: api::MemCb = match (loads, stores) {
                (true, false) => on_load,
                (false, true) => on_store,
                _ => on_either,
            };
            api::qemu_plugin_register_vcpu_mem_cb(insn, callback, api::NO_REGS, api::MEM_RW, data);
        }
    }
}

extern "C" fn on_load(index: c_uint, _: api::MemInfo, address: u64, data: *mut c_void) {
    access(index, address, false, data);
}

extern "C" fn on_store(index: c_uint, _: api::MemInfo, address: u64, data: *mut c_void) {
    access(index, address, true, data);
}

/// An instruction that reads and writes.
extern "C" fn on_either(index: c_uint, info: api::MemInfo, address: u64, data: *mut c_void) {
    // SAFETY: the information that QEMU passed.
    let write = unsafe { api::qemu_plugin_mem_is_store(info) };
    access(index, address, write, data);
}

#[inline(always)]
fn access(index: c_uint, address: u64, write: bool, data: *mut c_void) {
    let last_inside = data as usize as u64 >> 32;
    if address % LINE_BYTES > last_inside {
        return access_straddling(index, address, write, data);
    }
    // SAFETY: the thread's batch was begun when it started.
    if unsafe { intake(index).take(line_of(address), write, data as usize as u32) } {
        hand_over(index);
    }
}

/// An access to two lines.
#[cold]
#[inline(never)]
extern "C" fn access_straddling(index: c_uint, address: u64, write: bool, data: *mut c_void) {
    for address in [address, address + LINE_BYTES] {
        // SAFETY: as above.
        if unsafe { intake(index).take(line_of(address), write, data as usize as u32) } {
            hand_over(index);
        }
    }
}

#[cold]
#[inline(never)]
extern "C" fn hand_over(index: c_uint) {
    vcpu(index).hand_over(state());
}
