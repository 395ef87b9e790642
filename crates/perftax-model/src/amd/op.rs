//! IBS op sampling (AMD64 APM volume 2, 13.3.3; PPR for family 17h models 31h, 2.1.14.3, IbsOpCtl and what follows).

use super::{Generation, Random, msr};
use crate::emulated::{Class, Retired};

/// IbsOpMaxCnt, in units of 16.
const MAXIMUM: u64 = 0xffff;
/// IbsOpL3MissOnly, of Zen 4: a tagged op that found its data before memory, or had none, is no sample, and the count begins anew.
const MISSES_ALONE: u64 = 1 << 16;
/// IbsOpEn.
const ENABLE: u64 = 1 << 17;
/// IbsOpVal: a sample waits, and nothing counts.
const VALID: u64 = 1 << 18;
/// IbsOpCntCtl: ops are counted, not cycles.
const BY_OPS: u64 = 1 << 19;
/// The upper bits of IbsOpMaxCnt, at their own places.
const MAXIMUM_EXTENSION: u64 = 0x7f << 20;
const CURRENT_SHIFT: u32 = 32;
/// IbsOpCurCnt.
const CURRENT: u64 = 0x7ff_ffff;
/// Bits of IbsOpCurCnt that a sample leaves random.
const RANDOM_BITS: u32 = 7;
/// LdLatThrsh and LdLatEn, of Zen 5 (Linux's names): a tagged op is a sample if it is a load that missed the first level for longer than so many times 128
/// cycles, counted from 0 (Linux's d20610c19b4a). Hardware needs [`MISSES_ALONE`] beside it, else it may let others through (erratum 1606 of models 00h to
/// 0Fh); which ones is not published, and here none come.
const LATENCY: u64 = 0xf << LATENCY_SHIFT;
const LATENCY_SHIFT: u32 = 59;
const SLOW_ALONE: u64 = 1 << 63;
const LATENCY_STEP: u64 = 128;

/// Data sources of IbsOpData2: a cache beyond the second level, before Zen 4 and from there on (the core complex's own), and memory.
const SOURCE_CACHE: u64 = 2;
const SOURCE_OWN_CACHE: u64 = 1;
const SOURCE_MEMORY: u64 = 3;
/// CacheHitSt: the line was not modified by another core.
const NOT_MODIFIED: u64 = 1 << 5;

/// The registers. An op counts when its instruction retires: there is no wrong path, and the tagged op always retires.
///
/// The sample tells of the instruction as a whole, whichever of its ops was tagged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Op {
    /// What Zen 4 added is there.
    is_extended: bool,
    /// Bits of IbsOpCtl that are there, but for the count.
    controls: u64,
    control: u64,
    /// IbsOpCurCnt; below 0 where what has not retired yet is not to count.
    count: i64,
    rip: u64,
    data: u64,
    data2: u64,
    data3: u64,
    linear: u64,
    physical: u64,
    target: u64,
}

impl Op {
    /// As after a reset.
    pub fn new(generation: Generation) -> Self {
        let is_extended = generation.is_version_2();
        let of_zen_4 = if is_extended { MISSES_ALONE } else { 0 };
        let of_zen_5 = if generation.filters_by_latency() { LATENCY | SLOW_ALONE } else { 0 };
        let controls = MAXIMUM | ENABLE | VALID | BY_OPS | MAXIMUM_EXTENSION | of_zen_4 | of_zen_5;
        Self { is_extended, controls, ..Self::default() }
    }

    /// The class that is counted now.
    pub fn class(&self) -> Option<Class> {
        let running = self.control & (ENABLE | VALID) == ENABLE && self.maximum() > 0;
        running.then_some(if self.control & BY_OPS != 0 { Class::Uops } else { Class::Cycles })
    }

    /// Events that may pass until the next one is tagged.
    pub fn left(&self) -> u64 {
        u64::try_from(self.maximum() as i64 - self.count).unwrap_or(0)
    }

    /// So many events have passed; whether one of them was tagged: the first after the count was the maximum.
    pub fn pass(&mut self, events: i64) -> bool {
        self.count += events;
        self.count > self.maximum() as i64
    }

