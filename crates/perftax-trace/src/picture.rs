//! What a picture of a trace needs: every message as a dot, the slowest ones in pieces. As much of it as can be shown, however long the
//! trace is.

use rustc_hash::FxHashMap;

use crate::analysis::{Answer, Latencies};
use crate::blame::Detail;
use crate::cause::Cause;
use crate::message::Message;

/// A message in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dot {
    /// As the program named it.
    pub id: u64,
    /// When it began.
    pub begin_ns: u64,
    /// From its beginning to its end.
    pub latency_ns: u64,
    /// What it spent most on; where it is slow, most beyond the usual.
    pub cause: Cause,
    /// The function with the most samples of that.
    pub function: Option<u32>,
}

/// A picture in the making.
#[derive(Debug)]
pub struct Picture {
    /// From this latency on every message is kept.
    always_ns: u64,
    /// So many of the others, and how many there are.
    room: u64,
    others: u64,
    /// Of which so many have come.
    seen: u64,
    /// From this latency on a message is kept in pieces.
    whole_ns: u64,
    whole: usize,
    dots: Vec<Dot>,
    slowest: Vec<Message>,
    ended: u64,
}

/// A picture that is done.
#[derive(Debug)]
pub struct Shown {
    /// The messages, in order of their beginnings.
    pub dots: Vec<Dot>,
    /// Messages that ended and are not shown.
    pub left_out: u64,
    /// The slowest in pieces, slowest first.
    pub slowest: Vec<Message>,
}

/// Pieces, and samples, of a message in a picture: the longest pieces.
const MAX_PIECES: usize = 400;

impl Picture {
    /// Of messages with these latencies; at most so many dots, all slow ones among them, and so many of the slowest in pieces. Where more
    /// than half of the dots would be slow ones, only the slower of those are kept for certain.
    pub fn new(latencies: &Latencies, slow_ns: u64, most: usize, whole: usize) -> Self {
        let always_ns = slow_ns.max(latencies.slowest_ns(most / 2));
        let always = latencies.len() - (latencies.share_below(always_ns) * latencies.len() as f64).round() as usize;
        let others = (latencies.len() - always) as u64;
        Self {
            always_ns,
            room: (most.saturating_sub(always) as u64).min(others),
            others,
            seen: 0,
            whole_ns: latencies.slowest_ns(whole),
            whole,
            dots: Vec::with_capacity(latencies.len().min(most)),
            slowest: Vec::new(),
            ended: 0,
        }
    }

    /// Takes a message that is over.
    pub fn take(&mut self, message: &Message) {
        let Some(latency_ns) = message.latency_ns() else { return };
        self.ended += 1;
        let is_kept = latency_ns >= self.always_ns || self.is_next();
        if is_kept {
            let (cause, function) = largest(message);
            self.dots.push(Dot { id: message.id, begin_ns: message.begin_ns, latency_ns, cause, function });
        }
        if self.whole > 0 && latency_ns >= self.whole_ns && self.slowest.len() < 2 * self.whole {
            self.slowest.push(cut(message));
        }
    }

    /// Whether the next of the others is kept: so that those that are lie evenly among them.
    fn is_next(&mut self) -> bool {
        let place = |seen: u64| u128::from(seen) * u128::from(self.room) / u128::from(self.others.max(1));
        let is_kept = place(self.seen + 1) > place(self.seen);
        self.seen += 1;
        is_kept
    }

    /// Puts it in order, and says of the slow ones what they are slow by.
    pub fn finish(mut self, answer: &Answer) -> Shown {
        let slow: FxHashMap<(u64, u64), _> = answer.slow.iter().map(|brief| ((brief.id, brief.begin_ns), brief)).collect();
        for dot in self.dots.iter_mut().filter(|dot| dot.latency_ns >= answer.slow_ns) {
            let Some(brief) = slow.get(&(dot.id, dot.begin_ns)) else { continue };
            let foremost = brief.foremost(&answer.usual.shares);
            dot.cause = foremost.cause;
            dot.function = match foremost.function {
                Some((Detail::Function(function), _)) => Some(function),
                _ => None,
            };
        }
        self.dots.sort_by_key(|dot| dot.begin_ns);
        self.slowest.sort_by_key(|message| std::cmp::Reverse(message.latency_ns()));
        self.slowest.truncate(self.whole);
        Shown { left_out: self.ended - self.dots.len() as u64, dots: self.dots, slowest: self.slowest }
    }
}

