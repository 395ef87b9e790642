use super::*;
use crate::blame::Detail;
use crate::cause::Shares;
use crate::executed::ReadBy;
use crate::message::Piece;
use Kind::{Begin, End, Switch, Wake};
use proptest::prelude::*;

fn mark(time_ns: u64, tid: u32, kind: Kind, id: u64) -> Record {
    Record::Mark(Mark { time_ns, tid, id, kind })
}

fn event(time_ns: u64, tid: u32, what: What) -> Record {
    Record::Kernel(KernelEvent { time_ns, cpu: 0, tid, what })
}

fn sample(time_ns: u64, tid: u32, function: u32) -> Record {
    Record::Sample(Sampled { time_ns, tid, function })
}

/// What comes out, and what was odd.
fn track(records: &[Record]) -> (Vec<Message>, Trouble) {
    let mut tracker = Tracker::default();
    let mut messages = Vec::new();
    let mut out = |message: &Message| messages.push(message.clone());
    records.iter().for_each(|record| tracker.take(record, &mut out));
    tracker.finish(&mut out);
    assert_eq!(tracker.waiting(), 0);
    (messages, tracker.trouble)
}

/// Pieces as (from, to, cause, which).
fn pieces(message: &Message) -> Vec<(u64, u64, Cause, u32)> {
    message.pieces.iter().map(|piece| (piece.from_ns, piece.to_ns, piece.cause, piece.which)).collect()
}

#[test]
fn messages_that_are_interleaved_have_their_own_time() {
    let (messages, trouble) = track(&[
        mark(10, 1, Begin, 7),
        mark(20, 1, Switch, 0),
        mark(30, 1, Begin, 8),
        mark(45, 1, Switch, 7),
        mark(60, 1, End, 7),
        mark(61, 1, Switch, 8),
        mark(70, 1, End, 8),
    ]);
    let latencies: Vec<_> = messages.iter().map(|m| (m.id, m.latency_ns())).collect();
    assert_eq!(latencies, [(7, Some(50)), (8, Some(40))]);
    use Cause::{OnCpu, Unattended};
    assert_eq!(pieces(&messages[0]), [(10, 20, OnCpu, 0), (45, 60, OnCpu, 0), (20, 45, Unattended, 0)]);
    assert_eq!(pieces(&messages[1]), [(30, 45, OnCpu, 0), (61, 70, OnCpu, 0), (45, 61, Unattended, 0)]);
    // Each waited while the thread was at the other.
    let meanwhile = |at: usize| messages[at].meanwhile(&messages[at].pieces[2]).map(|of| (of.tid, of.stretches, of.ns, of.most));
    assert_eq!([meanwhile(0), meanwhile(1)], [Some((1, 1, 15, 8)), Some((1, 1, 15, 7))]);
    assert_eq!(trouble, Trouble::default());
}

/// A message lies in a queue while its worker is at three others; and one that is taken up by somebody who did nothing.
#[test]
fn what_was_worked_on_while_a_message_waited_is_told_by_kind() {
    let threads = std::collections::BTreeMap::from([(1, "acceptor".to_string()), (2, "worker".to_string())]);
    let mut tracker = Tracker::knowing(Kinds::of(&Default::default(), &threads).into());
    let mut messages = Vec::new();
    let begins = (1..=5u64).flat_map(|id| [mark(10 * id, 1, Begin, id), mark(10 * id + 5, 1, Switch, 0)]);
    let works = (1..=4u64).flat_map(|id| [mark(60 + 100 * id, 2, Switch, id), mark(60 + 100 * id + 90, 2, End, id)]);
    let rest = [mark(600, 3, Switch, 5), mark(610, 3, End, 5)];
    begins
        .chain(works)
        .chain(rest)
        .for_each(|record| tracker.take(&record, &mut |message: &Message| messages.push(message.clone())));
    let told = |message: &Message| {
        message.meanwhiles.iter().map(|of| (of.tid, of.stretches, of.ns, of.most, of.kind != 0)).collect::<Vec<_>>()
    };
    assert_eq!(told(&messages[0]), []);
    assert_eq!(told(&messages[3]), [(2, 3, 270, 3, true)]);
    assert_eq!(told(&messages[4]), []);
    let details: Vec<_> = messages[3].details().filter(|(.., detail, _)| matches!(detail, Detail::Meanwhile(_))).collect();
    assert_eq!(details, [(Cause::Unattended, Detail::Meanwhile(messages[3].meanwhiles[0].kind), 270)]);
}

