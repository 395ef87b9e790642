//! What watching costs the program that is watched.

use perftax_doc::{CommCost, Estimate};

/// What traps cost, and what they may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// One, ns.
    pub trap_ns: Option<Estimate>,
    /// The share of the program's CPU time that all may take.
    pub budget: Option<f64>,
}

impl Price {
    /// What so many traps, and our own CPU time, took beside a program's own CPU time; registers were on for `on_ns` of `elapsed_ns`.
    pub fn cost(self, traps: u64, own_ns: u64, cpu_ns: Option<u64>, on_ns: u64, elapsed_ns: u64) -> CommCost {
        let cpu_ns = cpu_ns.unwrap_or(0) as f64;
        let of = |trap_ns: f64| {
            let traps_ns = traps as f64 * trap_ns;
            // Traps are in the program's own CPU time. What it would have used without them cannot be less than nothing.
            (traps_ns < cpu_ns).then(|| (traps_ns + own_ns as f64) / (cpu_ns - traps_ns))
        };
        let overhead = self.trap_ns.and_then(|trap| Some(Estimate::new(of(trap.estimate)?, of(trap.low)?, of(trap.high)?)));
        CommCost {
            trap_ns: self.trap_ns,
            armed: if elapsed_ns > 0 { (on_ns as f64 / elapsed_ns as f64).min(1.0) } else { 0.0 },
            budget: self.budget,
            overhead,
            own_s: Some(own_ns as f64 * 1e-9),
            probes: 0,
        }
    }
}
