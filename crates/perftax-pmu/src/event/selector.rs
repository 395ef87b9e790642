//! How a core's counter is programmed for an event: what perf does by itself, for those that do without perf.

use super::{Catalog, Event, parse, pmu_types};

/// The event-specific bits of IA32_PERFEVTSELx (SDM volume 3, 20.2.1) and the modes counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Event, umask, edge, inversion and counter mask in their places.
    pub select: u64,
    /// Whether user mode counts.
    pub user: bool,
    /// Whether the kernel counts.
    pub kernel: bool,
}

/// `enum perf_hw_id` in its order, by the names under `cpu/events` in sysfs.
const HARDWARE_NAMES: [&str; 7] =
    ["cpu-cycles", "instructions", "cache-references", "cache-misses", "branch-instructions", "branch-misses", "bus-cycles"];

impl Event {
    /// The selector; `None` where the event is none of a core's general counters.
    pub fn selector(&self, catalog: &Catalog) -> Option<Selector> {
        let core = catalog.pmu("cpu")?;
        let select = match self.pmu_type {
            pmu_types::HARDWARE => {
                let name = HARDWARE_NAMES.get(usize::try_from(self.config).ok()?)?;
                parse(&format!("cpu/{name}/"), catalog).ok()?.first()?.config
            }
            pmu_types::RAW => self.config,
            own if own == core.pmu_type => self.config,
            _ => return None,
        };
        Some(Selector { select, user: !self.modifiers.exclude_user, kernel: !self.modifiers.exclude_kernel })
    }
}
