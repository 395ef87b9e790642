//! What a trap costs here, and what of the program's time that may come to.

use anyhow::Result;
use perftax_doc::{Estimate, Mechanism};
use perftax_lab::trap_cost::{calibrated_trap_ns, trap_ns};
use perftax_report::units;

use super::Budget;
use crate::host::Host;
use crate::origin::now_s;
use crate::progress::announce;

/// What a trap costs here: as calibrated within the hour, or measured now. It is said before the program starts, with what it may take at most. Without a
/// budget nothing hangs on it.
///
/// The allocator's probes are beside all that: their price is said where they are on.
pub fn price(here: &Host, budget: Budget, is_heap_told: bool) -> Result<Option<Estimate>> {
    let profile = crate::profile::load(&here.id)?;
    if is_heap_told {
        let uprobe = profile.as_ref().and_then(|profile| profile.of_mechanism(Mechanism::Uprobe).next());
        let each = uprobe
            .map_or("some 10 µs in a guest, 1 to 2 else (perftax calibrate --mechanism uprobe tells)".into(), |found| {
                format!("{} here", units::estimate_ns(&found.alpha_ns))
            });
        announce(&format!(
            "each call of malloc, free and their like traps, malloc twice, and no budget bounds that: a trap takes {each}"
        ));
    }
    let calibrated = profile.and_then(|profile| calibrated_trap_ns(&profile, now_s()));
    let (trap_ns, how) = match calibrated {
        Some(trap_ns) => (trap_ns, "calibrated"),
        None => match trap_ns(&here.catalog) {
            Ok(trap_ns) => (trap_ns, "measured just now; perftax calibrate --mechanism breakpoint tells it better"),
            Err(error) if budget.0.is_some() => return Err(error.into()),
            Err(_) => return Ok(None),
        },
    };
    let most = match budget.0 {
        Some(share) => format!(
            "at most {:.3} % of the program's CPU time goes to watching it, perftax's own included: registers are on only while that pays for it (--budget none: all that it takes)",
            share * 100.0
        )
        .replace(".000 %", " %"),
        None => "with --budget none every access to what is watched traps".into(),
    };
    announce(&format!("{most}; a trap costs {:.1} µs here ({how})", trap_ns.estimate / 1000.0));
    Ok(Some(trap_ns))
}

/// Whether traps can come faster than the kernel lets an event sample, as they do where no hypervisor slows them down.
pub fn is_throttled(trap_ns: Option<Estimate>) -> bool {
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    let limit: f64 = limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0.0);
    trap_ns.is_some_and(|trap_ns| 1e9 / trap_ns.low.max(1.0) > limit)
}
