//! Kernels that must not be sampled in some way, or count wrongly: what is known, by version, with its sources.

use serde::Serialize;

use super::{Fact, Group, Machine, Probe};

/// A fault of a range of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KnownFault {
    /// What it is called here.
    pub name: &'static str,
    /// The first version that has it (major, minor).
    pub from: (u32, u32),
    /// The first version of which all kernels are without it; stable kernels below it may have had the fix earlier.
    pub before: (u32, u32),
    /// What happens, and when.
    pub what: &'static str,
    /// How perftax goes about it.
    pub our_way: &'static str,
    /// The change that made it, the change that mended it, and where it was seen.
    pub sources: &'static [&'static str],
}

impl KnownFault {
    /// An event that is disabled after a number of overflows (PERF_EVENT_IOC_REFRESH, as a signal for each sample is had) is stopped in its own timer's handler, which waits for itself.
    pub const CLOCK_REFRESH_FREEZES: Self = Self {
        name: "cpu-clock with REFRESH freezes the machine",
        from: (6, 16),
        before: (6, 18),
        what: "a cpu-clock or task-clock event that PERF_EVENT_IOC_REFRESH lets overflow a number of times cancels its timer in the timer's own handler: the CPU \
               stands still for ever",
        our_way: "perftax never uses REFRESH; profilers that do (async-profiler before 4.2.1) must not run on this kernel with a clock",
        sources: &[
            "Linux eb3182ef0405 (perf/core: system hang caused by cpu-clock usage), tip of 2025-11-03",
            "async-profiler issue 1578: 6.17.1 and 6.17.6 freeze, 6.15.4 does not; pull request 1599: 6.16 and 6.17",
        ],
    };

    /// Counting (not sampling) it gives 0.
    pub const COUNTED_CLOCK_IS_0: Self = Self {
        name: "a counted cpu-clock is 0",
        from: (6, 16),
        before: (6, 19),
        what: "cpu-clock that is counted and not sampled stays at 0: stopping it no longer brings it up to date",
        our_way: "perftax counts task-clock instead; a row of audit that counts cpu-clock says so",
        sources: &[
            "Linux bc4394e5e79c (6.16) made it, f1f96511b1c4 (2025-11-12) mended it; stable kernels of 6.17 and 6.18 have had the fix since",
        ],
    };

    /// All of them.
    pub const ALL: [Self; 2] = [Self::CLOCK_REFRESH_FREEZES, Self::COUNTED_CLOCK_IS_0];

    /// Whether a kernel of this release may have it. One whose release says no version may.
    pub fn may_be_in(&self, release: &str) -> bool {
        version(release).is_none_or(|version| (self.from..self.before).contains(&version))
    }
}

/// `6.12.22-amd64` as 6 and 12.
pub(crate) fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl Machine {
    /// The faults that this machine's kernel has: those of its version, but for what was tried and found well.
    pub fn known_faults(&self, probe: &dyn Probe) -> Vec<KnownFault> {
        let is_well = |fault: &KnownFault| *fault == KnownFault::COUNTED_CLOCK_IS_0 && probe.counts_the_clock() == Some(true);
        KnownFault::ALL.into_iter().filter(|fault| fault.may_be_in(&self.kernel) && !is_well(fault)).collect()
    }
}

/// The faults, as facts.
pub(super) fn facts(machine: &Machine, probe: &dyn Probe) -> Vec<Fact> {
    let fact = |fault: KnownFault| {
        let meaning = format!("{}; {} ({})", fault.what, fault.our_way, fault.sources.join("; "));
        Fact::new(Group::Noise, "known fault of this kernel", fault.name, meaning)
    };
    machine.known_faults(probe).into_iter().map(fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_decide() {
        let freezes = KnownFault::CLOCK_REFRESH_FREEZES;
        for (release, is_in) in
            [("6.15.4-200.fc42.x86_64", false), ("6.16.0", true), ("6.17.6-300.fc43.x86_64", true), ("6.18.44-fc-v782", false)]
        {
            assert_eq!(freezes.may_be_in(release), is_in, "{release}");
        }
        assert!(KnownFault::COUNTED_CLOCK_IS_0.may_be_in("6.18.1") && !KnownFault::COUNTED_CLOCK_IS_0.may_be_in("6.19.0-rc1"));
        // What cannot be read is not trusted.
        assert!(freezes.may_be_in("unknown"));
        assert!(KnownFault::ALL.iter().all(|fault| fault.from < fault.before && !fault.sources.is_empty()));
    }
}
