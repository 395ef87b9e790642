//! What recording a trace cost, by the profile of the machine that it was recorded on.

use perftax_cost::document::{CostPart, MachineId, MachineProfile, TraceCost, TraceMeta};
use perftax_cost::{Estimate, Mechanism};

use crate::profile;

/// The tracepoint whose price stands for all: what they record differs little.
const TRACEPOINT: &str = "sched:sched_switch";

/// Prices what was taken. A profile that cannot be read is one that has no prices.
pub fn cost(meta: &TraceMeta) -> TraceCost {
    let profile = profile::load(&meta.origin.machine).ok().flatten();
    let [marks, samples, kernel] = meta.recorded;
    let event = |event: &str| profile.as_ref().and_then(|profile| price(profile, event));
    // A mark is written by the program; a static probe is a trap into the kernel; a register's are put together by perftax.
    let mark_ns = if meta.tag == "marks" { Some(meta.mark_ns) } else { None };
    let marks = if meta.register.is_some() { 0 } else { marks };
    let tracepoint = profile.as_ref().and_then(|profile| {
        let calibrations = profile.calibrations.iter().filter(|found| found.mechanism == Mechanism::Tracepoint);
        calibrations.map(|found| found.alpha_ns).next()
    });
    let part = |what: &str, count: u64, each_ns: Option<Estimate>, command: String| CostPart {
        what: what.into(),
        count,
        each_ns,
        remedy: each_ns.is_none().then_some(command),
    };
    let calibrate = |event: &str| format!("perftax calibrate -e {event}");
    let parts = vec![
        part("marks", marks, mark_ns, "perftax calibrate --mechanism uprobe".into()),
        part("samples", samples, event(&meta.event), calibrate(&meta.event)),
        part("kernel records", kernel, tracepoint, calibrate(TRACEPOINT)),
    ];
    let parts: Vec<CostPart> = parts.into_iter().filter(|part| part.count > 0).collect();
    TraceCost { share: share(&parts, meta.cpu_s), parts }
}

/// What a sample of an event costs on a machine, where its profile says.
pub fn sample_ns(machine: &MachineId, event: &str) -> Option<Estimate> {
    price(&profile::load(machine).ok().flatten()?, event)
}

/// Of exactly this event: what it is called otherwise (`:pp`, `cpu/…/`) may be another mechanism.
fn price(profile: &MachineProfile, event: &str) -> Option<Estimate> {
    profile.calibrations.iter().find(|found| found.event == event).map(|found| found.alpha_ns)
}

/// Of the CPU time that there would have been without; the kernel's records of other programs are in it, so it is at most that.
fn share(parts: &[CostPart], cpu_s: f64) -> Option<Estimate> {
    let priced = parts.iter().filter_map(|part| Some(part.each_ns?.scaled(part.count as f64 * 1e-9)));
    let all = priced.reduce(|all, part| all.plus(&part))?;
    let without = |cost: f64| cost / (cpu_s - cost).max(cpu_s / 1000.0);
    (cpu_s > 0.0).then(|| Estimate::new(without(all.estimate), without(all.low), without(all.high)))
}
