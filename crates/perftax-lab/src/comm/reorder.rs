//! What came out of the rings of several CPUs, in order of time.

/// Entries that are held back until nothing earlier can come.
pub struct Reorder<T> {
    held: Vec<(u64, T)>,
    until_ns: u64,
    /// Entries that came after later ones had been handed out.
    pub late: u64,
}

impl<T> Default for Reorder<T> {
    fn default() -> Self {
        Self { held: Vec::new(), until_ns: 0, late: 0 }
    }
}

impl<T> Reorder<T> {
    /// Takes one.
    pub fn push(&mut self, time_ns: u64, entry: T) {
        self.late += u64::from(time_ns < self.until_ns);
        self.held.push((time_ns, entry));
    }

    /// Hands out those before a time; of the same time in the order in which they were taken.
    pub fn flush(&mut self, until_ns: u64, mut each: impl FnMut(u64, T)) {
        // Of one ring they are in order already, which a stable sort makes use of.
        self.held.sort_by_key(|(time_ns, _)| *time_ns);
        let ready = self.held.partition_point(|(time_ns, _)| *time_ns < until_ns);
        self.until_ns = self.until_ns.max(until_ns);
        self.held.drain(..ready).for_each(|(time_ns, entry)| each(time_ns, entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_and_late_ones_are_counted() {
        let mut reorder = Reorder::default();
        let mut out = Vec::new();
        for (times, until_ns) in [(vec![5, 9, 3, 20], 10), (vec![12, 8, 30], 25), (vec![], u64::MAX)] {
            times.into_iter().for_each(|time_ns| reorder.push(time_ns, ()));
            reorder.flush(until_ns, |time_ns, ()| out.push(time_ns));
        }
        assert_eq!((out, reorder.late), (vec![3, 5, 9, 8, 12, 20, 30], 1));
    }
}
