// SPDX-License-Identifier: GPL-2.0-or-later
//! The program's accesses, each with its address, bytes and instruction.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering;

use perftax_comm::{Access, Kind, lines_of};

use crate::api;
use crate::decode::decode;
use crate::fork;
use crate::lock::lock;

use super::comm;
use super::threads::slot;

/// What is known of an instruction that accesses memory.
struct Accessing {
    ip: u64,
    modifies: bool,
}

/// Registers what sees the accesses of a block.
pub extern "C" fn on_translation(_: api::Id, tb: *mut api::Tb) {
    let mut factory = lock(&comm().factory);
    // SAFETY: QEMU's block, valid during this call; the code of an instruction is as long as its size says.
    unsafe {
        for i in 0..api::qemu_plugin_tb_n_insns(tb) {
            let insn = api::qemu_plugin_tb_get_insn(tb, i);
            let (ip, size) = (api::qemu_plugin_insn_vaddr(insn), api::qemu_plugin_insn_size(insn));
            let decoded = decode(std::slice::from_raw_parts(api::qemu_plugin_insn_data(insn), size), ip, &mut factory);
            let (loads, stores) = decoded.accesses();
            if !loads && !stores {
                continue;
            }
            // Blocks stay translated as long as the program runs.
            let accessing = Box::leak(Box::new(Accessing { ip, modifies: decoded.modifies }));
            let data = std::ptr::from_mut(accessing).cast::<c_void>();
            api::qemu_plugin_register_vcpu_mem_cb(insn, on_access, api::NO_REGS, api::MEM_RW, data);
        }
    }
}

extern "C" fn on_access(index: c_uint, info: api::MemInfo, address: u64, data: *mut c_void) {
    // SAFETY: what was leaked when the instruction was translated.
    let accessing = unsafe { &*data.cast::<Accessing>() };
    // SAFETY: the information that QEMU passed.
    let (is_store, shift) = unsafe { (api::qemu_plugin_mem_is_store(info), api::qemu_plugin_mem_size_shift(info)) };
    // Of an instruction that writes where it read, the write alone: a core needs the line for itself from the start.
    if !is_store && accessing.modifies {
        return;
    }
    if fork::is_child() {
        return;
    }
    let slot = slot(index);
    let thread = slot.thread.load(Ordering::Relaxed);
    let left = match slot.left.load(Ordering::Relaxed) {
        0 => comm().turns.begin(thread, slot.came.swap(false, Ordering::Relaxed)),
        left => left,
    };
    let kind = if is_store { Kind::Store } else { Kind::Load };
    {
        let mut engine = lock(&comm().engine);
        for (line, bytes) in lines_of(address, 1 << shift) {
            engine.take(&Access { thread, line, bytes, kind, ip: accessing.ip });
        }
    }
    slot.left.store(if left > 1 { left - 1 } else { comm().turns.pass(thread) }, Ordering::Relaxed);
}
