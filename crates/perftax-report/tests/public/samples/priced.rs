//! Price lists with plausible numbers.

#![allow(clippy::unwrap_used)] // samples may

use perftax_cost::price_list;
use perftax_doc::{CostUnit, EventSet, Price, PriceFit, PriceRatio, PriceSection, Selfcost, Series};

use super::{normal, origin};

const ROUNDS: usize = 8;
const RUNS: usize = 8;
const TICKS_PER_NS: f64 = 2.6;
const TIMER_TICKS: f64 = 52.0;

/// A list of software events, in nanoseconds.
pub fn selfcost() -> Selfcost {
    listed(1.0, "6.1.0-56-amd64", 11)
}

/// The same of another kernel, where everything takes a fifth more and reading in user mode is not to be had.
pub fn other_selfcost() -> Selfcost {
    let mut doc = listed(1.2, "6.18.0", 12);
    doc.prices.retain(|price| price.operation != "look");
    doc
}

fn listed(factor: f64, kernel: &str, seed: u64) -> Selfcost {
    let mut rng = fastrand::Rng::with_seed(seed);
    let timer = [TIMER_TICKS; ROUNDS];
    let mut price = |section, operation: &str, method: &str, set: &str, events: u32, ns: f64| {
        let mut price = Price::new(section, operation, method, set, events);
        let mut ticks =
            |slow: f64| (TIMER_TICKS + factor * ns * TICKS_PER_NS * slow * (1.0 + 0.02 * normal(&mut rng)).abs()) as u64;
        for round in 0..ROUNDS {
            price.first_ticks.push(round, ticks(4.0));
            (0..RUNS).for_each(|_| price.runs_ticks.push(round, ticks(1.0)));
        }
        price_list::estimated(price, &timer, TICKS_PER_NS)
    };
    use PriceSection::{Call, FirstTouch, Measuring, Switch, Tool};
    let mut prices = Vec::new();
    for n in [1, 2, 4, 8, 16] {
        let events = f64::from(n);
        prices.push(price(Measuring, "start", "ioctl, group", "software", n, 830.0 + 97.0 * events));
        prices.push(price(Measuring, "start", "ioctl, singles", "software", n, 700.0 * events + 150.0 * events * events));
        prices.push(price(Measuring, "read", "read(), group", "software", n, 690.0 + 32.0 * events));
    }
    prices.push(price(Measuring, "read", "in turns: our library", "software", 1, 541.0));
    prices.push(price(Measuring, "read", "in turns: PAPI", "software", 1, 836.0));
    prices.push(price(FirstTouch, "read", "read() into an untouched page", "software", 1, 3_640.0));
    prices.push(price(FirstTouch, "look", "first time after mmap", "software", 1, 185.0));
    prices.push(price(Call, "open", "page-faults:u", "software", 1, 3_400.0));
    prices.push(price(Call, "a call that does nothing", "getppid()", "", 0, 115.0));
    prices.push(price(Switch, "2 processes of 0 KiB", "no event", "", 0, 1_890.0));
    prices.push(price(Switch, "2 processes of 0 KiB", "counting, per task", "software", 8, 5_330.0));
    prices.push(price(Tool, "run true", "by itself", "", 0, 665_000.0));
    prices[2].remark = Some("a remark\u{1b}[2J".into());
    let mut missing = Price::new(Measuring, "read", "rdpmc", "software", 1);
    missing.remark = Some("page-faults:u is on no hardware counter: the index on its page is 0".into());
    prices.push(missing);
    let at = |operation: &str, method: &str| prices.iter().find(|p| p.operation == operation && p.method == method).unwrap();
    let ratio = |of: &Price, to: &Price, bound| {
        let rounds = |price: &Price| price_list::by_round(price, &timer, TICKS_PER_NS);
        price_list::ratio((of.name(), to.name()), &rounds(of), &rounds(to), bound).unwrap()
    };
    let ratios = vec![
        ratio(at("read", "in turns: our library"), at("read", "in turns: PAPI"), Some(1.0)),
        ratio(at("2 processes of 0 KiB", "counting, per task"), at("2 processes of 0 KiB", "no event"), None),
    ];
    let fits = ["ioctl, group", "ioctl, singles"].map(|method| {
        let prices: Vec<&Price> = prices.iter().filter(|p| p.operation == "start" && p.method == method).collect();
        price_list::through(&prices, &timer, TICKS_PER_NS).unwrap()
    });
    let mut timer_ticks = Price::new(Measuring, "timer", "rdtscp", "", 0);
    timer_ticks.runs_ticks = Series { rounds: vec![vec![TIMER_TICKS as u64; 4 * RUNS]; ROUNDS] };
    Selfcost {
        origin: perftax_doc::Origin { kernel: kernel.into(), ..origin("selfcost", &["perftax", "selfcost"]) },
        is_quick: false,
        unit: CostUnit::Nanoseconds,
        ticks_per_unit: TICKS_PER_NS,
        rounds: ROUNDS as u32,
        runs_per_round: RUNS as u32,
        timer_ticks: price_list::estimated(timer_ticks, &[], 1.0),
        sets: vec![
            EventSet { name: "software".into(), events: ["page-faults:u", "context-switches:u"].map(String::from).to_vec() },
            EventSet { name: "hardware".into(), events: Vec::new() },
        ],
        prices,
        ratios,
        fits: fits.to_vec(),
        elapsed_s: 55.2,
    }
}