/// The cause that a message spent most on, and the function with the most samples of it.
fn largest(message: &Message) -> (Cause, Option<u32>) {
    let cause = Cause::ALL.into_iter().rev().max_by_key(|cause| message.shares.of(*cause)).unwrap_or(Cause::OnCpu);
    let mut counts: Vec<(u32, usize)> = Vec::new();
    for hit in message.hits.iter().filter(|hit| hit.cause == cause) {
        match counts.iter_mut().find(|(function, _)| *function == hit.function) {
            Some((_, n)) => *n += 1,
            None => counts.push((hit.function, 1)),
        }
    }
    (cause, counts.into_iter().max_by_key(|(_, n)| *n).map(|(function, _)| function))
}

/// A message with its longest pieces.
fn cut(message: &Message) -> Message {
    let mut cut = message.clone();
    let longest = |pieces: &[crate::Piece]| {
        let mut lengths: Vec<u64> = pieces.iter().map(|piece| piece.to_ns - piece.from_ns).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths[MAX_PIECES]
    };
    if cut.pieces.len() > MAX_PIECES {
        let least = longest(&cut.pieces);
        cut.pieces.retain(|piece| piece.to_ns - piece.from_ns > least);
        cut.left_out += (message.pieces.len() - cut.pieces.len()) as u64;
        cut.pieces.shrink_to_fit();
    }
    if cut.hits.len() > MAX_PIECES {
        // All of them count for the functions; a picture shows one in so many.
        let every = cut.hits.len().div_ceil(MAX_PIECES);
        cut.hits = cut.hits.into_iter().step_by(every).collect();
        cut.left_out += (message.hits.len() - cut.hits.len()) as u64;
    }
    cut
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::message::Piece;

    fn message(id: u64, ns: u64) -> Message {
        let mut message = Message::beginning(id, id * 1000);
        message.add(Piece { tid: 1, from_ns: id * 1000, to_ns: id * 1000 + ns, cause: Cause::OnCpu, which: 0 });
        message.end_ns = Some(id * 1000 + ns);
        message
    }

    #[test]
    fn all_slow_ones_are_kept_and_the_others_thinned_evenly() {
        let all: Vec<Message> = (0..10_000).map(|id| message(id, if id % 100 == 7 { 900 } else { 10 + id % 5 })).collect();
        let latencies: Latencies = all.iter().filter_map(Message::latency_ns).collect();
        let slow_ns = latencies.quantile_ns(0.995);
        let mut picture = Picture::new(&latencies, slow_ns, 1000, 3);
        all.iter().for_each(|message| picture.take(message));
        let shown = picture.finish(&Answer { slow_ns, ..Answer::default() });
        assert_eq!(shown.dots.iter().filter(|dot| dot.latency_ns == 900).count(), 100);
        assert_eq!(shown.dots.len(), 1000);
        assert_eq!(shown.left_out, 10_000 - shown.dots.len() as u64);
        let gaps = shown.dots.windows(2).map(|two| two[1].begin_ns - two[0].begin_ns).max();
        assert!(gaps.unwrap() <= 12_000, "{gaps:?}");
        assert_eq!(shown.slowest.len(), 3);
        assert!(shown.slowest.iter().all(|message| message.latency_ns() == Some(900)));
    }

    #[test]
    fn a_message_of_many_pieces_keeps_the_longest() {
        let mut long = Message::beginning(1, 0);
        let mut now_ns = 0;
        for at in 0..2000u64 {
            let ns = if at % 100 == 0 { 5000 } else { 1 + at % 3 };
            let cause = if at % 2 == 0 { Cause::OnCpu } else { Cause::Irq };
            long.add(Piece { tid: 1, from_ns: now_ns, to_ns: now_ns + ns, cause, which: 0 });
            now_ns += ns;
        }
        let cut = cut(&long);
        assert!(cut.pieces.len() <= MAX_PIECES && cut.left_out == (2000 - cut.pieces.len()) as u64);
        assert_eq!(cut.pieces.iter().filter(|piece| piece.to_ns - piece.from_ns == 5000).count(), 20);
        assert_eq!(cut.shares, long.shares);
    }
}
