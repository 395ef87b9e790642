//! What a part's own time went to: its causes, and waiting for calls.

use std::collections::BTreeMap;

use crate::blame::Detail;
use crate::cause::Cause;
use crate::message::{Message, Piece};

/// A part's own time on a cause, and what it was in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnTime {
    /// The cause.
    pub cause: Cause,
    /// In particular.
    pub detail: Option<Detail>,
}

/// Where a part's own time went. Its causes and its waiting for calls add up to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// By cause and detail, ns.
    pub own_ns: BTreeMap<OwnTime, u64>,
    /// How long it waited for each of its calls, ns, in their order.
    pub waited_ns: Vec<u64>,
    /// Samples by cause and function.
    pub samples: BTreeMap<(Cause, u32), u64>,
    /// Pieces were left out.
    pub is_partial: bool,
}

impl Account {
    /// Of a message in `windows_ns`, which are in order of time, and when its calls were away. Where several of these were at once, it waited for the one that ended last. Where nothing is
    /// known of its threads' waiting (`knows_waiting`), it is taken to have waited all the time that a call was away.
    pub fn of(message: &Message, windows_ns: &[(u64, u64)], calls_ns: &[(u64, u64)], knows_waiting: bool) -> Self {
        let mut account = Self { waited_ns: vec![0; calls_ns.len()], is_partial: message.left_out > 0, ..Self::default() };
        let mut order: Vec<&Piece> = message.instants().iter().collect();
        order.sort_by_key(|piece| (piece.from_ns, piece.to_ns));
        for (from_ns, to_ns) in windows_ns {
            let mut covered_ns = *from_ns;
            // What ended before the window says nothing of it.
            for piece in order.iter().filter(|piece| piece.to_ns > *from_ns).take_while(|piece| piece.from_ns < *to_ns) {
                // Two at once, where not all is known: each moment counts once.
                let (begin_ns, end_ns) = (piece.from_ns.max(covered_ns), piece.to_ns.min(*to_ns));
                if begin_ns >= end_ns {
                    continue;
                }
                account.unattended(message, (covered_ns, begin_ns), calls_ns);
                let is_waiting = !knows_waiting || matches!(piece.cause, Cause::Blocked | Cause::Unattended);
                account.add(message, piece, (begin_ns, end_ns), if is_waiting { calls_ns } else { &[] });
                covered_ns = end_ns;
            }
            account.unattended(message, (covered_ns, *to_ns), calls_ns);
        }
        let is_within = |time_ns: u64| windows_ns.iter().any(|(from_ns, to_ns)| (*from_ns..=*to_ns).contains(&time_ns));
        for hit in message.hits.iter().filter(|hit| is_within(hit.time_ns)) {
            *account.samples.entry((hit.cause, hit.function)).or_default() += 1;
        }
        account
    }

    fn unattended(&mut self, message: &Message, (from_ns, to_ns): (u64, u64), calls_ns: &[(u64, u64)]) {
        if from_ns < to_ns {
            let nobody = Piece { tid: 0, from_ns, to_ns, cause: Cause::Unattended, which: 0 };
            self.add(message, &nobody, (from_ns, to_ns), calls_ns);
        }
    }

    fn add(&mut self, message: &Message, piece: &Piece, (from_ns, to_ns): (u64, u64), calls_ns: &[(u64, u64)]) {
        let own = OwnTime { cause: piece.cause, detail: detail(message, piece) };
        let mut at_ns = from_ns;
        while at_ns < to_ns {
            let is_away = |(_, (sent, back)): &(usize, &(u64, u64))| *sent <= at_ns && at_ns < *back;
            let last = calls_ns.iter().enumerate().filter(is_away).max_by_key(|(_, (_, back))| *back);
            // Until one is back or another one is sent.
            let changes = calls_ns.iter().flat_map(|(sent, back)| [*sent, *back]).filter(|time_ns| *time_ns > at_ns);
            let next_ns = changes.min().map_or(to_ns, |next_ns| next_ns.min(to_ns));
            match last {
                Some((which, _)) => self.waited_ns[which] += next_ns - at_ns,
                None => *self.own_ns.entry(own).or_default() += next_ns - at_ns,
            }
            at_ns = next_ns;
        }
    }

