//! The cells of a grid: which can be had here, and which cannot.

use std::collections::BTreeMap;

use perftax_cost::period::CPU_CLOCK_PERIOD_MIN_NS;
use perftax_doc::Mechanism;
use perftax_doc::{MatrixImpossible, MatrixKey, MatrixMode};
use perftax_pmu::event::{Catalog, Event, parse};
use perftax_pmu::{Error, Result};

use super::event_set::EventSet;
use super::watch::{Monitors, Watch};

/// What is to be crossed with what.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Names of the programs.
    pub workloads: Vec<String>,
    /// Modes.
    pub modes: Vec<MatrixMode>,
    /// Sets of events.
    pub sets: Vec<EventSet>,
    /// How many events of a set.
    pub events: Vec<u32>,
    /// How many copies of a program.
    pub instances: Vec<u32>,
    /// What periods are divided by.
    pub divisors: Vec<u64>,
    /// Who watches.
    pub monitors: Monitors,
    /// Pages of a ring.
    pub ring_pages: usize,
}

/// A cell that can be measured.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Which.
    pub key: MatrixKey,
    /// What watches the program; nothing in the A/A cell.
    pub watch: Option<Watch>,
}

/// The cells that can be measured, and those that cannot.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    /// In the order of the grid; an A/A cell for each program and number of instances.
    pub planned: Vec<Planned>,
    /// With the reason, once for all programs and instances.
    pub impossible: Vec<MatrixImpossible>,
}

impl Grid {
    /// Crosses everything with everything, and tries each event on the kernel.
    ///
    /// # Errors
    /// Where a set holds what is no event at all.
    pub fn cells(&self, catalog: &Catalog) -> Result<Cells> {
        let mut cells = Cells::default();
        let mut watches: BTreeMap<(MatrixMode, String, u64, u32), Watch> = BTreeMap::new();
        for set in &self.sets {
            for &mode in &self.modes {
                let available = self.available(set, mode, catalog)?;
                let divisors: &[u64] = if mode.samples() { &self.divisors } else { &[0] };
                for (&divisor, &events) in divisors.iter().flat_map(|divisor| self.events.iter().map(move |n| (divisor, n))) {
                    match self.watch(set, mode, divisor, events, &available) {
                        Ok(watch) => {
                            watches.insert((mode, set.name.clone(), divisor, events), watch);
                        }
                        Err(why) => cells.impossible.push(MatrixImpossible {
                            mode,
                            set: set.name.clone(),
                            events,
                            divisor,
                            cells: (self.workloads.len() * self.instances.len()) as u32,
                            why,
                        }),
                    }
                }
            }
        }
        for workload in &self.workloads {
            let key = |mode, set: &str, instances, divisor, events| MatrixKey {
                workload: workload.clone(),
                mode,
                set: set.into(),
                instances,
                divisor,
                events,
            };
            let alone = self.instances.iter().map(|&n| Planned { key: key(MatrixMode::Off, "", n, 0, 0), watch: None });
            cells.planned.extend(alone);
            for ((mode, set, divisor, events), watch) in &watches {
                let watched = |&n: &u32| Planned { key: key(*mode, set, n, *divisor, *events), watch: Some(watch.clone()) };
                cells.planned.extend(self.instances.iter().map(watched));
            }
        }
        cells.planned.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(cells)
    }

    /// The set's events that the mode can have, each with its period before it is divided; or why the one at that place cannot be had.
    fn available(&self, set: &EventSet, mode: MatrixMode, catalog: &Catalog) -> Result<Vec<Result<(Event, u64), String>>> {
        if let Some(why) = set.foreign_to(catalog.vendor()) {
            return Ok(vec![Err(why)]);
        }
        let texts = set.events.iter().filter_map(|event| {
            let text = if mode == MatrixMode::Pebs { event.precise.as_ref()? } else { &event.event };
            Some((text, event.period))
        });
        texts.map(|(text, period)| or_why(self.try_out(text, period, mode, catalog))).collect()
    }

    fn try_out(&self, text: &str, period: u64, mode: MatrixMode, catalog: &Catalog) -> Result<(Event, u64)> {
        let mut events = parse(text, catalog)?;
        let Some(event) = events.pop().filter(|_| events.is_empty()) else {
            return Err(Error::EventSyntax { text: text.into(), why: "a set has one event in each entry".into() });
        };
        event.check_supported(catalog)?;
        let refused = |what: &str, why: &str| Error::Unsupported {
            what: format!("{what} {text}"),
            why: why.into(),
            remedy: "-g core: events of a core's counters".into(),
        };
        let is_of_core = matches!(event.mechanism, Mechanism::Pmi | Mechanism::Pebs);
        match mode {
            MatrixMode::Pebs if event.mechanism != Mechanism::Pebs => {
                return Err(refused("sample by PEBS", "it is no event of an Intel core's counters"));
            }
            MatrixMode::Lbr if !is_of_core => {
                return Err(refused("have branches with", "only events of a core's counters bring branch records"));
            }
            _ => {}
        }
        let watch =
            Watch { mode, monitors: self.monitors, events: vec![(event.clone(), Some(period))], ring_pages: self.ring_pages };
        watch.check()?;
        Ok((event, period))
    }

