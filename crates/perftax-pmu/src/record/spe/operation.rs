//! What the sampled operation is, and what happened to it.

use super::super::bits::bit;

/// Operation type packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Class: 0 other, 1 load, store or atomic, 2 branch or exception return.
    pub class: u8,
    /// Its details.
    pub subclass: u8,
}

/// Events packet: one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Events(pub u64);

impl Operation {
    /// A load or part of one.
    pub fn is_load(self) -> bool {
        self.class == 1 && self.subclass & 1 == 0
    }

    /// A store or part of one.
    pub fn is_store(self) -> bool {
        self.class == 1 && self.subclass & 1 != 0
    }

    /// An atomic, exclusive, acquiring or releasing access.
    pub fn is_atomic(self) -> bool {
        self.class == 1 && self.subclass & 0xe2 == 0x02
    }

    /// A branch or an exception return.
    pub fn is_branch(self) -> bool {
        self.class == 2
    }

    /// A conditional branch, or in class "other" a conditional select.
    pub fn is_conditional(self) -> bool {
        self.class != 1 && self.subclass & 1 != 0
    }

    /// An indirect branch.
    pub fn is_indirect_branch(self) -> bool {
        self.class == 2 && self.subclass & 0xfe == 0x02
    }
}

impl Events {
    /// Generated an exception.
    pub fn exception(self) -> bool {
        bit(self.0, 0)
    }

    /// Retired; else its work was thrown away.
    pub fn retired(self) -> bool {
        bit(self.0, 1)
    }

    /// Looked in L1.
    pub fn l1_access(self) -> bool {
        bit(self.0, 2)
    }

    /// Missed L1.
    pub fn l1_refill(self) -> bool {
        bit(self.0, 3)
    }

    /// Looked in the TLB.
    pub fn tlb_access(self) -> bool {
        bit(self.0, 4)
    }

    /// Needed a table walk.
    pub fn tlb_walk(self) -> bool {
        bit(self.0, 5)
    }

    /// A branch not taken.
    pub fn not_taken(self) -> bool {
        bit(self.0, 6)
    }

    /// Mispredicted.
    pub fn mispredicted(self) -> bool {
        bit(self.0, 7)
    }

    /// Looked in the last level.
    pub fn last_level_access(self) -> bool {
        bit(self.0, 8)
    }

    /// Missed the last level.
    pub fn last_level_miss(self) -> bool {
        bit(self.0, 9)
    }

    /// Went to another socket.
    pub fn remote_access(self) -> bool {
        bit(self.0, 10)
    }

    /// Misaligned.
    pub fn misaligned(self) -> bool {
        bit(self.0, 11)
    }
}