    /// So many cycles have passed without an op.
    pub fn stand_still(&mut self, cycles: u64) {
        if self.class() == Some(Class::Cycles) {
            let most = self.maximum() as i64;
            self.count = most.min(self.count.saturating_add_unsigned(cycles)).max(self.count);
        }
    }

    /// The next so many events are not to count.
    pub fn leave_out(&mut self, events: i64) {
        self.count -= events;
    }

    /// The tagged op has retired with its instruction; whether that is a sample.
    pub fn sample(&mut self, retired: &Retired, random: Option<&mut Random>) -> bool {
        self.count = random.map_or(0, |random| random.bits(RANDOM_BITS)) as i64;
        if !self.is_wanted(retired) {
            return false;
        }
        self.tell_of(retired);
        self.control |= VALID;
        true
    }

    /// Whether the filters let a tagged op's instruction through. Where they do not, the count has begun anew all the same.
    fn is_wanted(&self, retired: &Retired) -> bool {
        let missed = |level: u8| retired.classes & Class::Loads.bit() != 0 && retired.level >= level;
        let threshold = (((self.control & LATENCY) >> LATENCY_SHIFT) + 1) * LATENCY_STEP;
        let is_slow = missed(1) && u64::from(retired.latency_cycles) > threshold;
        (self.control & MISSES_ALONE == 0 || missed(3)) && (self.control & SLOW_ALONE == 0 || is_slow)
    }

    fn tell_of(&mut self, retired: &Retired) {
        let is = |class: Class| u64::from(retired.classes & class.bit() != 0);
        let (load, store) = (is(Class::Loads), is(Class::Stores));
        // Of a load, and only where caches are simulated.
        let latency = if load == 1 { u64::from(retired.latency_cycles) } else { 0 };
        let (missed_l1, missed_l2) = (load == 1 && retired.level >= 1, load == 1 && retired.level >= 2);
        self.rip = retired.ip;
        // IbsCompToRetCtr is 0; IbsTagToRetCtr: an instruction takes a cycle, a load as long as it takes.
        self.data = latency.max(1) << 16
            | is(Class::Returns) << 34
            | is(Class::Taken) << 35
            | is(Class::Mispredicted) << 36
            | is(Class::Branches) << 37;
        let cache = if self.is_extended { SOURCE_OWN_CACHE } else { SOURCE_CACHE };
        self.data2 = match retired.level {
            2 if missed_l2 => cache | NOT_MODIFIED,
            3.. if missed_l2 => SOURCE_MEMORY,
            _ => 0,
        };
        self.data3 = load | store << 1;
        if load | store != 0 {
            let address = if load == 1 { retired.load_address } else { retired.store_address };
            let width = u64::from(retired.width & 0xf);
            let crosses = width > 0 && address % 64 + (1 << (width - 1)) > 64;
            self.data3 |= u64::from(missed_l1) << 7
                | u64::from(crosses) << 8
                | is(Class::LockedLoads) << 15
                | 1 << 17
                | u64::from(missed_l2) << 20
                | width << 22
                | if missed_l1 { latency << 32 } else { 0 };
            self.linear = address;
        } else {
            self.linear = 0;
        }
        self.physical = 0;
        self.target = if is(Class::Taken) == 1 { retired.next_ip } else { 0 };
    }

    /// Reads a register; `None` where it is not one of these.
    pub fn read(&self, number: u32) -> Option<u64> {
        let count = (self.count.max(0) as u64).min(CURRENT);
        Some(match number {
            msr::IBS_OP_CTL => self.control | count << CURRENT_SHIFT,
            msr::IBS_OP_RIP => self.rip,
            msr::IBS_OP_DATA => self.data,
            msr::IBS_OP_DATA2 => self.data2,
            msr::IBS_OP_DATA3 => self.data3,
            msr::IBS_DC_LINEAR => self.linear,
            msr::IBS_DC_PHYSICAL => self.physical,
            msr::IBS_BRANCH_TARGET => self.target,
            msr::IBS_OP_DATA4 => 0,
            _ => return None,
        })
    }

