//! Architectural PEBS and auto counter reload, driven as Linux 7.1 drives them.

use std::collections::BTreeMap;

use perftax_model::intel::{
    Actions, Branch, Budget, CLASSES, Class, Generation, Granularity, Kind, Memory, Pmu, Retired, Settings, USER, msr,
};

/// Physical memory; there is nothing at the kernel's addresses.
#[derive(Default)]
struct Physical(BTreeMap<u64, u64>);

impl Memory for Physical {
    fn read(&mut self, _: u64) -> Option<u64> {
        None
    }

    fn write(&mut self, _: u64, _: &[u64]) -> bool {
        false
    }

    fn write_physical(&mut self, address: u64, words: &[u64]) -> bool {
        self.0.extend(words.iter().enumerate().map(|(i, word)| (address + 8 * i as u64, *word)));
        true
    }
}

const BUFFER: u64 = 0x7_0000;
const INSTRUCTIONS_USER: u64 = 0xc0 | 1 << 16;
const LOADS_USER: u64 = 0x81d0 | 1 << 16;
const ENABLE: u64 = 1 << 63;
const THRESHOLD: u64 = 1 << 54;

struct Core {
    pmu: Pmu,
    budget: Budget,
    memory: Physical,
    executed: u64,
    interrupted_at: Vec<u64>,
}

impl Core {
    /// Its buffer has two to the `size` pages.
    fn new(size: u64) -> Self {
        let pmu = Pmu::new(Generation::ClearwaterForest, Settings::default());
        let mut core =
            Self { pmu, budget: Budget::default(), memory: Physical::default(), executed: 0, interrupted_at: Vec::new() };
        core.write(msr::GLOBAL_CTRL, 0);
        core.write(msr::PEBS_BASE, BUFFER | size);
        core
    }

    fn write(&mut self, number: u32, value: u64) {
        assert!(self.pmu.write(&mut self.budget, number, value), "{number:#x} {value:#x}");
    }

    fn read(&mut self, number: u32) -> u64 {
        self.pmu.read(&mut self.budget, number).unwrap()
    }

    /// A general counter by its four registers of version 6: value, selector, CFG_B, CFG_C.
    fn count(&mut self, counter: u32, period: u64, selector: u64, causes: u64, config: u64) {
        let first = msr::V6_GENERAL0 + 4 * counter;
        self.write(first, period.wrapping_neg() & ((1 << 48) - 1));
        self.write(first + 2, causes);
        self.write(first + 3, config | period.wrapping_neg() & 0xffff_ffff);
        self.write(first + 1, selector | 1 << 22);
        let running = self.read(msr::GLOBAL_CTRL);
        self.write(msr::GLOBAL_CTRL, running | 1 << counter);
    }

    fn execute(&mut self, classes: u32) -> Actions {
        if Granularity::is_of_blocks(self.budget.granularity[USER]) {
            self.pmu.replan(&mut self.budget, u32::MAX);
        }
        self.executed += 1;
        let classes = classes | Class::Instructions.bit();
        let mut used_up = false;
        for class in (0..CLASSES).filter(|class| classes & self.budget.watched[USER] & 1 << class != 0) {
            self.budget.left[USER][class] -= 1;
            used_up |= self.budget.left[USER][class] < 0;
        }
        if !used_up {
            return Actions::default();
        }
        let retired = Retired {
            ip: self.executed,
            next_ip: self.executed + 4,
            flags: 0x246,
            classes,
            privilege: USER as u8,
            registers: std::array::from_fn(|i| 1000 * self.executed + i as u64),
            tsc: 7 * self.executed,
            load_address: 0xda7a,
            xmm: std::array::from_fn(|i| [2 * i as u64, 2 * i as u64 + 1]),
            ..Retired::default()
        };
        let actions = self.pmu.retire(&mut self.budget, &retired, &mut self.memory);
        if actions.interrupt {
            self.interrupted_at.push(self.executed);
        }
        actions
    }

    /// Words up to where the next record goes; what the driver's drain does.
    fn drain(&mut self, threshold: u64) -> Vec<u64> {
        let bytes = self.read(msr::PEBS_INDEX) & 0x7ff_fff0;
        self.write(msr::PEBS_INDEX, 1 << 32 | threshold << 32);
        self.write(msr::GLOBAL_STATUS_RESET, THRESHOLD);
        (0..bytes / 8).map(|i| self.memory.0[&(BUFFER + 8 * i)]).collect()
    }
}

/// A threshold of one unit: an interrupt a record, as the driver asks for it where not all events may wait.
#[test]
fn a_record_in_period_and_one_interrupts() {
    let mut core = Core::new(4);
    core.write(msr::PEBS_INDEX, 1 << 32 | 1 << 36);
    core.count(0, 100, INSTRUCTIONS_USER, 0, ENABLE);
    for _ in 0..1010 {
        if core.execute(0).interrupt {
            assert_eq!(core.read(msr::GLOBAL_STATUS), THRESHOLD);
            let (at, record) = (core.executed, core.drain(16));
            // Size and basic group; address, counters, time; no latency.
            assert_eq!(record, [64 | 1 << 30 | ENABLE, 0, at, 1, 7 * at, 0, 0, 0]);
        }
    }
    assert_eq!(core.interrupted_at, (1..=10).map(|n| 101 * n).collect::<Vec<_>>());
    assert_eq!(core.pmu.tally.records, 10);
}

