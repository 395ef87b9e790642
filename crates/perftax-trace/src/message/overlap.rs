//! Threads that are at one message at once: which of them its time goes to.
//!
//! While a thread waits for another one's answer both are at the message: in each instant its time goes to who does something for it, else to who came to it last, for whom the
//! others wait. So causes add up to the latency.

use rustc_hash::FxHashMap;

use super::Piece;
use crate::cause::Cause;

/// What tells more of an instant: that something is done. Of who waits, for a CPU or for anything else, the one tells as much as the other.
fn rank(cause: Cause) -> u8 {
    match cause {
        Cause::OnCpu | Cause::PageFault | Cause::Syscall | Cause::Irq | Cause::Softirq | Cause::Vector | Cause::Steal => 2,
        Cause::Preempted | Cause::Runnable | Cause::Blocked => 1,
        Cause::Unattended => 0,
    }
}

/// One piece for each instant, in order of time, where some overlap; `threads` in the order in which they came. None where none do.
pub(crate) fn one_at_a_time(pieces: &[Piece], threads: &[u32]) -> Option<Vec<Piece>> {
    let mut order: Vec<&Piece> = pieces.iter().filter(|piece| piece.from_ns < piece.to_ns).collect();
    order.sort_by_key(|piece| piece.from_ns);
    if order.windows(2).all(|two| two[0].to_ns <= two[1].from_ns) {
        return None;
    }
    let mut bounds: Vec<u64> = order.iter().flat_map(|piece| [piece.from_ns, piece.to_ns]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let places: FxHashMap<u32, usize> = threads.iter().enumerate().map(|(place, tid)| (*tid, place)).collect();
    let came = |tid: u32| places.get(&tid);
    let (mut told, mut next, mut now): (Vec<Piece>, usize, Vec<&Piece>) = (Vec::new(), 0, Vec::new());
    for bound in bounds.windows(2) {
        let [from_ns, to_ns] = *bound else { continue };
        now.retain(|piece| piece.to_ns > from_ns);
        while let Some(piece) = order.get(next).filter(|piece| piece.from_ns <= from_ns) {
            now.push(piece);
            next += 1;
        }
        let Some(most) = now.iter().max_by_key(|piece| (rank(piece.cause), came(piece.tid))) else { continue };
        match told.last_mut() {
            Some(last) if (last.tid, last.to_ns, last.cause, last.which) == (most.tid, from_ns, most.cause, most.which) => {
                last.to_ns = to_ns;
            }
            _ => told.push(Piece { from_ns, to_ns, ..**most }),
        }
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(tid: u32, from_ns: u64, to_ns: u64, cause: Cause) -> Piece {
        Piece { tid, from_ns, to_ns, cause, which: 0 }
    }

    #[test]
    fn who_does_something_counts_and_else_who_came_last() {
        let asks = [piece(1, 0, 10, Cause::OnCpu), piece(1, 10, 90, Cause::Blocked), piece(1, 90, 100, Cause::OnCpu)];
        assert_eq!(one_at_a_time(&asks, &[1]), None);
        let answers = [
            piece(2, 20, 40, Cause::OnCpu),
            piece(2, 40, 60, Cause::Blocked),
            piece(2, 60, 65, Cause::Runnable),
            piece(2, 65, 95, Cause::Syscall),
        ];
        let told = one_at_a_time(&[&asks[..], &answers[..]].concat(), &[1, 2]).unwrap();
        let expected = [
            piece(1, 0, 10, Cause::OnCpu),
            piece(1, 10, 20, Cause::Blocked),
            piece(2, 20, 40, Cause::OnCpu),
            piece(2, 40, 60, Cause::Blocked),
            piece(2, 60, 65, Cause::Runnable),
            piece(2, 65, 95, Cause::Syscall),
            piece(1, 95, 100, Cause::OnCpu),
        ];
        assert_eq!(told, expected);
        // Who waits is not told of while the other one works, whoever came last.
        let turned = one_at_a_time(&[&asks[..], &answers[..]].concat(), &[2, 1]).unwrap();
        assert_eq!(turned.iter().map(|piece| piece.to_ns - piece.from_ns).sum::<u64>(), 100);
        assert!(
            turned.contains(&piece(1, 40, 65, Cause::Blocked)) && turned.contains(&piece(1, 90, 100, Cause::OnCpu)),
            "{turned:?}"
        );
    }
}