    /// Writes a register; false where it is not one of these.
    pub fn write(&mut self, number: u32, value: u64) -> bool {
        let register = match number {
            msr::IBS_OP_CTL => {
                self.control = value & self.controls;
                self.count = (value >> CURRENT_SHIFT & CURRENT) as i64;
                return true;
            }
            msr::IBS_OP_RIP => &mut self.rip,
            msr::IBS_OP_DATA => &mut self.data,
            msr::IBS_OP_DATA2 => &mut self.data2,
            msr::IBS_OP_DATA3 => &mut self.data3,
            msr::IBS_DC_LINEAR => &mut self.linear,
            msr::IBS_DC_PHYSICAL => &mut self.physical,
            msr::IBS_BRANCH_TARGET => &mut self.target,
            msr::IBS_OP_DATA4 => return true,
            _ => return false,
        };
        *register = value;
        true
    }

    fn maximum(&self) -> u64 {
        (self.control & MAXIMUM) << 4 | self.control & MAXIMUM_EXTENSION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(level: u8) -> Retired {
        Retired { ip: 0x1000, classes: Class::Loads.bit(), level, latency_cycles: 9, ..Retired::default() }
    }

    /// Linux's IBS_DATA_SRC_EXT_LOC_CACHE is 1, its IBS_DATA_SRC_LOC_CACHE 2; memory is 3 in both.
    #[test]
    fn an_op_that_did_not_miss_is_no_sample_where_misses_alone_are_wanted() {
        let mut op = Op::new(Generation::Zen4);
        op.write(msr::IBS_OP_CTL, ENABLE | BY_OPS | MISSES_ALONE | 1);
        assert!(op.pass(17) && !op.sample(&load(2), None));
        assert_eq!((op.left(), op.read(msr::IBS_OP_RIP)), (16, Some(0)), "the count begins anew");
        assert!(!op.sample(&Retired { level: 3, classes: Class::Stores.bit(), ..load(3) }, None));
        assert!(op.sample(&load(3), None));
        assert_eq!((op.class(), op.read(msr::IBS_OP_DATA2)), (None, Some(3)), "a sample waits");
        op.write(msr::IBS_OP_CTL, ENABLE | 1);
        assert!(op.sample(&load(2), None));
        assert_eq!(op.read(msr::IBS_OP_DATA2), Some(1 | NOT_MODIFIED));
        let mut older = Op::new(Generation::Zen3);
        older.write(msr::IBS_OP_CTL, ENABLE | MISSES_ALONE | 1);
        assert!(older.sample(&load(2), None), "the bit is not there");
        assert_eq!(older.read(msr::IBS_OP_DATA2), Some(2 | NOT_MODIFIED));
    }

    /// perf_ibs_init writes threshold / 128 - 1; a sample's latency is greater than the threshold.
    #[test]
    fn loads_that_miss_for_longer_alone_are_samples_where_those_are_wanted() {
        let slow = |latency_cycles| Retired { latency_cycles, ..load(3) };
        let is_sample = |control: u64, retired: &Retired| {
            let mut op = Op::new(Generation::Zen5);
            op.write(msr::IBS_OP_CTL, ENABLE | BY_OPS | 1 | SLOW_ALONE | control);
            let sampled = op.sample(retired, None);
            assert!(sampled || (op.left(), op.read(msr::IBS_OP_RIP)) == (16, Some(0)), "the count begins anew");
            sampled
        };
        for (field, threshold) in [(0, 128), (1, 256), (7, 1024), (15, 2048)] {
            for also in [0, MISSES_ALONE] {
                let at = |latency| is_sample(field << LATENCY_SHIFT | also, &slow(latency));
                assert_eq!([at(threshold - 1), at(threshold), at(threshold + 1)], [false, false, true], "{field}");
            }
        }
        let in_last_level = Retired { level: 2, ..slow(200) };
        assert!(is_sample(0, &in_last_level) && !is_sample(MISSES_ALONE, &in_last_level));
        assert!(!is_sample(0, &Retired { level: 0, ..slow(200) }), "it did not miss");
        assert!(!is_sample(0, &Retired { classes: Class::Stores.bit(), ..slow(200) }));
        let mut older = Op::new(Generation::Zen4);
        older.write(msr::IBS_OP_CTL, ENABLE | SLOW_ALONE | LATENCY | 1);
        assert_eq!(older.read(msr::IBS_OP_CTL), Some(ENABLE | 1));
        assert!(older.sample(&load(2), None), "the bits are not there");
    }
}
