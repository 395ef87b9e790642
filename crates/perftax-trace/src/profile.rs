//! What a trace's messages spend their time on, on average: what two traces are compared by.

use std::collections::BTreeMap;

use perftax_cost::bootstrap::{SEED, vector_bootstrap};
use perftax_doc::{CONFIDENCE, Estimate};

use crate::blame::Detail;
use crate::cause::{Cause, Shares};
use crate::message::Message;
use crate::names::Names;
use crate::store::Symbols;

/// Messages are counted in so many blocks of time at least: what is resampled, since one message's time is like the next one's.
const BLOCKS: usize = 40;
/// Messages of a block at first; blocks are joined two by two when there are twice as many as needed.
const FIRST_MESSAGES: u64 = 64;
const REPLICATES: usize = 500;

/// Sums over messages that followed each other.
#[derive(Clone, Debug, Default)]
struct Block {
    messages: u64,
    latency_ns: u64,
    shares: Shares,
    details: BTreeMap<(Cause, Detail), u64>,
}

impl Block {
    fn join(&mut self, other: &Self) {
        self.messages += other.messages;
        self.latency_ns += other.latency_ns;
        Cause::ALL.into_iter().for_each(|cause| self.shares.add(cause, other.shares.of(cause)));
        for (key, amount) in &other.details {
            *self.details.entry(*key).or_default() += amount;
        }
    }
}

/// Sums over a trace's messages, block by block.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    blocks: Vec<Block>,
    block_messages: u64,
}

/// Mean time of a message on something, ns.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanTime {
    /// The cause; none: all of the latency.
    pub cause: Option<Cause>,
    /// What of it, by name; none: all of the cause.
    pub detail: Option<String>,
    /// Whether it is a function: by samples.
    pub is_sampled: bool,
    /// Mean over messages, ns.
    pub mean_ns: Estimate,
}

impl Profile {
    /// Adds a message; one that did not end is left out.
    pub fn add(&mut self, message: &Message) {
        let Some(latency_ns) = message.latency_ns() else { return };
        self.block_messages = self.block_messages.max(FIRST_MESSAGES);
        if self.blocks.last().is_none_or(|block| block.messages >= self.block_messages) {
            if self.blocks.len() >= 2 * BLOCKS {
                self.halve();
            }
            self.blocks.push(Block::default());
        }
        let Some(block) = self.blocks.last_mut() else { return };
        block.messages += 1;
        block.latency_ns += latency_ns;
        for piece in message.instants() {
            block.shares.add(piece.cause, piece.to_ns - piece.from_ns);
        }
        for (cause, detail, amount) in message.details() {
            *block.details.entry((cause, detail)).or_default() += amount;
        }
    }

    fn halve(&mut self) {
        self.block_messages *= 2;
        let halves = self.blocks.chunks(2).map(|two| {
            let mut joined = two[0].clone();
            two[1..].iter().for_each(|other| joined.join(other));
            joined
        });
        self.blocks = halves.collect();
    }

    /// Messages in it.
    pub fn messages(&self) -> u64 {
        self.blocks.iter().map(|block| block.messages).sum()
    }

