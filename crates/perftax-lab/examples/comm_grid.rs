//! Estimates of transfers against the truth, over a grid: `comm_grid SHARING [OPERATIONS [KIND…]]` runs the microbenchmark
//! (crates/perftax-lab/workloads/sharing.c, built) in the simulation at every kind, number of threads and sharing fraction, with samples at four periods
//! beside the truth in each run, and prints a Markdown table and what it says. `scripts/acceptance comm-sim` does.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use perftax_comm::run::{Estimated, Outcome, Request};
use perftax_lab::simulation::{Brought, Guest, Installation, simulate_comm};

const KINDS: [&str; 7] = ["true", "false", "mixed", "read-write", "producer-consumer", "lock", "ring"];
const THREADS: [u64; 5] = [2, 4, 8, 16, 32];
/// Primes near 1K, 10K, 100K and 500K.
const PERIODS: [u64; 4] = [1009, 10_007, 100_003, 500_009];
/// Operations of all threads together, unless said otherwise.
const OPERATIONS: u64 = 8_000_000;
/// One that locks stores six times as often as others do, and goes to the kernel and back: of them a part of that many.
const PART_OF_LOCKS: u64 = 4;

/// One estimate beside the truth.
struct Cell {
    kind: &'static str,
    threads: u64,
    fraction: f64,
    period: u64,
    exact: f64,
    estimate: f64,
    evidence: u64,
    covered: bool,
    /// Volume whose kind of sharing is wrong.
    mistaken: f64,
}

impl Cell {
    fn of(kind: &'static str, threads: u64, fraction: f64, outcome: &Outcome, estimated: &Estimated) -> Self {
        let (mut yes, mut no) = (0, 0);
        for (_, counts) in &outcome.exact.pairs {
            yes += counts.true_sharing;
            no += counts.false_sharing;
        }
        let total = estimated.transfers.total;
        let exact = (yes + no) as f64;
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let mistaken = share(total.true_sharing.estimate, total.total.estimate) - share(yes as f64, exact);
        let mistaken = if total.evidence > 0 { mistaken.abs() } else { 0.0 };
        Self {
            kind,
            threads,
            fraction,
            period: estimated.period,
            exact,
            estimate: total.total.estimate,
            evidence: total.evidence,
            covered: total.total.contains(exact),
            mistaken,
        }
    }

    fn error(&self) -> f64 {
        if self.exact > 0.0 { (self.estimate / self.exact - 1.0).abs() } else { f64::from(self.estimate > 0.0) }
    }

    /// max(10 %, 3/√evidence).
    fn is_within(&self) -> bool {
        self.error() <= 0.1_f64.max(3.0 / (self.evidence as f64).sqrt())
    }
}

/// One run: a row of cells, of all periods.
#[derive(Clone, Copy)]
struct Run {
    kind: &'static str,
    threads: u64,
    tenths: u32,
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let operations = words.get(1).map_or(Some(OPERATIONS), |word| word.to_str()?.parse().ok());
    let (Some(program), Some(operations)) = (words.first(), operations) else {
        eprintln!("usage: comm_grid SHARING [OPERATIONS [KIND…]]   (SHARING: crates/perftax-lab/workloads/sharing.c, built)");
        return ExitCode::from(2);
    };
    let is_asked = |kind: &&str| words.len() < 3 || words[2..].iter().any(|word| word == kind);
    let kinds: Vec<&'static str> = KINDS.into_iter().filter(is_asked).collect();
    match measure(program, operations, &kinds) {
        Ok(cells) => {
            report(&kinds, &cells);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("comm_grid: {error}");
            ExitCode::FAILURE
        }
    }
}

