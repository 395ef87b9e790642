//! Which words of a line each thread's debug registers watch.

use crate::access::Thread;
use crate::access_table::{AccessTable, WORDS, Words};
use crate::line::Line;

/// The words for one thread: those that it is known to touch come first, then those that others touch, then any.
///
/// Where it touches more than there are registers, so many of them are drawn: from one follow to the next all are seen.
pub fn words_for(
    board: &AccessTable,
    line: Line,
    thread: Thread,
    sampled: Words,
    registers: u32,
    rng: &mut fastrand::Rng,
) -> Words {
    let mut chosen = Words::default();
    let own = board.words(line, thread);
    for mut words in
        [own.iter().collect::<Vec<_>>(), sampled.iter().collect(), board.all_words(line).iter().collect(), (0..WORDS).collect()]
    {
        rng.shuffle(&mut words);
        for word in words {
            if chosen.count() < registers {
                chosen = chosen.and(word);
            }
        }
    }
    chosen
}

/// The same words for all threads: the sampled ones, those that anybody is known to touch (drawn where there are too many), and those
/// behind the sampled ones.
pub fn words_for_all(board: &AccessTable, line: Line, sampled: Words, registers: u32, rng: &mut fastrand::Rng) -> Words {
    let mut known: Vec<u32> = board.all_words(line).iter().collect();
    rng.shuffle(&mut known);
    let first = sampled.first();
    let mut chosen = Words::default();
    for word in sampled.iter().chain(known).chain(first..WORDS).chain(0..first) {
        if chosen.count() < registers {
            chosen = chosen.and(word);
        }
    }
    chosen
}

/// The words for the thread whose store was sampled: that word and the one behind it, then those that it is known to touch, then what is
/// behind. Programs that write a line through go upwards, and the next store is what must not be missed.
pub fn words_for_owner(
    board: &AccessTable,
    line: Line,
    thread: Thread,
    sampled: Words,
    registers: u32,
    rng: &mut fastrand::Rng,
) -> Words {
    let first = sampled.first();
    let mut own: Vec<u32> = board.words(line, thread).iter().collect();
    rng.shuffle(&mut own);
    let upwards = (first..WORDS).chain(0..first);
    let mut chosen = Words::default();
    for word in upwards.clone().take(2).chain(own).chain(upwards) {
        if chosen.count() < registers {
            chosen = chosen.and(word);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, Kind};
    use crate::line::Bytes;

    #[test]
    fn own_words_come_first_and_all_registers_are_used() {
        let mut board = AccessTable::default();
        let rng = &mut fastrand::Rng::with_seed(1);
        for (thread, offset) in [(0, 0), (1, 56), (1, 8)] {
            board.sampled(&Access { thread, line: Line(1), bytes: Bytes::new(offset, 8), kind: Kind::Store, ip: 1 });
        }
        for _ in 0..100 {
            assert_eq!(words_for(&board, Line(1), 1, Words(0b1), 3, rng), Words(0b1000_0011));
            let any = words_for(&board, Line(1), 7, Words(0b1), 4, rng);
            assert!(any.count() == 4 && any.cover(Words(0b1000_0011)));
        }
        // More words than registers: each has its turn.
        let seen = (0..100).fold(0, |seen, _| seen | words_for(&board, Line(1), 1, Words(0b1), 1, rng).0);
        assert_eq!(seen, 0b1000_0010);
    }

    #[test]
    fn who_writes_a_line_through_is_watched_upwards() {
        let mut board = AccessTable::default();
        let store = |offset| Access { thread: 0, line: Line(1), bytes: Bytes::new(offset, 8), kind: Kind::Store, ip: 1 };
        let rng = &mut fastrand::Rng::with_seed(1);
        board.sampled(&store(48));
        assert_eq!(words_for_owner(&board, Line(1), 0, Words(0b100_0000), 3, rng), Words(0b1100_0001));
        board.sampled(&store(16));
        assert_eq!(words_for_owner(&board, Line(1), 0, Words(0b100_0000), 4, rng), Words(0b1100_0101));
        (0..8).for_each(|word| board.sampled(&store(8 * word)));
        for _ in 0..20 {
            let words = words_for_owner(&board, Line(1), 0, Words(0b10), 4, rng);
            assert!(words.count() == 4 && words.cover(Words(0b110)), "{words:?}");
        }
    }

    #[test]
    fn all_threads_alike_watch_the_sampled_word_first() {
        let mut board = AccessTable::default();
        let rng = &mut fastrand::Rng::with_seed(1);
        assert_eq!(words_for_all(&board, Line(1), Words(0b100_0000), 4, rng), Words(0b1100_0011));
        for (thread, offset) in [(0, 48), (1, 16)] {
            board.sampled(&Access { thread, line: Line(1), bytes: Bytes::new(offset, 8), kind: Kind::Store, ip: 1 });
        }
        assert_eq!(words_for_all(&board, Line(1), Words(0b100_0000), 3, rng), Words(0b1100_0100));
    }
}
