//! The whole of a trace: how long its messages took, and what the slow ones' extra time went to.
//!
//! Two passes: the marks alone say from which latency on a message is slow; then everything is read, and of the others nothing is kept
//! but sums and histograms. Memory grows with the slow messages, not with the trace.

use std::collections::BTreeMap;
use std::sync::Arc;

use perftax_pmu::Result;

use crate::blame::{Brief, Usual};
use crate::distribution::{Distribution, Population};
use crate::message::{Message, Trouble};
use crate::store::Store;
use crate::timeline::Timeline;
use crate::tracker::{Activity, Record, Tracker};

/// What is asked of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// The quantile from which on a message is slow.
    pub slow_from: f64,
    /// Slowest messages that are kept whole.
    pub whole: usize,
    /// From when to when it is of interest what all threads were at.
    pub window_ns: Option<(u64, u64)>,
}

/// What a trace answers.
#[derive(Debug, Default)]
pub struct Answer {
    /// All messages that ended; what their time went to is known of those alone that recording was on for.
    pub population: Population,
    /// The latency from which on a message is slow.
    pub slow_ns: u64,
    /// The slow ones, in the order of their ends.
    pub slow: Vec<Brief>,
    /// The others.
    pub usual: Usual,
    /// The slowest, slowest first, whole.
    pub slowest: Vec<Message>,
    /// What was odd.
    pub trouble: Trouble,
    /// Messages that began.
    pub messages: u64,
    /// Samples taken while a thread worked on a message.
    pub samples: u64,
    /// What was recorded of each thread.
    pub threads: BTreeMap<u32, Activity>,
    /// When the first message began, and the last one ended.
    pub from_ns: u64,
    /// When the last one ended.
    pub to_ns: u64,
    /// What all threads were at in the time that was of interest.
    pub timeline: Option<Timeline>,
}

/// The latencies of all messages.
#[derive(Clone, Debug)]
pub enum Latencies {
    /// Each of them, in the order of size.
    Exact(Vec<u64>),
    /// In a histogram: of a trace that does not hold all messages.
    Counted(Distribution),
}

impl Latencies {
    /// Of a trace, by its marks alone where it holds all of them.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn of(store: &Store) -> Result<Self> {
        if let Some(background) = &store.background {
            return Ok(Self::Counted(background.population.latency.clone()));
        }
        let mut latencies = Vec::new();
        store.spans(|_, (begin_ns, end_ns)| latencies.push(end_ns - begin_ns))?;
        latencies.sort_unstable();
        Ok(Self::Exact(latencies))
    }

    /// The latency that a share `q` of messages do not exceed, by nearest rank. 0 where there are none.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        match self {
            Self::Exact(all) => {
                let n = all.len();
                all.get(((q * n as f64).ceil() as usize).clamp(1, n.max(1)) - 1).copied().unwrap_or(0)
            }
            Self::Counted(distribution) => distribution.quantile_ns(q),
        }
    }

    /// A latency that at least as many messages as said have: exactly so many, but for a histogram; 0 where there are fewer.
    pub fn slowest_ns(&self, messages: usize) -> u64 {
        match self {
            Self::Exact(all) => all.len().checked_sub(messages.max(1)).map_or(0, |at| all[at]),
            Self::Counted(distribution) => {
                let beyond = messages.max(1) as f64 / distribution.len().max(1) as f64;
                // The bucket's lower end.
                let ns = distribution.quantile_ns((1.0 - beyond).max(0.0));
                ns - ns / 500
            }
        }
    }

    /// The share of messages that took less time.
    pub fn share_below(&self, ns: u64) -> f64 {
        match self {
            Self::Exact(all) => all.partition_point(|other| *other < ns) as f64 / all.len().max(1) as f64,
            Self::Counted(distribution) => distribution.share_below(ns),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Exact(all) => all.len(),
            Self::Counted(distribution) => distribution.len() as usize,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<u64> for Latencies {
    fn from_iter<I: IntoIterator<Item = u64>>(latencies: I) -> Self {
        let mut latencies: Vec<u64> = latencies.into_iter().collect();
        latencies.sort_unstable();
        Self::Exact(latencies)
    }
}

/// Asks a trace; `each` sees every message that ended, and that recording was on for, when it is over.
///
/// # Errors
/// Where a table cannot be read.
pub fn analyse(store: &Store, latencies: &Latencies, question: &Question, each: impl FnMut(&Message)) -> Result<Answer> {
    analyse_watching(store, latencies, question, |_| (), each)
}

/// As [`analyse`]; `row` sees every row of the trace beside, before the messages that it ends.
///
/// # Errors
/// As [`analyse`].
pub fn analyse_watching(
    store: &Store,
    latencies: &Latencies,
    question: &Question,
    mut row: impl FnMut(&Record),
    mut each: impl FnMut(&Message),
) -> Result<Answer> {
    let mut answer = Answer { slow_ns: latencies.quantile_ns(question.slow_from), ..Answer::default() };
    // Of a trace of slow messages alone the slowest are those that are there: of all, most may be such as recording was off for.
    let whole_ns = if store.background.is_some() { 0 } else { latencies.slowest_ns(question.whole) };
    let mut tracker = Tracker::knowing(Arc::clone(&store.kinds));
    question.window_ns.into_iter().for_each(|(from_ns, to_ns)| tracker.note(Timeline::of(from_ns, to_ns)));
    let mut over = |message: &Message| {
        let is_watched = message.is_watched && message.end_ns.is_some();
        if is_watched {
            each(message);
        }
        answer.take(message, is_watched, whole_ns, question.whole);
    };
    store.records(|record| {
        row(record);
        tracker.take(record, &mut over);
    })?;
    tracker.finish(&mut over);
    answer.usual.settle();
    answer.samples = tracker.samples;
    answer.threads = tracker.activities().collect();
    answer.trouble = tracker.trouble;
    answer.timeline = tracker.noted();
    match &store.background {
        Some(background) => {
            answer.population = background.population.clone();
            answer.usual = background.usual.clone();
            answer.messages = background.population.latency.len();
        }
        None => {
            answer.usual.latency_ns = latencies.quantile_ns(0.5);
            answer.usual.shares = answer.population.usual();
        }
    }
    answer.slowest.sort_by_key(|message| std::cmp::Reverse(message.latency_ns()));
    answer.slowest.truncate(question.whole);
    Ok(answer)
}

impl Answer {
    fn take(&mut self, message: &Message, is_watched: bool, whole_ns: u64, whole: usize) {
        if self.messages == 0 || message.begin_ns < self.from_ns {
            self.from_ns = message.begin_ns;
        }
        self.messages += 1;
        let Some(latency_ns) = message.latency_ns() else { return };
        self.to_ns = self.to_ns.max(message.begin_ns + latency_ns);
        if !is_watched {
            return self.population.latency.add(latency_ns);
        }
        self.population.add(latency_ns, &message.shares);
        if latency_ns >= self.slow_ns {
            self.slow.extend(Brief::of(message));
        } else {
            self.usual.add(message);
        }
        if whole == 0 || latency_ns < whole_ns {
            return;
        }
        self.slowest.push(message.clone());
        if self.slowest.len() >= 2 * whole + 64 {
            self.slowest.sort_by_key(|message| std::cmp::Reverse(message.latency_ns()));
            self.slowest.truncate(whole);
        }
    }
}
