//! Events that are counted by message, beside the clock that says where its time went: misses of caches and TLBs, mispredicted branches.
//!
//! Every so many of them are sampled, each with its instruction and the address that it is about. Of one message that a thread is at once, k samples say that there were between (k − 1)
//! and (k + 1) times the period; each further time that a thread comes to it, or is moved to another CPU, adds a period at either end. Over many messages the samples times the period
//! are the number.

use std::collections::BTreeMap;

use perftax_cost::bootstrap::{SEED, vector_bootstrap};
use perftax_doc::{CONFIDENCE, Estimate};

use crate::blame::{Brief, REPLICATES, Usual, clusters};
use crate::cause::Cause;
use crate::spot::Spot;

/// How many of an event the slow messages had more than the others.
#[derive(Clone, Debug, PartialEq)]
pub struct BlamedEvents {
    /// Which.
    pub event: u32,
    /// Samples a message of those that are not slow.
    pub usual: f64,
    /// Samples a slow message beyond that.
    pub extra: Estimate,
    /// Slow messages that surely had many of them ([`EventsOfMessage::are_many`]).
    pub with_many: u64,
    /// Time on CPU of those beyond the median message's, for each of their samples beyond the usual, ns; none where there are not two of them.
    pub each_ns: Option<Estimate>,
    /// The same by place, the most first; at most [`BlamedEvents::SPOTS`].
    pub spots: Vec<(Spot, Estimate)>,
}

impl BlamedEvents {
    /// Places that are told.
    pub const SPOTS: usize = 5;
}

/// Slow messages, added up: time on CPU and samples, in all and by place.
#[derive(Default)]
struct Row {
    messages: f64,
    samples: f64,
    /// Of those that have many: how many they are, their time on CPU, and their samples.
    with_many: f64,
    many_on_cpu_ns: f64,
    many_samples: f64,
    spots: Vec<f64>,
}

/// How many of each event slow messages had more than usual; nothing with fewer than two of them.
pub fn blame_events(slow: &[&Brief], usual: &Usual, events: usize) -> Vec<BlamedEvents> {
    (0..events as u32).filter_map(|event| of_event(slow, usual, event)).collect()
}

fn of_event(slow: &[&Brief], usual: &Usual, event: u32) -> Option<BlamedEvents> {
    let wanted = most(slow, event);
    let rows: Vec<Row> = clusters(slow).map(|briefs| Row::of(briefs, event, &wanted, usual)).collect();
    let usual_each = usual.samples_of(event);
    let of_spots: Vec<f64> = wanted.iter().map(|spot| usual.samples_at(spot)).collect();
    let usual_on_cpu = usual.shares.of(Cause::OnCpu) as f64;
    let statistic = |sample: &[&Row]| {
        let sum = |of: fn(&Row) -> f64| sample.iter().map(|row| of(row)).sum::<f64>();
        let messages = sum(|row| row.messages);
        let extra = sum(|row| row.samples) / messages - usual_each;
        let many = sum(|row| row.with_many);
        let each = (sum(|row| row.many_on_cpu_ns) - many * usual_on_cpu) / (sum(|row| row.many_samples) - many * usual_each);
        let spots =
            of_spots.iter().enumerate().map(|(at, usual)| sample.iter().map(|row| row.spots[at]).sum::<f64>() / messages - usual);
        [extra, if each.is_finite() { each } else { 0.0 }].into_iter().chain(spots).collect()
    };
    let all = vector_bootstrap(&rows, statistic, REPLICATES, CONFIDENCE, SEED)?;
    let mut spots: Vec<(Spot, Estimate)> = wanted.into_iter().zip(all[2..].iter().copied()).collect();
    spots.sort_by(|a, b| b.1.estimate.total_cmp(&a.1.estimate));
    let with_many = rows.iter().map(|row| row.with_many).sum::<f64>() as u64;
    // A draw without any of them says 0.
    let each_ns = Some(all[1]).filter(|each| with_many > 1 && each.low > 0.0);
    Some(BlamedEvents { event, usual: usual_each, extra: all[0], with_many, each_ns, spots })
}

/// Where most of an event's samples of slow messages were taken.
fn most(slow: &[&Brief], event: u32) -> Vec<Spot> {
    let mut totals: BTreeMap<Spot, u64> = BTreeMap::new();
    for (spot, n) in slow.iter().flat_map(|brief| &brief.events).filter(|(spot, _)| spot.event == event) {
        *totals.entry(*spot).or_default() += n;
    }
    let mut order: Vec<(Spot, u64)> = totals.into_iter().collect();
    order.sort_by_key(|(spot, n)| (std::cmp::Reverse(*n), *spot));
    order.into_iter().take(BlamedEvents::SPOTS).map(|(spot, _)| spot).collect()
}

impl Row {
    fn of(briefs: &[&Brief], event: u32, wanted: &[Spot], usual: &Usual) -> Self {
        let mut row = Self { spots: vec![0.0; wanted.len()], ..Self::default() };
        for brief in briefs {
            row.messages += 1.0;
            for (spot, n) in &brief.events {
                if let Some(at) = wanted.iter().position(|other| other == spot) {
                    row.spots[at] += *n as f64;
                }
            }
            let Some(of) = brief.of_events().into_iter().find(|of| of.event == event) else { continue };
            row.samples += of.samples as f64;
            if of.are_many(usual) {
                row.with_many += 1.0;
                row.many_on_cpu_ns += brief.shares.of(Cause::OnCpu) as f64;
                row.many_samples += of.samples as f64;
            }
        }
        row
    }
}

