//! The cells of a grid: which can be had here, and which cannot.

use std::collections::BTreeMap;

use perftax_cost::period::CPU_CLOCK_PERIOD_MIN_NS;
use perftax_doc::Mechanism;
use perftax_doc::{MatrixImpossible, MatrixKey, MatrixMode, MatrixSkipped};
use perftax_pmu::event::{Catalog, Event, parse};
use perftax_pmu::machine::intel::Generation;
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
    /// Whether the events of a cell are one group.
    pub one_group: bool,
    /// Whether events that cannot be had are left out, and the next ones of their sets taken instead.
    pub skip_missing: bool,
    /// Pages of a ring.
    pub ring_pages: usize,
    /// Whose codes of events are taken: Intel's generation of this processor, where it is one and known.
    pub generation: Option<&'static Generation>,
}

/// IBS leaves the low bits of a period out, and the kernel refuses one that has them.
const IBS_PERIOD_STEP: u64 = 16;

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
    /// Events that were left out.
    pub skipped: Vec<MatrixSkipped>,
}

impl Grid {
    /// Crosses everything with everything, and tries each event on the kernel, or each group of them.
    ///
    /// # Errors
    /// Where a set holds what is no event at all.
    pub fn cells(&self, catalog: &Catalog) -> Result<Cells> {
        let mut cells = Cells::default();
        let mut watches: BTreeMap<(MatrixMode, String, u64, u32), Watch> = BTreeMap::new();
        for set in &self.sets {
            let of_mode = |&mode: &MatrixMode| Ok((mode, self.available(set, mode, catalog)?));
            let mut available = self.modes.iter().map(of_mode).collect::<Result<Vec<_>>>()?;
            if self.skip_missing && set.foreign_to(catalog.vendor()).is_none() {
                cells.skipped.extend(skip_missing(set, &mut available));
            }
            for (mode, available) in available {
                let divisors: &[u64] = if mode.samples() { &self.divisors } else { &[0] };
                for (&divisor, &events) in divisors.iter().flat_map(|divisor| self.events.iter().map(move |n| (divisor, n))) {
                    match self.watch(set, mode, divisor, events, &available)? {
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

    /// The set's events that the mode has a form for, by their places in the set, each with its period before it is divided, or why it cannot be had.
    fn available(&self, set: &EventSet, mode: MatrixMode, catalog: &Catalog) -> Result<Vec<Available>> {
        if let Some(why) = set.foreign_to(catalog.vendor()) {
            return Ok(vec![(0, Err(why))]);
        }
        let forms = set.events.iter().enumerate().filter_map(|(at, event)| {
            let form = event.form(mode, self.generation).transpose()?;
            Some((at, form, event.period))
        });
        forms
            .map(|(at, form, period)| {
                let tried = |text: String| or_why(self.try_out(&text, period, mode, catalog));
                Ok((at, form.map_or_else(|why| Ok(Err(why)), tried)?))
            })
            .collect()
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
            MatrixMode::Ibs if !matches!(event.mechanism, Mechanism::IbsOp | Mechanism::IbsFetch) => {
                return Err(refused("sample by IBS", "it is no event of AMD's instruction-based sampling"));
            }
            _ => {}
        }
        let alone = self.of_events(mode, vec![(event.clone(), Some(period))]);
        alone.check().map_err(|error| if mode == MatrixMode::Ibs { self.about_ibs(error) } else { error })?;
        Ok((event, period))
    }

    fn of_events(&self, mode: MatrixMode, events: Vec<(Event, Option<u64>)>) -> Watch {
        let (monitors, one_group, ring_pages) = (self.monitors, self.one_group, self.ring_pages);
        Watch { mode, monitors, one_group, events, ring_pages }
    }

    /// The kernel's answer, with what it may be about: it does not say.
    fn about_ibs(&self, error: Error) -> Error {
        match error {
            Error::Unsupported { what, why, remedy } if self.monitors != Monitors::Cpus => {
                let why = format!("{why}; before Linux 6.2 IBS samples whole CPUs alone, not a program");
                Error::Unsupported { what, why, remedy }
            }
            other => other,
        }
    }

    fn watch(
        &self,
        set: &EventSet,
        mode: MatrixMode,
        divisor: u64,
        events: u32,
        available: &[Available],
    ) -> Result<Result<Watch, String>> {
        let watch = self.of_first(set, mode, divisor, events, available);
        // Each event by itself was tried before.
        let tried = watch.map(|watch| if self.one_group { or_why(watch.check().map(|()| watch)) } else { Ok(Ok(watch)) });
        tried.unwrap_or_else(|why| Ok(Err(why)))
    }

    /// The first events of a set, with their periods.
    fn of_first(
        &self,
        set: &EventSet,
        mode: MatrixMode,
        divisor: u64,
        events: u32,
        available: &[Available],
    ) -> Result<Watch, String> {
        let wanted = events as usize;
        let first = &available[..wanted.min(available.len())];
        let mut opened = Vec::new();
        for (_, event) in first {
            let (event, period) = event.as_ref().map_err(Clone::clone)?;
            let divided = match mode {
                MatrixMode::Ibs => period / divisor.max(1) / IBS_PERIOD_STEP * IBS_PERIOD_STEP,
                _ => period / divisor.max(1),
            };
            if mode.samples() && divided == 0 {
                let step = if mode == MatrixMode::Ibs { " into a multiple of 16" } else { "" };
                return Err(format!("the period of {} is {period}, and cannot be divided by {divisor}{step}", event.name));
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
        let form = match mode {
            MatrixMode::Pebs => " with a form for PEBS",
            MatrixMode::Ibs => " with a form for IBS",
            _ => "",
        };
        let form = if self.skip_missing { format!("{form} that can be had here") } else { form.into() };
        match opened.len() {
            0 if !form.is_empty() => Err(format!("set {} has no event{form}", set.name)),
            1 if wanted > 1 => Err(format!("set {} has 1 event{form}", set.name)),
            n if n < wanted => Err(format!("set {} has {n} events{form}", set.name)),
            _ => Ok(self.of_events(mode, opened)),
        }
    }
}

/// An event of a set by its place: as it is opened and its period, or why it cannot be had.
type Available = (usize, Result<(Event, u64), String>);

/// Takes the events that a mode refuses out of all modes, so that these go on to watch the same events. A mode that refuses all of them has no say.
fn skip_missing(set: &EventSet, available: &mut [(MatrixMode, Vec<Available>)]) -> Vec<MatrixSkipped> {
    let mut skipped = Vec::new();
    let mut places = Vec::new();
    for (mode, events) in available.iter().filter(|(_, events)| events.iter().any(|(_, event)| event.is_ok())) {
        let refused = events.iter().filter_map(|(at, event)| Some((*at, event.as_ref().err()?)));
        for (at, why) in refused {
            places.push(at);
            skipped.push(MatrixSkipped { mode: *mode, set: set.name.clone(), why: why.clone() });
        }
    }
    for (_, events) in available {
        events.retain(|(at, _)| !places.contains(at));
    }
    skipped
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
            one_group: false,
            skip_missing: false,
            ring_pages: 8,
            generation: None,
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
        assert_eq!(why(MatrixMode::Ibs, 3, 1), "set soft has no event with a form for IBS");
        assert!(cells.impossible.iter().all(|row| row.cells == 4));
    }

    #[test]
    fn what_cannot_be_had_is_left_out_where_that_is_asked_for() {
        let events = "[[event]]\nevent = 'ibs_op//'\nperiod = 16\n[[event]]\nevent = 'page-faults'\nperiod = 10\n";
        let set = EventSet::parse(&format!("name = 'mixed'\ndescription = 'd'\nsource = 's'\n{events}"), "test").unwrap();
        let grid = |skip_missing| Grid {
            sets: vec![set.clone()],
            skip_missing,
            ..grid(&[MatrixMode::Lbr, MatrixMode::Counting], &[1, 2])
        };
        // Counting by IBS is refused wherever it is.
        let cells = grid(false).cells(&Catalog::of_this_machine()).unwrap();
        assert_eq!((cells.impossible.len(), cells.skipped.len()), (6, 0), "{:?}", cells.impossible);
        let cells = grid(true).cells(&Catalog::of_this_machine()).unwrap();
        let skipped = cells.skipped.iter().filter(|skipped| skipped.mode == MatrixMode::Counting).count();
        let watched =
            cells.planned.iter().filter_map(|cell| cell.watch.as_ref()).all(|watch| watch.events[0].0.name == "page-faults");
        assert!(skipped == 1 && watched && cells.planned.iter().any(|cell| cell.watch.is_some()), "{cells:?}");
        let why = |mode| cells.impossible.iter().find(|row| row.mode == mode && row.events == 2).map(|row| row.why.as_str());
        assert_eq!(why(MatrixMode::Counting), Some("set mixed has 1 event that can be had here"));
        assert!(why(MatrixMode::Lbr).is_some());
        // Modes go on to watch the same events.
        let event = |name: &str| parse(name, &Catalog::of_this_machine()).unwrap().remove(0);
        let had = |at, name| (at, Ok((event(name), 10)));
        let mut available = [
            (MatrixMode::Pebs, vec![(0, Err("no".into())), had(1, "page-faults")]),
            (MatrixMode::Sampling, vec![had(0, "cpu-clock"), had(1, "page-faults")]),
            (MatrixMode::Lbr, vec![(0, Err("no".into())), (1, Err("no".into()))]),
        ];
        let skipped = skip_missing(&set, &mut available);
        assert_eq!((skipped.len(), skipped[0].mode), (1, MatrixMode::Pebs));
        assert!(available[..2].iter().all(|(_, events)| matches!(&events[..], [(1, Ok(_))])), "{available:?}");
    }

    fn one_group(events: &str, modes: &[MatrixMode], numbers: &[u32]) -> Cells {
        let head = "name = 'soft'\ndescription = 'd'\nsource = 's'\n";
        let sets = vec![EventSet::parse(&format!("{head}{events}"), "test").unwrap()];
        let grid = Grid { sets, one_group: true, divisors: vec![1], ..grid(modes, numbers) };
        grid.cells(&Catalog::of_this_machine()).unwrap()
    }

    #[test]
    fn a_group_is_tried_as_a_whole() {
        let soft = "[[event]]\nevent = 'cpu-clock'\nperiod = 1000000\n[[event]]\nevent = 'page-faults'\nperiod = 10\n";
        let cells = one_group(soft, &[MatrixMode::Counting, MatrixMode::Sampling], &[1, 2]);
        assert!(cells.impossible.is_empty(), "{:?}", cells.impossible);
        assert!(cells.planned.iter().filter_map(|cell| cell.watch.as_ref()).all(|watch| watch.one_group));
        // More breakpoints than there are debug registers: each is taken by itself.
        let places: String =
            (0..5).map(|at| format!("[[event]]\nevent = 'mem:0x{:x}:w'\nperiod = 1\n", 0x1000 + 8 * at)).collect();
        let cells = one_group(&places, &[MatrixMode::Counting], &[1, 4, 5]);
        let impossible: Vec<_> = cells.impossible.iter().map(|row| (row.events, row.why.as_str())).collect();
        let [(5, why)] = impossible[..] else { panic!("{impossible:?}") };
        assert!(why.starts_with("cannot have all 5 events in one group: the kernel takes the first 4, and not mem:"), "{why}");
    }

    #[test]
    fn a_form_for_ibs_is_an_event_of_ibs_with_a_period_that_it_has() {
        let set = |ibs: &str| {
            let head = "name = 'ops'\ndescription = 'd'\nsource = 's'\n";
            let event = format!("[[event]]\nevent = 'cpu-clock'\nperiod = 1000\nibs = '{ibs}'\n");
            EventSet::parse(&format!("{head}{event}"), "test").unwrap()
        };
        let whys = |ibs: &str| {
            let grid = Grid { sets: vec![set(ibs)], divisors: vec![1], ..grid(&[MatrixMode::Ibs], &[1]) };
            grid.cells(&Catalog::of_this_machine()).map(|cells| cells.impossible[0].why.clone())
        };
        assert!(whys("cpu-clock").unwrap().ends_with("it is no event of AMD's instruction-based sampling"));
        // Periods are what the hardware has: multiples of 16.
        let grid = grid(&[], &[]);
        let event = |period| parse("cpu-clock", &Catalog::of_this_machine()).map(|mut events| (events.remove(0), period));
        let first = |divisor| {
            let watch =
                grid.of_first(&set("x"), MatrixMode::Ibs, divisor, 1, &[(0, event(1_000_000).map_err(|_| String::new()))]);
            watch.map(|watch| watch.events[0].1.unwrap())
        };
        assert_eq!((first(1), first(10), first(7)), (Ok(1_000_000), Ok(100_000), Ok(142_848)));
        assert!(first(100_000).unwrap_err().ends_with("cannot be divided by 100000 into a multiple of 16"));
    }
}
