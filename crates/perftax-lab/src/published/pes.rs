//! The numbers of the PES study (Sasongko, Chabbi, Kelly, Unat: "Precise Event Sampling on AMD Versus Intel", IEEE TPDS 34(5), 2023) that
//! its public data set holds, condensed by `scripts/pes-data`, and what the software PMU makes of the same loops.
//!
//! The data set is of one Intel and one AMD machine, Cascade Lake and Zen 2 by inference; the paper has four. Two sessions stand in it that
//! partly disagree. An accuracy, as the paper prints it, is 100 less the error without its sign.

use std::fmt::{self, Display, Formatter};

use perftax_doc::Mechanism;
use perftax_pmu::{Error, Result};
use serde::Deserialize;

/// The software PMU's and the study's, made by the script, and what is kept by hand. In this order one document: keys before tables.
const SHIPPED: &str = concat!(
    include_str!("../../data/pes-simulated.toml"),
    include_str!("../../data/pes.toml"),
    include_str!("../../data/pes-prose.toml"),
);

/// The study's numbers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pes {
    /// Figures 3, 4 and 6: samples of work whose events are known.
    pub accuracy: Vec<Accuracy>,
    /// Figure 8: elapsed time and memory with sampling against without.
    pub overhead: Vec<Overhead>,
    /// Figure 9: elapsed time of whole programs.
    pub programs: Vec<Programs>,
    /// Figure 12: several events at once.
    pub events: Vec<EventsAtOnce>,
    /// Table III: one program under more and more events.
    pub several: Vec<SeveralEvents>,
    /// Figure 14: elapsed time of programs under a profiling tool.
    pub tools: Vec<Programs>,
    /// What there are no numbers of.
    pub prose: Vec<Prose>,
    /// Figures 3, 4 and 6 in the software PMU: ours, not the study's.
    pub simulated: Vec<Simulated>,
}

/// A figure or table; read by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[allow(missing_docs)]
pub enum Figure {
    #[serde(rename = "3")]
    Three,
    #[serde(rename = "4")]
    Four,
    #[serde(rename = "5")]
    Five,
    #[serde(rename = "6")]
    Six,
    #[serde(rename = "7")]
    Seven,
    #[serde(rename = "8")]
    Eight,
    #[serde(rename = "9")]
    Nine,
    #[serde(rename = "10")]
    Ten,
    #[serde(rename = "11")]
    Eleven,
    #[serde(rename = "12")]
    Twelve,
    #[serde(rename = "III")]
    TableThree,
    #[serde(rename = "14")]
    Fourteen,
    /// The execution mode, of which there is prose alone.
    #[serde(rename = "mode")]
    Mode,
    /// What three figures have in common; the data hold each of them.
    #[serde(skip)]
    ThreeFourSix,
}

impl Display for Figure {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Three => "figure 3",
            Self::Four => "figure 4",
            Self::Five => "figure 5",
            Self::Six => "figure 6",
            Self::Seven => "figure 7",
            Self::Eight => "figure 8",
            Self::Nine => "figure 9",
            Self::Ten => "figure 10",
            Self::Eleven => "figure 11",
            Self::Twelve => "figure 12",
            Self::TableThree => "table III",
            Self::Fourteen => "figure 14",
            Self::Mode => "execution mode",
            Self::ThreeFourSix => "figures 3, 4, 6",
        })
    }
}

/// What is sampled where time and memory are measured, by its maker's name or as the figure has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Sampled {
    /// Instructions, by PEBS.
    #[serde(rename = "INST_RETIRED.PREC_DIST", alias = "instruction")]
    Instructions,
    /// Misses of the first-level cache, by PEBS.
    #[serde(rename = "MEM_LOAD_RETIRED.L1_MISS", alias = "L1 data cache load miss")]
    Misses,
    /// Operations, by IBS.
    #[serde(rename = "IBS op")]
    Operations,
    /// Fetches, by IBS.
    #[serde(rename = "IBS fetch")]
    Fetches,
}

/// From the least to the most of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

/// Which of the two makers' machines; the data set names neither model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Maker {
    /// Intel: Cascade Lake, inferred.
    Intel,
    /// AMD: Zen 2, inferred.
    Amd,
}

impl Maker {
    /// The microarchitecture.
    pub fn microarchitecture(self) -> &'static str {
        match self {
            Self::Intel => "Cascade Lake",
            Self::Amd => "Zen 2",
        }
    }
}

/// Which of the data set's two sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Session {
    /// The one that the paper's figures are of.
    Newer,
    /// An earlier one, in sheets of their own.
    Older,
}

