//! How alike two documents of transfers are.

use perftax_doc::Estimate;
use perftax_doc::{Comm, CommObject, CommPair};

/// A document of these transfers alone, exact.
fn of(pairs: &[(u32, u32, f64)]) -> Comm {
    let mut doc = crate::samples::comm_every();
    let share = doc.pairs[0].share;
    let pair = |&(from, to, transfers): &(u32, u32, f64)| {
        let total = Estimate::exact(transfers);
        CommPair { from, to, share: perftax_doc::CommShare { total, ..share } }
    };
    doc.pairs = pairs.iter().map(pair).collect();
    doc
}

#[test]
fn the_distance_of_shares_is_half_the_sum_of_what_they_differ_by() {
    let a = of(&[(0, 1, 30.0), (1, 0, 10.0)]);
    assert_eq!(a.likeness(&a).distance, 0.0);
    let scaled = of(&[(1, 0, 1.0), (0, 1, 3.0)]);
    assert_eq!(a.likeness(&scaled).distance, 0.0, "shares, in any order");
    let b = of(&[(0, 1, 20.0), (1, 0, 10.0), (2, 0, 10.0)]);
    let likeness = a.likeness(&b);
    assert!((likeness.distance - 0.25).abs() < 1e-12, "{likeness:?}");
    assert_eq!(likeness.chance, 0.0, "nothing is left to chance where all is exact");
    assert_eq!(a.likeness(&of(&[(2, 3, 5.0)])).distance, 1.0, "nothing in common");
}

#[test]
fn intervals_say_what_chance_brings() {
    let mut a = of(&[(0, 1, 50.0), (1, 0, 50.0)]);
    a.pairs[0].share.total = Estimate::new(50.0, 40.0, 60.0);
    let likeness = a.likeness(&of(&[(0, 1, 50.0), (1, 0, 50.0)]));
    // Half of the mean size of a normal deviate whose 95 % interval is ±0.1 wide.
    let mean = 0.1 / 1.96 * (2.0 / std::f64::consts::PI).sqrt();
    assert!((likeness.chance - mean / 2.0).abs() < 1e-12, "{likeness:?}");
}

#[test]
fn lines_are_the_same_by_name_and_by_address_where_a_name_is_not_one_line_s() {
    let a = crate::samples::comm_every();
    let mut b = crate::samples::comm();
    // Loaded elsewhere: names hold, addresses do not.
    for line in &mut b.lines {
        line.address += 0x1000;
    }
    let likeness = a.likeness(&b);
    assert_eq!((likeness.lines_in_common, likeness.lines), (3, 4), "one line has no name");
    b.lines[2].name = b.lines[0].name.clone();
    assert_eq!(a.likeness(&b).lines_in_common, 1, "two lines of one name are told by address");
    b.lines[1].allocated_at = vec!["elsewhere".into()];
    assert_eq!(a.likeness(&b).lines_in_common, 0, "another allocation is another object");
}

#[test]
fn lines_of_the_heap_are_the_same_by_who_allocated_them() {
    let object = |number, times| CommObject {
        bytes: 64,
        offset: 0x40,
        number,
        times,
        allocated_at: vec!["queue_new (queue.c:12)".into(), "main (counters.c:80)".into()],
        is_sure: true,
    };
    let (mut a, mut b) = (crate::samples::comm_every(), crate::samples::comm());
    for (doc, times) in [(&mut a, 200), (&mut b, 231)] {
        doc.lines[1].objects = vec![object(1, times)];
        doc.lines[1].name = doc.lines[1].objects[0].name();
        doc.lines[1].address += times * 64;
        doc.lines[3].objects = vec![object(2, 1)];
    }
    let keys: Vec<String> = a.top_lines().map(|(key, _)| key).collect();
    assert_eq!(keys[1], "objects of 64 bytes+0x40 of queue_new (queue.c:12)");
    assert_eq!(keys[3], "object #2 of 64 bytes+0x40 of queue_new (queue.c:12)");
    assert_eq!(a.likeness(&b).lines_in_common, 4, "at other addresses, and another number of them");
    b.lines[3].objects[0].number = 3;
    assert_eq!(a.likeness(&b).lines_in_common, 3);
}
