//! A cell: pairs of runs in random order until its overhead is known well enough.

use std::time::{Duration, Instant};

use perftax_cost::matrix::{Overhead, VARIATION_LIMIT, adjust};
use perftax_doc::{MatrixCell, MatrixEvent, MatrixPair, MatrixPilot};
use perftax_pmu::sys::Reading;
use perftax_pmu::{Error, Result};

use super::grid::Planned;
use super::instances::{Instances, Ran};
use super::watch::Seen;

/// When a cell ends.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Half-width of the overhead that is asked for, a fraction.
    pub precision: f64,
    /// Pairs that are made in any case.
    pub least_pairs: u32,
    /// Pairs after which it ends in any case.
    pub most_pairs: u32,
    /// When it ends once it has the least pairs.
    pub until: Instant,
}

/// How many times the pilot's time a run may take: a program sampled so often that it hardly advances must not hold up the grid.
const SLOWEST: f64 = 20.0;
/// What a run may take in any case.
const SHORTEST_LIMIT: Duration = Duration::from_secs(5);
/// For how long a pilot's run is waited.
const PILOT_LIMIT: Duration = Duration::from_secs(3600);

/// Runs a program unmonitored so often.
///
/// # Errors
/// Where it fails.
pub fn pilot(instances: &Instances, runs: u32) -> Result<MatrixPilot> {
    let mut elapsed_s = Vec::new();
    for _ in 0..runs {
        match instances.run(None, PILOT_LIMIT)? {
            Ran::Done(run, _) => elapsed_s.push(mean(&run.elapsed_s)),
            Ran::Stopped => {
                return Err(Error::Discarded {
                    why: format!("{} was not done after {} s, unmonitored", instances.command.name, PILOT_LIMIT.as_secs()),
                    remedy: "a smaller input: a cell takes a dozen runs at the least".into(),
                });
            }
        }
    }
    Ok(MatrixPilot {
        workload: instances.command.name.clone(),
        command: instances.command.words(),
        instances: instances.cpus.len() as u32,
        elapsed_s,
    })
}

/// Makes pairs until the goal is reached; `each` is told of the pairs and the half-width after every one.
///
/// A program that fails, or an event that cannot be opened after all, excludes the cell, with the reason.
///
/// # Errors
/// On a signal.
pub fn measure(
    planned: &Planned,
    instances: &Instances,
    pilot_s: f64,
    goal: &Goal,
    rng: &mut fastrand::Rng,
    mut each: impl FnMut(u32, Option<f64>),
) -> Result<MatrixCell> {
    let limit = Duration::from_secs_f64(pilot_s * SLOWEST).max(SHORTEST_LIMIT);
    let (mut pairs, mut seen, mut ended) = (Vec::new(), Vec::new(), None);
    while (pairs.len() as u32) < goal.most_pairs {
        let (pair, of_pair) = match pair(planned, instances, limit, rng) {
            Ok(Some(pair)) => pair,
            Ok(None) => {
                let limit_s = limit.as_secs_f64();
                ended = Some(format!("a run took more than {limit_s:.0} s ({SLOWEST:.0} times the pilot's) and was ended"));
                break;
            }
            Err(error @ Error::Interrupted(_)) => return Err(error),
            // The other cells may well be had.
            Err(error) => {
                ended = Some(error.in_one_line());
                break;
            }
        };
        pairs.push(pair);
        seen.push(of_pair);
        if instances.reference_loops {
            adjust(&mut pairs);
        }
        let half_width = Overhead::of(&pairs).map(|found| found.overhead.half_width());
        each(pairs.len() as u32, half_width);
        let is_narrow = half_width.is_some_and(|half_width| half_width <= goal.precision);
        let usable = pairs.iter().filter(|pair| pair.counts()).count() as u32;
        if usable >= goal.least_pairs && (is_narrow || Instant::now() >= goal.until) {
            break;
        }
    }
    let mut cell = concluded(planned, goal, pairs, &seen);
    cell.excluded = ended.or(cell.excluded);
    Ok(cell)
}

