//! Where runs are entered.

use perftax_cost::price_list::{by_round, estimated, ratio, through};
use perftax_doc::{EventSet, Price, PriceFit, PriceSection};

use super::{Measured, Scale};

/// A price of the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(usize);

/// All prices with their runs so far.
#[derive(Debug)]
pub struct Book {
    /// The round that runs are entered for.
    pub round: usize,
    /// Timed runs of each price in a round.
    pub runs: usize,
    timer: Price,
    prices: Vec<Price>,
    ratios: Vec<(Entry, Entry, Option<f64>)>,
}

impl Book {
    /// Without a price.
    pub fn new(runs: usize) -> Self {
        let timer = Price::new(PriceSection::Measuring, "timer", "rdtscp", "", 0);
        Self { round: 0, runs, timer, prices: Vec::new(), ratios: Vec::new() }
    }

    /// Opens a price.
    pub fn open(&mut self, price: Price) -> Entry {
        self.prices.push(price);
        Entry(self.prices.len() - 1)
    }

    /// Enters a price that cannot be had here.
    pub fn missing(&mut self, price: Price, why: &str) {
        let entry = self.open(price);
        self.remark(entry, why);
    }

    /// Says something about a price, unless it is said already.
    pub fn remark(&mut self, entry: Entry, text: &str) {
        let remark = &mut self.prices[entry.0].remark;
        match remark {
            Some(said) if said.contains(text) => {}
            Some(said) => *said = format!("{said}; {text}"),
            None => *remark = Some(text.into()),
        }
    }

    /// Asks for the ratio of two prices, which were measured in turns.
    pub fn compare(&mut self, of: Entry, to: Entry, bound: Option<f64>) {
        self.ratios.push((of, to, bound));
    }

    /// Enters a run.
    pub fn run(&mut self, entry: Entry, ticks: u64) {
        self.prices[entry.0].runs_ticks.push(self.round, ticks);
    }

    /// Enters a run that was the first of its round, or one behind it.
    pub fn nth(&mut self, entry: Entry, nth: usize, ticks: u64) {
        if nth == 0 {
            self.prices[entry.0].first_ticks.push(self.round, ticks);
        } else {
            self.run(entry, ticks);
        }
    }

    /// Enters what is to be taken off this round's runs instead of the timer.
    pub fn take_off(&mut self, entry: Entry, ticks: u64) {
        self.prices[entry.0].subtracted_ticks.push(self.round, ticks);
    }

    /// Enters a run of the timer alone.
    pub fn timer(&mut self, ticks: u64) {
        self.timer.runs_ticks.push(self.round, ticks);
    }

    /// The book with everything worked out.
    pub fn closed(self, scale: Scale, sets: Vec<EventSet>) -> Measured {
        let per_unit = scale.ticks_per_unit;
        let timer: Vec<f64> = by_round(&self.timer, &[], 1.0).into_iter().map(|ticks| ticks.unwrap_or(0.0)).collect();
        let prices: Vec<Price> = self.prices.into_iter().map(|price| estimated(price, &timer, per_unit)).collect();
        let ratio = |(of, to, bound): (Entry, Entry, Option<f64>)| {
            let (of, to) = (&prices[of.0], &prices[to.0]);
            ratio((of.name(), to.name()), &by_round(of, &timer, per_unit), &by_round(to, &timer, per_unit), bound)
        };
        let ratios = self.ratios.into_iter().filter_map(ratio).collect();
        Measured { sets, scale, fits: fits(&prices, &timer, per_unit), timer: estimated(self.timer, &[], 1.0), prices, ratios }
    }
}

/// A line for all prices of starting, stopping and reading that differ in their number of events alone. Events that shared counters are left out:
/// some of them were not started at all.
fn fits(prices: &[Price], timer: &[f64], ticks_per_unit: f64) -> Vec<PriceFit> {
    let is_same = |a: &Price, b: &Price| (&a.operation, &a.method, &a.set) == (&b.operation, &b.method, &b.set);
    let usable: Vec<&Price> = prices
        .iter()
        .filter(|p| p.section == PriceSection::Measuring && p.events > 0 && p.cost.is_some() && p.remark.is_none())
        .collect();
    let mut fits = Vec::new();
    for (at, price) in usable.iter().enumerate() {
        if usable[..at].iter().any(|earlier| is_same(earlier, price)) {
            continue;
        }
        let alike: Vec<&Price> = usable[at..].iter().copied().filter(|later| is_same(later, price)).collect();
        fits.extend(through(&alike, timer, ticks_per_unit));
    }
    fits
}
