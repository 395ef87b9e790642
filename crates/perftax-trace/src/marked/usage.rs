//! What messages are called while their numbers are theirs: a number may be used again, for another message.

use rustc_hash::FxHashMap;

use super::{Hop, NamedHop};
use crate::mark::TraceIdentity;

/// One message with a number.
#[derive(Debug, Default)]
struct Usage {
    /// What it is called; zeros: nothing yet.
    identity: TraceIdentity,
    /// Its hops that have no name yet, by their places.
    nameless: Vec<usize>,
    /// What was received under its number after it ended: it may be the next one's.
    late: Vec<usize>,
    has_begun: bool,
    has_ended: bool,
}

/// Numbers that are in use.
#[derive(Debug)]
pub(super) struct Usages {
    by_message: FxHashMap<u64, Usage>,
    /// Where there are so many, those that have ended are given up.
    room: usize,
}

/// Numbers of which it is known whose they are just now, at least.
const ROOM: usize = 1 << 16;

impl Default for Usages {
    fn default() -> Self {
        Self { by_message: FxHashMap::default(), room: ROOM }
    }
}

impl Usages {
    fn of(&mut self, id: u64) -> &mut Usage {
        if self.by_message.len() >= self.room {
            self.by_message.retain(|_, usage| !usage.has_ended);
            self.room = ROOM.max(2 * self.by_message.len());
        }
        self.by_message.entry(id).or_default()
    }

    /// A message begins: what its number was called before, it is not. `is_talkative`: whether anything is said of messages at all.
    pub fn begin(&mut self, id: u64, is_talkative: bool, hops: &mut [NamedHop]) {
        let usage = match self.by_message.get_mut(&id) {
            // It was received, or named, just before.
            Some(usage) if !usage.has_begun && !usage.has_ended => {
                usage.has_begun = true;
                return;
            }
            Some(usage) => usage,
            None if is_talkative => self.of(id),
            None => return,
        };
        let late = std::mem::take(&mut usage.late);
        for at in &late {
            if let Some(hop) = hops.get_mut(*at).filter(|hop| hop.id == id) {
                hop.identity = Some(TraceIdentity::default());
            }
        }
        *usage = Usage { nameless: late, has_begun: true, ..Usage::default() };
    }

    /// It ends.
    pub fn end(&mut self, id: u64) {
        if let Some(usage) = self.by_message.get_mut(&id) {
            usage.has_ended = true;
        }
    }

    /// It is called so, from where it began. Of an ended one's number, what was received since is the next one's.
    pub fn name(&mut self, id: u64, identity: TraceIdentity, hops: &mut [NamedHop]) {
        let usage = self.of(id);
        if usage.has_ended && !usage.late.is_empty() {
            *usage = Usage { nameless: std::mem::take(&mut usage.late), ..Usage::default() };
        }
        usage.identity = identity;
        for at in std::mem::take(&mut usage.nameless) {
            // Hops that nobody asked for are gone.
            if let Some(hop) = hops.get_mut(at).filter(|hop| hop.id == id) {
                hop.identity = Some(identity);
            }
        }
    }

    /// It goes or comes, at a place among the hops. What it is called; `last`: what its number was called last.
    pub fn hop(&mut self, hop: &Hop, at: usize, last: impl Fn() -> TraceIdentity) -> TraceIdentity {
        let is_new = !self.by_message.contains_key(&hop.id);
        let usage = self.of(hop.id);
        if is_new {
            // Its number was given up, since it had ended.
            usage.identity = last();
            usage.has_ended = usage.identity != TraceIdentity::default();
            usage.has_begun = usage.has_ended;
        }
        if usage.has_ended && !hop.is_sent {
            usage.late.push(at);
        } else if usage.identity == TraceIdentity::default() {
            usage.nameless.push(at);
        }
        usage.identity
    }
}

#[cfg(test)]
mod tests {
    use crate::mark::{Kind, Mark, Saying, TraceIdentity};
    use crate::marked::Marked;

    /// What is said of number 7, and what its hops are called by then.
    #[derive(Default)]
    struct Told {
        marked: Marked,
        now_ns: u64,
    }

    impl Told {
        fn say(&mut self, saying: Saying) -> &mut Self {
            self.now_ns += 1;
            self.marked.take(self.now_ns, (1, 10), saying, &mut |_| {});
            self
        }

        fn mark(&mut self, kind: Kind) -> &mut Self {
            self.now_ns += 1;
            self.marked.mark(1, Mark { time_ns: self.now_ns, tid: 10, id: 7, kind }, &mut |_| {});
            self
        }

        fn name(&mut self, span: u64) -> &mut Self {
            self.say(Saying::Identity { id: 7, identity: TraceIdentity { trace: 1, span } })
        }

        fn spans(&self) -> Vec<u64> {
            self.marked.hops.iter().map(|hop| hop.identity.map_or(u64::MAX, |identity| identity.span)).collect()
        }
    }

    #[test]
    fn numbers_that_are_used_again_are_other_messages() {
        let mut told = Told::default();
        for span in 1..=3 {
            told.mark(Kind::Begin).say(Saying::Receive(7)).name(span).say(Saying::Send(7)).mark(Kind::End);
        }
        assert_eq!(told.spans(), [1, 1, 2, 2, 3, 3]);
        // One that is not called anything.
        told.mark(Kind::Begin).say(Saying::Send(7)).mark(Kind::End);
        assert_eq!(told.spans()[6..], [0]);
        assert_eq!(told.marked.relations[&7].identity.span, 3);
        // One whose end was lost.
        told.mark(Kind::Begin).name(4).say(Saying::Send(7)).mark(Kind::Begin).say(Saying::Send(7));
        assert_eq!(told.spans()[7..], [4, 0]);
    }

    /// Who receives does so before it begins what it received, or has it back after it ended what it sent.
    #[test]
    fn what_is_received_before_it_begins_is_the_next_one() {
        let mut told = Told::default();
        for span in 1..=2 {
            told.say(Saying::Receive(7)).mark(Kind::Begin).name(span).say(Saying::Send(7)).mark(Kind::End);
        }
        told.say(Saying::Receive(7)).name(3).mark(Kind::Begin).say(Saying::Send(7)).mark(Kind::End);
        assert_eq!(told.spans(), [1, 1, 2, 2, 3, 3]);
        told.say(Saying::Receive(7));
        assert_eq!(told.spans()[6..], [3], "had back after its end");
        told.mark(Kind::Begin);
        assert_eq!(told.spans()[6..], [0], "or the next one's, which is called nothing");
    }

    #[test]
    fn hops_that_are_gone_are_not_named() {
        let mut told = Told::default();
        told.mark(Kind::Begin).say(Saying::Send(7));
        told.marked.hops.clear();
        told.say(Saying::Send(8)).name(1).say(Saying::Receive(7));
        assert_eq!(told.spans(), [0, 1]);
    }
}
