// SPDX-License-Identifier: GPL-2.0-or-later
//! The software PMU of `perftax-model` inside qemu-user: any x86-64 program runs as it is, and its instructions and accesses
//! drive the model.
//!
//! Loaded by `qemu-x86_64 -plugin libperftax_sim_plugin.so,request=FILE`; the request and the outcome are JSON
//! ([`perftax_model::run`]). `perftax sim` does all that.

mod accesses;
mod api;
mod batch;
mod block;
mod callbacks;
mod decode;
mod finish;
mod passes;
mod pipeline;
mod samples;
mod simulator;
mod state;
mod stream;
mod threads;
mod vcpu;

use std::ffi::{CStr, CString, c_char, c_int, c_void};

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
    let mut request = None;
    for argument in arguments {
        match argument.split_once('=') {
            Some(("request", path)) => request = Some(path.to_string()),
            _ => return Err(format!("argument {argument}: the only one is request=FILE")),
        }
    }
    let path = request.ok_or("needs request=FILE")?;
    let text = std::fs::read_to_string(&path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let request = serde_json::from_str(&text).map_err(|e| format!("{path} is no request: {e}"))?;
    callbacks::register(id, State::new(request)?);
    Ok(())
}

/// Tells the user something.
fn say(text: &str) {
    if let Ok(text) = CString::new(text) {
        // SAFETY: a string that ends in a zero byte.
        unsafe { api::qemu_plugin_outs(text.as_ptr()) };
    }
}
