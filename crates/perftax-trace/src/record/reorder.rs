//! Rows of many rings, put in order of time.

use perftax_pmu::Result;

use super::identity::Held;

/// Rows that are held back.
#[derive(Default)]
pub(super) struct Reorder {
    held: Vec<Held>,
    /// Until when rows have been handed out.
    until_ns: u64,
    /// Rows that came after later ones had been handed out.
    pub late: u64,
}

impl Reorder {
    pub fn push(&mut self, held: Held) {
        self.late += u64::from(held.time_ns() < self.until_ns);
        self.held.push(held);
    }

    /// Hands out the rows before a time.
    pub fn flush(&mut self, until_ns: u64, each: impl FnMut(Held) -> Result<()>) -> Result<()> {
        // Of one ring they are in order already, which a stable sort makes use of.
        self.held.sort_by_key(Held::time_ns);
        let ready = self.held.partition_point(|held| held.time_ns() < until_ns);
        self.until_ns = self.until_ns.max(until_ns);
        self.held.drain(..ready).try_for_each(each)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::mark::{Kind, Mark};
    use crate::record::Row;

    #[test]
    fn rows_come_in_order_and_late_ones_are_counted() {
        let mut reorder = Reorder::default();
        let mut out = Vec::new();
        let mut run = |reorder: &mut Reorder, times: &[u64], until_ns| {
            times
                .iter()
                .for_each(|&time_ns| reorder.push(Held::Row(Row::Mark(Mark { time_ns, tid: 1, id: 1, kind: Kind::Begin }))));
            reorder.flush(until_ns, |held| {
                out.push(held.time_ns());
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