/// One cell of figures 3, 4 and 6: the accuracy benchmark at one ratio of instructions to misses and one interval.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    /// `3`, `4` or `6`.
    pub figure: Figure,
    /// The machine.
    pub machine: Maker,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The event by its maker's name, or what is kept of an IBS sample.
    pub event: String,
    /// Instructions to one miss of the first-level cache, where stated.
    #[serde(default)]
    pub instructions_per_miss: Option<u64>,
    /// Sampling interval, events.
    pub period_events: u64,
    /// The session.
    pub session: Session,
    /// Events by construction, over the interval; where stated.
    #[serde(default)]
    pub expected_samples: Option<f64>,
    /// Runs that the data set holds one by one.
    pub runs: u32,
    /// 100·(samples − expected)/expected of each run; none where only the accuracy is published.
    #[serde(default)]
    pub signed_error_percent: Option<Spread>,
    /// 100 less the error without its sign, %, where only that is published.
    #[serde(default)]
    pub accuracy_percent: Option<f64>,
    /// File and line of the reference data; row of the data set's sheet.
    pub source: String,
}

/// Figure 8: the accuracy benchmark with sampling against without, by the length of its loop.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// `8`.
    pub figure: Figure,
    /// The machine.
    pub machine: Maker,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The event.
    pub event: Sampled,
    /// Whether each sample was delivered as a signal.
    pub with_signal: bool,
    /// Sampling interval, events.
    pub period_events: u64,
    /// Instructions to one miss; the other lists are in the same order.
    pub instructions_per_miss: Vec<u64>,
    /// Elapsed time more than without sampling, %.
    pub time_percent: Vec<f64>,
    /// Largest resident set more than without sampling, %.
    pub memory_percent: Vec<f64>,
    /// Standard deviation of a run's `memory_percent`, from those of both arms, percentage points.
    pub memory_sd_percent: Vec<f64>,
    /// Extra elapsed time over samples, µs a sample.
    pub cost_us: Vec<f64>,
    /// File and lines; rows of the sheet.
    pub source: String,
}

/// Figures 9 and 14: elapsed time of programs of the Rodinia suite.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    /// `9`, or `14` under ComDetective.
    pub figure: Figure,
    /// The machine.
    pub machine: Maker,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The event, where stated.
    #[serde(default)]
    pub event: Option<Sampled>,
    /// Whether each sample was delivered as a signal, where stated.
    #[serde(default)]
    pub with_signal: Option<bool>,
    /// The programs.
    pub programs: Vec<String>,
    /// Elapsed time more than without, %, in the same order.
    pub time_percent: Vec<f64>,
    /// File and lines.
    pub source: String,
}

/// Figure 12: several events over the same work.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsAtOnce {
    /// `12`.
    pub figure: Figure,
    /// The machine.
    pub machine: Maker,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Events opened at once; none for IBS, whose one sampler tells them all.
    #[serde(default)]
    pub at_once: Option<u32>,
    /// The events.
    pub events: Vec<String>,
    /// Error of each, signed, %, in the same order.
    pub signed_error_percent: Vec<f64>,
    /// Mean accuracy of each over the runs, %.
    pub accuracy_percent: Vec<f64>,
    /// File and lines.
    pub source: String,
}

/// Table III: the program heartwall while so many events are sampled.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeveralEvents {
    /// `III`.
    pub figure: Figure,
    /// The machine.
    pub machine: Maker,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Events opened at once, each pinned.
    pub at_once: u32,
    /// Whether each sample was delivered as a signal.
    pub with_signal: bool,
    /// Elapsed time more than without, %.
    pub time_percent: f64,
    /// Resident memory more than without, %.
    pub memory_percent: f64,
    /// File and line.
    pub source: String,
}

/// What stands in the paper without numbers in the data set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prose {
    /// The figure, or `mode` for the execution mode.
    pub figure: Figure,
    /// What it asks.
    pub asks: String,
    /// What is known of the answer.
    pub finding: String,
    /// Where that is known from.
    pub source: String,
}

/// A cell of figures 3, 4 and 6 in the software PMU: our own measurement, at the study's full size.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    /// `3`, `4` or `6`.
    pub figure: Figure,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// What the samples are of.
    pub event: String,
    /// Instructions to one miss.
    pub instructions_per_miss: u64,
    /// Sampling interval, events.
    pub period_events: u64,
    /// Events by construction, over the interval.
    pub expected_samples: f64,
    /// Samples that were taken; it is the same in each run.
    pub samples: f64,
}

impl Pes {
    /// The study as it is shipped.
    ///
    /// # Errors
    /// [`Error::Malformed`] where the shipped text is damaged, which a test rules out.
    pub fn shipped() -> Result<Self> {
        toml::from_str(SHIPPED).map_err(|error| Error::Malformed {
            what: "the PES study's data".into(),
            offset: error.span().map_or(0, |span| span.start) as u64,
            why: error.message().into(),
        })
    }

