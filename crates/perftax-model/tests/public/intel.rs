//! The registers of Intel's PMU, driven as a kernel drives them, under a program whose instructions are known.

use std::collections::BTreeMap;

use perftax_model::intel::{
    Actions, Arm, Branch, Budget, CLASSES, Class, Generation, Granularity, KERNEL, Kind, Memory, Pmu, Retired, Settings, USER,
    msr,
};
use proptest::prelude::*;

/// Memory of words; what was not written can be read nowhere.
#[derive(Default)]
struct Words(BTreeMap<u64, u64>);

impl Memory for Words {
    fn read(&mut self, address: u64) -> Option<u64> {
        self.0.get(&address).copied()
    }

    fn write(&mut self, address: u64, words: &[u64]) -> bool {
        self.0.extend(words.iter().enumerate().map(|(i, word)| (address + 8 * i as u64, *word)));
        true
    }

    /// Addresses are the memory's own here.
    fn write_physical(&mut self, address: u64, words: &[u64]) -> bool {
        self.write(address, words)
    }
}

const STORE: u64 = 0x1000;
const BUFFER: u64 = 0x10_0000;

/// A core that executes, with a budget kept as an emulator keeps it.
struct Core {
    pmu: Pmu,
    budget: Budget,
    memory: Words,
    mode: usize,
    /// Instructions executed, and those after which an interrupt came.
    executed: u64,
    interrupted_at: Vec<u64>,
    stalled_ns: u64,
}

impl Core {
    fn new(generation: Generation, settings: Settings) -> Self {
        let mut core = Self {
            pmu: Pmu::new(generation, settings),
            budget: Budget::default(),
            memory: Words::default(),
            mode: USER,
            executed: 0,
            interrupted_at: Vec::new(),
            stalled_ns: 0,
        };
        core.write(msr::GLOBAL_CTRL, 0);
        core
    }

    fn write(&mut self, number: u32, value: u64) {
        assert!(self.pmu.write(&mut self.budget, number, value), "{number:#x}");
    }

    fn read(&mut self, number: u32) -> u64 {
        self.pmu.read(&mut self.budget, number).unwrap()
    }

    /// Counts a class on a general counter, from minus a period; 0: from 0.
    fn count(&mut self, counter: u32, selector: u64, period: u64) {
        self.write(msr::FULL_WIDTH_PERFCTR0 + counter, ((1 << 48) - period) & ((1 << 48) - 1));
        self.write(msr::PERFEVTSEL0 + counter, selector | 1 << 22 | 1 << 20);
        let running = self.read(msr::GLOBAL_CTRL);
        self.write(msr::GLOBAL_CTRL, running | 1 << counter);
    }

    /// PEBS on counters of these periods, into a buffer of so many records.
    fn sample(&mut self, periods: &[(u32, u64)], records: u64, record_bytes: u64) {
        let end = BUFFER + records * record_bytes;
        self.memory.write(STORE + 0x20, &[BUFFER, BUFFER, end, end]);
        let mut enabled = 0;
        for &(counter, period) in periods {
            self.memory.write(STORE + 0x40 + 8 * u64::from(counter), &[(1 << 48) - period]);
            enabled |= 1 << counter;
        }
        self.write(msr::DS_AREA, STORE);
        self.write(msr::PEBS_ENABLE, enabled);
    }

    /// One instruction, as an emulator tells of it.
    fn execute(&mut self, ip: u64, classes: u32) -> Actions {
        // This emulator has no blocks: none is short enough.
        if Granularity::is_of_blocks(self.budget.granularity[self.mode]) {
            self.pmu.replan(&mut self.budget, u32::MAX);
        }
        self.executed += 1;
        let classes = classes | Class::Instructions.bit();
        let mut used_up = false;
        for class in (0..CLASSES).filter(|class| classes & self.budget.watched[self.mode] & 1 << class != 0) {
            self.budget.left[self.mode][class] -= 1;
            used_up |= self.budget.left[self.mode][class] < 0;
        }
        if !used_up {
            return Actions::default();
        }
        let retired = Retired {
            ip,
            next_ip: ip + 4,
            classes,
            privilege: self.mode as u8,
            registers: std::array::from_fn(|i| 1000 * self.executed + i as u64),
            tsc: self.executed,
            load_address: 0xda7a,
            ..Retired::default()
        };
        let actions = self.pmu.retire(&mut self.budget, &retired, &mut self.memory);
        self.stalled_ns += actions.stall_ns;
        if actions.interrupt {
            self.interrupted_at.push(self.executed);
        }
        actions
    }

