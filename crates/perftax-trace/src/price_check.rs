//! What recording costs, checked on the program itself: short slices of a recording with nothing recorded, each between two with everything.
//!
//! Prices of a calibration are those of a loop. In a program a record finds colder caches, an instruction under a probe may have to be emulated, and all threads
//! share the same lists in the kernel: there it may take several times as much. So the CPU time that the program takes for the same work is compared, with
//! recording on and off. The work is what is counted without anything being recorded: messages that are marked, or bytes that came by TCP.
//!
//! The logarithms of such ratios are averaged: a slice that is long by chance counts for as much as one that is short.

use perftax_cost::bootstrap::{REPLICATES, SEED, cluster_bootstrap};
use perftax_doc::{Estimate, PriceChecked};

use crate::budget::Progress;

/// From the beginning of a recording to the first comparison, ns: one that is short is whole.
const FIRST_NS: u64 = 2_000_000_000;
/// Length of a slice at least, ns, and CPU time in it that is waited for; but not for longer than this.
const SLICE_NS: u64 = 100_000_000;
const ENOUGH_CPU_NS: u64 = SLICE_NS / 4;
const LONGEST_NS: u64 = 1_000_000_000;
/// The share of a recording in which nothing is recorded, for this, at most: until there are so many comparisons, and from then on.
const FIRST_PAIRS: usize = 5;
const FIRST_OFF_SHARE: f64 = 0.1;
const MAX_OFF_SHARE: f64 = 0.02;
/// More comparisons than these tell little that is new.
const MAX_PAIRS: usize = 40;
const MAX_BLIND_PAIRS: usize = 10;
/// So long is waited for work behind a slice in which none was done, ns.
const IDLE_NS: u64 = 10_000_000_000;
/// Comparisons that an estimate needs.
const MIN_PAIRS: usize = 3;
/// Work in a slice that says anything.
const MIN_WORK: u64 = 20;

/// What is to be done with a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Stay,
    /// To switch it off.
    Off,
    /// To switch it on again.
    On,
}

/// CPU time and work of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    cpu_ns: u64,
    work: u64,
}

impl Slice {
    fn between(from: &Progress, to: &Progress) -> Self {
        Self { cpu_ns: to.cpu_ns.saturating_sub(from.cpu_ns), work: to.messages.saturating_sub(from.messages) }
    }

    fn cpu_ns_each(&self) -> Option<f64> {
        (self.work >= MIN_WORK && self.cpu_ns > 0).then(|| self.cpu_ns as f64 / self.work as f64)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Until the next comparison is due, ns.
    Waits(u64),
    /// The slice before, with recording on, since then.
    Before(Progress),
    /// The slice with recording off, and the one before it; since then, once it is off.
    Off(Slice, Option<Progress>),
    /// The slice after, and the two before it; since then, once it is on.
    After(Slice, Slice, Option<Progress>),
    /// No more of them.
    Over,
}

/// Says when to record nothing, and what was learned by it.
#[derive(Clone, Debug)]
pub struct PriceCheck {
    state: State,
    began_ns: u64,
    /// When recording was switched off last, and for how long it was off in all, ns.
    off_since: Progress,
    off_ns: u64,
    /// The program's CPU time meanwhile, ns.
    off_cpu_ns: u64,
    /// Slices in which nothing was done.
    idle: usize,
    /// Comparisons that are made at most.
    most: usize,
    /// Logarithms of CPU time with recording on over that with it off.
    pairs: Vec<f64>,
    compared: usize,
}

impl PriceCheck {
    /// For a recording that begins now, of whose messages all or none are known while nothing is recorded: then those under way are lost, long ones more often than short ones, and it
    /// is done with sooner.
    pub fn new(now_ns: u64, knows_messages: bool) -> Self {
        let state = State::Waits(now_ns + FIRST_NS);
        let most = if knows_messages { MAX_PAIRS } else { MAX_BLIND_PAIRS };
        Self {
            state,
            began_ns: now_ns,
            off_since: Progress::default(),
            off_ns: 0,
            off_cpu_ns: 0,
            idle: 0,
            most,
            pairs: Vec::new(),
            compared: 0,
        }
    }

    /// No more comparisons are made.
    pub fn give_up(&mut self) {
        self.state = State::Over;
    }

