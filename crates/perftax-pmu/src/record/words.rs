//! An array of 64-bit words inside a record.

use std::fmt;

/// Little-endian `u64`s where the kernel put them: nothing is copied, no alignment is asked for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Words<'a>(&'a [[u8; 8]]);

impl<'a> Words<'a> {
    /// Over elements as they lie in the record.
    pub(super) fn new(elements: &'a [[u8; 8]]) -> Self {
        Self(elements)
    }

    /// How many words.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The word at `index`.
    pub fn get(&self, index: usize) -> Option<u64> {
        self.0.get(index).map(|word| u64::from_le_bytes(*word))
    }

    /// All words in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + Clone + use<'a> {
        self.0.iter().map(|word| u64::from_le_bytes(*word))
    }
}

impl fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|word| format!("{word:#x}"))).finish()
    }
}