    /// What the driver does at the interrupt: counts the records and empties the buffer.
    fn drain(&mut self) -> Vec<Vec<u64>> {
        let index = self.memory.read(STORE + 0x28).unwrap();
        let bytes = if self.pmu.generation().format() == 2 { 192 } else { 200 };
        let records =
            (BUFFER..index).step_by(bytes).map(|at| (0..bytes as u64 / 8).map(|i| self.memory.0[&(at + 8 * i)]).collect());
        let records = records.collect();
        self.memory.write(STORE + 0x28, &[BUFFER]);
        self.write(msr::GLOBAL_STATUS_RESET, 1 << 62);
        records
    }
}

const INSTRUCTIONS_USER: u64 = 0xc0 | 1 << 16;
const INSTRUCTIONS_BOTH: u64 = 0xc0 | 3 << 16;
const LOADS_USER: u64 = 0x81d0 | 1 << 16;
const TAKEN_USER: u64 = 0x20c4 | 1 << 16;

#[test]
fn counts_are_exact_in_each_mode() {
    let mut core = Core::new(Generation::Skylake, Settings::default());
    core.count(0, INSTRUCTIONS_USER, 0);
    core.count(1, INSTRUCTIONS_BOTH, 0);
    core.count(2, LOADS_USER, 0);
    for i in 0..10_000 {
        core.mode = if i % 10 == 0 { KERNEL } else { USER };
        core.execute(0x400 + i % 10, if i % 5 == 0 { Class::Loads.bit() } else { 0 });
    }
    assert_eq!([0, 1, 2].map(|n| core.read(msr::PERFCTR0 + n)), [9000, 10_000, 1000]);
    core.write(msr::GLOBAL_CTRL, 0);
    core.execute(0x400, 0);
    assert_eq!(core.read(msr::PERFCTR0), 9000, "stopped");
    assert_eq!(core.pmu.rdpmc(&mut core.budget, 1), Some(10_000));
    assert_eq!(core.pmu.rdpmc(&mut core.budget, 4), None);
}

#[test]
fn an_ordinary_overflow_interrupts_where_the_skid_says() {
    for skid in [0, 7] {
        let mut core = Core::new(Generation::Skylake, Settings { skid, ..Settings::default() });
        core.count(0, INSTRUCTIONS_USER, 100);
        for i in 0..150 {
            core.execute(i, 0);
        }
        assert_eq!(core.interrupted_at, [100 + u64::from(skid)]);
        assert_eq!((core.read(msr::GLOBAL_STATUS), core.read(msr::PERFCTR0)), (1, 50), "it counts on");
    }
}

/// A switch between threads of like events: Linux clears PEBS_ENABLE and restores it, and leaves the counters alone. One that has just
/// overflowed still records its next event; one that was written to since does not.
#[test]
fn what_is_armed_stays_so_until_its_counter_is_written() {
    for written in [false, true] {
        let mut core = Core::new(Generation::Skylake, Settings { arm: Arm::Next, ..Settings::default() });
        core.count(0, INSTRUCTIONS_USER, 100);
        core.sample(&[(0, 100)], 1, 200);
        for i in 0..100 {
            assert!(!core.execute(i, 0).interrupt);
        }
        core.write(msr::PEBS_ENABLE, 0);
        if written {
            core.write(msr::FULL_WIDTH_PERFCTR0, (1 << 48) - 100);
        }
        core.write(msr::PEBS_ENABLE, 1);
        let until = (100..1000).find(|i| core.execute(*i, 0).interrupt);
        assert_eq!(until, Some(if written { 200 } else { 100 }));
        assert_eq!(core.drain().len(), 1);
    }
}

