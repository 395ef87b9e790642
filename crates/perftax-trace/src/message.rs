//! Messages, from marks: when each began and ended, and which thread worked on it when.

use std::collections::HashMap;

use crate::mark::{Kind, Mark};

/// A piece of time in which a thread worked on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which message: its place among [`Messages::all`].
    pub message: u32,
    /// The thread.
    pub tid: u32,
    /// From when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// As the program named it.
    pub id: u64,
    /// When it began.
    pub begin_ns: u64,
    /// When it ended; none where the program never said so.
    pub end_ns: Option<u64>,
}

impl Message {
    /// From its beginning to its end.
    pub fn latency_ns(&self) -> Option<u64> {
        self.end_ns.map(|end| end.saturating_sub(self.begin_ns))
    }
}

/// What was odd about the marks. Nothing of it stops the rest from being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Messages that never ended.
    pub never_ended: u64,
    /// Ends of messages that had not begun, or had ended.
    pub ended_without_begin: u64,
    /// Messages that began while one of the same id was under way: the older one counts as never ended.
    pub reused: u64,
    /// Switches to messages that were not under way.
    pub switched_to_unknown: u64,
}

/// Messages and who worked on them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Messages {
    /// In the order of their beginnings.
    pub all: Vec<Message>,
    /// Of one thread they do not overlap; in the order of their ends.
    pub spans: Vec<Span>,
    /// What was odd.
    pub trouble: Trouble,
}

/// What a thread is at: the messages it has begun or taken up and not left, the last one on top.
#[derive(Default)]
struct Thread {
    stack: Vec<u32>,
    since_ns: u64,
}

impl Messages {
    /// From marks of any number of threads, each thread's in order.
    pub fn of(mut marks: Vec<Mark>) -> Self {
        // Stable: marks of one thread at one time stay in their order.
        marks.sort_by_key(|mark| mark.time_ns);
        let mut messages = Self::default();
        let mut threads: HashMap<u32, Thread> = HashMap::new();
        let mut under_way: HashMap<u64, u32> = HashMap::new();
        let last_ns = marks.last().map_or(0, |mark| mark.time_ns);
        for mark in &marks {
            match mark.kind {
                Kind::Begin => {
                    let message = messages.all.len() as u32;
                    messages.all.push(Message { id: mark.id, begin_ns: mark.time_ns, end_ns: None });
                    messages.trouble.reused += u64::from(under_way.insert(mark.id, message).is_some());
                    messages.change(&mut threads, mark, |stack| stack.push(message));
                }
                Kind::End => {
                    let Some(message) = under_way.remove(&mark.id) else {
                        messages.trouble.ended_without_begin += 1;
                        continue;
                    };
                    messages.all[message as usize].end_ns = Some(mark.time_ns);
                    // Whoever else was at it is so no longer.
                    let at_it = |thread: &&u32| threads[*thread].stack.contains(&message);
                    let others: Vec<u32> = threads.keys().filter(at_it).copied().collect();
                    for tid in others {
                        let at = Mark { tid, ..*mark };
                        messages.change(&mut threads, &at, |stack| stack.retain(|other| *other != message));
                    }
                }
                Kind::Switch => {
                    let message = under_way.get(&mark.id).copied();
                    messages.trouble.switched_to_unknown += u64::from(mark.id != 0 && message.is_none());
                    messages.change(&mut threads, mark, |stack| {
                        stack.clear();
                        stack.extend(message);
                    });
                }
            }
        }
        for (tid, mut thread) in threads {
            messages.close(tid, &mut thread, last_ns);
        }
        messages.trouble.never_ended = messages.all.iter().filter(|message| message.end_ns.is_none()).count() as u64;
        messages
    }

    /// A thread turns to something else.
    fn change(&mut self, threads: &mut HashMap<u32, Thread>, mark: &Mark, turn: impl FnOnce(&mut Vec<u32>)) {
        let thread = threads.entry(mark.tid).or_default();
        self.close(mark.tid, thread, mark.time_ns);
        turn(&mut thread.stack);
    }

    /// Ends the piece of time that a thread is in.
    fn close(&mut self, tid: u32, thread: &mut Thread, now_ns: u64) {
        if let Some(&message) = thread.stack.last().filter(|_| now_ns > thread.since_ns) {
            self.spans.push(Span { message, tid, from_ns: thread.since_ns, to_ns: now_ns });
        }
        thread.since_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Begin, End, Switch};

    fn mark(time_ns: u64, tid: u32, kind: Kind, id: u64) -> Mark {
        Mark { time_ns, tid, id, kind }
    }

    fn span(message: u32, tid: u32, from_ns: u64, to_ns: u64) -> Span {
        Span { message, tid, from_ns, to_ns }
    }

    #[test]
    fn messages_that_are_interleaved_have_their_own_time() {
        let messages = Messages::of(vec![
            mark(10, 1, Begin, 7),
            mark(20, 1, Switch, 0),
            mark(30, 1, Begin, 8),
            mark(45, 1, Switch, 7),
            mark(60, 1, End, 7),
            mark(61, 1, Switch, 8),
            mark(70, 1, End, 8),
        ]);
        let latencies: Vec<_> = messages.all.iter().map(|m| (m.id, m.latency_ns())).collect();
        assert_eq!(latencies, [(7, Some(50)), (8, Some(40))]);
        assert_eq!(messages.spans, [span(0, 1, 10, 20), span(1, 1, 30, 45), span(0, 1, 45, 60), span(1, 1, 61, 70)]);
        assert_eq!(messages.trouble, Trouble::default());
    }

    #[test]
    fn a_message_may_pass_from_thread_to_thread() {
        let messages =
            Messages::of(vec![mark(10, 1, Begin, 7), mark(20, 1, Switch, 0), mark(25, 2, Switch, 7), mark(40, 2, End, 7)]);
        assert_eq!(messages.spans, [span(0, 1, 10, 20), span(0, 2, 25, 40)]);
    }

    #[test]
    fn nested_ones_take_the_time_of_the_outer() {
        let messages = Messages::of(vec![mark(0, 1, Begin, 1), mark(5, 1, Begin, 2), mark(9, 1, End, 2), mark(12, 1, End, 1)]);
        assert_eq!(messages.spans, [span(0, 1, 0, 5), span(1, 1, 5, 9), span(0, 1, 9, 12)]);
    }

    #[test]
    fn what_is_odd_is_counted_and_the_rest_is_read() {
        let messages = Messages::of(vec![
            mark(1, 1, End, 5),
            mark(2, 1, Begin, 6),
            mark(3, 1, Begin, 6),
            mark(4, 1, End, 6),
            mark(5, 1, End, 6),
            mark(6, 2, Switch, 99),
            mark(8, 1, Begin, 7),
            mark(9, 3, Begin, 8),
            mark(11, 3, End, 8),
        ]);
        let trouble = Trouble { never_ended: 2, ended_without_begin: 2, reused: 1, switched_to_unknown: 1 };
        assert_eq!(messages.trouble, trouble);
        assert_eq!(messages.all.len(), 4);
        assert_eq!(messages.all[3].latency_ns(), Some(2));
    }
}
