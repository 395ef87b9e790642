//! Two events over a program's run, at fixed intervals of a third one.

use std::time::Duration;

use perftax_doc::PhaseInterval;
use perftax_doc::steps::{Emulation, Experiment, Operation};
use perftax_pmu::event::{Catalog, Event, Retired};
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::record::{Record, Sample, decode};
use perftax_pmu::sampler::{Delivered, GroupCounts, GroupSampler, ring_pages_within_rights};
use perftax_pmu::{Error, Result};

use crate::run::{Command, succeeded};

/// What is counted over a run.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The event that ends an interval.
    pub every: Event,
    /// After how many of it.
    pub period: u64,
    /// The two events.
    pub events: [Event; 2],
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    /// The intervals in order; the last one is what was left at the end.
    pub intervals: Vec<PhaseInterval>,
    /// Counts of the whole run: the interval's event, then the two.
    pub counted: GroupCounts,
    /// What came out of the ring.
    pub delivered: Delivered,
}

/// Pages of the ring: sixteen thousand samples.
const RING_PAGES: usize = 512;
/// The longest time from one look at the ring to the next: how late the program's end is noticed.
const LOOK: Duration = Duration::from_millis(20);

impl Curve {
    /// Runs the command once under the group.
    ///
    /// # Errors
    /// Where an event cannot be opened, the group does not fit the counters, or the command fails.
    pub fn of(&self, command: &Command) -> Result<Curves> {
        let (_copy, mut child) = command.spawn()?;
        let ring_pages = ring_pages_within_rights(RING_PAGES, 1);
        let mut group = GroupSampler::on_exec(&self.every, self.period, &self.events, child.pid(), ring_pages)?;
        let ids = group.ids()?;
        let mut reading = Reading::new(ids);
        child.release()?;
        while !child.has_ended() {
            check_interrupted()?;
            reading.drain(&mut group)?;
            group.wait(LOOK)?;
        }
        reading.drain(&mut group)?;
        let exit = child.wait()?;
        succeeded(command, &exit)?;
        reading.finish(group.read()?)
    }
}

/// What an event that is named so in `phase` is on this machine: perf's generic names have none for taken branches.
///
/// # Errors
/// Where this machine's vendor has no such event that is known.
pub fn in_perfs_words(events: &str, catalog: &Catalog) -> Result<String> {
    const NAME: &str = "taken-branches";
    let mut out = String::new();
    for piece in events.split_inclusive([',', '{']) {
        let rest = piece.strip_prefix(NAME).filter(|rest| rest.is_empty() || rest.starts_with([':', ',', '}']));
        match rest {
            Some(rest) => {
                let event = Retired::Taken.in_perfs_words(NAME, catalog).ok_or_else(|| Error::Unsupported {
                    what: format!("count {NAME}"),
                    why: match catalog.core_pmu() {
                        Some(_) => format!("no event of {:?}'s is known to count them", catalog.vendor()),
                        None => format!("the kernel exposes no core PMU (nothing like {}/cpu)", catalog.devices().display()),
                    },
                    remedy: format!(
                        "{} shows the events of this machine; {} has an emulated PMU",
                        Operation::ListEvents,
                        Operation::Emulate(Emulation { experiment: Some(Experiment::Phase), ..Emulation::default() })
                    ),
                })?;
                out += &event;
                out += rest;
            }
            None => out += piece,
        }
    }
    Ok(out)
}

/// Samples as they come.
struct Reading {
    ids: Vec<u64>,
    /// Counts at the latest sample.
    before: [u64; 3],
    began_ns: Option<u64>,
    curves: Curves,
}

impl Reading {
    fn new(ids: Vec<u64>) -> Self {
        Self { ids, before: [0; 3], began_ns: None, curves: Curves::default() }
    }

    fn drain(&mut self, group: &mut GroupSampler) -> Result<()> {
        let layout = *group.layout();
        let mut outcome = Ok(());
        group.drain(|header, body| {
            self.curves.delivered.count(0, header, body);
            match decode(header, body, &layout) {
                Ok(Record::Sample(sample)) => self.take(&sample),
                Ok(_) => {}
                Err(error) => outcome = Err(error),
            }
        })?;
        outcome
    }

    fn take(&mut self, sample: &Sample) {
        let Some(counts) = sample.counts else { return };
        let mut now = self.before;
        for count in counts.iter() {
            if let Some(place) = self.ids.iter().position(|id| Some(*id) == count.id) {
                now[place] = count.value;
            }
        }
        let time_ns = sample.time_ns.unwrap_or(0);
        let began_ns = *self.began_ns.get_or_insert(time_ns);
        self.add(now, time_ns.saturating_sub(began_ns));
    }

    fn add(&mut self, now: [u64; 3], time_ns: u64) {
        let passed: [u64; 3] = std::array::from_fn(|i| now[i].saturating_sub(self.before[i]));
        let [passed, first, second] = passed;
        self.curves.intervals.push(PhaseInterval { until: now[0], passed, first, second, time_ns });
        self.before = now;
    }

    /// What is left from the latest sample to the program's end.
    fn finish(mut self, counted: GroupCounts) -> Result<Curves> {
        let now: [u64; 3] = std::array::from_fn(|i| counted.values.get(i).copied().unwrap_or(0));
        if counted.time_running_ns == 0 {
            return Err(Error::Discarded {
                why: "the events never got counters at once".into(),
                remedy: "close other profilers; sysctl kernel.nmi_watchdog=0 frees one counter; or other events".into(),
            });
        }
        let time_ns = self.curves.intervals.last().map_or(0, |interval| interval.time_ns);
        self.add(now, time_ns);
        self.curves.delivered.lost = self.curves.delivered.lost.max(counted.lost);
        self.curves.counted = counted;
        Ok(self.curves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_differences_and_the_rest_is_the_last() {
        let mut reading = Reading::new(vec![7, 8, 9]);
        reading.add([100, 10, 5], 0);
        reading.add([201, 14, 9], 40);
        let counted = GroupCounts { values: vec![250, 20, 9], time_enabled_ns: 100, time_running_ns: 100, lost: 2 };
        let curves = reading.finish(counted).unwrap();
        let of = |i: &PhaseInterval| (i.until, i.passed, i.first, i.second);
        assert_eq!(curves.intervals.iter().map(of).collect::<Vec<_>>(), [(100, 100, 10, 5), (201, 101, 4, 4), (250, 49, 6, 0)]);
        assert_eq!((curves.delivered.lost, curves.counted.values[1]), (2, 20));
    }

    #[test]
    fn a_group_that_never_counted_is_discarded() {
        let counted = GroupCounts { values: vec![0, 0, 0], time_enabled_ns: 100, time_running_ns: 0, lost: 0 };
        assert!(matches!(Reading::new(vec![1, 2, 3]).finish(counted), Err(Error::Discarded { .. })));
    }
}
