//! How many of a program's samples a filter leaves out ([`LeftOut`]).

use perftax_doc::observation::Run;
use perftax_doc::{CONFIDENCE, Estimate, LeftOut, WorkloadProfile};

use crate::bootstrap::normal_quantile;

/// From one look at the mode to the next: the longest tick that Linux has (CONFIG_HZ=100). A kernel that looks more often knows better.
const TICK_S: f64 = 0.01;

/// The share of a program's interrupts whose sample is dropped: that of its CPU time in the mode, by its unmonitored runs.
pub fn share(left_out: LeftOut, workload: &WorkloadProfile) -> Estimate {
    let sum = |of: fn(&Run) -> f64| -> f64 { workload.measured_runs().into_iter().map(of).sum() };
    share_of(left_out, sum(|run| run.user_s), sum(|run| run.system_s))
}

/// The same of so much CPU time in each mode, as getrusage(2) tells; nothing where there was none, which nothing interrupts.
///
/// Most kernels tell the modes apart by looking at every tick (kernel/sched/cputime.c, account_process_tick, cputime_adjust), so the share is
/// one of a number of looks, and its interval is a binomial's (Agresti and Coull's). Work that repeats in step with the tick is seen at the
/// same few places, which no interval tells.
pub fn share_of(left_out: LeftOut, user_s: f64, system_s: f64) -> Estimate {
    let dropped_s = match left_out {
        LeftOut::Nothing => return Estimate::exact(0.0),
        LeftOut::KernelMode => system_s,
        LeftOut::UserMode => user_s,
    };
    let looks = (user_s + system_s) / TICK_S;
    if looks <= 0.0 {
        return Estimate::exact(0.0);
    }
    let z = normal_quantile(CONFIDENCE);
    let share = dropped_s / (user_s + system_s);
    let about = (share * looks + z * z / 2.0) / (looks + z * z);
    let half = z * (about * (1.0 - about) / (looks + z * z)).sqrt();
    Estimate::new(share, (about - half).clamp(0.0, share), (about + half).clamp(share, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_in_the_mode() {
        assert_eq!(share_of(LeftOut::KernelMode, 1.0, 3.0).estimate, 0.75);
        assert_eq!(share_of(LeftOut::UserMode, 1.0, 3.0).estimate, 0.25);
        assert_eq!(share_of(LeftOut::Nothing, 1.0, 3.0), Estimate::exact(0.0));
        assert_eq!(share_of(LeftOut::KernelMode, 0.0, 0.0), Estimate::exact(0.0));
    }

    /// A mode that no look has seen may have been there between two.
    #[test]
    fn shares_are_known_as_well_as_they_were_looked_at() {
        let long = share_of(LeftOut::KernelMode, 50.0, 50.0);
        assert!((long.half_width() - 0.0098).abs() < 1e-4, "{long:?}");
        let short = share_of(LeftOut::KernelMode, 0.1, 0.0);
        assert!(short.estimate == 0.0 && short.low == 0.0 && (0.2..0.4).contains(&short.high), "{short:?}");
        let all = share_of(LeftOut::KernelMode, 0.0, 0.1);
        assert!(all.estimate == 1.0 && all.high == 1.0 && all.low < 0.8, "{all:?}");
    }
}