    /// Mean times: of all, of each cause, of each detail; details that are called the same are one. `None` with fewer than two blocks.
    pub fn means(&self, names: &Names, symbols: &Symbols) -> Option<Vec<MeanTime>> {
        let mut named: BTreeMap<(Cause, bool, String), Vec<Detail>> = BTreeMap::new();
        for (cause, detail) in
            self.blocks.iter().flat_map(|block| block.details.keys()).collect::<std::collections::BTreeSet<_>>()
        {
            let is_function = matches!(detail, Detail::Function(_));
            // Threads have other numbers in another trace.
            let name = match (cause, detail) {
                (Cause::Preempted, Detail::Which(tid)) => Some(format!("by {}", names.thread_name(*tid))),
                (Cause::Runnable, Detail::Which(tid)) => Some(format!("behind {}", names.thread_name(*tid))),
                _ => names.detail(*cause, *detail, symbols),
            };
            if let Some(name) = name {
                named.entry((*cause, is_function, name)).or_default().push(*detail);
            }
        }
        let keys: Vec<_> = named.iter().collect();
        let statistic = |sample: &[&Block]| {
            let mut all = Block::default();
            let mut samples = [0u64; Cause::COUNT];
            let mut amounts = vec![0u64; keys.len()];
            for block in sample {
                all.messages += block.messages;
                all.latency_ns += block.latency_ns;
                Cause::ALL.into_iter().for_each(|cause| all.shares.add(cause, block.shares.of(cause)));
                for ((cause, detail), amount) in &block.details {
                    if matches!(detail, Detail::Function(_)) {
                        samples[*cause as usize] += amount;
                    }
                }
                for (amount, ((cause, ..), details)) in amounts.iter_mut().zip(&keys) {
                    *amount += details.iter().filter_map(|detail| block.details.get(&(*cause, *detail))).sum::<u64>();
                }
            }
            let n = all.messages.max(1) as f64;
            let causes = Cause::ALL.into_iter().map(|cause| all.shares.of(cause) as f64 / n);
            let details = keys.iter().zip(&amounts).map(|(((cause, is_function, _), _), amount)| match is_function {
                true => all.shares.of(*cause) as f64 * *amount as f64 / samples[*cause as usize].max(1) as f64 / n,
                false => *amount as f64 / n,
            });
            std::iter::once(all.latency_ns as f64 / n).chain(causes).chain(details).collect()
        };
        let estimates = vector_bootstrap(&self.blocks, statistic, REPLICATES, CONFIDENCE, SEED)?;
        let whole = std::iter::once((None, None, false));
        let causes = Cause::ALL.into_iter().map(|cause| (Some(cause), None, false));
        let details = keys.iter().map(|((cause, is_function, name), _)| (Some(*cause), Some(name.clone()), *is_function));
        let labelled = whole.chain(causes).chain(details).zip(estimates);
        Some(labelled.map(|((cause, detail, is_sampled), mean_ns)| MeanTime { cause, detail, is_sampled, mean_ns }).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::message::{Hit, Piece};
    use crate::store::Function;

    fn profile(messages: u64, extra_ns: u64) -> Profile {
        let mut profile = Profile::default();
        for id in 1..=messages {
            let mut message = Message::beginning(id, id * 10_000);
            let on_cpu = 2000 + id % 17 * 10;
            let blocked = 500 + extra_ns + id % 13;
            let piece = |from_ns, to_ns, cause, which| Piece { tid: 1, from_ns, to_ns, cause, which };
            let begin = message.begin_ns;
            message.add(piece(begin, begin + on_cpu, Cause::OnCpu, 0));
            message.add(piece(begin + on_cpu, begin + on_cpu + blocked, Cause::Blocked, 36));
            message.hits.push(Hit { time_ns: begin, tid: 1, function: 1 + u32::from(id % 4 == 0), cause: Cause::OnCpu });
            message.end_ns = Some(begin + on_cpu + blocked);
            profile.add(&message);
        }
        profile
    }

    #[test]
    fn means_are_of_all_messages_and_their_difference_is_what_was_planted() {
        let function = |name: &str| Function { name: name.into(), module: String::new() };
        let symbols = Symbols::new([((1, 1), function("parse")), ((1, 2), function("send"))]);
        let means = |profile: &Profile| profile.means(&Names::default(), &symbols).unwrap();
        let (before, after) = (profile(20_000, 0), profile(20_000, 300));
        assert_eq!((before.messages(), before.blocks.len() <= 2 * BLOCKS), (20_000, true));
        let find = |means: &[MeanTime], cause, detail: Option<&str>| {
            means.iter().find(|mean| mean.cause == cause && mean.detail.as_deref() == detail).unwrap().mean_ns
        };
        let (a, b) = (means(&before), means(&after));
        assert!((find(&a, None, None).estimate - 2586.0).abs() < 2.0, "{:?}", find(&a, None, None));
        assert!((find(&b, None, None).estimate - find(&a, None, None).estimate - 300.0).abs() < 1e-6);
        assert!((find(&b, Some(Cause::Blocked), None).estimate - 806.0).abs() < 2.0);
        let waits = crate::names::syscall(35);
        assert_eq!(find(&b, Some(Cause::Blocked), Some(&waits)), find(&b, Some(Cause::Blocked), None));
        let send = find(&a, Some(Cause::OnCpu), Some("send"));
        assert!((send.estimate - 520.0).abs() < 1.0 && send.low <= send.estimate, "{send:?}");
    }
}
