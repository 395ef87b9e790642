//! The machine profile: the only thing perftax keeps.

use serde::{Deserialize, Serialize};

use crate::{Calibration, MachineId};

/// All calibrations of one machine in one state (CPU, microcode, kernel, mitigations, virtualisation).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineProfile {
    /// Version of the format of documents: it goes up when a key changes its meaning or goes away.
    pub schema: u32,
    /// The machine.
    pub machine: MachineId,
    /// Kernel release.
    pub kernel: String,
    /// The newest calibration of each mechanism and event. Raw blocks are left out here.
    pub calibrations: Vec<Calibration>,
}

impl MachineProfile {
    /// The newest calibration of a mechanism, of exactly this event where there is one.
    pub fn find(&self, mechanism: crate::Mechanism, event: &str) -> Option<&Calibration> {
        self.calibrations.iter().find(|c| c.mechanism == mechanism && c.event == event)
    }

    /// All calibrations of a mechanism, whatever their event.
    pub fn of_mechanism(&self, mechanism: crate::Mechanism) -> impl Iterator<Item = &Calibration> {
        self.calibrations.iter().filter(move |calibration| calibration.mechanism == mechanism)
    }

    /// Takes a calibration in, in place of an older one of the same mechanism and event.
    pub fn insert(&mut self, calibration: Calibration) {
        self.calibrations.retain(|c| (c.mechanism, &c.event) != (calibration.mechanism, &calibration.event));
        self.calibrations.push(calibration);
    }
}
