//! Rows of many rings, put in order of time.

use perftax_pmu::Result;

use super::Row;

/// Rows that are held back.
#[derive(Default)]
pub(super) struct Reorder {
    held: Vec<Row>,
    /// Until when rows have been handed out.
    until_ns: u64,
    /// Rows that came after later ones had been handed out.
    pub late: u64,
}

impl Reorder {
    pub fn push(&mut self, row: Row) {
        self.late += u64::from(row.time_ns() < self.until_ns);
        self.held.push(row);
    }

    /// Hands out the rows before a time.
    pub fn flush(&mut self, until_ns: u64, mut each: impl FnMut(&Row) -> Result<()>) -> Result<()> {
        // Of one ring they are in order already, which a stable sort makes use of.
        self.held.sort_by_key(Row::time_ns);
        let ready = self.held.partition_point(|row| row.time_ns() < until_ns);
        self.until_ns = self.until_ns.max(until_ns);
        self.held.drain(..ready).try_for_each(|row| each(&row))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::mark::{Kind, Mark};

    #[test]
    fn rows_come_in_order_and_late_ones_are_counted() {
        let mut reorder = Reorder::default();
        let mut out = Vec::new();
        let mut run = |reorder: &mut Reorder, times: &[u64], until_ns| {
            times.iter().for_each(|&time_ns| reorder.push(Row::Mark(Mark { time_ns, tid: 1, id: 1, kind: Kind::Begin })));
            reorder.flush(until_ns, |row| {
                out.push(row.time_ns());
                Ok(())
            })
        };
        run(&mut reorder, &[5, 9, 3, 20], 10).unwrap();
        run(&mut reorder, &[12, 8, 30], 25).unwrap();
        run(&mut reorder, &[], u64::MAX).unwrap();
        assert_eq!(out, [3, 5, 9, 8, 12, 20, 30]);
        assert_eq!(reorder.late, 1);
    }
}
