//! Private caches of each core over a shared one.

use serde::{Deserialize, Serialize};

use super::{CacheSpec, Inclusion, LINE_BYTES, SetAssociative, record_line};
use crate::unit::Span;

/// Where an access found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// First-level data cache.
    L1,
    /// Second-level cache.
    L2,
    /// Last-level cache.
    Llc,
    /// Memory.
    Memory,
}

/// On whose behalf memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The program.
    Program,
    /// The sampling hardware, or whoever empties its buffer.
    Records,
}

/// What went through a core's caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// The program's accesses that missed the first level (repeated accesses to one line count once).
    pub l1_misses: u64,
    /// The program's accesses that missed the second level.
    pub l2_misses: u64,
    /// The program's accesses that missed the last level.
    pub llc_misses: u64,
    /// Accesses for records that missed the last level.
    pub record_llc_misses: u64,
    /// Lines read from memory.
    pub memory_read_lines: u64,
    /// Lines written to memory.
    pub memory_write_lines: u64,
}

impl Traffic {
    /// Bytes read from memory.
    pub fn memory_read_bytes(&self) -> u64 {
        self.memory_read_lines * LINE_BYTES
    }

    /// Bytes written to memory.
    pub fn memory_write_bytes(&self) -> u64 {
        self.memory_write_lines * LINE_BYTES
    }
}

#[derive(Clone, Debug)]
struct Private {
    l1: SetAssociative,
    l2: SetAssociative,
    traffic: Traffic,
}

/// The caches of some cores. Coherence between cores is not modelled: a line that one core writes stays valid in another.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    cores: Vec<Private>,
    llc: SetAssociative,
    inclusion: Inclusion,
}

impl Hierarchy {
    /// For so many cores, the shared cache being of `llc_bytes`.
    pub fn new(caches: &[CacheSpec; 3], llc_bytes: u64, inclusion: Inclusion, cores: usize, seed: u32) -> Self {
        let build = |spec: &CacheSpec, bytes: u64, salt: u32| {
            SetAssociative::new(bytes, spec.ways, spec.policy, seed.wrapping_mul(0x9E37_79B1) ^ salt)
        };
        let [l1, l2, llc] = caches;
        let private = |core: usize| {
            let salt = 3 * core as u32;
            Private { l1: build(l1, l1.bytes, salt), l2: build(l2, l2.bytes, salt + 1), traffic: Traffic::default() }
        };
        Self { cores: (0..cores).map(private).collect(), llc: build(llc, llc_bytes, u32::MAX), inclusion }
    }

    /// What went through a core's caches so far.
    pub fn traffic(&self, core: usize) -> &Traffic {
        &self.cores[core].traffic
    }

    /// One access; a line is written whole or in part alike (write-allocate).
    #[inline]
    pub fn access(&mut self, core: usize, line: u32, write: bool, who: Who) -> Level {
        if self.cores[core].l1.touch(line, write) {
            return Level::L1;
        }
        self.access_beyond_l1(core, line, write, who)
    }

    /// Accesses of the program in turn, each a line and whether it is written; `beyond` is told of those that miss the first level,
    /// by position, and may access on.
    #[inline]
    pub fn access_all<E: Copy>(
        &mut self,
        core: usize,
        accesses: &[E],
        of: impl Fn(E) -> (u32, bool),
        mut beyond: impl FnMut(&mut Self, usize, Level),
    ) {
        let mut done = 0;
        loop {
            let l1 = &mut self.cores[core].l1;
            let hits = accesses[done..].iter().position(|&access| {
                let (line, write) = of(access);
                !l1.touch(line, write)
            });
            let Some(hits) = hits else { return };
            done += hits;
            let (line, write) = of(accesses[done]);
            let level = self.access_beyond_l1(core, line, write, Who::Program);
            beyond(self, done, level);
            done += 1;
        }
    }

    /// All lines of a range of bytes of records.
    pub fn access_records(&mut self, core: usize, span: Span, write: bool) {
        let (first, last) = (span.address / LINE_BYTES, (span.address + span.bytes.max(1) - 1) / LINE_BYTES);
        for line in first..=last {
            self.access(core, record_line(line * LINE_BYTES), write, Who::Records);
        }
    }

    fn access_beyond_l1(&mut self, core: usize, line: u32, write: bool, who: Who) -> Level {
        let private = &mut self.cores[core];
        let program = u64::from(who == Who::Program);
        private.traffic.l1_misses += program;
        if private.l2.touch(line, false) {
            self.fill_l1(core, line, write);
            return Level::L2;
        }
        private.traffic.l2_misses += program;
        let found = self.llc.touch(line, false);
        let mut dirty = false;
        if found {
            if self.inclusion == Inclusion::Victim {
                // It moves up; a written line takes its state along.
                dirty = self.llc.invalidate(line).unwrap_or(false);
            }
        } else {
            let traffic = &mut self.cores[core].traffic;
            traffic.llc_misses += program;
            traffic.record_llc_misses += 1 - program;
            traffic.memory_read_lines += 1;
            if self.inclusion != Inclusion::Victim {
                self.fill_llc(core, line, false);
            }
        }
        self.fill_l2(core, line, dirty);
        self.fill_l1(core, line, write);
        if found { Level::Llc } else { Level::Memory }
    }

    fn fill_l1(&mut self, core: usize, line: u32, write: bool) {
        if let Some(gone) = self.cores[core].l1.fill(line, write)
            && gone.dirty
            && !self.cores[core].l2.write_back(gone.line)
        {
            self.fill_l2(core, gone.line, true);
        }
    }

    fn fill_l2(&mut self, core: usize, line: u32, dirty: bool) {
        let Some(gone) = self.cores[core].l2.fill(line, dirty) else { return };
        // What leaves the second level leaves the first: both are kept nested, as Intel's mostly are and AMD's always.
        let dirty = gone.dirty | self.cores[core].l1.invalidate(gone.line).unwrap_or(false);
        match self.inclusion {
            Inclusion::Victim if !self.llc.holds(gone.line) => self.fill_llc(core, gone.line, dirty),
            Inclusion::Victim | Inclusion::Inclusive | Inclusion::NonInclusive => {
                if dirty && !self.llc.write_back(gone.line) {
                    self.fill_llc(core, gone.line, true);
                }
            }
        }
    }

    fn fill_llc(&mut self, core: usize, line: u32, dirty: bool) {
        let Some(gone) = self.llc.fill(line, dirty) else { return };
        let mut dirty = gone.dirty;
        if self.inclusion == Inclusion::Inclusive {
            for private in &mut self.cores {
                // The levels are nested: what the second does not hold, the first does not either.
                if let Some(in_l2) = private.l2.invalidate(gone.line) {
                    dirty |= in_l2 | private.l1.invalidate(gone.line).unwrap_or(false);
                }
            }
        }
        self.cores[core].traffic.memory_write_lines += u64::from(dirty);
    }

    /// Whether every line of each level is in those below it, as far as the machine promises that.
    pub fn is_nested(&self) -> bool {
        self.cores.iter().all(|private| {
            private.l1.held().all(|line| private.l2.holds(line))
                && (self.inclusion != Inclusion::Inclusive || private.l2.held().all(|line| self.llc.holds(line)))
        })
    }
}