#[test]
fn pebs_records_the_next_event_and_reloads() {
    for (arm, every) in [(Arm::Next, 101), (Arm::Same, 100)] {
        let mut core = Core::new(Generation::Skylake, Settings { arm, assist_ns: 232, ..Settings::default() });
        core.count(0, INSTRUCTIONS_USER, 100);
        core.sample(&[(0, 100)], 10, 200);
        let mut records = Vec::new();
        for i in 1..=10_000u64 {
            if core.execute(i, 0).interrupt {
                assert_eq!(core.read(msr::GLOBAL_STATUS), 1 << 62);
                records.extend(core.drain());
            }
        }
        records.extend(core.drain());
        assert_eq!(records.len() as u64, 10_000 / every, "{arm:?}");
        assert_eq!(core.stalled_ns, 232 * records.len() as u64);
        for (n, record) in records.iter().enumerate() {
            let at = (n as u64 + 1) * every;
            // Eventing address, address after, time stamp, ax, r15, applicable counters.
            let seen = (record[22], record[1], record[24], record[2], record[17], record[18]);
            assert_eq!(seen, (at, at + 4, at, 1000 * at, 1000 * at + 15, 1), "{arm:?}");
        }
    }
}

#[test]
fn two_precise_counters_share_a_buffer() {
    let mut core = Core::new(Generation::Broadwell, Settings::default());
    core.count(0, INSTRUCTIONS_USER, 99);
    core.count(1, LOADS_USER, 9);
    core.sample(&[(0, 99), (1, 9)], 1000, 192);
    for i in 1..=10_000u64 {
        core.execute(i, if i % 10 == 0 { Class::Loads.bit() } else { 0 });
    }
    let records = core.drain();
    let of = |counter: u64| records.iter().filter(|record| record[18] >> counter & 1 == 1).count();
    assert_eq!((of(0), of(1)), (100, 100));
    assert_eq!(records.len(), 100, "both fall on every hundredth instruction: one record names both");
    assert!(records.iter().all(|record| record[19] == 0xda7a && record.len() == 24));
}

#[test]
fn a_full_buffer_loses_and_says_so() {
    let mut core = Core::new(Generation::Skylake, Settings::default());
    core.count(0, INSTRUCTIONS_USER, 9);
    core.sample(&[(0, 9)], 5, 200);
    (0..100).for_each(|i| {
        core.execute(i, 0);
    });
    assert_eq!((core.pmu.tally.records, core.pmu.tally.lost), (5, 5));
    assert_eq!(core.drain().len(), 5);
}

#[test]
fn adaptive_records_hold_what_is_asked_for() {
    let mut core = Core::new(Generation::IceLake, Settings::default());
    core.write(msr::PEBS_DATA_CFG, 1 | 2 | 8 | 3 << 24);
    core.count(0, INSTRUCTIONS_USER | 1 << 34, 9);
    core.sample(&[(0, 9)], 5, 32 + 32 + 144 + 4 * 24);
    let branch = |from| Branch { from, to: 50 + from, kind: Kind::RelativeJump, mode: USER, mispredicted: false, cycles: 1 };
    assert!((0..5).all(|i| core.pmu.branch(&branch(i))));
    (1..=10).for_each(|i| {
        core.execute(i, Class::Loads.bit());
    });
    let word = |i: u64| core.memory.0[&(BUFFER + 8 * i)];
    assert_eq!(word(0) >> 48, 32 + 32 + 144 + 4 * 24);
    assert_eq!((word(1), word(2), word(3)), (10, 1, 10));
    assert_eq!((word(4), word(5), word(6)), (0xda7a, 1, 0), "memory");
    assert_eq!((word(9), word(10), word(11), word(25)), (14, 10_000, 10_001, 10_015), "registers");
    assert_eq!([word(26), word(27), word(29)], [4, 54, 3], "the newest branch first");
    assert_eq!(core.pmu.tally.records, 1);
}

