//! The accuracy figures of the PES study at full size: its benchmark, a million rounds, through the software PMU. Prints what was
//! published beside what came. It times nothing; a run of the whole takes half an hour.
//!
//! `cargo bench -p perftax-lab --bench pes [-- --rounds N]`; needs the release plugin (`make`) and qemu-user.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a benchmark

use std::collections::BTreeMap;

use perftax_lab::microbench::{Accuracy, Microbench};
use perftax_lab::published::Published;
use perftax_lab::simulation::{Brought, Guest, Installation, simulate};
use perftax_model::Event;
use perftax_model::machine::{Handler, Mechanism};
use perftax_model::run::{Outcome, Request, Sampling};

/// What the study published of one cell: Sasongko et al., TPDS 34(5) 2023, public data set.
#[derive(Clone, Copy)]
enum Word {
    /// Mean of its runs' samples.
    Samples(f64),
    /// Signed error of the mean, %.
    Error(f64),
    /// Accuracy without a sign, %, in the newer and the older session; where they disagree, nothing can be held against it.
    Accuracy(f64, Option<f64>),
    /// Signed error, %, in the newer and in the older session, of runs that fell into two groups.
    Bimodal(f64, f64),
}

/// How near the model must come.
#[derive(Clone, Copy)]
enum Limit {
    /// Of the published mean, %.
    OfMean(f64),
    /// Percentage points of the signed error.
    Points(f64),
    /// No pass mark.
    None,
}

struct Cell {
    figure: &'static str,
    mechanism: Mechanism,
    event: Event,
    /// The samples of the load alone are counted: what IBS calls those of loads that missed.
    load_only: bool,
    step: u64,
    period: u64,
    published: Word,
    limit: Limit,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut rows = |figure, mechanism, event, load_only, period, limit, published: [Word; 5]| {
        cells.extend(Accuracy::STEPS.into_iter().zip(published).map(|(step, published)| Cell {
            figure,
            mechanism,
            event,
            load_only,
            step,
            period,
            published,
            limit,
        }));
    };
    let (pebs, op, fetch) = (Mechanism::Pebs, Mechanism::IbsOp, Mechanism::IbsFetch);
    let means = |n: [f64; 5]| n.map(Word::Samples);
    let instructions = means([200_081.0, 400_133.0, 600_180.0, 800_228.0, 1_000_277.0]);
    rows("3", pebs, Event::Instructions, false, 100_000, Limit::OfMean(0.15), instructions);
    let misses = means([9_999.0, 9_990.4, 9_992.8, 9_993.0, 9_993.8]);
    rows("4", pebs, Event::L1Misses, false, 100_000, Limit::OfMean(0.15), misses);
    let errors = [7.833, 8.406, 8.534, 8.627, 8.675].map(Word::Error);
    rows("3", op, Event::DispatchedOps, false, 100_000, Limit::Points(2.0), errors);
    let errors = [2.390, 2.931, 3.220, 3.297, 3.212].map(Word::Error);
    rows("3", fetch, Event::Fetches, false, 100_000, Limit::Points(2.0), errors);
    // The older session's accuracies, 100 less the error without its sign.
    let loads = [(1.126, -6.124), (15.98, -1.654), (17.088, -18.218), (14.28, -2.582), (9.808, -17.478)];
    rows(
        "4",
        op,
        Event::DispatchedOps,
        true,
        100_000,
        Limit::None,
        loads.map(|(new, old): (f64, f64)| Word::Bimodal(new, old.abs())),
    );
    let mut figure_6 = |mechanism, event, load_only, period, limit, published| {
        cells.push(Cell { figure: "6", mechanism, event, load_only, step: 20, period, published, limit });
    };
    for (period, mean, limit) in
        [(1_000_000, 999.0, 0.15), (10_000, 99_906.8, 0.15), (1000, 998_963.8, 0.15), (100, 9_928_535.4, 0.5)]
    {
        figure_6(pebs, Event::L1Misses, false, period, Limit::OfMean(limit), Word::Samples(mean));
    }
    for (period, new, old) in [(1_000_000, 89.26, Some(98.79)), (100_000, 94.29, Some(89.14)), (10_000, 41.02, Some(75.34))] {
        figure_6(op, Event::DispatchedOps, true, period, Limit::None, Word::Accuracy(new, old));
    }
    cells
}

