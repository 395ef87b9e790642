//! `perftax selfcost`: what it costs a program to measure itself by perf_event.

use serde::{Deserialize, Serialize};

use super::Origin;
use super::series::Series;
use crate::Estimate;
use crate::bootstrap::{median, quantile};
use crate::order::{BoxOf, median_interval, median_of_rounds};
use crate::regression::least_squares;

/// The price list of one kernel on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Selfcost {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// Fewer rounds, close together.
    pub is_quick: bool,
    /// What costs are counted in.
    pub unit: CostUnit,
    /// Ticks of the time stamp counter to one unit.
    pub ticks_per_unit: f64,
    /// Rounds, each a pass over all prices in random order.
    pub rounds: u32,
    /// Timed runs of each price in a round.
    pub runs_per_round: u32,
    /// What reading the time stamp counter twice takes by itself, ticks: it has been taken off every price.
    pub timer_ticks: Price,
    /// The events that were started, stopped and read, in their order; of more the list starts anew.
    pub sets: Vec<EventSet>,
    /// What everything costs.
    pub prices: Vec<Price>,
    /// Prices against each other, from interleaved pairs.
    pub ratios: Vec<PriceRatio>,
    /// How prices grow with the number of events.
    pub fits: Vec<PriceFit>,
    /// How long all of it took, s.
    pub elapsed_s: f64,
}

/// What a cost is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Instructions executed, of user and kernel: the emulated machine, whose time stamp counter ticks once an instruction.
    Instructions,
}

/// Events that are of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSet {
    /// `software` or `hardware`.
    pub name: String,
    /// As perf names them.
    pub events: Vec<String>,
}

/// Which part of the list a price belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriceSection {
    /// Starting, stopping and reading.
    Measuring,
    /// The same for the first time, and into memory that was never touched.
    FirstTouch,
    /// Everything else that is asked of the kernel.
    Call,
    /// A context switch while events are open.
    Switch,
    /// Creating and ending a thread while events are open.
    Task,
    /// What other programs take for it.
    Tool,
}

impl PriceSection {
    /// All of them, in the order of the list.
    pub const ALL: [Self; 6] = [Self::Measuring, Self::FirstTouch, Self::Call, Self::Switch, Self::Task, Self::Tool];

    /// Whether its prices are of the same thing while something is open, and while nothing is.
    pub fn is_against_none(self) -> bool {
        matches!(self, Self::Switch | Self::Task)
    }

    /// A heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Measuring => "Starting, stopping, reading",
            Self::FirstTouch => "The first time",
            Self::Call => "Other calls",
            Self::Switch => "A context switch",
            Self::Task => "A thread that comes and goes",
            Self::Tool => "Other programs",
        }
    }
}

/// What one thing costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// The part of the list.
    pub section: PriceSection,
    /// What is done: `start`, `read`, `open`.
    pub operation: String,
    /// By which way: `ioctl, group`, `rdpmc`, `PAPI`.
    pub method: String,
    /// Of which set of events; empty where none is involved.
    pub set: String,
    /// Events involved.
    pub events: u32,
    /// What it costs, in the document's unit; none where it cannot be had here, and the remark says why.
    pub cost: Option<Cost>,
    /// What must be known beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// How often it is done in a run.
    pub per_run: u32,
    /// Every warm run, ticks, nothing taken off.
    pub runs_ticks: Series,
    /// The first run of every round, right after its events were opened, ticks.
    pub first_ticks: Series,
    /// What was taken off the runs of each round, ticks; empty where it is the timer.
    #[serde(default, skip_serializing_if = "Series::is_empty")]
    pub subtracted_ticks: Series,
}

/// A cost with what is known of its distribution, in the document's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The median of the rounds' medians; the interval is made of order statistics of these.
    pub median: Estimate,
    /// The 5th percentile of all runs: what it costs undisturbed.
    pub floor: f64,
    /// The median of the first runs, and its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Estimate>,
    /// All warm runs.
    pub spread: BoxOf,
}

/// The percentile that is published as floor.
const FLOOR: f64 = 0.05;

impl Price {
    /// A price without observations yet.
    pub fn new(section: PriceSection, operation: &str, method: &str, set: &str, events: u32) -> Self {
        let [operation, method, set] = [operation, method, set].map(String::from);
        Self {
            section,
            operation,
            method,
            set,
            events,
            cost: None,
            remark: None,
            per_run: 1,
            runs_ticks: Series::default(),
            first_ticks: Series::default(),
            subtracted_ticks: Series::default(),
        }
    }

    /// Whether both are of the same thing: for comparisons between documents and ratios within one.
    pub fn is_of(&self, other: &Self) -> bool {
        let key = |p: &Self| (p.section, p.events, p.operation.clone(), p.method.clone(), p.set.clone());
        key(self) == key(other)
    }

