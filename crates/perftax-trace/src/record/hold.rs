//! Rows that are held until looks at a register before them and behind them have become marks.

use perftax_pmu::Result;

use super::Row;
use super::row_queue::RowQueue;
use crate::kernel::{KernelEvent, What};
use crate::register::{Look, Rule, Runs, Sight};

/// Rows, and looks at a register that become marks.
pub(super) struct Hold {
    runs: Runs,
    queue: RowQueue,
}

impl Hold {
    pub fn new(rule: Rule) -> Self {
        Self { runs: Runs::new(rule), queue: RowQueue::default() }
    }

    /// A row that is no mark, in order of time.
    pub fn row(&mut self, row: Row) {
        if let Row::Kernel(KernelEvent { time_ns, what: What::Switch { next, .. }, .. }) = row {
            self.runs.arrive(next, time_ns);
        }
        self.queue.row(row);
    }

    /// A look, in order of time.
    pub fn look(&mut self, look: &Look) {
        let Self { runs, queue } = self;
        runs.take(look, &mut |mark| queue.mark(mark));
    }

    /// Hands out what is so old that no mark can come before it any more; time has come to `now_ns`.
    pub fn release(&mut self, now_ns: u64, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<u64> {
        let Self { runs, queue } = self;
        runs.lose_patience(now_ns, &mut |mark| queue.mark(mark));
        let until_ns = now_ns.saturating_sub(Runs::PATIENCE_NS);
        queue.hand_out(until_ns, keep).map(|()| until_ns)
    }

    /// Hands out everything: the end.
    pub fn finish(&mut self, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        self.runs.finish();
        self.queue.hand_out(u64::MAX, keep)
    }

    /// How well messages were seen.
    pub fn into_sight(self) -> Sight {
        self.runs.sight
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::register::Occasion;
    use crate::store::SampleRow;

    #[test]
    fn marks_find_their_place_among_rows_that_came_before() {
        let mut hold = Hold::new(Rule::default());
        let long = Runs::PATIENCE_NS;
        let mut out = Vec::new();
        let mut keep = |row: &Row| {
            out.push((row.time_ns(), matches!(row, Row::Mark(_))));
            Ok(())
        };
        for (time_ns, id) in [(100, 1), (110, 1), (120, 2), (130 + 2 * long, 2)] {
            hold.release(time_ns, &mut keep).unwrap();
            hold.row(Row::Sample(SampleRow { time_ns, cpu: 0, pid: 1, tid: 1, ip: 0, tag: 0 }));
            hold.look(&Look { time_ns, tid: 1, word: 0xd3a5 << 48 | id, at: Occasion::Sample });
        }
        hold.finish(&mut keep).unwrap();
        let sample = |time_ns| (time_ns, false);
        let mark = |time_ns| (time_ns, true);
        assert_eq!(out, [mark(99), sample(100), sample(110), mark(115), mark(115), sample(120), sample(130 + 2 * long)]);
    }
}
