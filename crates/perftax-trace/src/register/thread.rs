//! What is known of one thread's tag.

use super::{Look, Rule, Runs, Sight, mark};
use crate::mark::{Kind, Mark};

/// A thread, as far as looks at its register tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Thread {
    /// The last tag, and when it was seen last; 0: of no message.
    last: Option<(u64, u64)>,
    /// Looks since that showed no tag.
    doubt: Option<Doubt>,
    /// It was taken off its message, since it has shown no tag for long.
    is_off: bool,
    /// When it left its CPU, where nothing was seen of it since.
    pub left_ns: Option<u64>,
    /// When it got one again.
    pub arrived_ns: Option<u64>,
}

/// Looks without a tag.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    first_ns: u64,
    last_ns: u64,
    looks: u64,
}

impl Thread {
    /// From when on something may have changed that the last look did not show: where the thread was away since, from when it was back. Where
    /// nobody said when, it has run for no longer than to its next sample.
    fn back_ns(&self, last_ns: u64, now_ns: u64, rule: &Rule) -> u64 {
        match (self.left_ns.is_some(), self.arrived_ns, rule.gap_ns) {
            (true, Some(arrived_ns), _) => arrived_ns.clamp(last_ns, now_ns.max(last_ns)),
            (true, None, Some(gap_ns)) => last_ns.max(now_ns.saturating_sub(gap_ns)),
            _ => last_ns,
        }
    }

    /// A look without a tag.
    pub fn doubt(&mut self, time_ns: u64) {
        let doubt = self.doubt.get_or_insert(Doubt { first_ns: time_ns, last_ns: time_ns, looks: 0 });
        (doubt.last_ns, doubt.looks) = (time_ns, doubt.looks + 1);
    }

    /// Looks without a tag since the last one with.
    pub fn doubted(&self) -> u64 {
        self.doubt.map_or(0, |doubt| doubt.looks)
    }

    /// A look with a tag.
    pub fn tag(&mut self, look: &Look, id: u64, rule: &Rule, sight: &mut Sight, out: &mut dyn FnMut(Mark)) {
        let (now_ns, tid) = (look.time_ns, look.tid);
        let (is_off, doubted) = (std::mem::take(&mut self.is_off), self.doubted());
        let doubt = self.doubt.take();
        let Some((old, last_ns)) = self.last.replace((id, now_ns)) else {
            // Nothing is known of before: what is seen first has begun by now.
            sight.unknown += doubted;
            if id != 0 {
                out(mark(begun(now_ns, now_ns, rule), tid, id, Kind::Begin));
            }
            return;
        };
        // When it may have changed: after the last tag, before this one.
        let since_ns = self.back_ns(doubt.map_or(last_ns, |doubt| doubt.last_ns), now_ns, rule);
        let came_ns = middle(since_ns, now_ns);
        let left_ns = doubt.map_or(came_ns, |doubt| middle(last_ns, doubt.first_ns));
        if old == id {
            sight.filled += doubted;
            if is_off {
                out(mark(begun(came_ns, now_ns, rule), tid, id, Kind::Switch));
            }
            return;
        }
        sight.unknown += doubted;
        sight.unseen.add(doubt.map_or(0, |_| came_ns - left_ns.min(came_ns)));
        sight.gaps.add(now_ns - doubt.map_or(since_ns, |_| last_ns).min(now_ns));
        match (old, is_off) {
            (0, _) => {}
            (_, true) => sight.abandoned += 1,
            (_, false) => out(mark(left_ns.min(now_ns.saturating_sub(1)), tid, old, Kind::End)),
        }
        if id != 0 {
            out(mark(begun(came_ns, now_ns, rule), tid, id, Kind::Begin));
        }
    }

    /// The thread has ended.
    pub fn exit(&mut self, look: &Look, sight: &mut Sight, out: &mut dyn FnMut(Mark)) {
        let Some((id, last_ns)) = self.last.filter(|(id, _)| *id != 0) else { return };
        if self.is_off {
            sight.abandoned += 1;
            return;
        }
        let end_ns = middle(last_ns, self.doubt.map_or(look.time_ns, |doubt| doubt.first_ns));
        out(mark(end_ns, look.tid, id, Kind::End));
    }

    /// Time has come so far.
    pub fn lose_patience(&mut self, tid: u32, now_ns: u64, out: &mut dyn FnMut(Mark)) {
        let (Some((id, last_ns)), Some(doubt)) = (self.last, self.doubt) else { return };
        // Well before rows of then are handed out.
        if id != 0 && !self.is_off && doubt.first_ns + Runs::PATIENCE_NS / 2 <= now_ns {
            self.is_off = true;
            out(mark(middle(last_ns, doubt.first_ns), tid, 0, Kind::Switch));
        }
    }
}

fn middle(from_ns: u64, to_ns: u64) -> u64 {
    from_ns + to_ns.saturating_sub(from_ns) / 2
}

/// When a run began: before its first look, so that the sample of it belongs to the message; or with it, and a sample comes before a mark.
fn begun(between_ns: u64, first_ns: u64, rule: &Rule) -> u64 {
    if rule.is_late { first_ns } else { between_ns.min(first_ns.saturating_sub(1)) }
}