    /// In words: `start 4 software events by ioctl, group`.
    pub fn name(&self) -> String {
        let events = match (self.events, self.set.as_str()) {
            (0, "") => String::new(),
            (0, set) => format!(", {set}"),
            (1, set) => format!(", 1 {set} event"),
            (n, set) => format!(", {n} {set} events"),
        };
        let method = if self.method.is_empty() { String::new() } else { format!(", {}", self.method) };
        format!("{}{method}{events}", self.operation)
    }

    /// What each run of each round cost, in ticks, without what is taken off.
    fn net_ticks(&self, timer: &[f64]) -> Vec<Vec<f64>> {
        let own: Vec<f64> = self.subtracted_ticks.rounds.iter().map(|round| median_of(round)).collect();
        let taken_off = if own.is_empty() { timer } else { &own };
        let per_run = f64::from(self.per_run.max(1));
        let net = |(at, round): (usize, &Vec<u64>)| {
            let off = taken_off.get(at).copied().unwrap_or(0.0);
            round.iter().map(|&ticks| (ticks as f64 - off) / per_run).collect()
        };
        self.runs_ticks.rounds.iter().enumerate().map(net).collect()
    }

    /// The median of each round, in the unit, without what is taken off; rounds without runs are left out.
    pub fn by_round(&self, timer: &[f64], ticks_per_unit: f64) -> Vec<Option<f64>> {
        let medians = self.net_ticks(timer).into_iter();
        medians.map(|mut round| (!round.is_empty()).then(|| median(&mut round) / ticks_per_unit)).collect()
    }

    /// Estimates the cost from the runs. `timer` is the timer's own cost in each round.
    pub fn estimated(mut self, timer: &[f64], ticks_per_unit: f64) -> Self {
        let units = |ticks: f64| ticks / ticks_per_unit;
        let rounds: Vec<Vec<f64>> =
            self.net_ticks(timer).into_iter().map(|round| round.into_iter().map(units).collect()).collect();
        let mut all: Vec<f64> = rounds.iter().flatten().copied().collect();
        let firsts = Self { runs_ticks: self.first_ticks.clone(), ..self.clone() }.net_ticks(timer);
        let firsts: Vec<f64> = firsts.into_iter().flatten().map(units).collect();
        self.cost = median_of_rounds(&rounds).zip(BoxOf::of(&all)).map(|(median, spread)| Cost {
            median,
            floor: quantile(&mut all, FLOOR),
            first: median_interval(&firsts),
            spread,
        });
        self
    }
}

fn median_of(ticks: &[u64]) -> f64 {
    let mut ticks: Vec<f64> = ticks.iter().map(|&t| t as f64).collect();
    if ticks.is_empty() { 0.0 } else { median(&mut ticks) }
}

/// Two prices against each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriceRatio {
    /// What is divided.
    pub of: String,
    /// By what.
    pub to: String,
    /// The median of the rounds' ratios.
    pub ratio: Estimate,
    /// What it must not exceed, where something was promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// The ratio of each round.
    pub rounds: Vec<f64>,
}

impl PriceRatio {
    /// The ratio of two prices' medians, round by round; `None` where they have no round in common.
    pub fn of(names: (String, String), of: &[Option<f64>], to: &[Option<f64>], bound: Option<f64>) -> Option<Self> {
        let pairs = of.iter().zip(to).filter_map(|(of, to)| Some(((*of)?, (*to)?)));
        let rounds: Vec<f64> = pairs.filter(|(_, to)| *to > 0.0).map(|(of, to)| of / to).collect();
        Some(Self { of: names.0, to: names.1, ratio: median_interval(&rounds)?, bound, rounds })
    }

    /// Whether what was promised is kept, as far as the interval can tell: none where nothing was promised, or the interval reaches to both sides.
    pub fn is_kept(&self) -> Option<bool> {
        let bound = self.bound?;
        match (self.ratio.high <= bound, self.ratio.low > bound) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

/// A price as a straight line over the number of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriceFit {
    /// What is done.
    pub operation: String,
    /// By which way.
    pub method: String,
    /// Of which events.
    pub set: String,
    /// What it costs however many events there are, in the document's unit.
    pub fixed: Estimate,
    /// What each event adds.
    pub per_event: Estimate,
    /// The largest distance of a median from the line, as a share of the line's value there.
    pub worst_residual: f64,
    /// The numbers of events that it goes through.
    pub events: Vec<u32>,
}

/// Prices further from the line than this are not on one.
const LINE: f64 = 0.1;

impl PriceFit {
    /// Whether the prices lie on the line, give or take a tenth.
    pub fn is_line(&self) -> bool {
        self.worst_residual <= LINE
    }

