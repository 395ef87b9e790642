// SPDX-License-Identifier: GPL-2.0-or-later
//! The program has ended: what came is written down.

use std::ffi::c_void;

use perftax_comm::run::{Mapped, Outcome};

use crate::lock::lock;
use crate::{api, finish, fork};

use super::{comm, threads};

/// QEMU ends.
pub extern "C" fn on_exit(_: api::Id, _: *mut c_void) {
    if fork::is_child() {
        return;
    }
    let comm = comm();
    let most = comm.request.most_lines;
    let mut engine = lock(&comm.engine);
    let outcome = Outcome {
        threads: threads::started(),
        accesses: engine.accesses(),
        taken_turns: comm.turns.taken(),
        exact: engine.exactly(most),
        estimates: engine.estimates(most),
        mappings: finish::all_mappings().into_iter().map(mapped).collect(),
        anonymous: std::mem::take(&mut *lock(&comm.anonymous)),
    };
    if let Err(error) = finish::write(&outcome, &comm.request.outcome) {
        crate::say(&format!("perftax_sim_plugin: cannot write {}: {error}\n", comm.request.outcome));
    }
}

fn mapped(mapping: perftax_model::run::Mapping) -> Mapped {
    Mapped { start: mapping.start, end: mapping.end, offset: mapping.offset, path: mapping.path }
}
