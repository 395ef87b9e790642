//! Architectural last branch records (SDM volume 3, chapter 19): entry 0 is the newest, whatever was recorded before is behind it.

use super::super::{KERNEL, USER, msr};
use super::{Branch, Kind, MAX_CYCLES, MISPREDICTED};

/// IA32_LBR_CTL: on, in kernel mode, in user mode, calls are pushed and returns pop them, and from bit 16 on a bit for each kind.
const ON: u64 = 1;
const MODES: [u64; 2] = {
    let mut modes = [0; 2];
    modes[KERNEL] = 1 << 1;
    modes[USER] = 1 << 2;
    modes
};
const CALL_STACK: u64 = 1 << 3;

/// IA32_LBR_x_INFO: the cycles are what passed since the record before; the kind, four bits.
const CYCLES_ARE_VALID: u64 = 1 << 60;
const KIND_SHIFT: u32 = 56;

/// What stands for where a branch came from whose mode is left out.
const LEFT_OUT: u64 = 0xffff_ffff;

/// The bit of IA32_LBR_CTL that asks for a kind, and the kind's number in a record (SDM volume 3, 19.1.3.3 and table 19-3).
fn numbers_of(kind: Kind) -> (u32, u64) {
    match kind {
        Kind::Conditional => (16, 0),
        Kind::RelativeJump => (17, 2),
        Kind::IndirectJump => (18, 1),
        Kind::RelativeCall => (19, 4),
        Kind::IndirectCall => (20, 3),
        Kind::Return => (21, 5),
        // All that have the upper bit are other branches.
        Kind::Far => (22, 8),
    }
}

/// The branches taken last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architectural {
    /// IA32_LBR_CTL.
    control: u64,
    /// IA32_LBR_DEPTH.
    depth: u64,
    /// Source, target and particulars of each, in a ring.
    entries: Vec<[u64; 3]>,
    /// Where entry 0 stands in it.
    newest: usize,
    /// The mode that the latest branch led to, recorded or not: where the next one comes from.
    mode: usize,
    /// No record has its cycles from where the latest recording began.
    uncounted: bool,
}

impl Architectural {
    /// As after a reset: off, and as many as there may be.
    pub fn new(depth: usize) -> Self {
        let entries = vec![[0; 3]; depth];
        Self { control: 0, depth: depth as u64, entries, newest: 0, mode: KERNEL, uncounted: true }
    }

    /// Whether branches are recorded.
    pub fn are_on(&self) -> bool {
        self.control & ON != 0
    }

    /// Recording begins in the kernel.
    pub fn begin(&mut self) {
        (self.mode, self.uncounted) = (KERNEL, true);
    }

    /// How many there are.
    pub fn depth(&self) -> usize {
        self.entries.len()
    }

    /// IA32_LBR_CTL.
    pub fn control(&self) -> u64 {
        self.control
    }

    /// See [`super::Branches::set_depth`].
    pub fn set_depth(&mut self, depth: u64) {
        self.depth = depth;
        self.entries = vec![[0; 3]; depth as usize];
        self.newest = 0;
    }

    fn position(&self, back: usize) -> usize {
        (self.newest + self.depth() - back) % self.depth()
    }

    /// The latest but so many.
    pub fn entry(&self, back: usize) -> [u64; 3] {
        self.entries[self.position(back)]
    }

    /// See [`super::Branches::register`].
    pub fn register(&mut self, number: u32) -> Option<&mut u64> {
        match number {
            msr::LBR_CTL => return Some(&mut self.control),
            msr::LBR_DEPTH => return Some(&mut self.depth),
            _ => {}
        }
        let firsts = [msr::ARCH_LBR_FROM0, msr::ARCH_LBR_TO0, msr::ARCH_LBR_INFO0];
        let (part, back) = firsts.into_iter().enumerate().find_map(|(part, first)| {
            let back = number.checked_sub(first)? as usize;
            (back < self.depth()).then_some((part, back))
        })?;
        let position = self.position(back);
        self.entries[position].get_mut(part)
    }

    /// See [`super::Branches::record`]. A branch into a mode that is asked for is recorded; where it came from the other one, which is not, that is not told (SDM
    /// volume 3, 19.1.3.2).
    pub fn record(&mut self, branch: &Branch) -> bool {
        let from_mode = std::mem::replace(&mut self.mode, branch.mode);
        let (asked, kind) = numbers_of(branch.kind);
        if self.control & MODES[branch.mode] == 0 || self.control >> asked & 1 == 0 {
            return false;
        }
        if self.control & CALL_STACK != 0 {
            if branch.kind == Kind::Return {
                return self.pop();
            }
            if branch.asks_where_it_is() {
                return false;
            }
        }
        let from = if self.control & MODES[from_mode] == 0 { LEFT_OUT } else { branch.from };
        let mispredicted = if branch.mispredicted { MISPREDICTED } else { 0 };
        let valid = if std::mem::replace(&mut self.uncounted, false) { 0 } else { CYCLES_ARE_VALID };
        let particulars = mispredicted | valid | kind << KIND_SHIFT | branch.cycles.min(MAX_CYCLES);
        self.newest = (self.newest + 1) % self.depth();
        self.entries[self.newest] = [from, branch.to, particulars];
        true
    }