    /// A stretch with recording on, between two with it off, that was not this check's: one more comparison, where enough was done in each. At most [`MAX_PAIRS`] are kept, the last ones.
    pub fn compare(&mut self, before: [Progress; 2], on: [Progress; 2], after: [Progress; 2]) {
        let each = [before, on, after].map(|[from, to]| Slice::between(&from, &to).cpu_ns_each());
        let [Some(before), Some(on), Some(after)] = each else { return };
        if self.pairs.len() >= MAX_PAIRS {
            self.pairs.remove(0);
        }
        self.compared += 1;
        self.pairs.push((on / (before * after).sqrt()).ln());
    }

    /// Whether no comparison is under way.
    pub fn is_between(&self) -> bool {
        matches!(self.state, State::Waits(_) | State::Over)
    }

    /// Comparisons so far, those that were not kept among them.
    pub fn comparisons(&self) -> usize {
        self.compared
    }

    /// Whether something is over by now; the program's CPU time is asked for where that decides.
    pub fn is_due(&self, now_ns: u64, cpu_ns: impl FnOnce() -> u64) -> bool {
        let began = match self.state {
            State::Waits(until_ns) => return now_ns >= until_ns,
            State::Over | State::Off(_, None) | State::After(.., None) => return false,
            State::Before(began) | State::Off(_, Some(began)) | State::After(.., Some(began)) => began,
        };
        let lasted_ns = now_ns.saturating_sub(began.time_ns);
        lasted_ns >= LONGEST_NS || lasted_ns >= SLICE_NS && cpu_ns().saturating_sub(began.cpu_ns) >= ENOUGH_CPU_NS
    }

    /// Something is over: says what to do. Whoever has done it says so by [`PriceCheck::switched`].
    pub fn next(&mut self, now: Progress) -> Step {
        match self.state {
            State::Waits(_) => self.state = State::Before(now),
            State::Before(began) => {
                let before = Slice::between(&began, &now);
                // Where nothing is done nothing has to be missed.
                if before.cpu_ns_each().is_none() {
                    self.ended(now.time_ns, None);
                    return Step::Stay;
                }
                self.state = State::Off(before, None);
                self.off_since = now;
                return Step::Off;
            }
            State::Off(before, Some(began)) => {
                self.state = State::After(before, Slice::between(&began, &now), None);
                return Step::On;
            }
            State::After(before, off, Some(began)) => {
                let after = Slice::between(&began, &now);
                let each = [before, off, after].map(|slice| slice.cpu_ns_each());
                let ratio =
                    if let [Some(before), Some(off), Some(after)] = each { Some((before * after).sqrt() / off) } else { None };
                self.ended(now.time_ns, ratio);
            }
            State::Over | State::Off(_, None) | State::After(.., None) => {}
        }
        Step::Stay
    }

    /// Recording has been switched, by `now`.
    pub fn switched(&mut self, now: Progress) {
        match &mut self.state {
            State::Off(_, began @ None) => *began = Some(now),
            State::After(.., began @ None) => {
                self.off_ns += now.time_ns.saturating_sub(self.off_since.time_ns);
                self.off_cpu_ns += now.cpu_ns.saturating_sub(self.off_since.cpu_ns);
                *began = Some(now);
            }
            _ => {}
        }
    }

    fn ended(&mut self, now_ns: u64, ratio: Option<f64>) {
        let is_idle = ratio.is_none();
        self.idle += usize::from(is_idle);
        self.pairs.extend(ratio.map(f64::ln));
        self.compared += usize::from(ratio.is_some());
        // The next one takes as long as those before did.
        let each_ns = self.off_ns / (self.pairs.len() + self.idle).max(1) as u64;
        let share = if self.pairs.len() < FIRST_PAIRS { FIRST_OFF_SHARE } else { MAX_OFF_SHARE };
        let due_ns = self.began_ns + ((self.off_ns + each_ns) as f64 / share) as u64;
        let rests_ns = if is_idle { IDLE_NS } else { 0 };
        self.state = if self.pairs.len() >= self.most { State::Over } else { State::Waits(due_ns.max(now_ns + rests_ns)) };
    }