/// The groups in the order of `setup_arch_pebs_sample_data`, each as long as its struct in arch/x86/include/asm/perf_event.h.
#[test]
fn a_record_holds_the_groups_that_its_counter_asks_for() {
    let mut core = Core::new(4);
    core.write(msr::PEBS_INDEX, 1 << 32 | 1 << 36);
    core.write(msr::LBR_DEPTH, 8);
    core.write(msr::LBR_CTL, 0x7f_0007);
    let branch = |from| Branch { from, to: 50 + from, kind: Kind::RelativeJump, mode: USER, mispredicted: false, cycles: 1 };
    (0..10).for_each(|from| {
        core.pmu.branch(&branch(from));
    });
    let groups = 1 << 36 | 1 << 37 | 3 << 40 | 1 << 49 | 1 << 61 | 1 << 62;
    core.count(1, 0, LOADS_USER, 0, 1 << 35);
    core.count(0, 9, INSTRUCTIONS_USER, 0, ENABLE | groups | 1 << 35);
    (0..10).for_each(|_| {
        core.execute(Class::Loads.bit());
    });
    let record = core.drain(16);
    assert_eq!(record[0], (8 * record.len() as u64) | 1 << 30 | ENABLE | groups);
    let (basic, rest) = record[2..].split_at(6);
    let (access, rest) = rest.split_at(8);
    let (registers, rest) = rest.split_at(20);
    let (xmm, rest) = rest.split_at(2 + 32);
    let (branches, counters) = rest.split_at(6 + 3 * 8);
    assert_eq!(basic[..3], [10, 1, 70]);
    assert_eq!(access, [0xda7a, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(registers[..3], [0x246, 14, 10_000]);
    assert_eq!(registers[17..], [10_015, 0, 0]);
    assert_eq!(xmm, (0..34).map(|i| if i == 0 { 2 } else { (i as u64).saturating_sub(2) }).collect::<Vec<_>>());
    assert_eq!(branches[..3], [0, 0x7f_0007, 8]);
    assert_eq!(branches[6..8], [9, 59], "the newest first");
    // Counter 0 beyond its overflow, before its reload, and counter 1's ten loads.
    assert_eq!(counters, [0b11, 0, 1, 10]);
    assert_eq!(core.read(msr::V6_GENERAL0), (1 << 48) - 9, "reloaded");
}

/// Beyond the threshold each record interrupts; one that has no room marks the buffer as full, and nothing is written until that is cleared.
#[test]
fn a_full_buffer_loses_until_it_is_drained() {
    let mut core = Core::new(0);
    core.write(msr::PEBS_INDEX, 1 << 32 | (4096 - 64) << 32);
    core.count(2, 9, INSTRUCTIONS_USER, 0, ENABLE);
    (0..700).for_each(|_| {
        core.execute(0);
    });
    assert_eq!((core.pmu.tally.records, core.pmu.tally.lost), (64, 6));
    assert_eq!(core.read(msr::PEBS_INDEX) & 0xffff_ffff, 4096 | 1 << 31);
    assert_eq!(core.interrupted_at[..2], [630, 640]);
    assert_eq!(core.drain(4096 - 64).len(), 512);
    (0..10).for_each(|_| {
        core.execute(0);
    });
    assert_eq!(core.pmu.tally.records, 65);
}

/// Counter 1's overflow, every hundred instructions, reloads itself and counter 0: that one overflows only where twenty loads come within a hundred.
#[test]
fn an_overflow_reloads_the_counters_that_ask_for_it() {
    let mut core = Core::new(4);
    core.count(1, 100, INSTRUCTIONS_USER, 0b10, 0);
    core.count(0, 20, LOADS_USER | 1 << 20, 0b11, 0);
    for i in 0..1000 {
        let few = i % 100 < 10 || (500..600).contains(&i) && i % 4 == 0;
        core.execute(if few { Class::Loads.bit() } else { 0 });
    }
    // Ten a hundred, but for one hundred in which there are more: the tenth of its first ten is one of them.
    assert_eq!(core.interrupted_at.len(), 0, "a counter that reloads itself says nothing: {:?}", core.interrupted_at);
    assert_eq!(core.read(msr::GLOBAL_STATUS), 0);
    let mut core = Core::new(4);
    core.count(1, 100, INSTRUCTIONS_USER, 0b10, 0);
    core.count(0, 20, LOADS_USER | 1 << 20, 0b10, 0);
    for i in 0..1000 {
        let loads = i % 100 < 10 || (550..600).contains(&i);
        core.execute(if loads { Class::Loads.bit() } else { 0 });
    }
    assert_eq!(core.interrupted_at, [560], "ten at its beginning, and ten more");
    assert_eq!(core.read(msr::GLOBAL_STATUS), 1);
    assert_eq!(core.read(msr::V6_GENERAL0), (1 << 48) - 20, "reloaded after the last hundred");
}