/// All runs, as many at a time as there are CPUs: in the simulation nothing hangs on time.
fn measure(program: &OsString, operations: u64, kinds: &[&'static str]) -> perftax_pmu::Result<Vec<Cell>> {
    let installation = Installation::find(&Brought::default())?;
    let row = |kind: &&'static str| {
        let kind = *kind;
        THREADS.into_iter().flat_map(move |threads| (0..=10).map(move |tenths| Run { kind, threads, tenths }))
    };
    let runs: Vec<Run> = kinds.iter().flat_map(row).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for cpu in perftax_pmu::guard::allowed_cpus().unwrap_or_default() {
            let (installation, runs, next, done) = (&installation, &runs, &next, &done);
            scope.spawn(move || {
                // A simulation keeps to one CPU: each to one of its own.
                if let Err(error) = perftax_pmu::guard::pin_this_thread(cpu) {
                    eprintln!("comm_grid: {error}");
                }
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = runs.get(number) else { return };
                    let cells = cells(installation, program, operations, *run);
                    if let Ok(mut done) = done.lock() {
                        eprintln!("comm_grid: {} of {}: {}", done.len() + 1, runs.len(), told(*run, &cells));
                        done.push((number, cells));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(number, _)| *number);
    let rows: perftax_pmu::Result<Vec<Vec<Cell>>> = done.into_iter().map(|(_, cells)| cells).collect();
    Ok(rows?.into_iter().flatten().collect())
}

/// A run in a line: what an interrupted grid leaves behind.
fn told(run: Run, cells: &perftax_pmu::Result<Vec<Cell>>) -> String {
    let of = |cell: &Cell| {
        let covered = if cell.covered { "held" } else { "not held" };
        format!("; {}: {:.0} of {:.0}, evidence {}, {covered}", cell.period, cell.estimate, cell.exact, cell.evidence)
    };
    let estimates = match cells {
        Ok(cells) => cells.iter().map(of).collect(),
        Err(error) => format!("; {error}"),
    };
    format!("{}, {} threads, {}0 %{estimates}", run.kind, run.threads, run.tenths)
}

fn cells(installation: &Installation, program: &OsString, operations: u64, run: Run) -> perftax_pmu::Result<Vec<Cell>> {
    let Run { kind, threads, tenths } = run;
    let fraction = f64::from(tenths) / 10.0;
    let operations = if kind == "lock" { operations / PART_OF_LOCKS } else { operations };
    let words = [kind.to_string(), fraction.to_string(), threads.to_string(), (operations / threads).to_string()];
    let argv = std::iter::once(program.clone()).chain(words.map(OsString::from)).collect();
    let guest = Guest { argv, silent: true, ..Guest::default() };
    let simulated = simulate_comm(installation, &guest, &request(tenths + 1))?;
    let Some(outcome) = &simulated.outcome else { return Err(simulated.without(kind)) };
    Ok(outcome.estimates.iter().map(|estimated| Cell::of(kind, threads, fraction, outcome, estimated)).collect())
}

fn request(seed: u32) -> Request {
    Request {
        periods: PERIODS.to_vec(),
        registers: 4,
        delay: 0,
        quantum: 16,
        seed: u64::from(seed),
        most_lines: 10,
        outcome: String::new(),
    }
}

/// Share of cells for which something holds, as text.
fn share(cells: &[&Cell], holds: impl Fn(&Cell) -> bool) -> String {
    let held = cells.iter().filter(|cell| holds(cell)).count();
    format!("{held} of {} ({:.1} %)", cells.len(), 100.0 * held as f64 / cells.len().max(1) as f64)
}

fn report(kinds: &[&str], cells: &[Cell]) {
    println!(
        "| kind | period | cells | within max(10 %, 3/√evidence) | interval holds the truth | median error | worst error | kind of sharing right |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for &kind in kinds {
        for period in PERIODS {
            let of: Vec<&Cell> = cells.iter().filter(|c| c.kind == kind && c.period == period && c.fraction > 0.0).collect();
            let mut errors: Vec<f64> = of.iter().map(|cell| cell.error()).collect();
            errors.sort_by(f64::total_cmp);
            println!(
                "| {kind} | {period} | {} | {} | {} | {:.1} % | {:.1} % | {:.2} % |",
                of.len(),
                share(&of, Cell::is_within),
                share(&of, |cell| cell.covered),
                100.0 * errors[errors.len() / 2],
                100.0 * errors[errors.len() - 1],
                100.0 * right(&of)
            );
        }
    }
    let shared: Vec<&Cell> = cells.iter().filter(|cell| cell.fraction > 0.0).collect();
    let unshared: Vec<&Cell> = cells.iter().filter(|cell| cell.fraction == 0.0).collect();
    let dense: Vec<&Cell> = shared.iter().copied().filter(|cell| cell.fraction >= 0.3 && cell.period <= 10_007).collect();
    println!(
        "\nAll cells with a fraction above 0: within {}; interval holds the truth in {}.",
        share(&shared, Cell::is_within),
        share(&shared, |c| c.covered)
    );
    println!(
        "Evidence of 200 and more at fractions from 0.3 on and periods of 1009 and 10007: {}.",
        share(&dense, |c| c.evidence >= 200)
    );
    println!("Kind of sharing right in {:.2} % of the volume.", 100.0 * right(&shared));
    println!("Fraction 0: nothing between the workers reported in {}.", share(&unshared, |cell| cell.estimate <= cell.exact));
    println!("\nCells outside:\n");
    println!("| kind | threads | fraction | period | exact | estimate | evidence |\n|---|---|---|---|---|---|---|");
    for cell in shared.iter().filter(|cell| !cell.is_within()) {
        let Cell { kind, threads, fraction, period, exact, estimate, evidence, .. } = cell;
        println!("| {kind} | {threads} | {fraction} | {period} | {exact:.0} | {estimate:.0} | {evidence} |");
    }
}

/// Share of the volume whose kind of sharing is right.
fn right(cells: &[&Cell]) -> f64 {
    let volume: f64 = cells.iter().map(|cell| cell.exact).sum();
    let mistaken: f64 = cells.iter().map(|cell| cell.exact * cell.mistaken).sum();
    1.0 - mistaken / volume.max(1.0)
}