/// Whoever takes the CPU may be pushed aside in turn: a thread's waiting goes to those who have the CPU meanwhile, whether it was pushed aside or has been woken, and whether it stays or is moved.
#[test]
fn waiting_for_a_cpu_goes_to_who_has_it() {
    let on = |cpu, time_ns, tid, what| Record::Kernel(KernelEvent { time_ns, cpu, tid, what });
    let preempted = |next| What::Switch { is_runnable: true, next };
    let sleeps = |next| What::Switch { is_runnable: false, next };
    let (messages, _) = track(&[
        on(0, 1, 0, sleeps(1)),
        on(1, 2, 0, sleeps(6)),
        on(2, 3, 0, sleeps(8)),
        mark(10, 1, Begin, 7),
        on(0, 20, 1, preempted(4)),
        // A neighbour is more important than who was more important than the message's thread.
        on(0, 25, 4, preempted(5)),
        on(0, 60, 5, sleeps(4)),
        on(0, 65, 4, sleeps(1)),
        on(0, 70, 1, sleeps(5)),
        on(1, 72, 6, What::Wakeup { tid: 1 }),
        on(0, 80, 5, sleeps(4)),
        on(0, 81, 4, What::Migrate { tid: 1, to: Some(2) }),
        on(1, 85, 6, What::Migrate { tid: 1, to: None }),
        // What came to this one before is missing.
        on(1, 88, 3, sleeps(6)),
        on(1, 90, 6, sleeps(1)),
        mark(100, 1, End, 7),
    ]);
    use Cause::{Blocked, OnCpu, Preempted, Runnable};
    let wanted = [
        (10, 20, OnCpu, 0),
        (20, 25, Preempted, 4),
        (25, 60, Preempted, 5),
        (60, 65, Preempted, 4),
        (65, 70, OnCpu, 0),
        (70, 72, Blocked, 0),
        (72, 80, Runnable, 5),
        (80, 81, Runnable, 4),
        (81, 85, Runnable, 8),
        (85, 88, Runnable, 0),
        (88, 90, Runnable, 6),
        (90, 100, OnCpu, 0),
    ];
    assert_eq!(pieces(&messages[0]), wanted);
    // Who woke it is known of all of its waiting since.
    let woken_by = |at: usize| messages[0].woken(&messages[0].pieces[at]).map(|waker| waker.tid);
    assert_eq!([6, 7, 8, 2].map(woken_by), [Some(6), Some(6), Some(6), None]);
}

/// An event is of the message that its thread is at.
#[test]
fn events_are_of_the_message_on_top() {
    let counted = |time_ns, tid| Record::Counted(Counted { time_ns, tid, spot: Spot { event: 1, function: 2, object: 3 } });
    let (messages, _) = track(&[
        counted(5, 1),
        mark(10, 1, Begin, 7),
        counted(15, 1),
        counted(16, 2),
        mark(20, 1, Begin, 8),
        counted(25, 1),
        counted(26, 1),
        mark(30, 1, End, 8),
        counted(35, 1),
        mark(40, 1, End, 7),
        counted(45, 1),
    ]);
    let told = |message: &Message| (message.id, message.events.values().sum::<u64>(), message.stints);
    // The outer one is come to twice.
    assert_eq!([told(&messages[0]), told(&messages[1])], [(8, 2, 1), (7, 2, 2)]);
}

fn reading(time_ns: u64, tid: u32, executed: Option<u64>, by: ReadBy) -> Record {
    let executed = executed.map(|n| crate::executed::Executed { instructions: n, cycles: 3 * n });
    Record::Executed(Reading { time_ns, tid, executed, by })
}

/// What a message executed: at least, at most, shared out; none where it is not known.
fn instructions(message: &Message) -> Option<(u64, u64, u64)> {
    let known = message.executed.known()?;
    assert_eq!(known.estimate.cycles / 3, known.estimate.instructions);
    Some((known.low.instructions, known.high.instructions, known.estimate.instructions))
}

