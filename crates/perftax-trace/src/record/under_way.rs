//! Messages under way when recording is to go off: they are waited for, and none that begins meanwhile is told. Else a short message would be seen to its end more often than a long one.

use rustc_hash::FxHashSet;

use crate::mark::{Kind, Mark};

/// For so long they are waited for at most, ns.
const LONGEST_NS: u64 = 1_000_000_000;
/// Messages that are remembered at most; who begins so many and ends none is not waited for.
const MAX: usize = 1 << 20;

/// Messages under way, and whether recording is to go off.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    ids: FxHashSet<u64>,
    /// Since when none that begins is told, ns.
    closed_ns: Option<u64>,
    left_out: FxHashSet<u64>,
}

impl UnderWay {
    /// Recording is to go off.
    pub fn close(&mut self, now_ns: u64) {
        self.closed_ns = Some(now_ns);
    }

    /// It was off, and is on again, by the rows that come by; of those that were left out ends may be to come.
    pub fn open(&mut self) {
        self.closed_ns = None;
        self.ids.clear();
        if self.left_out.len() >= MAX {
            self.left_out.clear();
        }
    }

    /// Whether it can go off by now; marks of before `told_ns` have come by.
    pub fn is_over(&self, now_ns: u64, told_ns: u64) -> bool {
        let Some(closed_ns) = self.closed_ns else { return true };
        told_ns >= closed_ns && self.ids.is_empty() || now_ns >= closed_ns + LONGEST_NS
    }

    /// What is told of a mark, in order of time; none: nothing. A thread that turns to a message that is left out turns to none.
    pub fn told(&mut self, mark: &Mark) -> Option<Mark> {
        let is_told = self.is_told(mark);
        match mark.kind {
            _ if is_told => Some(*mark),
            Kind::Switch => Some(Mark { id: 0, ..*mark }),
            _ => None,
        }
    }

    fn is_told(&mut self, mark: &Mark) -> bool {
        let Mark { time_ns, id, kind, .. } = *mark;
        match kind {
            Kind::Begin if self.closed_ns.is_some_and(|closed_ns| time_ns >= closed_ns) => {
                self.left_out.insert(id);
                false
            }
            Kind::Begin => {
                if self.ids.len() >= MAX {
                    self.ids.clear();
                }
                self.ids.insert(id);
                true
            }
            Kind::End => {
                self.ids.remove(&id);
                !self.left_out.remove(&id)
            }
            Kind::Switch | Kind::Wake => !self.left_out.contains(&id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_under_way_are_waited_for_and_no_others() {
        let mut under_way = UnderWay::default();
        let mark = |time_ns, id, kind| Mark { time_ns, tid: 1, id, kind };
        let tells = |under_way: &mut UnderWay, time_ns, id, kind| under_way.is_told(&mark(time_ns, id, kind));
        use Kind::{Begin, End, Switch};
        assert!(tells(&mut under_way, 10, 7, Begin) && tells(&mut under_way, 20, 8, Begin) && tells(&mut under_way, 30, 8, End));
        assert!(under_way.is_over(30, 0), "nobody asks");
        under_way.close(100);
        // A mark of before that comes by only now.
        assert!(!under_way.is_over(105, 90) && tells(&mut under_way, 95, 9, Begin));
        let late = [Begin, Switch, End].map(|kind| under_way.told(&mark(110, 10, kind)));
        assert_eq!(late, [None, Some(mark(110, 0, Switch)), None]);
        assert!(tells(&mut under_way, 120, 7, Switch) && tells(&mut under_way, 130, 7, End) && !under_way.is_over(140, 130));
        assert!(tells(&mut under_way, 150, 9, End) && under_way.is_over(160, 155));
        // One that does not end is not waited for for ever.
        under_way.open();
        assert!(tells(&mut under_way, 200, 11, Begin));
        under_way.close(300);
        assert!(!under_way.is_over(LONGEST_NS, 400) && under_way.is_over(300 + LONGEST_NS, 400));
        assert!(!tells(&mut under_way, 310, 13, Begin));
        under_way.open();
        assert!(
            tells(&mut under_way, 900, 12, Begin) && !tells(&mut under_way, 910, 13, End) && tells(&mut under_way, 920, 12, End)
        );
    }
}
