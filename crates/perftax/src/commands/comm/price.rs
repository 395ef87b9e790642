//! What a trap costs here.

use anyhow::Result;
use perftax_cost::Estimate;
use perftax_lab::comm::{calibrated_trap_ns, trap_ns};

use crate::here::Here;
use crate::origin::now_s;
use crate::progress::announce;

/// What a trap costs here: as calibrated within the hour, or measured now. Without a budget nothing hangs on it.
pub fn price(here: &Here, is_needed: bool) -> Result<Option<Estimate>> {
    let calibrated = crate::profile::load(&here.id)?.and_then(|profile| calibrated_trap_ns(&profile, now_s()));
    if calibrated.is_some() {
        return Ok(calibrated);
    }
    match trap_ns(&here.catalog) {
        Ok(trap_ns) => {
            if is_needed {
                announce(&format!(
                    "a trap costs {:.1} µs here, measured just now (perftax calibrate --mechanism breakpoint, within the hour and \
                     without --quick, tells it better)",
                    trap_ns.estimate / 1000.0
                ));
            }
            Ok(Some(trap_ns))
        }
        Err(error) if is_needed => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Whether traps can come faster than the kernel lets an event sample, as they do where no hypervisor slows them down.
pub fn is_throttled(trap_ns: Option<Estimate>) -> bool {
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    let limit: f64 = limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0.0);
    trap_ns.is_some_and(|trap_ns| 1e9 / trap_ns.low.max(1.0) > limit)
}
