use super::*;
use crate::mark::Kind::{self, Begin, End, Switch};

const LISTENS: i32 = 3;

/// Calls of threads of process 1, each a microsecond long at least: entered, left, by whom, what, and what it returned. Marks in the order of their times.
fn marks(connections: &mut Connections, calls: &[(u64, u64, u32, Action, i64)]) -> Vec<(u64, u32, u64, Kind)> {
    let mut moments: Vec<Call> = Vec::new();
    for &(enter_ns, exit_ns, tid, action, returned) in calls {
        moments.push(Call { time_ns: enter_ns, pid: 1, tid, at: Moment::Enter(action) });
        moments.push(Call { time_ns: exit_ns, pid: 1, tid, at: Moment::Exit(returned) });
    }
    moments.sort_by_key(|call| call.time_ns);
    let mut marks = Vec::new();
    for call in &moments {
        connections.take(call, &mut |_, fd| fd == LISTENS, &mut |mark| marks.push((mark.time_ns, mark.tid, mark.id, mark.kind)));
    }
    marks.sort_by_key(|(time_ns, ..)| *time_ns);
    marks
}

fn serving(fds: &[i32]) -> Connections {
    let mut connections = Connections::default();
    fds.iter().for_each(|fd| connections.serve(1, *fd));
    connections
}

use Action::{Accepts, Closes, Moves, Reads, Waits, Writes};

/// A loop that reads all that has come, and answers all: what it is at changes with the descriptors.
#[test]
fn a_loop_serves_one_connection_after_the_other() {
    let mut connections = Connections::default();
    let calls = [
        (10, 20, 1, Accepts(LISTENS), 5),
        (30, 40, 1, Accepts(LISTENS), 6),
        (50, 60, 1, Accepts(4), 7),
        (70, 100, 1, Waits, 2),
        (110, 120, 1, Reads(5), 10),
        (210, 220, 1, Reads(6), 10),
        (300, 310, 1, Writes(5), 20),
        (400, 410, 1, Writes(6), 20),
        (420, 430, 1, Writes(7), 1),
        (500, 90_000, 1, Waits, 1),
        (90_010, 90_020, 1, Reads(5), -11),
        (90_030, 90_040, 1, Reads(5), 10),
        (90_050, 90_060, 1, Moves(9, 5), 10),
        (90_070, 90_080, 1, Closes(5, 5), 0),
        (90_090, 90_100, 1, Closes(6, 6), 0),
    ];
    let wanted = [
        (120, 1, 1, Begin),
        (220, 1, 0, Switch),
        (220, 1, 2, Begin),
        (300, 1, 1, Switch),
        (310, 1, 1, End),
        (400, 1, 2, Switch),
        (410, 1, 2, End),
        (500, 1, 0, Switch),
        (90_040, 1, 3, Begin),
        (90_060, 1, 3, End),
    ];
    assert_eq!(marks(&mut connections, &calls), wanted);
    let sight = Sight { connections: 2, begun: 3, answered: 3, ..Sight::default() };
    assert_eq!((connections.sight, connections.undecided_ns()), (sight, None));
}

/// A request in two pieces, an answer in three, with a wait in between; one thread reads, another answers.
#[test]
fn pieces_are_of_one_message() {
    let mut connections = serving(&[5]);
    let calls = [
        (10, 20, 1, Reads(5), 10),
        (30, 40, 1, Reads(5), 10),
        (50, 60, 2, Writes(5), 10),
        (70, 80, 2, Writes(5), -11),
        (81, 89, 2, Waits, 1),
        (90, 100, 2, Writes(5), 10),
        (20_000, 30_000, 1, Reads(5), 10),
    ];
    let wanted = [
        (20, 1, 1, Begin),
        (50, 2, 1, Switch),
        (81, 2, 0, Switch),
        (90, 2, 1, Switch),
        (100, 2, 1, End),
        (30_000, 1, 0, Switch),
        (30_000, 1, 2, Begin),
    ];
    assert_eq!(marks(&mut connections, &calls), wanted);
    assert_eq!((connections.sight.begun, connections.sight.answered, connections.sight.refused), (2, 1, 0));
}

