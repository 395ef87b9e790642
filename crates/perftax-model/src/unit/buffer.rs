//! The memory that records are written to.

use super::{Action, Drained, Span};

/// A per-core buffer with an interrupt threshold (SDM volume 3, 20.6.2.4.2: the PEBS part of the DS save area).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    base: u64,
    record_bytes: u64,
    capacity: u64,
    threshold: u64,
    held: u64,
}

impl Buffer {
    /// Of so many bytes at an address; the interrupt comes when `threshold` records are held, at most as many as fit.
    ///
    /// A buffer always holds one record.
    pub fn new(base: u64, bytes: u64, record_bytes: u64, threshold: u64) -> Self {
        let capacity = (bytes / record_bytes).max(1);
        Self { base, record_bytes, capacity, threshold: threshold.clamp(1, capacity), held: 0 }
    }

    /// Records that fit.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Records that it interrupts at.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Records held.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Where the next record goes; `None` where it is full.
    pub fn write(&mut self) -> Option<Span> {
        (self.held < self.capacity).then(|| {
            let address = self.base + self.held * self.record_bytes;
            self.held += 1;
            Span { address, bytes: self.record_bytes }
        })
    }

    /// Whether the interrupt is due.
    pub fn is_due(&self) -> bool {
        self.held >= self.threshold
    }

    /// The hardware writes a record, and interrupts where that makes the buffer due; a record that does not fit is lost.
    pub fn record(&mut self) -> Action {
        let written = self.write();
        let interrupted = self.is_due();
        let drained = if interrupted { self.drain() } else { None };
        Action { sampled: written.is_some(), lost: written.is_none(), written, interrupted, drained, skid: 0 }
    }

    /// Empties it: what whoever does so reads.
    pub fn drain(&mut self) -> Option<Drained> {
        let records = std::mem::take(&mut self.held);
        let span = Span { address: self.base, bytes: records * self.record_bytes };
        (records > 0).then_some(Drained { span, records })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_never_overrun() {
        let mut buffer = Buffer::new(4096, 1000, 200, 99);
        assert_eq!((buffer.capacity(), buffer.threshold()), (5, 5));
        for i in 0..5 {
            assert!(!buffer.is_due());
            assert_eq!(buffer.write(), Some(Span { address: 4096 + 200 * i, bytes: 200 }));
        }
        assert!(buffer.is_due());
        assert_eq!(buffer.write(), None);
        assert_eq!(buffer.drain(), Some(Drained { span: Span { address: 4096, bytes: 1000 }, records: 5 }));
        assert_eq!(buffer.drain(), None);
    }
}
