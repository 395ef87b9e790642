// SPDX-License-Identifier: GPL-2.0-or-later
//! What QEMU calls when a block is translated and when the program ends.

use std::ffi::c_void;
use std::ptr;

use crate::block::{Block, Repeat};
use crate::decode::decode;
use crate::lock::lock;
use crate::pipeline::Pipeline;
use crate::state::{self, State, state};
use crate::vcpu::ENDED;
use crate::vcpu::MAX_BLOCKS;
use crate::{accesses, api, executed, finish, fixed, fork, passes, threads};

/// Registers everything.
pub fn register(id: api::Id, state: State) {
    fork::watch(&state.request.outcome);
    if !state::set(state) {
        return;
    }
    // SAFETY: the functions have the signatures that version 1 of the interface asks for.
    unsafe {
        api::qemu_plugin_register_vcpu_init_cb(id, threads::on_start);
        api::qemu_plugin_register_vcpu_exit_cb(id, threads::on_end);
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        api::qemu_plugin_register_atexit_cb(id, on_exit, ptr::null_mut());
    }
}

extern "C" fn on_exit(_: api::Id, _: *mut c_void) {
    let state = state();
    if fork::is_child() {
        // Its parent's counts are in it.
        return;
    }
    threads::end_all(state);
    let mut threads = lock(&ENDED);
    threads.sort_by_key(|vcpu| vcpu.thread);
    let simulator = state.pipeline.as_ref().and_then(Pipeline::finish);
    if state.pipeline.is_some() && simulator.is_none() {
        crate::say("perftax_sim_plugin: the simulator of the caches failed\n");
        return;
    }
    let outcome = finish::outcome(state, &threads, simulator.as_ref());
    let exactly = || match state.request.samples.as_deref().filter(|_| fixed::is_on()) {
        Some(path) => {
            executed::write(state, &threads, path).and_then(|()| finish::write(&fixed::left(), &format!("{path}.left")))
        }
        None => Ok(()),
    };
    let written = state.rows.flush().and_then(|()| exactly()).and_then(|()| finish::write(&outcome, &state.request.outcome));
    if let Err(error) = written {
        crate::say(&format!("perftax_sim_plugin: cannot write {}: {error}\n", state.request.outcome));
    }
}

extern "C" fn on_translation(_: api::Id, tb: *mut api::Tb) {
    let state = state();
    let mut instructions = Vec::new();
    {
        let mut factory = lock(&state.factory);
        // SAFETY: QEMU's block, valid during this call; the code of an instruction is as long as its size says.
        unsafe {
            for i in 0..api::qemu_plugin_tb_n_insns(tb) {
                let insn = api::qemu_plugin_tb_get_insn(tb, i);
                let (ip, bytes) = (api::qemu_plugin_insn_vaddr(insn), api::qemu_plugin_insn_size(insn));
                let code = std::slice::from_raw_parts(api::qemu_plugin_insn_data(insn), bytes);
                instructions.push((ip, bytes, decode(code, ip, &mut factory)));
            }
        }
    }
    let block: &'static Block = {
        let mut blocks = lock(&state.blocks);
        let mut block = Block::new(blocks.len(), &instructions, state.sampled);
        let mut repeats = lock(&state.repeats);
        if let Some(last) = instructions.last().filter(|_| block.repeats_last) {
            let repeat = || Repeat::new(Block::new(usize::MAX, std::slice::from_ref(last), state.sampled));
            block.repeats = Some(*repeats.entry(block.end).or_insert_with(|| Box::leak(Box::new(repeat()))));
        }
        block.follows = repeats.get(&block.start).copied();
        let block = Box::leak(Box::new(block));
        blocks.push(block);
        block
    };
    if block.number >= MAX_BLOCKS {
        crate::say("perftax_sim_plugin: more than 4194304 blocks were translated\n");
        std::process::abort();
    }
    passes::watch(state, tb, block);
    if state.request.caches {
        accesses::watch(state, tb, &instructions);
    }
}