/// An unmonitored and a monitored run, whichever first. None where one had to be ended.
fn pair(
    planned: &Planned,
    instances: &Instances,
    limit: Duration,
    rng: &mut fastrand::Rng,
) -> Result<Option<(MatrixPair, Seen)>> {
    let is_off_first = rng.bool();
    let (mut off, mut on) = (None, None);
    for is_off in [is_off_first, !is_off_first] {
        let watch = planned.watch.as_ref().filter(|_| !is_off);
        match instances.run(watch, limit)? {
            Ran::Stopped => return Ok(None),
            Ran::Done(run, _) if is_off => off = Some(run),
            Ran::Done(run, seen) => on = Some((run, seen)),
        }
    }
    Ok(off.zip(on).map(|(off, (on, seen))| (MatrixPair { off, on }, seen)))
}

/// The cell that these pairs make; `seen` of each pair.
fn concluded(planned: &Planned, goal: &Goal, pairs: Vec<MatrixPair>, seen: &[Seen]) -> MatrixCell {
    let overhead = Overhead::of(&pairs);
    let usable: Vec<&Seen> = pairs.iter().zip(seen).filter(|(pair, _)| pair.counts()).map(|(_, seen)| seen).collect();
    let sum = |of: fn(&Seen) -> u64| usable.iter().map(|seen| of(seen)).sum::<u64>();
    let per_run = |sum: u64| sum as f64 / usable.len().max(1) as f64;
    let events = planned.watch.iter().flat_map(|watch| &watch.events);
    let watched: Vec<(MatrixEvent, f64)> = events
        .enumerate()
        .map(|(at, (event, period))| {
            let of = |get: fn(&Reading) -> u64| usable.iter().filter_map(|seen| seen.events.get(at)).map(get).sum::<u64>();
            let (value, enabled, running) = (of(|r| r.value), of(|r| r.time_enabled_ns), of(|r| r.time_running_ns));
            let running = if enabled == 0 { 1.0 } else { running as f64 / enabled as f64 };
            let counted = per_run(value);
            // By PEBS, too: the kernel adds a period to the count for each record, and what a record is of is one event more.
            let expected = period.map_or(0.0, |period| value as f64 / period as f64);
            (MatrixEvent { event: event.name.clone(), mechanism: event.mechanism, period: *period, counted, running }, expected)
        })
        .collect();
    let is_group = planned.watch.as_ref().is_some_and(|watch| watch.one_group);
    let excluded = match overhead {
        // Such a group is on no counter: something else has one of those that it needs.
        Some(_) if is_group && watched.iter().any(|(event, _)| event.running == 0.0) => {
            Some("its group was on the counters for 0 % of the time: nothing was counted or sampled".into())
        }
        None => Some(format!("{} of {} pairs count, two are needed", usable.len(), pairs.len())),
        Some(found) if found.variation > VARIATION_LIMIT => {
            Some(format!("its runs vary by {:.1} %, more than {:.0} %", found.variation * 100.0, VARIATION_LIMIT * 100.0))
        }
        Some(_) => None,
    };
    MatrixCell {
        key: planned.key.clone(),
        pairs: usable.len() as u32,
        discarded: (pairs.len() - usable.len()) as u32,
        unmonitored_s: overhead.map(|found| found.unmonitored_s),
        monitored_s: overhead.map(|found| found.monitored_s),
        overhead: overhead.map(|found| found.overhead),
        reached: overhead.is_some_and(|found| found.overhead.half_width() <= goal.precision),
        variation: overhead.map(|found| found.variation),
        excluded,
        // (The sum of nothing is −0.)
        expected_samples: watched.iter().map(|(_, expected)| expected).sum::<f64>() + 0.0,
        watched: watched.into_iter().map(|(event, _)| event).collect(),
        samples: sum(|seen| seen.samples),
        lost: sum(|seen| seen.lost),
        throttled: sum(|seen| seen.throttled),
        record_bytes: per_run(sum(|seen| seen.record_bytes)),
        reader_s: per_run(sum(|seen| seen.reader_ns)) * 1e-9,
        observations: pairs,
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::matrix::{EventSet, Grid, Monitors, Watch};
    use crate::run::Command;
    use perftax_doc::{MatrixKey, MatrixMode, MatrixRun};
    use perftax_pmu::event::Catalog;
    use perftax_pmu::sys::Stdio;

    fn goal(precision: f64, pairs: (u32, u32)) -> Goal {
        Goal { precision, least_pairs: pairs.0, most_pairs: pairs.1, until: Instant::now() + Duration::from_secs(60) }
    }

    /// A cell of a shell that works a little, under a set of one event.
    fn cell(mode: MatrixMode, monitors: Monitors, event: &str, period: u64, instances: u32) -> MatrixCell {
        let head = "name = 's'\ndescription = 'd'\nsource = 's'\n";
        let set = EventSet::parse(&format!("{head}[[event]]\nevent = '{event}'\nperiod = {period}"), "test").unwrap();
        let grid = Grid {
            workloads: vec!["sh".into()],
            modes: vec![mode],
            sets: vec![set],
            events: vec![1],
            instances: vec![instances],
            divisors: vec![1],
            monitors,
            one_group: false,
            skip_missing: false,
            ring_pages: 64,
            generation: None,
        };
        let cells = grid.cells(&Catalog::of_this_machine()).unwrap();
        assert!(cells.impossible.is_empty(), "{:?}", cells.impossible);
        let planned = cells.planned.into_iter().find(|cell| cell.key.mode == mode).unwrap();
        let work = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; for i in 1 2 3 4 5; do (true); done";
        let command = Command::from_argv(["sh", "-c", work].map(Into::into).to_vec(), Stdio::Discard);
        let instances = Instances::placed(&command, instances, &perftax_pmu::guard::allowed_cpus().unwrap(), false);
        measure(&planned, &instances, 1.0, &goal(1e-9, (2, 3)), &mut fastrand::Rng::with_seed(1), |_, _| ()).unwrap()
    }

    #[test]
    fn every_sample_that_is_due_arrives_whoever_watches() {
        for (monitors, instances) in [(Monitors::Each, 2), (Monitors::One, 2), (Monitors::Cpus, 1)] {
            let cell = cell(MatrixMode::Sampling, monitors, "page-faults:u", 10, instances);
            assert!(cell.observations.len() == 3 && !cell.reached, "{monitors:?}: {cell:?}");
            // Each process that is forked begins and ends in the middle of a period.
            let missing = cell.expected_samples - cell.samples as f64;
            assert!(cell.samples > 20 && missing.abs() <= 30.0 * f64::from(instances), "{monitors:?}: {cell:#?}");
            assert!(cell.record_bytes >= 32.0 * cell.samples as f64 / 3.0 && cell.lost == 0, "{cell:?}");
            assert_eq!(cell.watched[0].running, 1.0, "{cell:?}");
        }
    }

    #[test]
    fn counting_counts_and_brings_no_records() {
        let cell = cell(MatrixMode::Counting, Monitors::Each, "page-faults", 10, 1);
        assert!(cell.watched[0].counted > 50.0 && cell.samples == 0 && cell.expected_samples == 0.0, "{cell:?}");
        assert_eq!((cell.record_bytes, cell.bytes_per_s()), (0.0, None));
    }

    /// Two pairs of a cell of two events, of which the second one counted for so many of 100 ns.
    fn of_pairs(one_group: bool, running_ns: u64) -> MatrixCell {
        let run = |elapsed_s: f64| MatrixRun { elapsed_s: vec![elapsed_s], ..MatrixRun::default() };
        let pairs = [1.0, 1.01].map(|elapsed_s| MatrixPair { off: run(elapsed_s), on: run(1.02 * elapsed_s) }).to_vec();
        let reading = |time_running_ns| Reading { value: 5, time_enabled_ns: 100, time_running_ns, lost: 0 };
        let seen = Seen { events: vec![reading(running_ns), reading(running_ns)], ..Seen::default() };
        let events = perftax_pmu::event::parse("page-faults,cpu-clock", &Catalog::of_this_machine()).unwrap();
        let events = events.into_iter().map(|event| (event, None)).collect();
        let watch = Watch { mode: MatrixMode::Counting, monitors: Monitors::Each, one_group, events, ring_pages: 8 };
        let (mode, set) = (MatrixMode::Counting, "s".into());
        let key = MatrixKey { workload: "w".into(), mode, set, instances: 1, divisor: 0, events: 2 };
        concluded(&Planned { key, watch: Some(watch) }, &goal(0.02, (2, 2)), pairs, &[seen.clone(), seen])
    }

    #[test]
    fn a_group_that_was_never_on_is_no_overhead_of_its_events() {
        let why = of_pairs(true, 0).excluded.unwrap();
        assert!(why.contains("its group was on the counters for 0 % of the time"), "{why}");
        assert!(of_pairs(true, 100).excluded.is_none() && of_pairs(false, 0).excluded.is_none());
    }
}
