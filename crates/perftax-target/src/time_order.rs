//! What came out of the rings of several CPUs, in order of time.

use std::vec::Drain;

/// Entries that are held back until nothing earlier can come.
pub struct TimeOrder<T> {
    held: Vec<(u64, T)>,
    until_ns: u64,
    /// Entries that came after later ones had been handed out.
    pub late: u64,
}

impl<T> Default for TimeOrder<T> {
    fn default() -> Self {
        Self { held: Vec::new(), until_ns: 0, late: 0 }
    }
}

impl<T> TimeOrder<T> {
    /// Takes one.
    pub fn push(&mut self, time_ns: u64, entry: T) {
        self.late += u64::from(time_ns < self.until_ns);
        self.held.push((time_ns, entry));
    }

    /// Hands out those before a time; of the same time in the order in which they were taken. Those that are not asked for are gone.
    pub fn before(&mut self, until_ns: u64) -> Drain<'_, (u64, T)> {
        // Of one ring they are in order already, which a stable sort makes use of.
        self.held.sort_by_key(|(time_ns, _)| *time_ns);
        let ready = self.held.partition_point(|(time_ns, _)| *time_ns < until_ns);
        self.until_ns = self.until_ns.max(until_ns);
        self.held.drain(..ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_and_late_ones_are_counted() {
        let mut order = TimeOrder::default();
        let mut out = Vec::new();
        for (times, until_ns) in [(vec![5, 9, 3, 20], 10), (vec![12, 8, 30], 25), (vec![], u64::MAX)] {
            times.into_iter().for_each(|time_ns| order.push(time_ns, ()));
            out.extend(order.before(until_ns).map(|(time_ns, ())| time_ns));
        }
        assert_eq!((out, order.late), (vec![3, 5, 9, 8, 12, 20, 30], 1));
    }

    #[test]
    fn what_came_first_at_a_time_comes_first() {
        let mut order = TimeOrder::default();
        [(7, 'a'), (3, 'b'), (7, 'c'), (3, 'd')].into_iter().for_each(|(time_ns, entry)| order.push(time_ns, entry));
        assert_eq!(order.before(u64::MAX).map(|(_, entry)| entry).collect::<String>(), "bdac");
    }
}