    /// The line through prices that differ in their number of events alone: one for each round, and the medians of these.
    ///
    /// `None` with fewer than three prices.
    pub fn through(prices: &[&Price], timer: &[f64], ticks_per_unit: f64) -> Option<Self> {
        let points: Vec<(&Price, Vec<Option<f64>>)> =
            prices.iter().filter(|p| p.cost.is_some()).map(|p| (*p, p.by_round(timer, ticks_per_unit))).collect();
        let (first, rounds) = (points.first()?.0, points.iter().map(|(_, rounds)| rounds.len()).min()?);
        let line_of = |round: usize| {
            let at = |(price, medians): &(&Price, Vec<Option<f64>>)| Some((f64::from(price.events), medians[round]?, 1.0));
            let points: Option<Vec<(f64, f64, f64)>> = points.iter().map(at).collect();
            least_squares(&points?)
        };
        let lines: Vec<_> = (0..rounds).filter_map(line_of).collect();
        let per_event = median_interval(&lines.iter().map(|line| line.slope.estimate).collect::<Vec<_>>())?;
        let fixed = median_interval(&lines.iter().map(|line| line.intercept_s.estimate).collect::<Vec<_>>())?;
        let residual = |(price, _): &(&Price, Vec<Option<f64>>)| {
            let line = fixed.estimate + per_event.estimate * f64::from(price.events);
            price.cost.map(|cost| (cost.median.estimate / line - 1.0).abs()).filter(|share| share.is_finite())
        };
        Some(Self {
            operation: first.operation.clone(),
            method: first.method.clone(),
            set: first.set.clone(),
            fixed,
            per_event,
            worst_residual: points.iter().filter_map(residual).fold(0.0, f64::max),
            events: points.iter().map(|(price, _)| price.events).collect(),
        })
    }
}

impl Selfcost {
    /// The prices of one part.
    pub fn of(&self, section: PriceSection) -> impl Iterator<Item = &Price> {
        self.prices.iter().filter(move |price| price.section == section)
    }

    /// The price of the same thing, in another document.
    pub fn same(&self, price: &Price) -> Option<&Price> {
        self.prices.iter().find(|other| other.is_of(price))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(events: u32, rounds: &[&[u64]]) -> Price {
        let mut price = Price::new(PriceSection::Measuring, "start", "ioctl", "software", events);
        price.runs_ticks = Series { rounds: rounds.iter().map(|round| round.to_vec()).collect() };
        price
    }

    #[test]
    fn the_timer_is_taken_off_and_ticks_become_units() {
        let rounds: Vec<&[u64]> = vec![&[1030, 1030, 5000]; 8];
        let cost = price(1, &rounds).estimated(&[30.0; 8], 2.0).cost.unwrap();
        assert_eq!((cost.median.estimate, cost.median.low, cost.median.high), (500.0, 500.0, 500.0));
        assert_eq!((cost.floor, cost.spread.most, cost.first), (500.0, 2485.0, None));
        assert_eq!(price(1, &[]).estimated(&[], 2.0).cost, None);
    }

    #[test]
    fn what_a_price_takes_off_by_itself_replaces_the_timer() {
        let mut switched = price(0, &[&[1000], &[1200]]);
        (switched.per_run, switched.subtracted_ticks) = (10, Series { rounds: vec![vec![500], vec![700]] });
        assert_eq!(switched.by_round(&[30.0, 30.0], 1.0), [Some(50.0), Some(50.0)]);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let (of, to) = ([Some(110.0), Some(220.0), None], [Some(100.0), Some(200.0), Some(1.0)]);
        let ratio = PriceRatio::of(("a".into(), "b".into()), &of, &to, Some(1.05)).unwrap();
        assert!((ratio.ratio.estimate - 1.1).abs() < 1e-12 && ratio.rounds.len() == 2);
        assert_eq!(ratio.is_kept(), Some(false));
        let wide = PriceRatio { ratio: Estimate::new(1.0, 0.9, 1.2), ..ratio };
        assert_eq!((wide.is_kept(), PriceRatio { bound: None, ..wide.clone() }.is_kept()), (None, None));
    }

    #[test]
    fn a_line_is_found_again() {
        let prices: Vec<Price> = [1, 2, 4, 8]
            .map(|n: u32| price(n, &[&[100 + 40 * u64::from(n)], &[100 + 40 * u64::from(n)]]).estimated(&[0.0, 0.0], 1.0))
            .to_vec();
        let fit = PriceFit::through(&prices.iter().collect::<Vec<_>>(), &[0.0, 0.0], 1.0).unwrap();
        assert!((fit.per_event.estimate - 40.0).abs() < 1e-9 && (fit.fixed.estimate - 100.0).abs() < 1e-9, "{fit:?}");
        assert!(fit.worst_residual < 1e-9);
        assert!(PriceFit::through(&[&prices[0], &prices[1]], &[0.0, 0.0], 1.0).is_none());
    }
}
