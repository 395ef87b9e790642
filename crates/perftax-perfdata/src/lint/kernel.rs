//! Kernels whose samples or counts are known to be wrong.

use super::check::{Check, Judgement, Rule, Unit, Whole};
use crate::recording::{EventCounts, Recording};

pub(super) struct Kernel;

static RULE: Rule = Rule {
    name: "kernel",
    measures: "known faults of the kernel that touch this recording",
    unit: Unit::Count,
    warning: Some(1.0),
    error: None,
    source: "the list in lint/kernel.rs, each with its commit or manual page",
};

/// A fault of some kernels.
struct Fault {
    /// The first version that has it, and the first that has it no more.
    versions: std::ops::Range<(u32, u32, u32)>,
    /// Whether an event of a recording is touched.
    touches: fn(&Recording, &EventCounts) -> bool,
    what: &'static str,
    effect: &'static str,
}

static FAULTS: [Fault; 4] = [
    Fault {
        // bc4394e5e79c (6.16) stopped updating cpu-clock's count where the event is stopped; f1f96511b1c4 (6.18) mends it.
        versions: (6, 16, 0)..(6, 18, 0),
        touches: |_, event| event.attribute.generic_name() == Some("cpu-clock") && event.running().is_some(),
        what: "Linux 6.16 and 6.17 leave the count of cpu-clock at 0 (bc4394e5e79c)",
        effect: "counts and times of cpu-clock in READ records are none; its samples are right",
    },
    Fault {
        // a3c3c66670ce (6.15, and later stable releases of older ones): time enabled of a child at its end.
        versions: (5, 13, 0)..(6, 15, 0),
        touches: |_, event| event.attribute.inherit && event.running().is_some_and(|running| running < 0.999),
        what: "from Linux 5.13 to 6.14 the time that an inherited event was enabled may be too small of tasks that ended, unless its stable release has \
               a3c3c66670ce",
        effect: "counts scaled by time enabled over time running are too small for programs of many short tasks",
    },
    Fault {
        // perf_event_open(2), BUGS.
        versions: (2, 6, 31)..(2, 6, 34),
        touches: |_, event| !event.attribute.needs_no_counter() && event.running().is_some_and(|running| running < 0.999),
        what: "before Linux 2.6.34 multiplexed events could have wrong counts (perf_event_open(2))",
        effect: "scaled counts may be wrong by any amount",
    },
    Fault {
        versions: (2, 6, 31)..(2, 6, 35),
        touches: |recording, event| {
            let is_amd = recording.features.cpuid.starts_with("AuthenticAMD");
            is_amd && event.attribute.generic_name() == Some("branches")
        },
        what: "before Linux 2.6.35 branches counted something else on AMD (perf_event_open(2))",
        effect: "samples of branches are of other instructions",
    },
];

impl Check for Kernel {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let release = &whole.recording.features.kernel;
        let Some(version) = version(release) else {
            return Judgement::unknown("the header does not name the kernel");
        };
        let touched = |fault: &&Fault| {
            fault.versions.contains(&version)
                && whole.recording.events.iter().any(|event| (fault.touches)(whole.recording, event))
        };
        let found: Vec<&Fault> = FAULTS.iter().filter(touched).collect();
        let Some(first) = found.first() else {
            return Judgement::none(format!("no known fault of Linux {release} touches this recording"));
        };
        Judgement::measured(
            found.len() as f64,
            format!("recorded on Linux {release}: {}", first.what),
            first.effect,
            "record with a later kernel, or leave the event out",
        )
    }
}

/// The three numbers of a release; the last is 0 where it has none.
fn version(release: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next().and_then(Result::ok).unwrap_or(0)))
}