fn run(cell: &Cell, rounds: u64) -> (Outcome, Accuracy) {
    let machine = if cell.mechanism == Mechanism::Pebs { "cascade-lake" } else { "zen2" };
    let machine = Published::load(machine).unwrap().model().unwrap().clone();
    let sampling = Sampling {
        mechanism: cell.mechanism,
        event: cell.event,
        period: cell.period,
        buffer_bytes: None,
        handler: Handler::Copies,
    };
    let request = Request { sampling: Some(sampling), caches: cell.event.needs_caches(), ..Request::counting(machine) };
    let bench = Accuracy { step: cell.step, rounds, seed: 1 };
    let folder = tempfile::tempdir().unwrap();
    let guest = Guest { argv: vec![bench.build(folder.path()).unwrap().into()], ..Guest::default() };
    let simulated = simulate(&Installation::find(&Brought::default()).unwrap(), &guest, &request).unwrap();
    assert_eq!(simulated.code, 0);
    (simulated.outcome.unwrap(), bench)
}

/// Samples of the busiest address that is a load: the first instruction of a step.
fn of_the_load(by_address: &BTreeMap<u64, u64>) -> u64 {
    // A step begins 48 bytes into a line, and the addresses of its instructions are the only ones with many samples.
    by_address.iter().filter(|(ip, _)| *ip % 64 == 48).map(|(_, samples)| *samples).next().unwrap_or(0)
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let rounds = words.iter().position(|word| word == "--rounds").map_or(Accuracy::ROUNDS, |at| words[at + 1].parse().unwrap());
    let share = rounds as f64 / Accuracy::ROUNDS as f64;
    println!("{rounds} rounds; errors are signed, against the construction's count / period\n");
    println!(
        "| figure | mechanism | samples of | ratio | period | by construction | here | error | published | difference | asked |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let (mut passed, mut failed) = (0, 0);
    for cell in cells() {
        let (outcome, bench) = run(&cell, rounds);
        let all: u64 = outcome.cores.iter().map(|core| core.samples).sum();
        let samples = if cell.load_only { of_the_load(&outcome.by_address) } else { all } as f64;
        let truth = match cell.event {
            Event::Fetches => bench.fetches(),
            _ if cell.load_only || cell.event == Event::L1Misses => bench.l1_misses(),
            _ => bench.instructions(),
        };
        // Of the operations sampled one in `step` is the load, and one in `step` operations misses: the same period applies.
        let expected = truth as f64 / cell.period as f64;
        let error = 100.0 * (samples / expected - 1.0);
        let (published, difference) = match cell.published {
            Word::Samples(mean) => {
                let difference = 100.0 * (samples / (mean * share) - 1.0);
                (format!("{:.1}", mean * share), Some((difference, format!("{difference:+.3} %"))))
            }
            Word::Error(percent) => {
                (format!("{percent:+.2} %"), Some((error - percent, format!("{:+.2} points", error - percent))))
            }
            Word::Accuracy(new, old) => {
                let old = old.map_or(String::new(), |old| format!(", older session {old:.1} %"));
                (format!("accuracy {new:.1} %{old}"), None)
            }
            Word::Bimodal(new, old) => (format!("{new:+.2} %, older session {old:.2} % off"), None),
        };
        let verdict = match (cell.limit, difference.as_ref()) {
            // In a shorter run one sample more or less is more than the limit.
            (Limit::OfMean(limit), Some((by, _))) => {
                let one_sample = 100.0 * f64::from(u8::from(share < 1.0)) / expected;
                Some((by.abs() <= limit + one_sample, format!("{limit} %")))
            }
            (Limit::Points(limit), Some((by, _))) => Some((by.abs() <= limit, format!("{limit} points"))),
            _ => None,
        };
        let asked = match &verdict {
            Some((true, asked)) => {
                passed += 1;
                asked.clone()
            }
            Some((false, asked)) => {
                failed += 1;
                format!("**{asked}: missed**")
            }
            None => "none".into(),
        };
        println!(
            "| {} | {} | {} | 1/{} | {} | {expected:.1} | {samples} | {error:+.3} % | {published} | {} | {asked} |",
            cell.figure,
            cell.mechanism.name(),
            if cell.load_only { "loads that missed" } else { cell.event.name() },
            cell.step,
            cell.period,
            difference.map_or(String::new(), |(_, text)| text),
        );
    }
    println!("\n{passed} cells within what was asked, {failed} not");
    assert_eq!(failed, 0);
}