    fn watch(
        &self,
        set: &EventSet,
        mode: MatrixMode,
        divisor: u64,
        events: u32,
        available: &[Result<(Event, u64), String>],
    ) -> Result<Watch, String> {
        let wanted = events as usize;
        let first = &available[..wanted.min(available.len())];
        let mut opened = Vec::new();
        for event in first {
            let (event, period) = event.as_ref().map_err(Clone::clone)?;
            let divided = period / divisor.max(1);
            if mode.samples() && divided == 0 {
                return Err(format!("the period of {} is {period}, and cannot be divided by {divisor}", event.name));
            }
            if mode.samples() && event.mechanism.is_time_driven() && divided < CPU_CLOCK_PERIOD_MIN_NS {
                let least = CPU_CLOCK_PERIOD_MIN_NS;
                return Err(format!(
                    "the period of {} would be {divided} ns, and the kernel takes no less than {least}",
                    event.name
                ));
            }
            opened.push((event.clone(), mode.samples().then_some(divided)));
        }
        match (opened.len(), mode) {
            (0, MatrixMode::Pebs) => Err(format!("set {} has no event with a form for PEBS", set.name)),
            (n, MatrixMode::Pebs) if n < wanted => Err(format!("set {} has {n} events with a form for PEBS", set.name)),
            (n, _) if n < wanted => Err(format!("set {} has {n} events", set.name)),
            _ => Ok(Watch { mode, monitors: self.monitors, events: opened, ring_pages: self.ring_pages }),
        }
    }
}

/// What this machine does not have is a reason; what is no event at all is an error.
fn or_why<T>(tried: Result<T>) -> Result<Result<T, String>> {
    match tried {
        Ok(found) => Ok(Ok(found)),
        Err(error @ Error::EventSyntax { .. }) => Err(error),
        Err(Error::Unsupported { what, why, .. }) => Ok(Err(format!("cannot {what}: {why}"))),
        Err(error @ (Error::Permission { .. } | Error::UnknownEvent { .. })) => {
            Ok(Err(error.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ")))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn grid(modes: &[MatrixMode], events: &[u32]) -> Grid {
        let set = |name: &str, events: &[(&str, u64)]| {
            let head = format!("name = '{name}'\ndescription = 'd'\nsource = 's'\n");
            let list: String = events.iter().map(|(e, p)| format!("[[event]]\nevent = '{e}'\nperiod = {p}\n")).collect();
            EventSet::parse(&(head + &list), "test").unwrap()
        };
        Grid {
            workloads: vec!["a".into(), "b".into()],
            modes: modes.to_vec(),
            sets: vec![set("soft", &[("cpu-clock", 1_000_000), ("page-faults", 10), ("context-switches", 1)])],
            events: events.to_vec(),
            instances: vec![1, 2],
            divisors: vec![1, 10],
            monitors: Monitors::Each,
            ring_pages: 8,
        }
    }

    #[test]
    fn everything_is_crossed_and_each_program_has_its_control() {
        let cells = grid(&[MatrixMode::Counting, MatrixMode::Sampling], &[1, 2]).cells(&Catalog::of_this_machine()).unwrap();
        let of = |mode: MatrixMode| cells.planned.iter().filter(|cell| cell.key.mode == mode).count();
        // Counting has no periods: 2 programs × 2 numbers of events × 2 of instances; sampling has two.
        assert_eq!((of(MatrixMode::Off), of(MatrixMode::Counting), of(MatrixMode::Sampling)), (4, 8, 16));
        assert!(cells.impossible.is_empty(), "{:?}", cells.impossible);
        let sampled = cells.planned.iter().find(|cell| (cell.key.divisor, cell.key.events) == (10, 2)).unwrap();
        let watch = sampled.watch.as_ref().unwrap();
        let events: Vec<_> = watch.events.iter().map(|(event, period)| (event.name.as_str(), *period)).collect();
        assert_eq!(events, [("cpu-clock", Some(100_000)), ("page-faults", Some(1))]);
    }

    #[test]
    fn what_cannot_be_had_says_why() {
        let cells = grid(&MatrixMode::WATCHING, &[1, 3, 4]).cells(&Catalog::of_this_machine()).unwrap();
        let why = |mode: MatrixMode, events: u32, divisor: u64| {
            let row = cells.impossible.iter().find(|row| (row.mode, row.events, row.divisor) == (mode, events, divisor));
            row.map(|row| row.why.clone()).unwrap_or_default()
        };
        assert_eq!(why(MatrixMode::Counting, 4, 0), "set soft has 3 events");
        assert_eq!(why(MatrixMode::Sampling, 3, 1), "");
        assert_eq!(why(MatrixMode::Sampling, 3, 10), "the period of context-switches is 1, and cannot be divided by 10");
        assert!(why(MatrixMode::Lbr, 1, 1).contains("only events of a core's counters"), "{:?}", cells.impossible);
        assert_eq!(why(MatrixMode::Pebs, 1, 10), "set soft has no event with a form for PEBS");
        assert!(cells.impossible.iter().all(|row| row.cells == 4));
    }
}
