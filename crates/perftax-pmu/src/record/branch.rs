//! Branch stacks: what the LBR (or BRBE, BRS) held at the sample, most recent first.

use super::cursor::Cursor;
use super::layout::Layout;
use super::words::Words;
use crate::Result;
use perf_event_open_sys::bindings as abi;

/// The branches of one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchStack<'a> {
    /// `HW_INDEX`: position of the most recent entry in the hardware's ring. `None` where it was not asked for, or where
    /// the kernel left it out together with the stack; `u64::MAX` where it is not known.
    pub hardware_index: Option<u64>,
    entries: &'a [[u8; 24]],
    /// `COUNTERS`: one word per branch of occurrences by event, packed as `/sys/…/caps/branch_counter_width` says.
    pub counters: Option<Words<'a>>,
}

/// One branch taken (`struct perf_branch_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Address of the branch.
    pub from: u64,
    /// Its target.
    pub to: u64,
    /// What else is known of it.
    pub flags: BranchFlags,
}

/// The third word of a branch entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchFlags(pub u64);

impl<'a> BranchStack<'a> {
    /// `empty_has_index`: a kernel that filtered the stack out writes a bare 0 even if the hardware's index was asked for,
    /// one that found it empty writes the index after the 0. Only the length of the record tells, so the caller tries both.
    pub(super) fn decode(cursor: &mut Cursor<'a>, layout: &Layout, empty_has_index: bool) -> Result<Self> {
        let count = cursor.u64("BRANCH_STACK's number of entries")?;
        let has_index = layout.branches(abi::PERF_SAMPLE_BRANCH_HW_INDEX) && (count > 0 || empty_has_index);
        let hardware_index = has_index.then(|| cursor.u64("BRANCH_STACK's hardware index")).transpose()?;
        let entries = cursor.chunks(count, "BRANCH_STACK's entries")?;
        let counters = layout
            .branches(abi::PERF_SAMPLE_BRANCH_COUNTERS)
            .then(|| cursor.chunks(count, "BRANCH_STACK's counters"))
            .transpose()?
            .map(Words::new);
        Ok(Self { hardware_index, entries, counters })
    }

    /// How many branches.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All branches, the most recent first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Branch> + use<'a> {
        self.entries.iter().map(|entry| {
            let [from, to, flags] = words(entry);
            Branch { from, to, flags: BranchFlags(flags) }
        })
    }
}

fn words(entry: &[u8; 24]) -> [u64; 3] {
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(entry.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

impl BranchFlags {
    fn bits(self, at: u32, width: u32) -> u64 {
        (self.0 >> at) & ((1 << width) - 1)
    }

    /// The target was mispredicted. Neither this nor [`Self::predicted`] is set where the hardware does not say.
    pub fn mispredicted(self) -> bool {
        self.bits(0, 1) != 0
    }

    /// The target was predicted.
    pub fn predicted(self) -> bool {
        self.bits(1, 1) != 0
    }

    /// Inside a transaction.
    pub fn in_transaction(self) -> bool {
        self.bits(2, 1) != 0
    }

    /// A transaction's abort.
    pub fn abort(self) -> bool {
        self.bits(3, 1) != 0
    }

    /// Cycles since the branch before; 0 where not known.
    pub fn cycles(self) -> u16 {
        self.bits(4, 16) as u16
    }

    /// `PERF_BR_*`: 0 unknown, 1 conditional, 2 unconditional, 3 indirect, 4 call, …
    pub fn kind(self) -> u8 {
        self.bits(20, 4) as u8
    }

    /// `PERF_BR_SPEC_*`.
    pub fn speculation(self) -> u8 {
        self.bits(24, 2) as u8
    }

    /// `PERF_BR_NEW_*`, where [`Self::kind`] is `PERF_BR_EXTEND_ABI`.
    pub fn extended_kind(self) -> u8 {
        self.bits(26, 4) as u8
    }

    /// `PERF_BR_PRIV_*`: 0 unknown, 1 user, 2 kernel, 3 hypervisor.
    pub fn privilege(self) -> u8 {
        self.bits(30, 3) as u8
    }
}