impl Usual {
    /// Samples of an event a message that is not slow has, on average.
    pub fn samples_of(&self, event: u32) -> f64 {
        let all = self.events.range(Spot::first(event)..Spot::first(event + 1));
        all.map(|(_, n)| *n).sum::<u64>() as f64 / self.messages.max(1) as f64
    }

    /// The same at one place.
    fn samples_at(&self, spot: &Spot) -> f64 {
        self.events.get(spot).copied().unwrap_or(0) as f64 / self.messages.max(1) as f64
    }
}

/// What one message had of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsOfMessage {
    /// Which.
    pub event: u32,
    /// Samples.
    pub samples: u64,
    /// Where most of them were taken, and how many.
    pub most: (Spot, u64),
    /// How often they were counted anew.
    pub stints: u64,
}

impl Brief {
    /// What it had of each event that it had any samples of.
    pub fn of_events(&self) -> Vec<EventsOfMessage> {
        let mut all: Vec<EventsOfMessage> = Vec::new();
        for &(spot, n) in &self.events {
            match all.iter_mut().find(|of| of.event == spot.event) {
                Some(of) => {
                    of.samples += n;
                    if n > of.most.1 {
                        of.most = (spot, n);
                    }
                }
                None => all.push(EventsOfMessage {
                    event: spot.event,
                    samples: n,
                    most: (spot, n),
                    stints: u64::from(self.stints.max(1)),
                }),
            }
        }
        all
    }
}

impl EventsOfMessage {
    /// Samples from which on a message's events are told: as of a delay's functions.
    const IN_SIGHT: u64 = 3;

    /// At least and at most so many events, at this period: a sample is taken of each so-many-th of a thread on a CPU. Each time that a thread comes to the message, or is moved, a
    /// count is under way, which may be anywhere.
    pub fn between(&self, period: u64) -> (u64, u64) {
        (self.samples.saturating_sub(self.stints) * period, (self.samples + self.stints) * period)
    }

    /// Whether it surely had more of them than messages have that are not slow: more than twice their mean, by three samples or more.
    pub fn are_many(&self, usual: &Usual) -> bool {
        self.samples >= Self::IN_SIGHT && self.samples.saturating_sub(self.stints) as f64 > 2.0 * usual.samples_of(self.event)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::cause::Shares;

    fn brief(id: u64, on_cpu_ns: u64, events: Vec<(Spot, u64)>) -> Brief {
        let mut shares = Shares::default();
        shares.add(Cause::OnCpu, on_cpu_ns);
        Brief {
            id,
            begin_ns: id,
            latency_ns: on_cpu_ns,
            shares,
            details: Vec::new(),
            events,
            stints: 1,
            executed: Default::default(),
        }
    }

    /// Half of the slow messages miss in one table, the others compute: the misses are told with where they lie, and what each takes.
    #[test]
    fn what_slow_messages_miss_more_is_told_by_function_and_object() {
        let (table, elsewhere) = (Spot { event: 1, function: 7, object: 3 }, Spot { event: 1, function: 7, object: 4 });
        let slow: Vec<Brief> = (0..200)
            .map(|i| match i % 2 {
                0 => brief(i, 1000 + 50 * (400 + i % 5), vec![(Spot::default(), 2), (table, 400 + i % 5), (elsewhere, 2)]),
                _ => brief(i, 1000, vec![(elsewhere, 3)]),
            })
            .collect();
        let mut usual = Usual::default();
        usual.messages = 1000;
        usual.shares.add(Cause::OnCpu, 1000);
        usual.events = BTreeMap::from([(elsewhere, 2000), (table, 1000), (Spot { event: 2, function: 0, object: 0 }, 7)]);
        let slow: Vec<&Brief> = slow.iter().collect();
        let blamed = blame_events(&slow, &usual, 3);
        assert_eq!(blamed.len(), 3);
        let misses = &blamed[1];
        // 0.5 x 402 + 0.5 x 2 + 0.5 x 3 less 3.
        assert!((misses.usual - 3.0).abs() < 1e-9 && misses.extra.contains(200.5), "{misses:?}");
        assert_eq!(misses.spots[0].0, table);
        assert!(misses.spots[0].1.contains(200.0) && misses.spots[1].1.contains(0.5), "{misses:?}");
        // 402 samples of the table and 2 elsewhere, less 3 that are usual; the others' time is not theirs.
        assert_eq!(misses.with_many, 100);
        assert!(misses.each_ns.unwrap().contains(50.0 * 402.0 / 401.0), "{misses:?}");
        assert!(blamed[2].extra.estimate < 0.0 && blamed[2].each_ns.is_none() && blamed[2].spots.is_empty());
        let of = slow[0].of_events();
        assert_eq!((of.len(), of[1].samples, of[1].most, of[1].between(11)), (2, 402, (table, 400), (401 * 11, 403 * 11)));
        assert!(of[1].are_many(&usual) && !slow[1].of_events()[0].are_many(&usual));
        // Three threads whose counts were about to be full: three events, perhaps.
        let handed = Brief { stints: 3, ..brief(7, 1000, vec![(table, 3)]) }.of_events()[0];
        assert_eq!((handed.between(11), handed.are_many(&Usual::default())), ((0, 66), false));
        assert!(blame_events(&slow[..1], &usual, 3).is_empty());
    }
}
