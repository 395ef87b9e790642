//! Do the kernel's generic events mean what their names say?
//!
//! The kernel gives a name like `branches` the same number on every machine, and a table for each generation of cores says which event
//! that is. Such tables have been wrong: AMD's had `branches` at C4h, which are taken ones, until Linux 2.6.35.

mod hardware;
mod likeness;
mod software;
mod truth;

use perftax_doc::AuditRow;
use perftax_pmu::Result;

use super::{Experiment, Name, Setting};

/// Counts work of known truth by each generic event.
pub struct Generic;

impl Experiment for Generic {
    fn name(&self) -> Name {
        Name::Generic
    }

    fn question(&self) -> &'static str {
        "do the kernel's generic events mean what their names say?"
    }

    fn method(&self) -> &'static str {
        "loops whose every instruction is known (40,000 turns; of a coin 200,000), counted by each of perf's generic names; one \
         that is wrong is compared with all else that the loops make"
    }

    fn figures(&self) -> &'static str {
        "none; section III of Weaver's study of generalised events asks it"
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        Ok([hardware::rows(setting)?, software::rows(setting)?].concat())
    }
}