/// Marks come with counts: each message has exactly its own, whatever other messages its threads are at in between.
#[test]
fn messages_whose_marks_come_with_counts_have_exactly_theirs() {
    let said = |time_ns, tid, kind, id, n| [reading(time_ns, tid, Some(n), ReadBy::Itself), mark(time_ns, tid, kind, id)];
    let records: Vec<Record> = [
        said(10, 1, Begin, 7, 1000),
        said(20, 1, Begin, 8, 1050),
        // Nothing in between, by the clock.
        said(20, 1, End, 8, 1053),
        said(30, 1, Switch, 0, 1100),
        said(40, 2, Switch, 7, 70_000),
        said(50, 2, End, 7, 70_007),
        said(60, 1, Begin, 9, 5000),
        said(70, 1, End, 9, 5001),
    ]
    .concat();
    let (messages, _) = track(&records);
    let told: Vec<_> = messages.iter().map(|message| (message.id, instructions(message))).collect();
    assert_eq!(told, [(8, Some((3, 3, 3))), (7, Some((104, 104, 104))), (9, Some((1, 1, 1)))]);
}

/// Counters are read where a thread leaves its CPU alone: what it executed for several messages until then is between nothing and all of it, and each waits for the reading.
#[test]
fn messages_between_two_readings_share_what_was_executed() {
    let leaves = |time_ns, n| {
        [reading(time_ns, 1, Some(n), ReadBy::UsAsItLeaves), event(time_ns + 3, 1, What::Switch { is_runnable: false, next: 0 })]
    };
    let mut records = vec![reading(0, 1, Some(100), ReadBy::Us), mark(10, 1, Begin, 7)];
    records.extend(leaves(40, 190));
    records.push(event(50, 0, What::Switch { is_runnable: false, next: 1 }));
    records.extend([mark(60, 1, End, 7), mark(70, 1, Begin, 8), mark(80, 1, End, 8), mark(90, 1, Begin, 9)]);
    records.extend(leaves(100, 250));
    records.extend([event(110, 0, What::Switch { is_runnable: false, next: 1 }), mark(120, 1, End, 9)]);
    let (messages, _) = track(&records);
    let told: Vec<_> = messages.iter().map(|message| (message.id, instructions(message))).collect();
    // 40 ns of 90 instructions, of which 10 before it began; then 50 ns of 60, for nobody in 20 of them.
    assert_eq!(told, [(7, Some((0, 150, 67 + 12))), (8, Some((0, 60, 12))), (9, None)], "of the last one the end was not read");
}

#[test]
fn what_was_not_read_is_not_known() {
    let counted = |time_ns, n| reading(time_ns, 1, n, ReadBy::Itself);
    let (messages, _) = track(&[
        mark(0, 1, Begin, 6),
        counted(5, Some(1)),
        mark(5, 1, End, 6),
        counted(10, Some(5)),
        mark(10, 1, Begin, 7),
        counted(15, None),
        counted(20, Some(9)),
        mark(20, 1, End, 7),
        counted(30, Some(11)),
        mark(30, 1, Begin, 8),
        event(35, 1, What::Paused),
        event(36, 1, What::Resumed),
        counted(40, Some(12)),
        mark(40, 1, End, 8),
        // A counter that goes back.
        counted(50, Some(20)),
        mark(50, 1, Begin, 9),
        counted(60, Some(3)),
        mark(60, 1, End, 9),
        counted(70, Some(3)),
        mark(70, 1, Begin, 10),
        counted(80, Some(4)),
        mark(80, 1, End, 10),
    ]);
    assert_eq!(messages.iter().map(instructions).collect::<Vec<_>>(), [None, None, None, None, Some((1, 1, 1))]);
}

#[test]
fn an_interrupt_of_sampling_is_told_at_its_end() {
    let (messages, _) =
        track(&[mark(0, 1, Begin, 7), event(50, 1, What::Nmi(30)), event(55, 1, What::Nmi(20)), mark(60, 1, End, 7)]);
    let nmi = Interruption::NMI;
    let wanted = [(0, 20, Cause::OnCpu, 0), (20, 55, Cause::Vector, nmi), (55, 60, Cause::OnCpu, 0)];
    assert_eq!(pieces(&messages[0]), wanted);
}

#[test]
fn who_has_left_is_not_back_by_a_flush_in_its_name() {
    let (messages, _) = track(&[
        mark(0, 1, Begin, 7),
        event(10, 1, What::Switch { is_runnable: true, next: 2 }),
        event(11, 1, What::TlbFlush(0)),
        event(100, 2, What::Switch { is_runnable: true, next: 1 }),
        mark(105, 1, End, 7),
    ]);
    assert_eq!(pieces(&messages[0]), [(0, 10, Cause::OnCpu, 0), (10, 100, Cause::Preempted, 2), (100, 105, Cause::OnCpu, 0)]);
}

