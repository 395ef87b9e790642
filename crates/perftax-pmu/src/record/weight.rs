//! What an access cost, as the hardware measured it.

/// `PERF_SAMPLE_WEIGHT_TYPE`: both layouts take one word, and an event has one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weight {
    /// `WEIGHT`: one number; a memory access' latency in cycles on Intel and AMD.
    Full(u64),
    /// `WEIGHT_STRUCT`: three of them; their meaning is the PMU's.
    Parts {
        /// First: on Intel the latency of the access or of the transaction, in cycles.
        var1: u32,
        /// Second: on Intel the latency of the whole instruction, in cycles (Alder Lake and later).
        var2: u16,
        /// Third: on Intel the retire latency, in cycles (Sierra Forest, Meteor Lake and later).
        var3: u16,
    },
}

impl Weight {
    pub(super) fn parts(word: u64) -> Self {
        Self::Parts { var1: word as u32, var2: (word >> 32) as u16, var3: (word >> 48) as u16 }
    }
}
