//! Whose time went where: messages' spans set against what their threads were kept from.

use crate::cause::{Cause, Shares};
use crate::kernel::Activity;
use crate::message::Messages;

/// Time by cause of every message, in the order of [`Messages::all`]. `activities` are sorted by thread and time
/// ([`crate::kernel::activities`]). Of a message that never ended only what its threads did is known.
pub fn account(messages: &Messages, activities: &[Activity]) -> Vec<Shares> {
    let mut shares = vec![Shares::default(); messages.all.len()];
    for span in &messages.spans {
        let of = &mut shares[span.message as usize];
        let mut elsewhere = 0;
        // Pieces of one thread neither overlap nor nest, so their ends are in order, too.
        let first = activities.partition_point(|a| (a.tid, a.to_ns) <= (span.tid, span.from_ns));
        for activity in activities[first..].iter().take_while(|a| a.tid == span.tid && a.from_ns < span.to_ns) {
            let ns = activity.to_ns.min(span.to_ns) - activity.from_ns.max(span.from_ns);
            of.add(activity.cause, ns);
            elsewhere += ns;
        }
        of.add(Cause::OnCpu, (span.to_ns - span.from_ns).saturating_sub(elsewhere));
    }
    for (message, of) in messages.all.iter().zip(&mut shares) {
        if let Some(latency) = message.latency_ns() {
            of.add(Cause::Unattended, latency.saturating_sub(of.total()));
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::{Kind, Mark};
    use proptest::prelude::*;

    fn mark(time_ns: u64, kind: Kind, id: u64) -> Mark {
        Mark { time_ns, tid: 1, id, kind }
    }

    #[test]
    fn each_message_gets_its_part() {
        let messages = Messages::of(vec![
            mark(0, Kind::Begin, 1),
            mark(10, Kind::End, 1),
            mark(20, Kind::Begin, 2),
            mark(40, Kind::Switch, 0),
            mark(70, Kind::Switch, 2),
            mark(80, Kind::End, 2),
        ]);
        let activity = |from_ns, to_ns, cause| Activity { tid: 1, from_ns, to_ns, cause };
        let other = Activity { tid: 2, from_ns: 0, to_ns: 100, cause: Cause::Irq };
        let activities = [
            activity(2, 5, Cause::Irq),
            activity(8, 25, Cause::Blocked),
            activity(30, 33, Cause::Softirq),
            activity(39, 72, Cause::Runnable),
            other,
        ];
        let shares = account(&messages, &activities);
        let of = |i: usize| Cause::ALL.map(|cause| shares[i].of(cause));
        //          on CPU, syscall, irq, softirq, vector, runnable, blocked, unattended
        assert_eq!(of(0), [5, 0, 3, 0, 0, 0, 2, 0]);
        assert_eq!(of(1), [19, 0, 0, 3, 0, 3, 5, 30]);
    }

    proptest! {
        /// Whatever happened, a message's time is accounted for to the nanosecond.
        #[test]
        fn shares_add_up(steps in prop::collection::vec((1u64..50, 0u64..4), 1..200), pieces in prop::collection::vec((1u64..40, 1u64..40), 0..200)) {
            let (mut now, mut id, mut marks) = (0, 1, vec![mark(0, Kind::Begin, 1)]);
            for (after, what) in steps {
                now += after;
                match what {
                    0 => marks.push(mark(now, Kind::Switch, 0)),
                    1 => marks.push(mark(now, Kind::Switch, id)),
                    _ => {
                        marks.push(mark(now, Kind::End, id));
                        id += 1;
                        marks.push(mark(now, Kind::Begin, id));
                    }
                }
            }
            marks.push(mark(now + 1, Kind::End, id));
            let mut at = 0;
            let activities: Vec<Activity> = pieces.into_iter().map(|(gap, length)| {
                let from_ns = at + gap;
                at = from_ns + length;
                Activity { tid: 1, from_ns, to_ns: at, cause: Cause::Irq }
            }).collect();
            let messages = Messages::of(marks);
            for (message, shares) in messages.all.iter().zip(account(&messages, &activities)) {
                prop_assert_eq!(Some(shares.total()), message.latency_ns());
            }
        }
    }
}
