// SPDX-License-Identifier: GPL-2.0-or-later
//! Which threads share which lines: every access of the program is seen, in the order of a schedule of ours.

mod accesses;
mod cpu;
mod engine;
mod finish;
mod memory;
mod threads;
mod turns;

use std::sync::{Mutex, OnceLock};

use iced_x86::InstructionInfoFactory;
use perftax_comm::Anonymous;
use perftax_comm::run::Request;

use crate::{api, fork};
use engine::Engine;
use turns::Turns;

/// One run.
struct Comm {
    request: Request,
    /// Who may go on.
    turns: Turns,
    /// What is known of lines.
    engine: Mutex<Engine>,
    /// Its memory of no file.
    anonymous: Mutex<Anonymous>,
    /// Where instructions are looked into.
    factory: Mutex<InstructionInfoFactory>,
}

static COMM: OnceLock<Comm> = OnceLock::new();

/// The run's.
fn comm() -> &'static Comm {
    // Callbacks are registered after it was set.
    match COMM.get() {
        Some(comm) => comm,
        None => std::process::abort(),
    }
}

/// Registers everything.
pub fn register(id: api::Id, request: Request) {
    let comm = Comm {
        turns: Turns::new(request.quantum, request.seed),
        engine: Mutex::new(Engine::new(&request)),
        anonymous: Mutex::default(),
        factory: Mutex::new(InstructionInfoFactory::new()),
        request,
    };
    fork::watch(&comm.request.outcome);
    if COMM.set(comm).is_err() {
        return;
    }
    cpu::keep_to_one();
    // SAFETY: the functions have the signatures that version 1 of the interface asks for.
    unsafe {
        api::qemu_plugin_register_vcpu_init_cb(id, threads::on_start);
        api::qemu_plugin_register_vcpu_exit_cb(id, threads::on_end);
        api::qemu_plugin_register_vcpu_syscall_cb(id, threads::on_system_call);
        api::qemu_plugin_register_vcpu_syscall_ret_cb(id, threads::on_return);
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, accesses::on_translation);
        api::qemu_plugin_register_atexit_cb(id, finish::on_exit, std::ptr::null_mut());
    }
}