/// What is said of an answer waits for what follows it, but not for ever.
#[test]
fn patience_ends() {
    let mut connections = serving(&[5, 6]);
    let all = marks(&mut connections, &[(10, 20, 1, Reads(5), 10), (30, 40, 1, Writes(5), 10), (50, 60, 1, Reads(6), 10)]);
    assert_eq!(all, [(20, 1, 1, Begin), (60, 1, 0, Switch), (60, 1, 2, Begin)]);
    assert_eq!(connections.undecided_ns(), Some(40));
    let mut late = Vec::new();
    connections.lose_patience(39 + Connections::PATIENCE_NS, &mut |mark| late.push(mark));
    assert!(late.is_empty());
    connections.lose_patience(40 + Connections::PATIENCE_NS, &mut |mark| late.push(mark));
    assert_eq!(late.iter().map(|mark| (mark.time_ns, mark.id, mark.kind)).collect::<Vec<_>>(), [(40, 1, End)]);
    assert_eq!(connections.undecided_ns(), None);
    // An answer that goes on after all is no message's.
    marks(&mut connections, &[(70_000_000, 70_000_010, 1, Writes(5), 10)]);
    assert_eq!(connections.sight.unasked, 1);
}

/// A descriptor that is given up and had again is another connection, whether the giving up was seen or not.
#[test]
fn a_descriptor_is_used_again() {
    let mut connections = Connections::default();
    let calls = [
        (10, 20, 1, Accepts(LISTENS), 5),
        (30, 40, 1, Reads(5), 10),
        (50, 60, 1, Closes(4, 9), 0),
        (70, 80, 1, Reads(5), 10),
        (90, 100, 1, Accepts(LISTENS), 5),
        (110, 120, 1, Reads(5), 10),
        (130, 140, 1, Writes(5), 10),
        (150, 160, 1, Closes(5, 5), 0),
    ];
    let wanted = [(40, 1, 1, Begin), (120, 1, 0, Switch), (120, 1, 2, Begin), (140, 1, 2, End)];
    assert_eq!(marks(&mut connections, &calls), wanted);
    let sight = Sight { connections: 2, begun: 2, answered: 1, unanswered: 1, ..Sight::default() };
    assert_eq!(connections.sight, sight);
    let calls = [
        (200, 210, 1, Accepts(LISTENS), 5),
        (220, 230, 1, Reads(5), 10),
        (240, 250, 1, Writes(5), 10),
        (260, 270, 1, Accepts(LISTENS), 5),
    ];
    marks(&mut connections, &calls);
    connections.lose_patience(u64::MAX, &mut |_| {});
    assert_eq!(connections.undecided_ns(), None);
}

/// A thread that starts changes nothing; a child has its parent's connections, until it ends.
#[test]
fn threads_and_children_have_what_there_is() {
    let mut connections = serving(&[5, 6]);
    marks(&mut connections, &[(10, 20, 1, Reads(5), 10), (30, 40, 1, Writes(5), 10), (50, 60, 1, Reads(6), 10)]);
    connections.born(1, 1);
    assert_eq!(connections.undecided_ns(), Some(40));
    connections.born(2, 1);
    assert_eq!(connections.all[&2].len(), 2);
    let mut ends = Vec::new();
    connections.gone(1, &mut |mark| ends.push((mark.time_ns, mark.id, mark.kind)));
    assert_eq!(ends, [(40, 1, End)]);
    assert_eq!((connections.undecided_ns(), connections.sight.unanswered, connections.all.len()), (None, 1, 1));
    connections.lose_patience(u64::MAX, &mut |_| {});
}

/// An answer that is written while the next request is read, again and again: refused, after what had been told. Once it is the client that was quick.
#[test]
fn what_overlaps_is_refused() {
    let quick = |at: u64| {
        let (reads, writes) = ((at + 10, at + 20, 1, Reads(5), 10), (at + 30, at + 200, 2, Writes(5), 10));
        [reads, writes, (at + 40, at + 100, 1, Reads(5), 10), (at + 300, at + 310, 1, Writes(5), 10)]
    };
    let mut connections = serving(&[5]);
    let wanted =
        [(20, 1, 1, Begin), (30, 2, 1, Switch), (100, 1, 1, End), (100, 1, 2, Begin), (310, 1, 2, End), (1020, 1, 3, Begin)];
    let mut calls = quick(0).to_vec();
    calls.push((1010, 1020, 1, Reads(5), 10));
    assert_eq!(marks(&mut connections, &calls), wanted);
    assert_eq!((connections.sight.begun, connections.sight.answered, connections.sight.refused), (3, 2, 0));
    let mut connections = serving(&[5]);
    let mut calls = vec![(1, 2, 1, Reads(5), 10)];
    for at in (0..6u64).map(|turn| 1000 * turn) {
        calls.extend([(at + 10, at + 900, 2, Writes(5), 10), (at + 100, at + 200, 1, Reads(5), 10)]);
    }
    marks(&mut connections, &calls);
    assert_eq!((connections.sight.begun, connections.sight.refused), (3, 1));
}

