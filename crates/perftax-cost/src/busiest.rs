//! The task of a program that uses the most CPU time: what sampling takes of it may be more than the program's average says, where the others are too
//! short to be sampled, or have fewer events.

use perftax_doc::Estimate;
use perftax_doc::tasks::Busiest;

use crate::setting::{Setting, Watched};
use crate::tasks::driving;

/// What sampling takes of its CPU time, a fraction; none where what drives the sampler was not counted in it.
///
/// Of each second it is the samples that the task's own second gives, at `sampled_s` seconds for each unit of what drives the sampler where it gives samples, at
/// `counted_s` for each unit in any case, and `beside`: what all else (switches, the coming and going of tasks) takes of a second of the program's, which
/// nobody has told apart by tasks. `rate`: samples a unit.
pub fn overhead(
    busiest: &Busiest,
    setting: &Setting,
    rate: f64,
    sampled_s: &Estimate,
    counted_s: &Estimate,
    beside: &Estimate,
) -> Option<Estimate> {
    let driving = driving(setting.drive, setting.event, &busiest.cpu_s, &busiest.counts)?;
    let cpu_s = busiest.cpu_s.total();
    if cpu_s <= 0.0 {
        return None;
    }
    let seen = match setting.watched {
        Watched::Program { .. } => driving.seen(rate),
        Watched::Cpus => Estimate::exact(1.0),
    };
    let density = driving.total() / cpu_s;
    Some(sampled_s.scaled(density).at_share(&seen).plus(&counted_s.scaled(density)).plus(beside))
}