#[test]
fn a_message_may_pass_from_thread_to_thread() {
    let (messages, _) =
        track(&[mark(10, 1, Begin, 7), mark(20, 1, Switch, 0), mark(25, 2, Switch, 7), sample(30, 2, 4), mark(40, 2, End, 7)]);
    let tids: Vec<_> = messages[0].pieces.iter().map(|piece| (piece.tid, piece.from_ns, piece.to_ns)).collect();
    assert_eq!(tids, [(1, 10, 20), (2, 25, 40), (0, 20, 25)]);
    assert_eq!(messages[0].threads, [1, 2]);
    assert_eq!(messages[0].hits, [Hit { time_ns: 30, tid: 2, function: 4, cause: Cause::OnCpu }]);
}

#[test]
fn nested_ones_take_the_time_of_the_outer() {
    let (messages, _) = track(&[mark(0, 1, Begin, 1), mark(5, 1, Begin, 2), mark(9, 1, End, 2), mark(12, 1, End, 1)]);
    assert_eq!((messages[0].id, messages[0].shares.of(Cause::OnCpu)), (2, 4));
    let outer = &messages[1];
    assert_eq!((outer.id, outer.shares.of(Cause::OnCpu), outer.shares.of(Cause::Unattended)), (1, 8, 4));
}

#[test]
fn what_is_odd_is_counted_and_the_rest_is_read() {
    let (messages, trouble) = track(&[
        mark(1, 1, End, 5),
        mark(2, 1, Begin, 6),
        mark(3, 1, Begin, 6),
        mark(4, 1, End, 6),
        mark(5, 1, End, 6),
        mark(6, 2, Switch, 99),
        mark(8, 1, Begin, 7),
        mark(11, 3, Begin, 8),
        mark(9, 3, End, 8),
    ]);
    let odd = Trouble { never_ended: 2, ended_without_begin: 2, reused: 1, switched_to_unknown: 1, late: 1, cut_off: 0 };
    assert_eq!(trouble, odd);
    let ends: Vec<_> = messages.iter().map(|m| (m.id, m.begin_ns, m.end_ns)).collect();
    assert_eq!(ends, [(6, 2, None), (6, 3, Some(4)), (8, 11, Some(11)), (7, 8, None)]);
}

/// In Go a message waits on no thread: who lets it go on is known by the scheduler. The last word counts: it may have been woken in vain.
#[test]
fn whoever_lets_a_message_go_on_that_no_thread_is_at_is_known() {
    let (messages, trouble) = track(&[
        mark(0, 7, Begin, 1),
        mark(10, 7, Switch, 0),
        mark(12, 7, Begin, 2),
        mark(20, 7, Wake, 1),
        mark(25, 9, Begin, 3),
        mark(40, 9, Wake, 1),
        mark(41, 9, Wake, 77),
        mark(45, 7, Switch, 1),
        mark(50, 7, End, 1),
    ]);
    let one = messages.iter().find(|message| message.id == 1).unwrap();
    let waits: Vec<_> = one.pieces.iter().filter(|piece| piece.cause == Cause::Unattended).collect();
    assert_eq!(waits.iter().map(|piece| (piece.from_ns, piece.to_ns)).collect::<Vec<_>>(), [(10, 45)]);
    assert_eq!(one.woken(waits[0]), Some(&Waker { tid: 9, id: Some(3), at: None, kind: 0 }));
    assert_eq!((one.wakings.len(), trouble.never_ended, trouble.switched_to_unknown), (2, 2, 0));
}