/// Nothing was heard of connections for a while: neither a request nor an answer of before goes on, and a descriptor may be something else's by now.
#[test]
fn after_a_gap_nothing_of_before_goes_on() {
    let mut connections = serving(&[5, 6, 7]);
    let before = [(10, 20, 1, Reads(5), 10), (30, 40, 1, Reads(6), 10), (50, 60, 1, Writes(6), 10)];
    assert_eq!(marks(&mut connections, &before).len(), 3);
    connections.resume(&[(1, 5), (1, 8)], &[(1, 6), (1, 9)]);
    let after =
        [(110, 120, 1, Writes(5), 10), (130, 140, 1, Reads(7), 10), (150, 160, 1, Reads(8), 10), (170, 180, 1, Writes(8), 10)];
    let mut told = marks(&mut connections, &after);
    connections.lose_patience(u64::MAX, &mut |mark| told.push((mark.time_ns, mark.tid, mark.id, mark.kind)));
    assert_eq!(told, [(160, 1, 3, Begin), (180, 1, 3, End)]);
    assert_eq!(
        (connections.sight.connections, connections.sight.begun, connections.sight.answered, connections.sight.unasked),
        (4, 3, 1, 1)
    );
}

/// A proxy's connection to who answers for it: what it writes there while it is at a request is for that one, what it writes behind an answer for nobody who is known.
#[test]
fn what_is_written_elsewhere_is_for_the_request_that_the_thread_is_at() {
    struct Both;
    impl Asking for Both {
        fn is_served(&mut self, _: u32, _: i32) -> bool {
            true
        }
        fn peer(&mut self, pid: u32, fd: i32) -> Option<(u32, i32)> {
            ((pid, fd) == (2, 5)).then_some((1, 9))
        }
    }
    let mut connections = Connections::default();
    [(1, 3), (1, 4), (2, 5)].into_iter().for_each(|(pid, fd)| connections.serve(pid, fd));
    let mut time_ns = 0;
    let mut call = |pid: u32, action: Action| {
        for at in [Moment::Enter(action), Moment::Exit(8)] {
            time_ns += 10;
            connections.take(&Call { time_ns, pid, tid: 10 * pid, at }, &mut Both, &mut |_| {});
        }
    };
    use Action::{Reads, Writes};
    // A request comes by 3, is passed on by 9, read and answered at 5, and answered at 3.
    [(1, Reads(3)), (1, Writes(9)), (2, Reads(5)), (2, Writes(5)), (1, Reads(9)), (1, Writes(3))]
        .into_iter()
        .for_each(|(pid, what)| call(pid, what));
    // One that came by 4 waited for 9 meanwhile.
    [(1, Writes(9)), (2, Reads(5)), (2, Writes(5))].into_iter().for_each(|(pid, what)| call(pid, what));
    let parents: Vec<(u64, u64)> = connections.passed.relations.iter().map(|(id, relation)| (*id, relation.parent)).collect();
    assert_eq!(parents, [(2, 1)]);
    let hops: Vec<(u64, u32, bool)> = connections.passed.hops.iter().map(|hop| (hop.time_ns, hop.tid, hop.is_sent)).collect();
    assert_eq!(hops, [(30, 10, true), (60, 20, false)]);
    connections.resume(&[], &[]);
    assert!(connections.places.is_empty());
}

/// A server with a process for each connection may wait for several things while it works on a request, for a latch among them: it is at it all the same.
#[test]
fn whoever_serves_one_connection_waits_for_it() {
    for connections_served in [1, 2] {
        let mut connections = Connections::default();
        (3..3 + connections_served).for_each(|fd| connections.serve(1, fd));
        let (mut time_ns, mut marks) = (0, Vec::new());
        for action in [Action::Reads(3), Action::Waits, Action::Writes(3), Action::Waits] {
            for at in [Moment::Enter(action), Moment::Exit(8)] {
                time_ns += 10;
                connections.take(&Call { time_ns, pid: 1, tid: 1, at }, &mut |_, _| true, &mut |mark| {
                    marks.push((mark.time_ns, mark.id, mark.kind))
                });
            }
        }
        use Kind::{Begin, Switch};
        let alone = [(20, 1, Begin), (70, 0, Switch)];
        let among = [(20, 1, Begin), (30, 0, Switch), (50, 1, Switch), (70, 0, Switch)];
        assert_eq!(marks, if connections_served == 1 { &alone[..] } else { &among[..] });
    }
}
