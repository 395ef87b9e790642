//! Keys that come many times in a row: a table is asked once for all of them.

/// The key that came last, and how often.
#[derive(Clone, Debug)]
pub(super) struct Repeated<K>(Option<(K, u64)>);

impl<K> Default for Repeated<K> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: PartialEq + Copy> Repeated<K> {
    /// Counts a key; gives the one before with its number where it is another.
    pub(super) fn count(&mut self, key: K) -> Option<(K, u64)> {
        match &mut self.0 {
            Some((last, many)) if *last == key => {
                *many += 1;
                None
            }
            other => other.replace((key, 1)),
        }
    }

    /// The last of all.
    pub(super) fn take(&mut self) -> Option<(K, u64)> {
        self.0.take()
    }
}
