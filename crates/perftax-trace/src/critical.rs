//! The critical path of a message: its time along who ended each stretch of its waiting.
//!
//! Where a thread of the message's waited until another one woke it, the path goes on with what that one did meanwhile, and so on. Where the message was on no thread, it goes on with
//! what the thread did that came to it in the end, or that let it go on. What is left at the path's ends is what the message took its time for.

use crate::cause::Cause;
use crate::message::{Message, Piece};
use crate::timeline::{Stretch, Timeline};

/// A stretch of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The thread; 0 where none was at the message, and nobody is known for whom it waited.
    pub tid: u32,
    /// From when, until when, what, and which message the thread was at.
    pub stretch: Stretch,
    /// How many wakers away from the message it is; 0: its own.
    pub depth: u32,
}

/// Wakers of wakers that are followed.
const MAX_DEPTH: u32 = 8;

/// The path of a message, in order of time: it covers each moment once.
pub fn critical_path(message: &Message, timeline: &Timeline) -> Vec<Step> {
    let mut own: Vec<Piece> = message.pieces.clone();
    own.sort_by_key(|piece| (piece.from_ns, piece.to_ns));
    let mut path = Vec::new();
    let mut covered_ns = message.begin_ns;
    for piece in own {
        // Of threads that are at it at once the first one's time is told.
        let from_ns = piece.from_ns.max(covered_ns);
        if from_ns >= piece.to_ns {
            continue;
        }
        covered_ns = piece.to_ns;
        let stretch = Stretch { from_ns, to_ns: piece.to_ns, id: Some(message.id), cause: piece.cause, which: piece.which };
        let mut go_on = |stretch: Stretch, by: Option<u32>| {
            let step = Step { tid: piece.tid, stretch, depth: 0 };
            follow(step, by.filter(|tid| *tid != 0), timeline, &mut vec![piece.tid], &mut path);
        };
        let waking = message.waking(&piece).filter(|waking| waking.by.tid != 0);
        match piece.cause {
            Cause::Blocked => go_on(stretch, waking.map(|waking| waking.by.tid)),
            Cause::Unattended => {
                // Until it could go on it waited for whoever let it, from then on for the thread that came.
                let let_go_ns = waking.map_or(from_ns, |waking| waking.time_ns.clamp(from_ns, piece.to_ns));
                if let_go_ns > from_ns {
                    go_on(Stretch { to_ns: let_go_ns, ..stretch }, waking.map(|waking| waking.by.tid));
                }
                if let_go_ns < piece.to_ns {
                    go_on(Stretch { from_ns: let_go_ns, ..stretch }, message.meanwhile(&piece).map(|of| of.tid));
                }
            }
            _ => go_on(stretch, None),
        }
    }
    merged(path)
}

/// Goes on with what ended a stretch; with the stretch itself where that is nobody, or who it is is waiting for this thread itself.
fn follow(step: Step, by: Option<u32>, timeline: &Timeline, chain: &mut Vec<u32>, path: &mut Vec<Step>) {
    let Some(by) = by.filter(|by| step.depth < MAX_DEPTH && !chain.contains(by)) else { return path.push(step) };
    let Stretch { from_ns, to_ns, .. } = step.stretch;
    chain.push(by);
    let mut told_ns = from_ns;
    for stretch in timeline.between(by, from_ns, to_ns) {
        // Before it was heard of it did nobody knows what.
        if stretch.from_ns > told_ns {
            path.push(Step { stretch: Stretch { from_ns: told_ns, to_ns: stretch.from_ns, ..step.stretch }, ..step });
        }
        told_ns = stretch.to_ns;
        let waker = if stretch.cause == Cause::Blocked { timeline.waker(by, stretch.to_ns) } else { None };
        follow(Step { tid: by, stretch, depth: step.depth + 1 }, waker, timeline, chain, path);
    }
    if told_ns < to_ns {
        path.push(Step { stretch: Stretch { from_ns: told_ns, ..step.stretch }, ..step });
    }
    chain.pop();
}

/// Steps of the same kind that follow each other are one.
fn merged(path: Vec<Step>) -> Vec<Step> {
    let mut all: Vec<Step> = Vec::new();
    for step in path {
        let of = |step: &Step| (step.tid, step.depth, step.stretch.id, step.stretch.cause, step.stretch.which);
        match all.last_mut() {
            Some(last) if of(last) == of(&step) && last.stretch.to_ns == step.stretch.from_ns => {
                last.stretch.to_ns = step.stretch.to_ns
            }
            _ => all.push(step),
        }
    }
    all
}

