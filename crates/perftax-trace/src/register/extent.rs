//! How long a message took at least and at most, where a register told it apart.

use crate::cause::Cause;
use crate::message::Message;

/// Its latency at least and at most, ns; `None` where it has not ended.
///
/// Before and after it no tag may have been seen for as long as `unseen_ns`, and it may have gone on all of that time. Its samples, system calls and page faults are looks at its tag: from the first to the last of them it was surely under way. It began and
/// ended in the middles of the gaps around them, and so at most as much again before and after.
pub fn between_ns(message: &Message, unseen_ns: u64) -> Option<(u64, u64)> {
    let latency_ns = message.latency_ns()?;
    let is_seen = |cause: Cause| matches!(cause, Cause::Syscall | Cause::PageFault | Cause::Blocked);
    let seen = message.pieces.iter().filter(|piece| is_seen(piece.cause)).map(|piece| (piece.from_ns, piece.to_ns));
    let seen = seen.chain(message.hits.iter().map(|hit| (hit.time_ns, hit.time_ns)));
    let span = seen.reduce(|(from, to), (first, last)| (from.min(first), to.max(last)));
    let least_ns = span.map_or(0, |(from, to)| (to - from).min(latency_ns));
    Some((least_ns, latency_ns + (latency_ns - least_ns) + unseen_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Hit, Piece};

    #[test]
    fn what_was_seen_is_the_least_and_the_gaps_again_the_most() {
        let mut message = Message::beginning(7, 100);
        message.end_ns = Some(200);
        assert_eq!(between_ns(&message, 0), Some((0, 200)));
        message.hits.push(Hit { time_ns: 110, tid: 1, function: 0, cause: Cause::OnCpu });
        message.pieces.push(Piece { tid: 1, from_ns: 120, to_ns: 180, cause: Cause::Syscall, which: 1 });
        message.pieces.push(Piece { tid: 1, from_ns: 180, to_ns: 200, cause: Cause::OnCpu, which: 0 });
        // From 110 to 180; it may have begun at 90, and ended at 220.
        assert_eq!(between_ns(&message, 0), Some((70, 130)));
        assert_eq!(between_ns(&message, 1000), Some((70, 1130)));
    }
}
