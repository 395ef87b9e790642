// SPDX-License-Identifier: GPL-2.0-or-later
//! The software PMU of `perftax-model` inside qemu-user: any x86-64 program runs as it is, and its instructions and accesses
//! drive the model.
//!
//! Loaded by `qemu-x86_64 -plugin libperftax_sim_plugin.so,request=FILE`; the request and the outcome are JSON
//! ([`perftax_model::run`]). With `exact=FILE` the same request is answered with how often each instruction was executed, too, and all that
//! differs from run to run is made the same. With `comm=FILE` it sees which threads share which lines instead ([`perftax_comm::run`]).
//! `perftax sim` does all that.

mod accesses;
mod api;
mod batch;
mod block;
mod callbacks;
mod comm;
mod decode;
mod executed;
mod finish;
mod fixed;
mod fork;
mod lock;
mod passes;
mod pipeline;
mod samples;
mod simulator;
mod state;
mod stream;
mod threads;
mod vcpu;

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use perftax_model::run::Request;
use serde::de::DeserializeOwned;
use state::State;

/// Version of the plugin interface that this was built for.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// Called by QEMU when it has loaded the plugin.
///
/// # Safety
/// `argv` holds `argc` pointers to strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: api::Id,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes argc strings that live as long as this call.
    let arguments = (0..argc as usize).map(|i| unsafe { CStr::from_ptr(*argv.add(i)) }.to_string_lossy().into_owned());
    match install(id, arguments) {
        Ok(()) => 0,
        Err(why) => {
            say(&format!("perftax_sim_plugin: {why}\n"));
            -1
        }
    }
}

fn install(id: api::Id, arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let arguments: Vec<String> = arguments.collect();
    match arguments.iter().map(|argument| argument.split_once('=')).collect::<Vec<_>>()[..] {
        [Some(("request", path))] => callbacks::register(id, State::new(asked(path)?)?),
        [Some(("comm", path))] => comm::register(id, asked(path)?),
        [Some(("exact", path))] => {
            let request: Request = asked(path)?;
            fixed::register(id, request.seed);
            callbacks::register(id, State::new(request)?);
        }
        _ => return Err(format!("arguments {arguments:?}: needs request=FILE, exact=FILE or comm=FILE")),
    }
    Ok(())
}

/// A request, from its file.
fn asked<T: DeserializeOwned>(path: &str) -> Result<T, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("{path} is no request: {e}"))
}

/// Tells the user something.
fn say(text: &str) {
    if let Ok(text) = CString::new(text) {
        // SAFETY: a string that ends in a zero byte.
        unsafe { api::qemu_plugin_outs(text.as_ptr()) };
    }
}
