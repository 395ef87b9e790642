//! Estimates against the truth, over programs whose every access is known.

mod common;
mod patterns;

use common::{Truth, total_variation};
use patterns::{PATTERNS, Pattern, Program};
use perftax_comm::{Settings, Simulated, Transfers};

/// A program, and how it is sampled.
#[derive(Clone, Copy, Debug)]
struct Case {
    pattern: Pattern,
    threads: u32,
    fraction: f64,
    period: u64,
    /// Accesses until registers are armed.
    delay: u64,
}

const ACCESSES: u64 = 400_000;

impl Case {
    fn run(&self) -> (Transfers, Truth) {
        self.run_for(ACCESSES)
    }

    fn run_for(&self, accesses: u64) -> (Transfers, Truth) {
        let mut program = Program::new(self.pattern, self.threads, self.fraction, self.period + u64::from(self.threads));
        let mut truth = Truth::default();
        let mut simulated = Simulated::new(Settings::default(), self.period, self.delay);
        (0..self.threads).for_each(|thread| simulated.thread_started(thread));
        for _ in 0..accesses {
            let access = program.next();
            truth.take(&access);
            simulated.take(&access);
        }
        (simulated.finish().transfers, truth)
    }
}

/// All programs that share, sampled at a period.
fn cases(periods: &[u64], delay: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for pattern in PATTERNS {
        for threads in [2, 4, 8, 16] {
            for fraction in [0.1, 0.3, 0.7, 1.0] {
                cases.extend(periods.iter().map(|&period| Case { pattern, threads, fraction, period, delay }));
            }
        }
    }
    cases
}

/// How an estimate stands to the truth.
fn is_within(transfers: &Transfers, exact: f64) -> bool {
    let allowed = 0.1_f64.max(3.0 / (transfers.total.evidence as f64).sqrt());
    (transfers.total.total.estimate / exact - 1.0).abs() <= allowed
}

#[test]
fn estimates_are_near_the_truth_and_intervals_hold_it() {
    let cases = cases(&[101, 1009], 0);
    let (mut within, mut covered, mut volume, mut mistaken) = (0, 0, 0.0, 0.0);
    for case in &cases {
        let (transfers, truth) = case.run();
        let exact = truth.total().total() as f64;
        let total = &transfers.total;
        if is_within(&transfers, exact) {
            within += 1;
        } else {
            println!("outside: {case:?}: {total:?} of {exact}");
        }
        covered += u32::from(total.total.contains(exact));
        if total.evidence > 0 {
            let is_true = total.true_sharing.estimate / total.total.estimate;
            mistaken += exact * (is_true - truth.total().true_sharing as f64 / exact).abs();
        }
        volume += exact;
    }
    let all = cases.len() as f64;
    println!("within {within}, covered {covered} of {all}, mistaken {}", mistaken / volume);
    assert!(f64::from(within) >= 0.95 * all, "{within} of {all}");
    assert!(f64::from(covered) >= 0.9 * all, "{covered} of {all}");
    assert!(mistaken <= 0.05 * volume, "{}", mistaken / volume);
}

/// Live, registers are armed some microseconds after a sample, and whole bursts have passed by then.
#[test]
fn late_registers_are_no_bias_where_lines_come_back() {
    let cases = cases(&[211], 200);
    let within = cases.iter().filter(|case| {
        let (transfers, truth) = case.run();
        let exact = truth.total().total() as f64;
        let is_within = is_within(&transfers, exact);
        if !is_within {
            println!("outside: {case:?}: {:?} of {exact}", transfers.total);
        }
        is_within
    });
    let (within, all) = (within.count() as f64, cases.len() as f64);
    assert!(within >= 0.9 * all, "{within} of {all}");
}

#[test]
fn nothing_is_found_where_nothing_is_shared() {
    for threads in [2, 8] {
        let case = Case { pattern: Pattern::True, threads, fraction: 0.0, period: 101, delay: 0 };
        let (transfers, truth) = case.run();
        assert_eq!((truth.total().total(), transfers.total.total.estimate, transfers.pairs.len()), (0, 0.0, 0));
        assert!(transfers.total.total.high > 0.0, "not seen is not none: {:?}", transfers.total.total);
    }
}

/// Who writes for whom: a share of the transfers for each pair.
#[test]
fn pairs_have_their_shares() {
    for (pattern, threads) in [(Pattern::Stream, 4), (Pattern::ReadWrite, 8), (Pattern::True, 4)] {
        let case = Case { pattern, threads, fraction: 0.7, period: 101, delay: 0 };
        let (transfers, truth) = case.run_for(8 * ACCESSES);
        let apart = total_variation(&transfers, &truth);
        assert!(apart < 0.15, "{case:?}: {apart}");
        if pattern == Pattern::Stream {
            assert!(transfers.pairs.iter().all(|((from, to), _)| from % 2 == 0 && *to == from + 1), "{:?}", transfers.pairs);
        }
    }
}

/// The interval has the truth in it as often as it says, program by program drawn anew.
#[test]
fn intervals_cover() {
    let mut covered = 0;
    const DRAWS: u32 = 60;
    for draw in 0..DRAWS {
        let mut program = Program::new(Pattern::Mixed, 4, 0.5, u64::from(draw));
        let mut truth = Truth::default();
        let mut simulated = Simulated::new(Settings { seed: u64::from(draw), ..Settings::default() }, 499, 0);
        (0..4).for_each(|thread| simulated.thread_started(thread));
        for _ in 0..100_000 {
            let access = program.next();
            truth.take(&access);
            simulated.take(&access);
        }
        covered += u32::from(simulated.finish().transfers.total.total.contains(truth.total().total() as f64));
    }
    assert!(covered >= DRAWS * 9 / 10, "{covered} of {DRAWS}");
}