    /// What was found; none with fewer than three comparisons.
    pub fn found(&self) -> Option<PriceChecked> {
        if self.pairs.len() < MIN_PAIRS {
            return None;
        }
        let mean = |pairs: &[&f64]| pairs.iter().copied().sum::<f64>() / pairs.len() as f64;
        let mean = cluster_bootstrap(&self.pairs, mean, REPLICATES, SEED)?;
        let extra = |log: f64| log.exp_m1();
        Some(PriceChecked {
            extra: Estimate::new(extra(mean.estimate), extra(mean.low), extra(mean.high)),
            off_s: self.off_ns as f64 * 1e-9,
            off_cpu_s: self.off_cpu_ns as f64 * 1e-9,
            at_least: false,
            pairs: self.pairs.iter().copied().map(extra).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    const LOOK_NS: u64 = 10_000_000;
    /// Switching takes as long as closing some tracepoints.
    const SWITCH_NS: u64 = 80_000_000;

    /// A program that takes 10 µs a message, and so much more while it is recorded, give or take 5 %; works for `busy` of the time.
    fn run(extra: f64, busy: f64, seconds: u64) -> (PriceCheck, u64) {
        let mut check = PriceCheck::new(0, true);
        let mut random = fastrand::Rng::with_seed(3);
        let (mut now, mut work, mut is_on, mut off_ns) = (Progress::default(), 0.0, true, 0);
        let mut go = |now: &mut Progress, is_on: bool, ns: u64| {
            let each_ns = 10_000.0 * (1.0 + 0.1 * (random.f64() - 0.5)) * if is_on { 1.0 + extra } else { 1.0 };
            now.time_ns += ns;
            now.cpu_ns += (ns as f64 * busy) as u64;
            work += ns as f64 * busy / each_ns;
            now.messages = work as u64;
            off_ns += if is_on { 0 } else { ns };
        };
        while now.time_ns < seconds * 1_000_000_000 {
            go(&mut now, is_on, LOOK_NS);
            if check.is_due(now.time_ns, || now.cpu_ns) {
                match check.next(now) {
                    Step::Stay => continue,
                    Step::Off => is_on = false,
                    Step::On => is_on = true,
                }
                go(&mut now, is_on, SWITCH_NS);
                check.switched(now);
            }
        }
        (check, off_ns)
    }

    #[test]
    fn what_recording_costs_is_found_in_any_program() {
        for (extra, busy) in [(1.4, 1.0), (0.2, 1.0), (3.5, 0.1), (0.03, 0.5)] {
            let (check, off_ns) = run(extra, busy, 300);
            let found = check.found().unwrap();
            assert!((found.extra.estimate - extra).abs() < 0.03 * (1.0 + extra), "{found:?}");
            assert!(found.extra.low < found.extra.estimate && found.extra.estimate < found.extra.high, "{found:?}");
            assert!(found.pairs.len() >= 10, "{found:?}");
            assert!(off_ns as f64 <= (MAX_OFF_SHARE + 0.005) * 300e9, "{off_ns}");
        }
    }

    /// Stretches between rests say what recording costs, too; the last ones count.
    #[test]
    fn rests_are_comparisons() {
        let mut check = PriceCheck::new(0, true);
        let at = |cpu_ns, messages| Progress { time_ns: 0, cpu_ns, messages };
        for round in 0..2 * MAX_PAIRS as u64 {
            let on_ns = if round < MAX_PAIRS as u64 { 9000 } else { 2000 + round % 2 };
            check.compare([at(0, 0), at(100_000, 100)], [at(0, 0), at(on_ns * 100, 100)], [at(0, 0), at(100_000, 100)]);
            check.compare([at(0, 0), at(100_000, 1)], [at(0, 0), at(900_000, 100)], [at(0, 0), at(100_000, 100)]);
        }
        assert_eq!(check.comparisons(), 2 * MAX_PAIRS);
        let found = check.found().unwrap();
        assert!(found.pairs.len() == MAX_PAIRS && (found.extra.estimate - 1.0).abs() < 0.001, "{found:?}");
    }

    #[test]
    fn a_short_recording_is_whole() {
        let (check, off_ns) = run(0.5, 1.0, 2);
        assert_eq!((check.found(), off_ns), (None, 0));
    }

    /// Nothing is missed for a program that does nothing, or whose work is not seen.
    #[test]
    fn what_does_nothing_is_never_off() {
        let (check, off_ns) = run(0.5, 0.0, 60);
        assert_eq!((check.found(), off_ns), (None, 0));
        let mut check = PriceCheck::new(0, true);
        check.give_up();
        assert!(!check.is_due(u64::MAX, || 0));
    }
}
