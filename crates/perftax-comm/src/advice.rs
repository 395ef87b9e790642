//! What a line's sharing asks for.

use perftax_doc::CommAdvice;

use crate::access::{Access, Thread};
use crate::line::Bytes;

/// Transfers below which nothing is advised.
pub const MIN_TRANSFERS: f64 = 10.0;

/// What one thread does to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Who.
    pub thread: Thread,
    /// Bytes that it reads.
    pub read: Bytes,
    /// Bytes that it writes.
    pub written: Bytes,
}

impl Touched {
    /// Adds an access to what is known of a line's threads.
    pub fn add(all: &mut Vec<Self>, access: &Access) {
        let at = all.iter().position(|touched| touched.thread == access.thread).unwrap_or_else(|| {
            all.push(Self { thread: access.thread, read: Bytes::default(), written: Bytes::default() });
            all.len() - 1
        });
        let into = if access.kind.is_store() { &mut all[at].written } else { &mut all[at].read };
        *into = into.with(access.bytes);
    }

    fn all(&self) -> Bytes {
        self.read.with(self.written)
    }
}

/// What to do about a line, by how many of its transfers are true and false sharing (seen, or estimated) and what its threads touch.
///
/// * Mostly true sharing: `Move`, the threads need each other's bytes.
/// * Mostly false sharing where two threads write bytes that the other never touches: `Pad`, each has a part of its own.
/// * Mostly false sharing else, where a thread touches bytes that nobody writes, or that it alone does: `Split`, what is written lies
///   beside what is read.
/// * `None` with fewer than [`MIN_TRANSFERS`], or where the bytes that were seen do not say how to part them.
pub fn advice(true_transfers: f64, false_transfers: f64, touched: &[Touched]) -> CommAdvice {
    if true_transfers + false_transfers < MIN_TRANSFERS {
        return CommAdvice::None;
    }
    if true_transfers > false_transfers {
        return CommAdvice::Move;
    }
    let pairs = || touched.iter().flat_map(|a| touched.iter().filter(|b| b.thread > a.thread).map(move |b| (a, b)));
    let is_apart = |a: &Touched, b: &Touched| !a.all().overlaps(b.written) && !b.all().overlaps(a.written);
    let both_write = |a: &Touched, b: &Touched| !a.written.is_empty() && !b.written.is_empty();
    if pairs().any(|(a, b)| both_write(a, b) && is_apart(a, b)) {
        return CommAdvice::Pad;
    }
    let written_by_others = |thread: Thread| {
        touched.iter().filter(|other| other.thread != thread).fold(Bytes::default(), |sum, other| sum.with(other.written))
    };
    let has_part = |one: &&Touched| {
        let others = written_by_others(one.thread);
        !others.is_empty() && one.all().0 & !others.0 != 0
    };
    if touched.iter().any(|one| has_part(&one)) { CommAdvice::Split } else { CommAdvice::None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Kind;
    use crate::line::Line;

    fn touched(thread: Thread, read: (u64, u64), written: (u64, u64)) -> Touched {
        Touched { thread, read: Bytes::new(read.0, read.1), written: Bytes::new(written.0, written.1) }
    }

    #[test]
    fn counters_side_by_side_are_padded() {
        let all = [touched(0, (0, 8), (0, 8)), touched(1, (8, 8), (8, 8))];
        assert_eq!(advice(0.0, 100.0, &all), CommAdvice::Pad);
        assert_eq!(advice(0.0, 9.0, &all), CommAdvice::None, "too few to say");
    }

    #[test]
    fn one_lock_is_handed_over_less_often() {
        let all = [touched(0, (0, 4), (0, 4)), touched(1, (0, 4), (0, 4))];
        assert_eq!(advice(60.0, 40.0, &all), CommAdvice::Move);
    }

    #[test]
    fn what_is_read_is_moved_away_from_what_is_written() {
        let all = [touched(0, (0, 0), (0, 8)), touched(1, (16, 8), (0, 0)), touched(2, (16, 8), (0, 0))];
        assert_eq!(advice(1.0, 99.0, &all), CommAdvice::Split);
        // Two write the same word, and a third reads another.
        let all = [touched(0, (0, 8), (0, 8)), touched(1, (0, 8), (0, 8)), touched(2, (32, 4), (0, 0))];
        assert_eq!(advice(40.0, 60.0, &all), CommAdvice::Split);
    }

    #[test]
    fn bytes_that_say_nothing_give_no_advice() {
        let all = [touched(0, (0, 8), (0, 8)), touched(1, (0, 8), (0, 8))];
        assert_eq!(advice(0.0, 50.0, &all), CommAdvice::None);
        assert_eq!(advice(0.0, 50.0, &[]), CommAdvice::None);
    }

    #[test]
    fn accesses_add_up_by_thread() {
        let mut all = Vec::new();
        for (thread, kind, offset) in [(3, Kind::Store, 0), (4, Kind::Load, 8), (3, Kind::Load, 4)] {
            Touched::add(&mut all, &Access { thread, line: Line(1), bytes: Bytes::new(offset, 4), kind, ip: 0 });
        }
        assert_eq!(all, [touched(3, (4, 4), (0, 4)), touched(4, (8, 4), (0, 0))]);
    }
}
