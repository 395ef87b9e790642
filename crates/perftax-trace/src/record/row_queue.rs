//! Rows that wait until the marks that belong before them are known, and are handed out with them in order of time.

use std::collections::{BTreeMap, VecDeque};

use perftax_pmu::Result;

use super::Row;
use crate::mark::Mark;

/// Rows and marks that wait.
#[derive(Default)]
pub(super) struct RowQueue {
    rows: VecDeque<Row>,
    /// By time, and by the order in which they came: at one time a message ends before the next begins.
    marks: BTreeMap<(u64, u64), Mark>,
    came: u64,
    until_ns: u64,
}

impl RowQueue {
    /// A row that is no mark, in order of time.
    pub fn row(&mut self, row: Row) {
        self.rows.push_back(row);
    }

    /// A mark, of whenever. One that comes after rows of its time have been handed out counts as of then.
    pub fn mark(&mut self, mark: Mark) {
        self.came += 1;
        let time_ns = mark.time_ns.max(self.until_ns);
        self.marks.insert((time_ns, self.came), Mark { time_ns, ..mark });
    }

    /// Hands out what is of before.
    pub fn hand_out(&mut self, until_ns: u64, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
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