/// The step of a path that a sample of a thread belongs to; none where the path was with another thread then. A clock's sample is taken in its interrupt, and is of what that
/// interrupted.
pub fn step_sampled(path: &[Step], tid: u32, time_ns: u64) -> Option<usize> {
    let is_in = |at: &usize| path[*at].tid == tid && time_ns <= path[*at].stretch.to_ns;
    let at = path.partition_point(|step| step.stretch.from_ns <= time_ns).checked_sub(1).filter(is_in)?;
    let is_interrupted = |before: &usize| {
        let (before, step) = (&path[*before], &path[at]);
        before.tid == tid && step.stretch.cause.is_interruption() && !before.stretch.cause.is_interruption()
    };
    Some(at.checked_sub(1).filter(is_interrupted).unwrap_or(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Waker, Waking};

    #[test]
    fn a_sample_is_of_what_its_interrupt_interrupted_and_of_the_path_alone() {
        let step =
            |tid, from_ns, to_ns, cause| Step { tid, stretch: Stretch { from_ns, to_ns, id: None, cause, which: 0 }, depth: 1 };
        let path = [
            step(2, 0, 10, Cause::OnCpu),
            step(2, 10, 12, Cause::Vector),
            step(3, 12, 14, Cause::Vector),
            step(2, 14, 20, Cause::OnCpu),
            step(2, 20, 22, Cause::Vector),
        ];
        assert_eq!([5, 11, 16, 21].map(|ns| step_sampled(&path, 2, ns)), [Some(0), Some(0), Some(3), Some(3)]);
        assert_eq!(
            (step_sampled(&path, 3, 13), step_sampled(&path, 3, 16)),
            (Some(2), None),
            "another thread was interrupted, or on"
        );
        assert_eq!(step_sampled(&path, 2, 23), None, "the path has ended, in an interrupt");
        assert_eq!(step_sampled(&[], 2, 0), None);
    }

    /// A message's thread waits for a lock whose holder, at another message, itself waited for a third thread, that read from a disk.
    #[test]
    fn who_waits_for_a_waiter_waits_for_what_that_waits_for() {
        let piece = |from_ns, to_ns, cause| Piece { tid: 1, from_ns, to_ns, cause, which: 0 };
        let mut message = Message::beginning(70, 0);
        message.pieces = vec![piece(0, 10, Cause::OnCpu), piece(10, 90, Cause::Blocked), piece(90, 100, Cause::Runnable)];
        message.wakings = vec![Waking { time_ns: 90, tid: 1, by: Waker { tid: 2, id: Some(80), at: None, kind: 0 } }];
        message.end_ns = Some(100);
        let mut timeline = Timeline::of(0, 100);
        let at = |from_ns, to_ns, id, cause| Stretch { from_ns, to_ns, id, cause, which: 0 };
        timeline.add(2, at(0, 30, Some(80), Cause::OnCpu));
        timeline.add(2, at(30, 70, Some(80), Cause::Blocked));
        timeline.add(2, at(70, 95, Some(80), Cause::OnCpu));
        timeline.woken(70, 2, 3);
        timeline.add(3, at(40, 60, None, Cause::Syscall));
        timeline.add(3, at(60, 80, None, Cause::OnCpu));
        let told: Vec<_> = critical_path(&message, &timeline)
            .iter()
            .map(|step| (step.tid, step.depth, step.stretch.from_ns, step.stretch.to_ns, step.stretch.id, step.stretch.cause))
            .collect();
        let wanted = [
            (1, 0, 0, 10, Some(70), Cause::OnCpu),
            (2, 1, 10, 30, Some(80), Cause::OnCpu),
            (2, 1, 30, 40, Some(80), Cause::Blocked),
            (3, 2, 40, 60, None, Cause::Syscall),
            (3, 2, 60, 70, None, Cause::OnCpu),
            (2, 1, 70, 90, Some(80), Cause::OnCpu),
            (1, 0, 90, 100, Some(70), Cause::Runnable),
        ];
        assert_eq!(told, wanted);
    }

    /// Two that wake each other end somewhere.
    #[test]
    fn a_circle_of_wakers_ends() {
        let mut message = Message::beginning(7, 0);
        message.pieces = vec![Piece { tid: 1, from_ns: 0, to_ns: 50, cause: Cause::Blocked, which: 0 }];
        message.wakings = vec![Waking { time_ns: 50, tid: 1, by: Waker { tid: 2, id: None, at: None, kind: 0 } }];
        let mut timeline = Timeline::of(0, 50);
        timeline.add(2, Stretch { from_ns: 0, to_ns: 50, id: None, cause: Cause::Blocked, which: 0 });
        timeline.woken(50, 2, 1);
        timeline.add(1, Stretch { from_ns: 0, to_ns: 50, id: Some(7), cause: Cause::Blocked, which: 0 });
        let path = critical_path(&message, &timeline);
        assert_eq!(path.len(), 1);
        assert_eq!((path[0].tid, path[0].stretch.to_ns, path[0].depth), (2, 50, 1));
    }
}