    /// Cells of figures 3, 4 and 6 by a mechanism, in a session.
    pub fn cells(&self, figure: Figure, mechanism: Mechanism, session: Session) -> impl Iterator<Item = &Accuracy> {
        let is_asked = move |cell: &&Accuracy| cell.figure == figure && cell.mechanism == mechanism && cell.session == session;
        self.accuracy.iter().filter(is_asked)
    }

    /// What is known of a figure without numbers.
    pub fn prose(&self, figure: Figure) -> Option<&Prose> {
        self.prose.iter().find(|prose| prose.figure == figure)
    }
}

impl Spread {
    /// From the least to the most of some numbers; none of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        Some(Self { median: perftax_doc::quantile(&mut values, 0.5), least, most })
    }

    /// From the least of all to the most of all; the median is that of the medians.
    pub fn around<'a>(spreads: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let spreads: Vec<&Self> = spreads.into_iter().collect();
        let median = Self::of(spreads.iter().map(|spread| spread.median))?.median;
        let least = spreads.iter().map(|spread| spread.least).fold(f64::INFINITY, f64::min);
        let most = spreads.iter().map(|spread| spread.most).fold(f64::NEG_INFINITY, f64::max);
        Some(Self { median, least, most })
    }

    /// Whether a value lies in it, the ends included and as coarse as the shipped data are written, to a millionth.
    pub fn contains(&self, value: f64) -> bool {
        (self.least - 1e-6..=self.most + 1e-6).contains(&value)
    }

    /// Whether both ends have the same sign.
    pub fn has_one_sign(&self) -> bool {
        self.least * self.most > 0.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn close(spread: Option<Spread>, [median, least, most]: [f64; 3], by: f64) {
        let spread = spread.unwrap();
        let (a, b) = ([spread.median, spread.least, spread.most], [median, least, most]);
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() <= by), "{a:?}, not {b:?}");
    }

    /// In the data, and to people.
    const FIGURES: [(&str, Figure, &str); 13] = [
        ("3", Figure::Three, "figure 3"),
        ("4", Figure::Four, "figure 4"),
        ("5", Figure::Five, "figure 5"),
        ("6", Figure::Six, "figure 6"),
        ("7", Figure::Seven, "figure 7"),
        ("8", Figure::Eight, "figure 8"),
        ("9", Figure::Nine, "figure 9"),
        ("10", Figure::Ten, "figure 10"),
        ("11", Figure::Eleven, "figure 11"),
        ("12", Figure::Twelve, "figure 12"),
        ("III", Figure::TableThree, "table III"),
        ("14", Figure::Fourteen, "figure 14"),
        ("mode", Figure::Mode, "execution mode"),
    ];

    #[test]
    fn figures_and_events_are_read_from_their_texts() {
        for (number, figure, text) in FIGURES {
            assert_eq!(serde_json::from_value::<Figure>(number.into()).unwrap(), figure);
            assert_eq!(figure.to_string(), text);
        }
        assert_eq!(Figure::ThreeFourSix.to_string(), "figures 3, 4, 6");
        for (text, sampled) in [
            ("INST_RETIRED.PREC_DIST", Sampled::Instructions),
            ("instruction", Sampled::Instructions),
            ("MEM_LOAD_RETIRED.L1_MISS", Sampled::Misses),
            ("L1 data cache load miss", Sampled::Misses),
            ("IBS op", Sampled::Operations),
            ("IBS fetch", Sampled::Fetches),
        ] {
            assert_eq!(serde_json::from_value::<Sampled>(text.into()).unwrap(), sampled);
        }
    }

    #[test]
    fn every_figure_is_there() {
        let pes = Pes::shipped().unwrap();
        let figures: BTreeSet<Figure> = (pes.accuracy.iter().map(|x| x.figure))
            .chain(pes.overhead.iter().map(|x| x.figure))
            .chain(pes.programs.iter().chain(&pes.tools).map(|x| x.figure))
            .chain(pes.events.iter().map(|x| x.figure))
            .chain(pes.several.iter().map(|x| x.figure))
            .chain(pes.prose.iter().map(|x| x.figure))
            .collect();
        assert_eq!(figures.into_iter().collect::<Vec<_>>(), FIGURES.map(|(_, figure, _)| figure));
        // 15 + 10 + 8 cells of the newer session, 9 + 20 of the older one.
        let of = |session| pes.accuracy.iter().filter(|cell| cell.session == session).count();
        assert_eq!((of(Session::Newer), of(Session::Older)), (33, 29));
        assert!(pes.accuracy.iter().all(|cell| cell.signed_error_percent.is_some() != cell.accuracy_percent.is_some()));
        assert!(pes.accuracy.iter().all(|cell| (cell.runs > 0) == cell.signed_error_percent.is_some()));
    }

    /// Against the CSVs, computed apart from the script.
    #[test]
    fn the_numbers_are_the_data_sets() {
        let pes = Pes::shipped().unwrap();
        let around = |figure, mechanism, session| {
            Spread::around(pes.cells(figure, mechanism, session).filter_map(|cell| cell.signed_error_percent.as_ref()))
        };
        let (newer, older) = (Session::Newer, Session::Older);
        close(around(Figure::Three, Mechanism::Pebs, newer), [0.02333, 0.02050, 0.02370], 1e-5);
        close(around(Figure::Three, Mechanism::IbsOp, newer), [8.53493, 7.82294, 8.68245], 1e-5);
        close(around(Figure::Three, Mechanism::IbsFetch, newer), [3.20725, 2.28137, 3.37517], 1e-5);
        close(around(Figure::Four, Mechanism::Pebs, newer), [-0.07, -0.1, -0.01], 1e-9);
        close(around(Figure::Four, Mechanism::IbsOp, newer), [14.68, -3.86, 18.69], 1e-9);
        close(around(Figure::Six, Mechanism::Pebs, newer), [-0.0383, -1.14491, -0.001], 1e-9);
        close(around(Figure::Six, Mechanism::IbsOp, older), [-15.61745, -99.99508, 11.056], 1e-5);
        assert!(around(Figure::Six, Mechanism::IbsOp, newer).is_none(), "the newer session has accuracies alone");
        // The older session's rule: one sample in period + 1 events, to within one sample.
        for cell in pes.cells(Figure::Six, Mechanism::Pebs, older) {
            let expected = cell.expected_samples.unwrap();
            let samples = expected * (1.0 + cell.signed_error_percent.unwrap().median / 100.0);
            let period = cell.period_events as f64;
            assert!((samples - expected * period / (period + 1.0)).abs() <= 1.5, "{cell:?}");
        }
        let overhead = |mechanism, with_signal, event: Sampled| {
            let is_it = |x: &&Overhead| x.mechanism == mechanism && x.with_signal == with_signal && x.event == event;
            pes.overhead.iter().find(is_it).unwrap()
        };
        let of = |values: &[f64]| Spread::of(values.iter().copied());
        let pebs = overhead(Mechanism::Pebs, false, Sampled::Instructions);
        close(of(&pebs.time_percent), [10.852, 10.442, 12.550], 5e-4);
        close(of(&pebs.cost_us), [2.491, 2.464, 2.509], 5e-4);
        close(of(&pebs.memory_percent), [-0.158, -2.887, 0.161], 1e-3);
        close(of(&overhead(Mechanism::Pebs, true, Sampled::Instructions).cost_us), [5.926, 5.888, 5.938], 5e-4);
        close(of(&overhead(Mechanism::Pebs, true, Sampled::Misses).time_percent), [0.463, 0.335, 1.550], 5e-4);
        close(of(&overhead(Mechanism::IbsOp, true, Sampled::Operations).cost_us), [6.550, 6.529, 6.574], 5e-4);
        close(of(&overhead(Mechanism::IbsFetch, false, Sampled::Fetches).time_percent), [0.923, 0.730, 1.443], 5e-4);
        close(of(&pes.programs[1].time_percent), [20.275, 9.395, 26.731], 1e-3);
        close(of(&pes.programs[6].time_percent), [61.508, 48.795, 68.223], 1e-3);
        let at_once = |n| of(&pes.events.iter().find(|x| x.at_once == Some(n)).unwrap().accuracy_percent);
        close(at_once(5), [79.985, 79.925, 80.03], 1e-6);
        close(at_once(6), [66.62417, 66.46, 66.812], 1e-5);
        close(of(&pes.tools[0].time_percent), [25.74653, 3.72130, 38.17620], 1e-5);
        close(of(&pes.tools[1].time_percent), [49.28036, 15.85142, 157.85714], 1e-5);
        let at_sixteen = pes.several.iter().find(|x| x.at_once == 16 && x.with_signal).unwrap();
        assert!((at_sixteen.time_percent - 162.6).abs() < 0.1, "{at_sixteen:?}");
    }

    #[test]
    fn the_software_pmus_cells_are_of_published_ones() {
        let pes = Pes::shipped().unwrap();
        assert_eq!(pes.simulated.len(), 32);
        for cell in &pes.simulated {
            let is_same = |x: &&Accuracy| {
                x.period_events == cell.period_events && x.instructions_per_miss == Some(cell.instructions_per_miss)
            };
            assert!(pes.cells(cell.figure, cell.mechanism, Session::Newer).any(|x| is_same(&x)), "{cell:?}");
        }
    }
}
