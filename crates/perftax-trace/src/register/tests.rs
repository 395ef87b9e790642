use super::*;
use Kind::{Begin, End, Switch};
use Occasion::{Exit, Kernel, Leaving, Sample};

const RULE: Rule = Rule { gap_ns: Some(10), is_late: false };

fn tag(id: u64) -> u64 {
    MAGIC << 48 | id
}

/// Marks as (time, id, kind).
fn marks(rule: Rule, looks: &[(u64, u64, Occasion)]) -> (Vec<(u64, u64, Kind)>, Sight) {
    let (mut runs, mut marks) = (Runs::new(rule), Vec::new());
    for &(time_ns, word, at) in looks {
        let mut out = |mark: Mark| marks.push((mark.time_ns, mark.id, mark.kind));
        runs.take(&Look { time_ns, tid: 5, word, at }, &mut out);
        runs.lose_patience(time_ns, &mut out);
    }
    runs.finish();
    (marks, runs.sight)
}

#[test]
fn a_run_begins_and_ends_in_the_middle_of_the_gaps() {
    let looks = [(100, tag(0)), (110, tag(7)), (120, tag(7)), (126, tag(8)), (130, tag(0))].map(|(t, w)| (t, w, Sample));
    let (found, sight) = marks(RULE, &looks);
    assert_eq!(found, [(105, 7, Begin), (123, 7, End), (123, 8, Begin), (128, 8, End)]);
    assert_eq!((sight.valid, sight.filled, sight.unknown, sight.gaps.len()), (5, 0, 0, 3));
    assert_eq!(sight.samples[&5], (5, 5));
}

#[test]
fn what_is_the_same_before_and_after_is_filled_and_else_it_is_nobodys() {
    let looks = [(10, tag(7)), (20, 1), (30, 2), (40, tag(7)), (50, 3), (60, 4), (70, tag(8))].map(|(t, w)| (t, w, Sample));
    let (found, sight) = marks(RULE, &looks);
    assert_eq!(found, [(9, 7, Begin), (45, 7, End), (65, 8, Begin)]);
    assert_eq!((sight.valid, sight.filled, sight.unknown), (3, 2, 2));
    assert_eq!(sight.samples[&5], (7, 3));
    // From the last tag to the next.
    assert_eq!((sight.gaps.max_ns(), sight.unseen.max_ns()), (30, 20));
}

#[test]
fn a_thread_that_waits_is_at_its_message_and_one_that_was_away_changed_when_it_was_back() {
    let second = 1_000_000_000;
    let looks = [(100, tag(7), Sample), (105, tag(7), Kernel), (second, tag(7), Kernel), (second + 4, tag(0), Sample)];
    assert_eq!(marks(RULE, &looks).0, [(99, 7, Begin), (second + 2, 7, End)]);
    let looks = [(100, tag(7), Sample), (105, tag(7), Leaving), (second, tag(8), Sample)];
    let (found, sight) = marks(RULE, &looks);
    assert_eq!(found, [(99, 7, Begin), (second - 5, 7, End), (second - 5, 8, Begin)]);
    assert_eq!(sight.gaps.max_ns(), 10);
}

#[test]
fn what_changed_while_a_thread_was_away_changed_when_it_was_back() {
    let (mut runs, mut marks) = (Runs::new(RULE), Vec::new());
    let mut out = |mark: Mark| marks.push((mark.time_ns, mark.id, mark.kind));
    let look = |time_ns, id, at| Look { time_ns, tid: 5, word: tag(id), at };
    runs.take(&look(100, 7, Sample), &mut out);
    runs.arrive(5, 102);
    runs.take(&look(105, 7, Leaving), &mut out);
    runs.arrive(5, 1000);
    runs.take(&look(1004, 8, Sample), &mut out);
    assert_eq!(marks, [(99, 7, Begin), (1002, 7, End), (1002, 8, Begin)]);
    assert_eq!(runs.sight.gaps.max_ns(), 4);
}

/// Hardware's samples have a clock of their own.
#[test]
fn a_sample_just_after_leaving_is_one_of_before() {
    let (mut runs, mut marks) = (Runs::new(RULE), Vec::new());
    let mut out = |mark: Mark| marks.push((mark.time_ns, mark.id, mark.kind));
    let look = |time_ns, id, at| Look { time_ns, tid: 5, word: tag(id), at };
    runs.take(&look(100, 7, Leaving), &mut out);
    runs.take(&look(101, 7, Sample), &mut out);
    runs.arrive(5, 1_000_000);
    runs.take(&look(1_000_004, 8, Sample), &mut out);
    assert_eq!(marks, [(99, 7, Begin), (1_000_002, 7, End), (1_000_002, 8, Begin)]);
}

#[test]
fn a_thread_that_shows_no_tag_for_long_is_taken_off_its_message_until_it_does() {
    let long = Runs::PATIENCE_NS;
    let doubtful = [(100, tag(7), Sample), (110, 1, Kernel), (110 + long, 1, Kernel)];
    let again = [&doubtful[..], &[(120 + long, tag(7), Sample), (130 + long, tag(0), Sample)]].concat();
    let (found, sight) = marks(RULE, &again);
    assert_eq!(found, [(99, 7, Begin), (105, 0, Switch), (115 + long, 7, Switch), (125 + long, 7, End)]);
    assert_eq!((sight.filled, sight.abandoned), (2, 0));
    let another = [&doubtful[..], &[(120 + long, tag(8), Sample)]].concat();
    let (found, sight) = marks(RULE, &another);
    assert_eq!(found, [(99, 7, Begin), (105, 0, Switch), (115 + long, 8, Begin)]);
    assert_eq!((sight.unknown, sight.abandoned), (2, 1));
}

#[test]
fn a_thread_ends_with_its_message() {
    let looks = [(100, tag(7), Sample), (110, 1, Kernel), (150, 0, Exit), (160, tag(8), Sample)];
    let (found, sight) = marks(RULE, &looks);
    // Another one that has its number.
    assert_eq!(found, [(99, 7, Begin), (105, 7, End), (159, 8, Begin)]);
    assert_eq!((sight.valid, sight.unknown), (2, 1));
}

#[test]
fn of_registers_that_are_late_the_first_sample_of_a_run_is_nobodys() {
    let looks = [(100, tag(7)), (110, tag(7)), (120, tag(8)), (130, tag(8))].map(|(t, w)| (t, w, Sample));
    let (found, _) = marks(Rule { is_late: true, ..RULE }, &looks);
    // At one time a sample comes before a mark: those of 100 and 120 belong to none.
    assert_eq!(found, [(100, 7, Begin), (115, 7, End), (120, 8, Begin)]);
}
