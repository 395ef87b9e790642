//! What it costs a program to measure itself by perf_event, and what context switches cost while events are open: the study of Weaver
//! ("Self-monitoring overhead of the Linux perf_event performance counter interface", ISPASS 2015; FastPath 2013), as one price list.
//!
//! Everything is measured in rounds, each a pass over all prices in random order, so that what drifts hits all alike. One file a kind of price;
//! what all of them share: the [`Book`] that runs are entered in, and [`timed`].

mod book;
mod calls;
mod pairs;
mod papi;
mod session;
mod sets;
mod stopwatch;
mod switches;
mod tasks;
mod tools;
mod touch;

use std::time::{Duration, Instant};

use perftax_doc::{EventSet, Price, PriceFit, PriceRatio, PriceSection};
use perftax_pmu::Result;
use perftax_pmu::event::Catalog;
use perftax_pmu::guard::{check_interrupted, pin_this_thread};

use book::Book;
pub use sets::Set;
pub use stopwatch::{Scale, timed};

/// How a price list is made.
pub struct Setting<'a> {
    /// Names of events.
    pub catalog: &'a Catalog,
    /// CPU that everything runs on.
    pub cpu: u32,
    /// Passes over all prices.
    pub rounds: usize,
    /// Timed runs of each price in a round.
    pub runs: usize,
    /// Passes of the token in a round, for each condition of a ring of processes.
    pub passes: u64,
    /// Least time from the beginning of a round to that of the next, so that they do not share the machine's mood.
    pub pace: Duration,
    /// Parts of the list that are wanted.
    pub sections: &'a [PriceSection],
    /// Whether the time stamp counter ticks once an instruction (the emulated machine).
    pub counts_instructions: bool,
    /// Of the order within a round.
    pub seed: u64,
}

impl Setting<'_> {
    /// Whether a part is wanted.
    fn wants(&self, section: PriceSection) -> bool {
        self.sections.contains(&section)
    }
}

/// What came of it.
pub struct Measured {
    /// Events that were used.
    pub sets: Vec<EventSet>,
    /// Ticks and what they are.
    pub scale: Scale,
    /// The timer's own cost, ticks.
    pub timer: Price,
    /// The list.
    pub prices: Vec<Price>,
    /// Ratios of pairs.
    pub ratios: Vec<PriceRatio>,
    /// Lines over the number of events.
    pub fits: Vec<PriceFit>,
}

/// Prices that are measured together.
trait Bench {
    /// Measures each once more. What is not to be had is entered with its reason, and not tried again.
    fn round(&mut self, book: &mut Book) -> Result<()>;
}

/// Makes the list, on a thread of its own. `told` hears of each round that is done.
///
/// # Errors
/// Where what was there is there no more; on SIGINT and SIGTERM. What was never there makes a price that says so.
pub fn run(setting: &Setting, told: impl Fn(usize) + Send) -> Result<Measured> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| measured(setting, told));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn measured(setting: &Setting, told: impl Fn(usize)) -> Result<Measured> {
    pin_this_thread(setting.cpu)?;
    let scale = Scale::measured(setting.counts_instructions);
    let mut book = Book::new(setting.runs);
    let sets = Set::all(setting.catalog);
    let mut benches = benches(setting, &sets, &mut book)?;
    let mut random = fastrand::Rng::with_seed(setting.seed);
    for round in 0..setting.rounds {
        let began = Instant::now();
        book.round = round;
        random.shuffle(&mut benches);
        for bench in &mut benches {
            check_interrupted()?;
            bench.round(&mut book)?;
        }
        told(round + 1);
        if round + 1 < setting.rounds {
            std::thread::sleep(setting.pace.saturating_sub(began.elapsed()));
        }
    }
    let sets = sets.iter().map(|set| EventSet { name: set.name.into(), events: set.names() }).collect();
    Ok(book.closed(scale, sets))
}

fn benches<'a>(setting: &'a Setting, sets: &'a [Set], book: &mut Book) -> Result<Vec<Box<dyn Bench + 'a>>> {
    let mut all: Vec<Box<dyn Bench + 'a>> = vec![Box::new(stopwatch::Timer)];
    for set in sets {
        if let Some(why) = &set.missing {
            // Once, for all that would be measured of it.
            if let Some(&section) = setting.sections.iter().find(|section| **section != PriceSection::Tool) {
                book.missing(Price::new(section, "everything", "", set.name, 0), why);
            }
            continue;
        }
        if setting.wants(PriceSection::Measuring) {
            all.extend(session::benches(set, book));
            all.extend(papi::benches(set, book));
            all.push(Box::new(pairs::Pairs::new(set, setting.seed, book)?));
        }
        if setting.wants(PriceSection::FirstTouch) {
            all.push(Box::new(touch::FirstTouch::new(set, book)?));
        }
        if setting.wants(PriceSection::Call) {
            all.push(Box::new(calls::Calls::new(set, setting.catalog, book)?));
        }
    }
    if setting.wants(PriceSection::Call) {
        all.push(Box::new(calls::Nothing::new(book)));
    }
    if setting.wants(PriceSection::Switch) {
        all.push(Box::new(switches::Switches::new(setting, sets, book)));
    }
    if setting.wants(PriceSection::Task) {
        all.push(Box::new(tasks::Tasks::new(setting, sets, book)));
    }
    if setting.wants(PriceSection::Tool) {
        all.push(Box::new(tools::Tools::new(book)));
    }
    Ok(all)
}