/// A thread at another message, an interrupt of that thread, one of a CPU that idled; and one that is woken while it still leaves its CPU.
#[test]
fn whoever_ends_waiting_is_known_with_the_message_that_it_was_at() {
    let blocks = |time_ns| event(time_ns, 7, What::Switch { is_runnable: false, next: 0 });
    let comes = |time_ns| event(time_ns, 0, What::Switch { is_runnable: true, next: 7 });
    let wakes = |time_ns, by| event(time_ns, by, What::Wakeup { tid: 7 });
    let (messages, _) = track(&[
        mark(0, 7, Begin, 1),
        mark(1, 9, Begin, 2),
        blocks(10),
        event(25, 9, What::SyscallEnter(202)),
        wakes(30, 9),
        comes(35),
        blocks(40),
        event(50, 9, What::Enter(Interruption::Softirq, 3)),
        wakes(55, 9),
        event(56, 9, What::Exit(Interruption::Softirq, 3)),
        comes(60),
        blocks(70),
        wakes(80, 0),
        comes(81),
        wakes(90, 9),
        blocks(91),
        comes(95),
        wakes(100, 9),
        comes(101),
        blocks(10_000),
        wakes(10_010, 11),
        comes(10_020),
        mark(10_030, 7, End, 1),
    ]);
    let one = messages.iter().find(|message| message.id == 1).unwrap();
    let waking = |time_ns, tid, id, at| Waking { time_ns, tid: 7, by: Waker { tid, id, at, kind: 0 } };
    let wanted = [
        waking(30, 9, Some(2), Some((Cause::Syscall, 203))),
        waking(55, 0, None, Some((Cause::Softirq, 3))),
        waking(80, 0, None, None),
        waking(10_010, 11, None, None),
    ];
    assert_eq!(one.wakings, wanted);
    let blocked: Vec<&Piece> = one.pieces.iter().filter(|piece| piece.cause == Cause::Blocked).collect();
    assert_eq!(
        blocked.iter().map(|piece| (piece.from_ns, piece.to_ns)).collect::<Vec<_>>(),
        [(10, 30), (40, 55), (70, 80), (10_000, 10_010)]
    );
    assert_eq!(one.woken(blocked[0]).map(|waker| waker.id), Some(Some(2)));
}

#[test]
fn waiting_is_told_from_being_ready_and_from_being_pushed_aside() {
    let switch = |is_runnable, next| What::Switch { is_runnable, next };
    let (messages, _) = track(&[
        mark(0, 7, Begin, 1),
        event(5, 7, What::SyscallEnter(35)),
        event(10, 7, switch(false, 0)),
        event(30, 9, What::Wakeup { tid: 7 }),
        event(35, 0, switch(true, 7)),
        event(38, 7, What::SyscallExit(35)),
        // Preempted, and goes on elsewhere.
        event(50, 7, switch(true, 8)),
        event(51, 7, What::TlbFlush(0)),
        event(52, 9, What::Wakeup { tid: 7 }),
        event(53, 9, What::Migrate { tid: 7, to: Some(1) }),
        event(60, 9, switch(false, 7)),
        mark(70, 7, End, 1),
    ]);
    use Cause::{Blocked, OnCpu, Preempted, Runnable, Syscall};
    let expected = [
        (0, 5, OnCpu, 0),
        (5, 10, Syscall, 36),
        (10, 30, Blocked, 36),
        (30, 35, Runnable, 0),
        (35, 38, Syscall, 36),
        (38, 50, OnCpu, 0),
        (50, 60, Preempted, 8),
        (60, 70, OnCpu, 0),
    ];
    assert_eq!(pieces(&messages[0]), expected);
    assert_eq!(messages[0].migrations, 1);
}

#[test]
fn interruptions_nest_and_belong_to_whom_they_interrupt() {
    use Interruption::{Irq, Softirq, Vector};
    let (messages, _) = track(&[
        mark(0, 7, Begin, 1),
        event(2, 7, What::SyscallEnter(0)),
        event(10, 7, What::Enter(Vector, 2)),
        event(12, 7, What::TlbFlush(1)),
        event(14, 7, What::Enter(Softirq, 3)),
        event(16, 7, What::Enter(Irq, 9)),
        event(17, 7, What::Exit(Irq, 9)),
        event(20, 7, What::Exit(Softirq, 3)),
        event(21, 7, What::Exit(Vector, 2)),
        event(24, 7, What::FaultEnter),
        sample(25, 7, 5),
        event(28, 7, What::FaultExit),
        event(30, 7, What::SyscallExit(0)),
        event(40, 7, What::Exit(Irq, 9)),
        mark(41, 7, End, 1),
    ]);
    let flush = Interruption::VECTORS.len() as u32;
    let expected = [
        (0, 2, Cause::OnCpu, 0),
        (2, 10, Cause::Syscall, 1),
        (10, 14, Cause::Vector, flush),
        (14, 16, Cause::Softirq, 3),
        (16, 17, Cause::Irq, 9),
        (17, 20, Cause::Softirq, 3),
        (20, 21, Cause::Vector, flush),
        (21, 24, Cause::Syscall, 1),
        (24, 28, Cause::PageFault, 0),
        (28, 30, Cause::Syscall, 1),
        (30, 41, Cause::OnCpu, 0),
    ];
    assert_eq!(pieces(&messages[0]), expected);
    assert_eq!((messages[0].faults, messages[0].hits[0].cause), (1, Cause::PageFault));
}