    /// All of it, ns.
    pub fn total_ns(&self) -> u64 {
        self.own_ns.values().sum::<u64>() + self.waited_ns.iter().sum::<u64>()
    }
}

/// What a piece went to in particular: who ended it, where that has a kind, else which it was.
fn detail(message: &Message, piece: &Piece) -> Option<Detail> {
    let kind = message.woken(piece).map(|waker| waker.kind).filter(|kind| *kind != 0);
    match (kind, message.meanwhile(piece).filter(|meanwhile| meanwhile.kind != 0)) {
        (Some(kind), _) => Some(Detail::Ended { which: if piece.cause == Cause::Blocked { piece.which } else { 0 }, kind }),
        (None, Some(meanwhile)) => Some(Detail::Meanwhile(meanwhile.kind)),
        (None, None) => (piece.which != 0 || piece.cause.is_interruption()).then_some(Detail::Which(piece.which)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn message(pieces: &[(u64, u64, Cause)]) -> Message {
        let mut message = Message::beginning(1, pieces[0].0);
        message.end_ns = pieces.last().map(|piece| piece.1);
        let piece = |&(from_ns, to_ns, cause): &(u64, u64, Cause)| Piece { tid: 7, from_ns, to_ns, cause, which: 0 };
        message.pieces = pieces.iter().map(piece).collect();
        message
    }

    fn own(account: &Account, cause: Cause) -> u64 {
        account.own_ns.iter().filter(|(own, _)| own.cause == cause).map(|(_, ns)| ns).sum()
    }

    #[test]
    fn waiting_goes_to_what_it_encloses_and_the_rest_is_its_own() {
        let message = message(&[
            (100, 110, Cause::OnCpu),
            (110, 150, Cause::Blocked),
            (150, 153, Cause::Runnable),
            (153, 160, Cause::OnCpu),
            (160, 200, Cause::Blocked),
            (200, 205, Cause::OnCpu),
        ]);
        let account = Account::of(&message, &[(100, 205)], &[(105, 151), (161, 170)], true);
        assert_eq!(account.waited_ns, [40, 9]);
        assert_eq!((own(&account, Cause::OnCpu), own(&account, Cause::Runnable), own(&account, Cause::Blocked)), (22, 3, 31));
        assert_eq!(account.total_ns(), 105);
        // A window that is wider than the message: before and after it nobody was at it.
        let account = Account::of(&message, &[(90, 120)], &[], true);
        assert_eq!((own(&account, Cause::Unattended), own(&account, Cause::Blocked), account.total_ns()), (10, 10, 30));
        let account = Account::of(&message, &[(190, 300)], &[(250, 260)], true);
        assert_eq!((own(&account, Cause::Unattended), account.waited_ns.as_slice(), account.total_ns()), (85, &[10][..], 110));
        // In two windows; and where its waiting is not known.
        let account = Account::of(&message, &[(105, 115), (195, 210)], &[(100, 108)], true);
        assert_eq!((own(&account, Cause::OnCpu), account.waited_ns.as_slice(), account.total_ns()), (10, &[0][..], 25));
        let account = Account::of(&message, &[(105, 115), (195, 210)], &[(100, 108)], false);
        assert_eq!((own(&account, Cause::OnCpu), account.waited_ns.as_slice(), account.total_ns()), (7, &[3][..], 25));
    }

    #[test]
    fn of_several_at_once_it_waits_for_the_last_one() {
        let message = message(&[(0, 100, Cause::Blocked)]);
        // The first one ends last while both are under way; then a third one.
        let account = Account::of(&message, &[(0, 100)], &[(10, 60), (20, 50), (55, 90)], true);
        assert_eq!(account.waited_ns, [45, 0, 35]);
        assert_eq!((own(&account, Cause::Blocked), account.total_ns()), (20, 100));
    }
}
