//! Frequency mode: samples stand for different numbers of events. After a thread idled, the kernel begins with a period of 1 and finds the right one within a few
//! samples, so that what wakes often has many samples of few events.

use rustc_hash::FxHashMap;

use super::check::{Check, Judgement, Rule, Unit, Whole};
use crate::recording::{Attribute, SeenSample};
use perftax_doc::words::{count, share};

/// Samples and events by event and thread, and by event and page of code.
#[derive(Default)]
pub(super) struct ByCount {
    by_thread: FxHashMap<(usize, u32), (u64, u64)>,
    by_page: FxHashMap<(usize, u64), (u64, u64)>,
    of_event: FxHashMap<usize, Weights>,
}

/// Samples and the events that they stand for; both by the power of two of the period.
#[derive(Default)]
struct Weights {
    samples: u64,
    events: u64,
    by_size: FxHashMap<u32, (u64, u64)>,
}

static RULE: Rule = Rule {
    name: "by-count",
    measures: "share by number of samples less share by events, of the thread or page of code where they differ most",
    unit: Unit::Share,
    warning: Some(0.05),
    error: Some(0.25),
    source: "perf_adjust_period begins a new event with a period of 1 (kernel/events/core.c); perf report weighs by period, counts of samples do not",
};

/// Threads and pages that are told apart; others are one.
const MAX_KEYS: usize = 1 << 14;
const PAGE_SHIFT: u32 = 12;
/// Fewer samples of an event are chance.
const MIN_SAMPLES: u64 = 100;

impl Check for ByCount {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn sees_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &SeenSample<'_>) {
        if has_one_period(sample.attribute) {
            return;
        }
        let Some(period) = sample.period() else { return };
        let weights = self.of_event.entry(sample.event).or_default();
        weights.samples += 1;
        weights.events = weights.events.saturating_add(period);
        let of_size = weights.by_size.entry(period.checked_ilog2().unwrap_or(0)).or_default();
        *of_size = (of_size.0 + 1, of_size.1.saturating_add(period));
        if let Some((_, tid)) = sample.belongs.thread {
            add(&mut self.by_thread, (sample.event, tid), period);
        }
        if let Some(ip) = sample.ip() {
            add(&mut self.by_page, (sample.event, ip >> PAGE_SHIFT), period);
        }
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let events = &whole.recording.events;
        if events.iter().all(|event| has_one_period(&event.attribute)) {
            return Judgement::none("every event has a fixed period: each sample stands for as many events");
        }
        /// How far apart, the event, whose, share by count, share by events.
        type Worst = (f64, usize, String, f64, f64);
        let mut worst: Option<Worst> = None;
        let mut take = |event: usize, what: String, of: &(u64, u64)| {
            let Some(all) = self.of_event.get(&event).filter(|all| all.samples >= MIN_SAMPLES && all.events > 0) else { return };
            let (by_count, by_events) = (of.0 as f64 / all.samples as f64, of.1 as f64 / all.events as f64);
            let apart = (by_count - by_events).abs();
            // Of two that are as far apart the one that looks too large.
            let is_worse =
                |worst: &Worst| apart > worst.0 + 1e-6 || (apart > worst.0 - 1e-6 && by_count > by_events && worst.3 < worst.4);
            if worst.as_ref().is_none_or(is_worse) {
                worst = Some((apart, event, what, by_count, by_events));
            }
        };
        for (&(event, tid), of) in &self.by_thread {
            let name = whole.recording.counts.comm(tid);
            take(event, format!("thread {}", format!("{tid} {name}").trim_end()), of);
        }
        for (&(event, page), of) in &self.by_page {
            let what =
                if page == u64::MAX { "the rest of the code".into() } else { format!("the code at {:#x}", page << PAGE_SHIFT) };
            take(event, what, of);
        }
        let Some((apart, event, what, by_count, by_events)) = worst else {
            let none_tells = self.of_event.is_empty() && whole.samples() > 0;
            return match none_tells {
                true => Judgement::unknown("samples do not tell their period (perf record -P)"),
                false => Judgement::none("too few samples by frequency to compare shares"),
            };
        };
        let name = &events[event].name;
        let light = self.of_event.get(&event).map_or((0, 0), |all| (all.light(), all.samples));
        Judgement::measured(
            apart,
            format!(
                "{what} has {} of the samples of {name} and {} of the events that they stand for; {} of {} samples stand for less than a sixteenth of \
                 the usual",
                share(by_count),
                share(by_events),
                count(light.0),
                count(light.1)
            ),
            "flame graphs and scripts that count samples show what wakes often too large; perf report weighs by period",
            "a fixed period (perf record -c N), or weigh by period (perf script -F +period)",
        )
    }
}

impl Weights {
    /// Samples that stand for less than a sixteenth of what those stand for that have half of the events.
    fn light(&self) -> u64 {
        let mut sizes: Vec<(u32, u64, u64)> = self.by_size.iter().map(|(size, of)| (*size, of.0, of.1)).collect();
        sizes.sort_unstable();
        let mut so_far = 0_u128;
        let median = sizes.iter().find(|(.., events)| {
            so_far += u128::from(*events);
            so_far * 2 >= u128::from(self.events)
        });
        let least = median.map_or(0, |median| median.0.saturating_sub(4));
        sizes.iter().filter(|(size, ..)| *size < least).map(|(_, samples, _)| samples).sum()
    }
}

/// Keys beyond those that are told apart share one, the last.
fn add<K: Copy + Eq + std::hash::Hash + Rest>(of: &mut FxHashMap<(usize, K), (u64, u64)>, key: (usize, K), period: u64) {
    let key = if of.len() < MAX_KEYS || of.contains_key(&key) { key } else { (key.0, K::REST) };
    let sums = of.entry(key).or_default();
    *sums = (sums.0 + 1, sums.1.saturating_add(period));
}

/// Whether each sample stands for as many events: by a fixed period, or of a clock, which has one by frequency, too.
fn has_one_period(attribute: &Attribute) -> bool {
    attribute.period.is_some() || attribute.is_clock() || attribute.is_written_by_perf()
}

trait Rest {
    const REST: Self;
}

impl Rest for u32 {
    const REST: Self = u32::MAX;
}

impl Rest for u64 {
    const REST: Self = u64::MAX;
}
