//! What all threads were at in a stretch of time, whatever messages they worked on.

use std::collections::BTreeMap;

use crate::cause::Cause;

/// A piece of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// From when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// The message that the thread was at; none: no message.
    pub id: Option<u64>,
    /// What it was at.
    pub cause: Cause,
    /// Which, as [`crate::Piece::which`] has it.
    pub which: u32,
}

/// All threads' pieces in a stretch of time, and who woke whom.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    from_ns: u64,
    to_ns: u64,
    threads: BTreeMap<u32, Vec<Stretch>>,
    /// When a thread was woken, and by which one; 0 where an interrupt did it.
    wakings: BTreeMap<u32, Vec<(u64, u32)>>,
    held: usize,
    /// Pieces and wakings that were not kept.
    pub left_out: u64,
}

impl Timeline {
    /// Pieces and wakings that are kept.
    pub const MAX: usize = 1 << 20;

    /// Of a stretch of time.
    pub fn of(from_ns: u64, to_ns: u64) -> Self {
        Self { from_ns, to_ns, ..Self::default() }
    }

    fn has_room(&mut self) -> bool {
        let has = self.held < Self::MAX;
        self.held += usize::from(has);
        self.left_out += u64::from(!has);
        has
    }

    /// A thread was at something, which is over.
    pub(crate) fn add(&mut self, tid: u32, stretch: Stretch) {
        let (from_ns, to_ns) = (stretch.from_ns.max(self.from_ns), stretch.to_ns.min(self.to_ns));
        if from_ns >= to_ns {
            return;
        }
        let all = self.threads.entry(tid).or_default();
        if let Some(last) = all.last_mut()
            && (last.to_ns, last.id, last.cause, last.which) == (from_ns, stretch.id, stretch.cause, stretch.which)
        {
            last.to_ns = to_ns;
            return;
        }
        if self.has_room() {
            self.threads.entry(tid).or_default().push(Stretch { from_ns, to_ns, ..stretch });
        }
    }

    /// A thread was woken by another one, or by an interrupt.
    pub(crate) fn woken(&mut self, time_ns: u64, tid: u32, by: u32) {
        if (self.from_ns..=self.to_ns).contains(&time_ns) && self.has_room() {
            self.wakings.entry(tid).or_default().push((time_ns, by));
        }
    }

    /// What a thread was at from one time to another, in order of time.
    pub fn between(&self, tid: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = Stretch> {
        let all = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|stretch| stretch.to_ns <= from_ns);
        let cut = move |stretch: &Stretch| Stretch {
            from_ns: stretch.from_ns.max(from_ns),
            to_ns: stretch.to_ns.min(to_ns),
            ..*stretch
        };
        all[first..].iter().take_while(move |stretch| stretch.from_ns < to_ns).map(cut)
    }

    /// Who ended a thread's waiting at a time: a thread; none where an interrupt did, or nobody knows.
    pub fn waker(&self, tid: u32, time_ns: u64) -> Option<u32> {
        let all = self.wakings.get(&tid)?;
        let at = all.partition_point(|(woken_ns, _)| *woken_ns < time_ns);
        all.get(at).filter(|(woken_ns, by)| *woken_ns == time_ns && *by != 0).map(|(_, by)| *by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_is_left_out_and_what_goes_on_is_one() {
        let mut timeline = Timeline::of(100, 200);
        let on_cpu = |from_ns, to_ns, id| Stretch { from_ns, to_ns, id, cause: Cause::OnCpu, which: 0 };
        for stretch in [on_cpu(0, 90, None), on_cpu(90, 120, None), on_cpu(120, 130, None), on_cpu(130, 300, Some(7))] {
            timeline.add(5, stretch);
        }
        timeline.woken(150, 6, 5);
        timeline.woken(160, 6, 0);
        let between: Vec<Stretch> = timeline.between(5, 110, 140).collect();
        assert_eq!(between, [on_cpu(110, 130, None), on_cpu(130, 140, Some(7))]);
        assert_eq!([timeline.waker(6, 150), timeline.waker(6, 155), timeline.waker(6, 160)], [Some(5), None, None]);
        assert_eq!((timeline.between(9, 0, 300).count(), timeline.left_out), (0, 0));
    }
}
