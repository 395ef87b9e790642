//! Rows that are held until the marks that belong before them are known, and are handed out with them in order of time.

use std::collections::{BTreeMap, VecDeque};

use perftax_pmu::Result;

use super::Row;
use crate::kernel::{KernelEvent, What};
use crate::mark::Mark;
use crate::register::{Look, Rule, Runs, Sight};

/// Rows, and looks at a register that become marks.
pub(super) struct Hold {
    runs: Runs,
    rows: VecDeque<Row>,
    /// By time, and by the order in which they came: at one time a message ends before the next begins.
    marks: BTreeMap<(u64, u64), Mark>,
    came: u64,
    until_ns: u64,
}

impl Hold {
    pub fn new(rule: Rule) -> Self {
        Self { runs: Runs::new(rule), rows: VecDeque::new(), marks: BTreeMap::new(), came: 0, until_ns: 0 }
    }

    /// A row that is no mark, in order of time.
    pub fn row(&mut self, row: Row) {
        if let Row::Kernel(KernelEvent { time_ns, what: What::Switch { next, .. }, .. }) = row {
            self.runs.arrive(next, time_ns);
        }
        self.rows.push_back(row);
    }

    /// A look, in order of time.
    pub fn look(&mut self, look: &Look) {
        let Self { runs, marks, came, until_ns, .. } = self;
        runs.take(look, &mut |mark| hold(marks, came, *until_ns, mark));
    }

    /// Hands out what is so old that no mark can come before it any more; time has come to `now_ns`.
    pub fn release(&mut self, now_ns: u64, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        let Self { runs, marks, came, until_ns, .. } = self;
        runs.lose_patience(now_ns, &mut |mark| hold(marks, came, *until_ns, mark));
        self.hand_out(now_ns.saturating_sub(Runs::PATIENCE_NS), keep)
    }

    /// Hands out everything: the end.
    pub fn finish(&mut self, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        self.runs.finish();
        self.hand_out(u64::MAX, keep)
    }

    /// How well messages were seen.
    pub fn into_sight(self) -> Sight {
        self.runs.sight
    }

    fn hand_out(&mut self, until_ns: u64, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        self.until_ns = self.until_ns.max(until_ns);
        loop {
            let row_ns = self.rows.front().map(Row::time_ns).filter(|row_ns| *row_ns < until_ns);
            // At one time a mark comes last.
            let mark = self.marks.first_entry().filter(|mark| mark.key().0 < row_ns.unwrap_or(until_ns));
            match (mark, row_ns) {
                (Some(mark), _) => keep(&Row::Mark(mark.remove()))?,
                (None, Some(_)) => self.rows.pop_front().map_or(Ok(()), |row| keep(&row))?,
                (None, None) => return Ok(()),
            }
        }
    }
}

/// A mark that comes after rows of its time have been handed out counts as of then.
fn hold(marks: &mut BTreeMap<(u64, u64), Mark>, came: &mut u64, until_ns: u64, mark: Mark) {
    *came += 1;
    let time_ns = mark.time_ns.max(until_ns);
    marks.insert((time_ns, *came), Mark { time_ns, ..mark });
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