#[test]
fn who_is_seen_again_has_come_back() {
    let (messages, _) = track(&[
        mark(0, 7, Begin, 1),
        event(5, 7, What::Switch { is_runnable: false, next: 0 }),
        // Neither the wakeup nor the switch to it is seen.
        mark(3000, 7, End, 1),
    ]);
    assert_eq!(pieces(&messages[0]), [(0, 5, Cause::OnCpu, 0), (5, 3000, Cause::Blocked, 0)]);
}

#[test]
fn what_the_hypervisor_took_goes_to_the_longest_silence() {
    let (messages, _) = track(&[
        event(0, 7, What::Ran(50)),
        mark(10_000, 7, Begin, 1),
        // Works for 60 µs, as samples show.
        sample(30_000, 7, 3),
        sample(50_000, 7, 3),
        mark(70_000, 7, End, 1),
        mark(71_000, 7, Begin, 2),
        mark(471_000, 7, End, 2),
        mark(472_000, 7, Begin, 3),
        mark(473_000, 7, End, 3),
        // Of half a millisecond it ran 110 µs.
        event(500_000, 7, What::Ran(110_000)),
    ]);
    let of = |id: u64| messages.iter().find(|m| m.id == id).map(|m| (m.shares.of(Cause::OnCpu), m.shares.of(Cause::Steal)));
    assert_eq!((of(1), of(2), of(3)), (Some((60_000, 0)), Some((10_000, 390_000)), Some((1000, 0))));
    let second = messages.iter().find(|m| m.id == 2).map(pieces);
    assert_eq!(second, Some(vec![(71_000, 81_000, Cause::OnCpu, 0), (81_000, 471_000, Cause::Steal, 0)]));
    // Message 3 had no silence worth waiting for.
    assert_eq!(messages.iter().map(|m| m.id).collect::<Vec<_>>(), [3, 1, 2]);
}

#[test]
fn the_way_from_fault_to_fault_is_the_kernels() {
    let (messages, _) = track(&[
        mark(0, 7, Begin, 1),
        event(1000, 7, What::FaultEnter),
        event(1500, 7, What::FaultExit),
        event(2200, 7, What::FaultEnter),
        event(2900, 7, What::FaultExit),
        event(5000, 7, What::FaultEnter),
        event(5500, 7, What::FaultExit),
        sample(5600, 7, 1),
        event(5700, 7, What::FaultEnter),
        event(5900, 7, What::FaultExit),
        mark(6000, 7, End, 1),
    ]);
    // 500, the way of 700, 700; 500; 200: after a sample it is not the first thing that is heard.
    assert_eq!((messages[0].shares.of(Cause::PageFault), messages[0].faults), (2600, 4));
}

#[test]
fn while_recording_is_off_nothing_is_made_up() {
    let (messages, _) = track(&[
        event(0, 7, What::Ran(10)),
        mark(1000, 7, Begin, 1),
        event(30_000, 7, What::Switch { is_runnable: false, next: 0 }),
        event(40_000, 0, What::Paused),
        mark(5_000_000, 7, End, 1),
        mark(6_000_000, 7, Begin, 2),
        mark(6_400_000, 7, End, 2),
        mark(6_900_000, 7, Begin, 3),
        event(7_000_000, 0, What::Resumed),
        mark(7_100_000, 7, End, 3),
        mark(7_200_000, 7, Begin, 4),
        mark(7_260_000, 7, End, 4),
        event(7_300_000, 7, What::Ran(100_000)),
        mark(7_400_000, 7, Begin, 5),
        mark(7_460_000, 7, End, 5),
        event(7_500_000, 7, What::Ran(200_000)),
    ]);
    let watched: Vec<_> = messages.iter().filter(|m| m.is_watched).map(|m| (m.id, m.shares.of(Cause::OnCpu))).collect();
    assert_eq!(watched, [(4, 60_000), (5, 60_000)]);
    assert!(messages.len() == 5 && messages.iter().all(|m| m.shares.of(Cause::Steal) == 0));
}