    /// The newest goes, and the others are one nearer.
    fn pop(&mut self) -> bool {
        self.entries[self.newest] = [0; 3];
        self.newest = self.position(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(from: u64, kind: Kind, mode: usize) -> Branch {
        Branch { from, to: from + 100, kind, mode, mispredicted: false, cycles: 7 }
    }

    fn records(control: u64) -> Architectural {
        let mut records = Architectural::new(32);
        *records.register(msr::LBR_CTL).unwrap() = control | ON;
        records
    }

    const ALL: u64 = 0x7f << 16;

    #[test]
    fn entry_0_is_the_newest() {
        let mut records = records(ALL | MODES[USER]);
        records.record(&branch(999, Kind::Far, USER));
        for i in 0..40 {
            assert!(records.record(&Branch { mispredicted: i == 39, ..branch(i, Kind::IndirectCall, USER) }));
        }
        let mut read = |first: u32, back: u32| *records.register(first + back).unwrap();
        assert_eq!([0, 31].map(|back| read(msr::ARCH_LBR_FROM0, back)), [39, 8]);
        assert_eq!([0, 31].map(|back| read(msr::ARCH_LBR_TO0, back)), [139, 108]);
        assert_eq!(read(msr::ARCH_LBR_INFO0, 0), 1 << 63 | 1 << 60 | 3 << 56 | 7);
        assert_eq!(records.register(msr::ARCH_LBR_FROM0 + 32), None);
        records.set_depth(8);
        assert_eq!((records.entry(0), records.entry(7)), ([0; 3], [0; 3]), "they are empty");
        assert_eq!(records.register(msr::ARCH_LBR_FROM0 + 8), None);
    }

    #[test]
    fn kinds_are_asked_for_by_their_bits() {
        // What Linux reads of the kind's number: arch_lbr_br_type_map of arch/x86/events/intel/lbr.c.
        let kinds = [
            (Kind::Conditional, 0),
            (Kind::RelativeJump, 2),
            (Kind::IndirectJump, 1),
            (Kind::RelativeCall, 4),
            (Kind::IndirectCall, 3),
            (Kind::Return, 5),
            (Kind::Far, 8),
        ];
        for (at, (kept, number)) in kinds.into_iter().enumerate() {
            let mut records = records(1 << (16 + at) | MODES[KERNEL]);
            let recorded: Vec<bool> = kinds.iter().map(|(kind, _)| records.record(&branch(1, *kind, KERNEL))).collect();
            assert_eq!(recorded, (0..7).map(|i| i == at).collect::<Vec<_>>(), "{kept:?}");
            assert_eq!(records.entry(0)[2] >> 56 & 0xf, number);
        }
    }

    #[test]
    fn the_other_modes_addresses_are_not_told() {
        let mut records = records(ALL | MODES[USER]);
        records.begin();
        assert!(records.record(&branch(0x8000, Kind::Far, USER)));
        assert_eq!(records.entry(0), [0xffff_ffff, 0x8064, 8 << 56 | 7], "out of the kernel, and since when nobody has counted");
        assert!(records.record(&branch(0x100, Kind::RelativeJump, USER)));
        assert!(!records.record(&branch(0x104, Kind::Far, KERNEL)));
        assert!(!records.record(&branch(0x9000, Kind::Return, KERNEL)));
        assert!(records.record(&branch(0x9004, Kind::Far, USER)));
        assert_eq!([0, 1].map(|back| records.entry(back)[0]), [0xffff_ffff, 0x100]);
    }

    /// main calls a, which calls b, which returns, and c: what is left are the calls that have not returned.
    #[test]
    fn a_call_stack_has_the_calls_that_have_not_returned() {
        let mut records = records(CALL_STACK | MODES[USER] | 1 << 19 | 1 << 20 | 1 << 21);
        records.record(&branch(0, Kind::Far, USER));
        for (from, kind) in [
            (1, Kind::RelativeCall),
            (2, Kind::RelativeCall),
            (3, Kind::Conditional),
            (4, Kind::Return),
            (5, Kind::IndirectCall),
            (6, Kind::RelativeJump),
        ] {
            records.record(&branch(from, kind, USER));
        }
        assert!(!records.record(&Branch { to: 12, ..branch(7, Kind::RelativeCall, USER) }), "it asks where it is");
        assert_eq!([0, 1, 2].map(|back| records.entry(back)[0]), [5, 1, 0]);
    }
}
