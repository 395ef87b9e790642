//! The messages that a thread was at last, and for how long.

use std::collections::VecDeque;

use crate::message::Meanwhile;

/// A stretch in which a thread was at a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    id: u64,
    from_ns: u64,
    to_ns: u64,
    /// How long all before it were, ns.
    before_ns: u64,
}

/// Stretches that are remembered.
const MAX: usize = 1024;
/// Of those the last ones, among which the longest is looked for.
const LAST: usize = 64;

/// What a thread was at, in order of time.
#[derive(Default)]
pub(super) struct Worked {
    all: VecDeque<Stretch>,
    /// There were some before those that are remembered.
    has_forgotten: bool,
}

impl Worked {
    /// A stretch is over.
    pub fn push(&mut self, id: u64, from_ns: u64, to_ns: u64) {
        let before_ns = self.all.back().map_or(0, |last| last.before_ns + last.to_ns - last.from_ns);
        if self.all.len() >= MAX {
            self.all.pop_front();
            self.has_forgotten = true;
        }
        self.all.push_back(Stretch { id, from_ns, to_ns, before_ns });
    }

    /// What there was from one time to another, both inclusive, of this thread; none where there was nothing.
    pub fn between(&self, tid: u32, from_ns: u64, to_ns: u64, kind_of: impl Fn(u64) -> u32) -> Option<Meanwhile> {
        let last = self.all.back().filter(|last| last.to_ns > from_ns)?;
        let at = self.all.partition_point(|stretch| stretch.to_ns <= from_ns);
        let first = self.all.get(at)?;
        let all_ns = last.before_ns + last.to_ns - last.from_ns - first.before_ns;
        let outside_ns = from_ns.saturating_sub(first.from_ns) + last.to_ns.saturating_sub(to_ns);
        let last_ones = || self.all.range(at.max(self.all.len().saturating_sub(LAST))..);
        let within = |stretch: &Stretch| stretch.to_ns.min(to_ns).saturating_sub(stretch.from_ns.max(from_ns));
        let longest = last_ones().max_by_key(|stretch| within(stretch))?;
        let stretches = (self.all.len() - at) as u32;
        let ns = all_ns.saturating_sub(outside_ns);
        let kind = kind_of(longest.id);
        let are_of_one = stretches as usize <= LAST && last_ones().all(|stretch| kind_of(stretch.id) == kind);
        let kind_ns = if are_of_one { ns } else { within(longest) };
        let is_partial = at == 0 && self.has_forgotten && first.from_ns > from_ns;
        Some(Meanwhile { from_ns, to_ns, tid, stretches, ns, is_partial, most: longest.id, kind, kind_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_of_a_while_add_up() {
        let mut worked = Worked::default();
        let sum = |worked: &Worked, from_ns, to_ns| worked.between(5, from_ns, to_ns, |id| 1 + u32::from(id == 2990));
        let told =
            |sum: Option<Meanwhile>| sum.map(|sum| (sum.stretches, sum.ns, sum.most, sum.kind, sum.kind_ns, sum.is_partial));
        assert_eq!(sum(&worked, 0, 100), None);
        for i in 0..3000u64 {
            worked.push(i, 100 * i, 100 * i + if i == 2990 { 80 } else { 50 });
        }
        let last_ns = 299_950;
        assert_eq!(told(sum(&worked, 299_920, 400_000)), Some((1, 30, 2999, 1, 30, false)));
        // One of another kind among them: its own time alone is of it.
        assert_eq!(told(sum(&worked, 298_950, 299_930)), Some((10, 10 * 50 + 30 - 20, 2990, 2, 80, false)));
        assert_eq!(told(sum(&worked, 299_150, 299_930)), Some((8, 7 * 50 + 30, 2998, 1, 7 * 50 + 30, false)));
        assert_eq!(sum(&worked, last_ns, last_ns + 5), None);
        let all = sum(&worked, 0, 400_000).map(|sum| (sum.stretches, sum.most, sum.is_partial));
        assert_eq!(all, Some((MAX as u32, 2990, true)), "no more than is remembered");
    }
}
