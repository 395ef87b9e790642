//! Messages that are part of one: the slowest of them, and the one that it waited for at the end.

use rustc_hash::FxHashSet;

use crate::message::Message;

/// Parts of a message, as they come by.
#[derive(Debug, Default)]
pub struct Parts {
    wanted: FxHashSet<u64>,
    keeps: usize,
    /// They begin within this time, ns: numbers may be used again.
    within_ns: (u64, u64),
    slowest: Vec<Message>,
    last: Option<Box<Message>>,
    /// When the last of the others ended, ns.
    others_end_ns: u64,
    /// Parts that have ended.
    pub ended: u64,
}

impl Parts {
    /// Of these numbers, as far as they begin within a time; so many of the slowest are kept.
    pub fn of(ids: &[u64], within_ns: (u64, u64), keeps: usize) -> Self {
        Self { wanted: ids.iter().copied().collect(), within_ns, keeps, ..Self::default() }
    }

    /// Takes any message.
    pub fn take(&mut self, message: &Message) {
        let is_one = (self.within_ns.0..=self.within_ns.1).contains(&message.begin_ns) && self.wanted.contains(&message.id);
        let Some(end_ns) = message.end_ns.filter(|_| is_one) else { return };
        self.ended += 1;
        match &self.last {
            Some(last) if last.end_ns >= Some(end_ns) => self.others_end_ns = self.others_end_ns.max(end_ns),
            _ => {
                let before = self.last.replace(Box::new(message.clone())).and_then(|last| last.end_ns);
                self.others_end_ns = self.others_end_ns.max(before.unwrap_or(0));
            }
        }
        let is_slow = |least: &Message| message.latency_ns() > least.latency_ns();
        if self.slowest.len() < self.keeps || self.slowest.last().is_some_and(is_slow) {
            let at = self.slowest.partition_point(|other| other.latency_ns() >= message.latency_ns());
            self.slowest.insert(at, message.clone());
            self.slowest.truncate(self.keeps);
        }
    }

    /// The slowest, slowest first.
    pub fn slowest(&self) -> &[Message] {
        &self.slowest
    }

    /// The part that ended last, and for how long before that it was the only one under way, ns.
    pub fn last(&self) -> Option<(&Message, u64)> {
        let last = self.last.as_deref()?;
        Some((last, last.end_ns?.saturating_sub(self.others_end_ns.max(last.begin_ns))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn message(id: u64, begin_ns: u64, end_ns: Option<u64>) -> Message {
        Message { end_ns, ..Message::beginning(id, begin_ns) }
    }

    #[test]
    fn the_last_part_is_known_with_how_long_it_was_alone() {
        let mut parts = Parts::of(&[1, 2, 3, 4, 5], (0, 1000), 2);
        assert!(parts.last().is_none());
        for (id, begin_ns, end_ns) in [(1, 0, Some(50)), (2, 10, Some(200)), (9, 0, Some(900)), (3, 20, Some(120)), (4, 0, None)]
        {
            parts.take(&message(id, begin_ns, end_ns));
        }
        let last = |parts: &Parts| parts.last().map(|(message, alone_ns)| (message.id, alone_ns));
        assert_eq!((last(&parts), parts.ended), (Some((2, 80)), 3));
        let slowest: Vec<u64> = parts.slowest().iter().map(|message| message.id).collect();
        assert_eq!(slowest, [2, 3]);
        // One that begins when all others are over.
        parts.take(&message(5, 500, Some(510)));
        assert_eq!(last(&parts), Some((5, 10)));
        // Its number again, in another message.
        parts.take(&message(5, 2000, Some(2010)));
        assert_eq!((last(&parts), parts.ended), (Some((5, 10)), 4));
        assert!(Parts::of(&[], (0, 1000), 2).slowest().is_empty());
    }
}
