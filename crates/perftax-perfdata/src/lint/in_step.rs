//! A fixed period in step with a loop: where the period and the loop's number of events have a common divisor, the same few of its instructions are sampled
//! each time round, and the others never.
//!
//! The sketch of an event: how often the address of a sample follows from that of the one before it in the same thread (a table of each address's last
//! successor), how often it changes, and how many samples the most frequent address has (Metwally's Space-Saving of 8: an address of most samples never leaves it). Of samples at random places neither is
//! near 1 but where the program has one place alone.

use rustc_hash::FxHashMap;

use super::check::{Check, Judgement, Rule, Unit, Whole};
use crate::recording::SeenSample;
use perftax_doc::words::{count, time_s};

#[derive(Default)]
pub(super) struct InStep {
    of_event: FxHashMap<usize, Sketch>,
}

struct Sketch {
    /// The address before, by thread; the thread that came last beside.
    last: FxHashMap<u32, u64>,
    latest: Option<(u32, u64)>,
    /// An address and what followed it, at a place by the address; another at the same place takes it.
    successor: Box<[(u64, u64)]>,
    steps: u64,
    changes: u64,
    foretold: u64,
    samples: u64,
    /// Addresses and their samples.
    most: [(u64, u64); KEPT],
}

impl Default for Sketch {
    fn default() -> Self {
        let successor = vec![(0, 0); MAX_ADDRESSES].into();
        let most = [(0, 0); KEPT];
        Self { last: FxHashMap::default(), latest: None, successor, steps: 0, changes: 0, foretold: 0, samples: 0, most }
    }
}

static RULE: Rule = Rule {
    name: "in-step",
    measures: "samples whose address follows from the address of the sample before, of all of the event",
    unit: Unit::Share,
    warning: Some(0.8),
    error: Some(0.95),
    source: "sampling every N events of a loop with M sees M / gcd(N, M) of its places (docs/guide/lint.md); Metwally, Agrawal, El Abbadi 2005",
};

const MAX_THREADS: usize = 1 << 12;
const MAX_ADDRESSES: usize = 1 << 12;
const KEPT: usize = 8;
/// Fewer samples of an event are chance.
const MIN_SAMPLES: u64 = 100;
/// A sequence that seldom changes is of a program in one place.
const MIN_CHANGES: f64 = 0.3;
/// Samples at one address, from which on that is all there is.
const ONE_PLACE: f64 = 0.95;

impl Check for InStep {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn sees_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &SeenSample<'_>) {
        let attribute = sample.attribute;
        // A clock's period is fixed, by frequency too.
        if !attribute.is_clock() && attribute.events_a_sample().is_none_or(|period| period <= 1) {
            return;
        }
        if let Some(ip) = sample.ip() {
            self.of_event.entry(sample.event).or_default().take(sample.belongs.thread.map_or(0, |thread| thread.1), ip);
        }
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let mut worst: Option<(f64, bool, String, bool)> = None;
        for (&index, sketch) in self.of_event.iter().filter(|(_, sketch)| sketch.samples >= MIN_SAMPLES) {
            let event = &whole.recording.events[index];
            let is_clock = event.attribute.is_clock();
            let period = event.attribute.clock_period_ns().or(event.attribute.period).unwrap_or(0);
            // A prime number of events has no divisor in common with a loop of fewer.
            if !is_clock && is_prime(period) {
                continue;
            }
            let (address, at_most) = sketch.most.iter().copied().max_by_key(|(_, samples)| *samples).unwrap_or_default();
            let of_one = at_most as f64 / sketch.samples as f64;
            let every = if is_clock { time_s(period as f64 * 1e-9) } else { count(period) };
            let found = if sketch.changes as f64 >= MIN_CHANGES * sketch.steps as f64 {
                let foretold = sketch.foretold as f64 / sketch.steps.max(1) as f64;
                let places = sketch.successor.iter().filter(|(address, _)| *address != 0).count() as u64;
                let told = format!(
                    "{} of {} samples of {}, every {every}, follow from the one before, in turn over {} addresses",
                    count(sketch.foretold),
                    count(sketch.samples),
                    event.name,
                    count(places)
                );
                (foretold, false, told, is_clock)
            } else if !is_clock && of_one >= ONE_PLACE {
                let told = format!(
                    "{} of {} samples of {}, every {every}, are at one address ({address:#x})",
                    count(at_most),
                    count(sketch.samples),
                    event.name
                );
                // That may be so: a program with one place.
                (of_one, true, told, is_clock)
            } else {
                continue;
            };
            if worst.as_ref().is_none_or(|worst| found.0 > worst.0) {
                worst = Some(found);
            }
        }
        let Some((value, is_one_place, evidence, is_clock)) = worst else {
            return Judgement::none("no fixed period that a loop could be in step with, or addresses as they come");
        };
        Judgement::measured(
            value,
            evidence,
            "other places of the same loop may have as many events and no sample: shares by function are the period's, not the program's",
            match is_clock {
                true => "another rate, of no round number (perf record -F 997, -F 1009): if shares change, they were in step",
                false => "a prime period (perf record -c 10007), or a frequency (-F): if shares change, they were in step",
            },
        )
        .a_warning_at_most(is_one_place)
    }
}

impl Sketch {
    fn take(&mut self, tid: u32, ip: u64) {
        self.samples += 1;
        if let Some(before) = self.before(tid, ip) {
            self.steps += 1;
            self.changes += u64::from(before != ip);
            // Fibonacci hashing: the upper bits of a product with 2^64 / φ.
            let place = before.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - MAX_ADDRESSES.ilog2());
            let known = &mut self.successor[place as usize];
            self.foretold += u64::from(*known == (before, ip));
            *known = (before, ip);
        }
        if let Some((_, samples)) = self.most.iter_mut().find(|(address, samples)| *address == ip && *samples > 0) {
            *samples += 1;
        } else if let Some(least) = self.most.iter_mut().min_by_key(|(_, samples)| *samples) {
            // Its count is an upper bound from here on.
            *least = (ip, least.1 + 1);
        }
    }

    /// The address of the thread's sample before.
    fn before(&mut self, tid: u32, ip: u64) -> Option<u64> {
        if let Some((latest, before)) = &mut self.latest {
            if *latest == tid {
                return Some(std::mem::replace(before, ip));
            }
            if self.last.len() < MAX_THREADS || self.last.contains_key(latest) {
                self.last.insert(*latest, *before);
            }
        }
        self.latest = Some((tid, ip));
        self.last.get(&tid).copied()
    }
}

fn is_prime(number: u64) -> bool {
    // Beyond a billion of events nobody counts divisors: such a period is a time.
    number > 1
        && number < 1 << 40
        && (2..).take_while(|divisor| divisor * divisor <= number).all(|divisor| !number.is_multiple_of(divisor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes() {
        let primes: Vec<u64> = (0..30).filter(|&n| is_prime(n)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
        assert!(is_prime(10_007) && !is_prime(100_000) && !is_prime(10_007 * 10_009));
    }

    #[test]
    fn the_sketch_is_bounded_and_finds_the_most_frequent() {
        let mut sketch = Sketch::default();
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200_000 {
            let ip = if random.u8(..) < 64 { 7 } else { random.u64(..) };
            sketch.take(random.u32(..), ip);
        }
        assert!(sketch.successor.len() <= MAX_ADDRESSES && sketch.last.len() <= MAX_THREADS);
        let (most, samples) = sketch.most.into_iter().max_by_key(|(_, samples)| *samples).unwrap_or_default();
        assert!(most == 7 && samples >= 49_000, "{most} {samples}");
    }
}
