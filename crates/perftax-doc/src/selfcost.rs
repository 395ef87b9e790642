//! `perftax selfcost`: what it costs a program to measure itself by perf_event.

use serde::{Deserialize, Serialize};

use crate::Origin;
use crate::Series;
use crate::{BoxOf, Estimate};

/// The price list of one kernel on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CostUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Instructions executed, of user and kernel: the emulated machine, whose time stamp counter ticks once an instruction.
    Instructions,
}

/// Events that are of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventSet {
    /// `software` or `hardware`.
    pub name: String,
    /// As perf names them.
    pub events: Vec<String>,
}

/// Which part of the list a price belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
}

/// Two prices against each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