/// Where nothing says either when messages begin and end, those under way are told no further, and not as ones that never ended.
#[test]
fn what_is_under_way_when_nothing_is_heard_any_more_is_cut_off() {
    let (messages, trouble) = track(&[
        mark(1000, 7, Begin, 1),
        mark(1500, 8, Begin, 2),
        mark(2000, 8, End, 2),
        event(3000, 0, What::Blind),
        mark(3010, 7, End, 1),
        mark(3020, 8, Begin, 3),
        event(9000, 0, What::Resumed),
        mark(10_000, 7, Begin, 1),
        mark(10_500, 7, End, 1),
    ]);
    let told: Vec<_> = messages.iter().map(|m| (m.id, m.latency_ns())).collect();
    assert_eq!(told, [(2, Some(500)), (1, None), (1, Some(500))]);
    assert_eq!(trouble, Trouble { cut_off: 1, ..Trouble::default() });
}

#[test]
fn who_works_at_once_counts_once_and_hides_no_gap() {
    let (messages, _) = track(&[
        mark(0, 1, Begin, 7),
        mark(0, 2, Switch, 7),
        mark(50, 1, Switch, 0),
        mark(50, 2, Switch, 0),
        mark(100, 1, End, 7),
    ]);
    assert_eq!((messages[0].shares.of(Cause::OnCpu), messages[0].shares.of(Cause::Unattended)), (50, 50));
}

#[test]
fn waiting_for_the_kernels_word_has_an_end() {
    let mut records = vec![event(0, 7, What::Ran(1))];
    for id in 1..10_000u64 {
        records.extend([mark(id * 30_000, 7, Begin, id), mark(id * 30_000 + 20_000, 7, End, id)]);
    }
    let mut tracker = Tracker::default();
    let mut messages = 0;
    records.iter().for_each(|record| {
        tracker.take(record, &mut |_| messages += 1);
        assert!(tracker.waiting() <= window::MAX_PENDING + 1);
    });
    assert!(messages > 4000);
    tracker.finish(&mut |_| messages += 1);
    assert_eq!(messages, 9999);
}

proptest! {
    /// Whatever happened, a message's time is accounted for to the nanosecond, and its pieces are what its shares say.
    #[test]
    fn shares_add_up(steps in prop::collection::vec((1u64..50_000, 0u64..14, 0u32..4), 1..300)) {
        let (mut now, mut id, mut records) = (0, 1, vec![mark(0, 1, Begin, 1)]);
        for (after, what, which) in steps {
            now += after;
            let interruption = [Interruption::Irq, Interruption::Softirq, Interruption::Vector][which as usize % 3];
            match what {
                0 => records.push(mark(now, 1, Switch, 0)),
                1 => records.push(mark(now, 1, Switch, id)),
                2 | 3 => {
                    records.push(mark(now, 1, End, id));
                    id += 1;
                    records.push(mark(now, 1, Begin, id));
                }
                4 => records.push(event(now, 1, What::Switch { is_runnable: which > 1, next: 0 })),
                5 => records.push(event(now, 2, What::Wakeup { tid: 1 })),
                6 => records.push(event(now, 0, What::Switch { is_runnable: false, next: 1 })),
                7 => records.push(event(now, 1, What::Enter(interruption, which))),
                8 => records.push(event(now, 1, What::Exit(interruption, which))),
                9 => records.push(event(now, 1, What::SyscallEnter(which))),
                10 => records.push(event(now, 1, What::SyscallExit(which))),
                11 => records.push(event(now, 1, if which > 1 { What::FaultEnter } else { What::FaultExit })),
                12 => records.push(event(now, 1, What::Ran(u64::from(which) * 20_000))),
                _ => records.push(sample(now, 1, which)),
            }
        }
        records.push(mark(now + 1, 1, End, id));
        let (messages, trouble) = track(&records);
        prop_assert_eq!(messages.len() as u64, id);
        prop_assert_eq!(trouble, Trouble::default());
        for message in &messages {
            prop_assert_eq!(Some(message.shares.total()), message.latency_ns());
            let mut by_piece = Shares::default();
            message.pieces.iter().for_each(|piece| by_piece.add(piece.cause, piece.to_ns - piece.from_ns));
            prop_assert_eq!(by_piece, message.shares);
            let mut order: Vec<(u64, u64)> = message.pieces.iter().map(|piece| (piece.from_ns, piece.to_ns)).collect();
            order.sort_unstable();
            prop_assert!(order.windows(2).all(|two| two[0].1 <= two[1].0), "{:?}", message);
        }
    }
}