#[test]
fn far_from_an_overflow_blocks_do() {
    let mut core = Core::new(Generation::Skylake, Settings::default());
    let granularity = |core: &Core| core.budget.granularity;
    assert_eq!(granularity(&core), [Granularity::Off as u8; 2]);
    core.count(0, INSTRUCTIONS_USER, 100_000);
    assert_eq!(granularity(&core), [Granularity::Off as u8, Granularity::Block as u8]);
    core.budget.left[USER][Class::Instructions as usize] -= 99_950;
    core.pmu.replan(&mut core.budget, 60);
    assert_eq!(granularity(&core)[USER], Granularity::Instruction as u8);
    core.count(0, INSTRUCTIONS_USER, 100_000);
    core.count(1, LOADS_USER, 50_000);
    assert_eq!(granularity(&core)[USER], Granularity::BlockAndData as u8);
    assert_eq!(core.budget.left[USER][Class::Instructions as usize], 49_999, "each might load");
    core.count(1, TAKEN_USER, 50_000);
    assert_eq!(granularity(&core)[USER], Granularity::BlockAndBranches as u8);
    core.count(2, 0x01c2 | 1 << 16 | 2 << 24, 50_000);
    assert_eq!(granularity(&core)[USER], Granularity::Instruction as u8, "blocks do not tell in which cycle what happens");
}

#[test]
fn counters_freeze_at_an_interrupt_where_asked() {
    let mut core = Core::new(Generation::Skylake, Settings::default());
    core.write(msr::DEBUGCTL, 1 << 12);
    core.count(0, INSTRUCTIONS_USER, 10);
    (0..50).for_each(|i| {
        core.execute(i, 0);
    });
    assert_eq!((core.read(msr::PERFCTR0), core.read(msr::GLOBAL_STATUS)), (0, 1 | 1 << 59));
    core.write(msr::GLOBAL_STATUS_RESET, 1 | 1 << 59);
    core.execute(0, 0);
    assert_eq!(core.read(msr::PERFCTR0), 1);
}

#[test]
fn what_is_not_ours_is_refused() {
    let mut core = Core::new(Generation::Broadwell, Settings::default());
    assert_eq!(core.pmu.read(&mut core.budget, 0x10), None);
    assert_eq!(core.pmu.read(&mut core.budget, msr::LBR_FROM0 + 16), None, "16 deep");
    assert!(!core.pmu.write(&mut core.budget, msr::GLOBAL_STATUS, 1), "read only");
    assert!(!core.pmu.write(&mut core.budget, msr::GLOBAL_STATUS_SET, 1), "version 4 has it");
    core.write(msr::PERFCTR0, 0xffff_fff0);
    assert_eq!(core.read(msr::PERFCTR0), 0xffff_ffff_fff0, "32 bits, sign-extended");
}

/// Before version 5 the upper half of PEBS_ENABLE says which counters sample loads by latency: it is no fixed counter's.
#[test]
fn what_samples_by_latency_is_no_fixed_counters_bit() {
    for (generation, fixed_counts_on) in [(Generation::Skylake, true), (Generation::IceLake, false)] {
        let mut core = Core::new(generation, Settings::default());
        core.sample(&[(0, 1000)], 10, 200);
        core.write(msr::PEBS_ENABLE, 1 | 1 << 32);
        core.write(msr::FIXED_CTR0, (1 << 48) - 100);
        core.write(msr::FIXED_CTR_CTRL, 0xa);
        core.write(msr::GLOBAL_CTRL, 1 << 32);
        (0..100).for_each(|i| {
            core.execute(i, 0);
        });
        assert_eq!((core.read(msr::GLOBAL_STATUS) == 1 << 32, core.interrupted_at == [100]), (fixed_counts_on, fixed_counts_on));
    }
}

/// Twelve instructions a loop, three of which load: cycles with a load, those without one, how often loads begin.
#[test]
fn masks_count_cycles() {
    let mut core = Core::new(Generation::Skylake, Settings::default());
    let loads = 0x81d0 | 1 << 16;
    core.count(0, loads | 1 << 24, 0);
    core.count(1, loads | 1 << 24 | 1 << 23, 0);
    core.count(2, loads | 1 << 24 | 1 << 18, 0);
    core.count(3, loads | 1 << 24 | 1 << 23 | 1 << 18, 50);
    for i in 0..12_000 {
        core.execute(i, if matches!(i % 12, 3 | 4 | 8) { Class::Loads.bit() } else { 0 });
    }
    assert_eq!([0, 1, 2].map(|n| core.read(msr::PERFCTR0 + n)), [3000, 9000, 2000]);
    // The fiftieth time that there is none after some: it begins without, goes on after the second load of each loop and after the third.
    assert_eq!(core.interrupted_at.first(), Some(&(24 * 12 + 6)));
    core.pmu.stand_still(&mut core.budget, USER, 500);
    assert_eq!([0, 1, 2].map(|n| core.read(msr::PERFCTR0 + n)), [3000, 9500, 2000], "nothing happens meanwhile");
}

#[test]
fn slots_and_where_they_went() {
    let mut core = Core::new(Generation::IceLake, Settings::default());
    core.write(msr::FIXED_CTR0 + 3, 0);
    core.write(msr::PERF_METRICS, 0);
    core.write(msr::FIXED_CTR_CTRL, 0x2 << 12);
    core.write(msr::GLOBAL_CTRL, 1 << 35 | 1 << 48);
    for i in 0..1000 {
        core.execute(i, Class::Uops.bit());
    }
    assert_eq!(core.read(msr::FIXED_CTR0 + 3), 5000);
    let metrics = core.pmu.rdpmc(&mut core.budget, 1 << 29).unwrap();
    assert_eq!((metrics & 255, metrics >> 8 & 0xffff, metrics >> 24), (51, 0, 204), "a fifth retires, the rest waits");
    assert_eq!(Core::new(Generation::Skylake, Settings::default()).pmu.rdpmc(&mut Budget::default(), 1 << 29), None);
}

#[test]
fn what_is_not_modelled_is_told() {
    let mut core = Core::new(Generation::Skylake, Settings::default());
    core.count(0, 0x04a3, 0);
    core.count(1, 0x04a3, 0);
    core.count(2, 0x08d1, 0);
    core.count(3, INSTRUCTIONS_USER, 0);
    assert_eq!(core.pmu.unmodelled.iter().collect::<Vec<_>>(), [(0x04a3, 2), (0x08d1, 1)], "misses need caches");
    let mut core = Core::new(Generation::Skylake, Settings { caches: true, ..Settings::default() });
    core.count(2, 0x08d1, 0);
    assert_eq!(core.pmu.unmodelled.iter().count(), 0);
}

proptest! {
    /// However modes and classes follow one another, each counter has counted what happened in its modes, and PEBS took one sample in
    /// period + 1 of them.
    #[test]
    fn nothing_is_missed(period in 1u64..200, steps in proptest::collection::vec((0usize..2, 0u32..4), 1..2000)) {
        let mut core = Core::new(Generation::Skylake, Settings::default());
        core.count(0, INSTRUCTIONS_BOTH, 0);
        core.count(1, LOADS_USER, period);
        core.count(2, 0xc4 | 3 << 16, 0);
        core.sample(&[(1, period)], 100_000, 200);
        let (mut loads, mut branches) = (0, 0);
        for (i, &(mode, kind)) in steps.iter().enumerate() {
            core.mode = mode;
            let classes = [0, Class::Loads.bit(), Class::Branches.bit(), Class::Loads.bit() | Class::Branches.bit()][kind as usize];
            loads += u64::from(mode == USER && kind % 2 == 1);
            branches += u64::from(kind >= 2);
            core.execute(i as u64, classes);
        }
        prop_assert_eq!(core.read(msr::PERFCTR0), steps.len() as u64);
        prop_assert_eq!(core.read(msr::PERFCTR0 + 2), branches);
        prop_assert_eq!(core.pmu.tally.records, loads / (period + 1));
        let left = core.read(msr::PERFCTR0 + 1);
        prop_assert_eq!((left + period) & ((1 << 48) - 1), loads % (period + 1));
    }
}
