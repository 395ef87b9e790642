//! The registers of AMD's PMU, driven as a kernel drives them, under a program whose instructions are known.

use perftax_model::amd::{Generation, Pmu, msr};
use perftax_model::emulated::{Actions, Budget, CLASSES, Class, Granularity, KERNEL, Retired, Settings, USER};
use proptest::prelude::*;

const OP_ENABLE: u64 = 1 << 17;
const OP_VALID: u64 = 1 << 18;
const BY_OPS: u64 = 1 << 19;
const FETCH_ENABLE: u64 = 1 << 48;
const FETCH_VALID: u64 = 1 << 49;
const RANDOM: u64 = 1 << 57;

/// A core that executes, with a budget kept as an emulator keeps it.
struct Core {
    pmu: Pmu,
    budget: Budget,
    mode: usize,
    executed: u64,
    told: u64,
}

impl Core {
    fn new(settings: Settings) -> Self {
        let pmu = Pmu::new(Generation::Zen2, 0, settings);
        Self { pmu, budget: Budget::default(), mode: USER, executed: 0, told: 0 }
    }

    fn write(&mut self, number: u32, value: u64) {
        assert!(self.pmu.write(&mut self.budget, number, value), "{number:#x}");
    }

    fn read(&mut self, number: u32) -> u64 {
        self.pmu.read(&mut self.budget, number).unwrap()
    }

    /// One instruction of so many micro-operations, as an emulator tells of it.
    fn execute(&mut self, ip: u64, classes: Class, uops: u32) -> Actions {
        // This emulator has no blocks: none is short enough.
        if Granularity::is_of_blocks(self.budget.granularity[self.mode]) {
            self.pmu.replan(&mut self.budget, u32::MAX);
        }
        self.executed += 1;
        let classes = classes.bit() | Class::Instructions.bit() | Class::Uops.bit();
        let mut used_up = false;
        for class in (0..CLASSES).filter(|class| classes & self.budget.watched[self.mode] & 1 << class != 0) {
            self.budget.left[self.mode][class] -= if class == Class::Uops as usize { uops as i32 } else { 1 };
            used_up |= self.budget.left[self.mode][class] < 0;
        }
        if !used_up {
            return Actions::default();
        }
        self.told += 1;
        let retired = Retired {
            ip,
            next_ip: 0x1000,
            load_address: 0x2000 + ip,
            store_address: 0x303c,
            classes,
            uops,
            level: 2,
            privilege: self.mode as u8,
            latency_cycles: 39,
            width: 4,
            ..Retired::default()
        };
        self.pmu.retire(&mut self.budget, &retired)
    }

    /// Starts op sampling every so many events, as Linux does.
    fn sample_ops(&mut self, period: u64, control: u64) {
        self.write(msr::IBS_OP_CTL, control | OP_ENABLE | period & 0x7f << 20 | (period & 0xf_ffff) >> 4);
    }
}

#[test]
fn core_counters_count_in_each_mode_and_by_both_numbers() {
    let mut core = Core::new(Settings::default());
    let enable = 1 << 22;
    core.write(msr::PERF_CTL0, 0xc0 | 1 << 16 | enable);
    core.write(msr::PERF_CTL0 + 2, 0xc1 | 3 << 16 | enable);
    core.write(msr::LEGACY_PERF_CTL0 + 2, 0x0129 | 1 << 17 | enable);
    core.write(msr::PERF_CTL0 + 10, 0x1ff | 3 << 16 | enable);
    for i in 0..1000 {
        core.mode = if i % 10 == 0 { KERNEL } else { USER };
        core.execute(i, if i % 5 == 0 { Class::Loads } else { Class::Instructions }, 1 + u32::from(i % 5 == 0));
    }
    assert_eq!([0, 1, 2, 5].map(|i| core.read(msr::PERF_CTR0 + 2 * i)), [900, 1200, 100, 0]);
    assert_eq!(core.read(msr::LEGACY_PERF_CTR0 + 1), 1200);
    assert_eq!(core.pmu.rdpmc(&mut core.budget, 1), Some(1200));
    assert_eq!(core.pmu.rdpmc(&mut core.budget, 6), None);
    assert_eq!(core.pmu.read(&mut core.budget, msr::PERF_CTL0 + 12), None);
    // As Linux tries whether a counter is there.
    core.write(msr::PERF_CTR0, u64::MAX - 5);
    assert_eq!(core.read(msr::PERF_CTR0), (1 << 48) - 6);
}

#[test]
fn an_overflow_interrupts_where_the_skid_says_and_blocks_are_followed() {
    for skid in [0, 7] {
        let mut core = Core::new(Settings { skid, ..Settings::default() });
        core.write(msr::PERF_CTR0, (1 << 48) - 1000);
        core.write(msr::PERF_CTL0, 0xc0 | 1 << 16 | 1 << 20 | 1 << 22);
        assert_eq!(core.budget.granularity, [Granularity::Off as u8, Granularity::Block as u8]);
        let interrupted: Vec<u64> = (1..=1500).filter(|&i| core.execute(i, Class::Instructions, 1).interrupt).collect();
        assert_eq!(interrupted, [1000 + u64::from(skid)]);
        assert_eq!(core.read(msr::PERF_CTR0), 500, "it counts on");
    }
}

#[test]
fn the_op_after_the_period_is_tagged_and_nothing_counts_until_software_says_so() {
    let mut core = Core::new(Settings::default());
    core.sample_ops(160, BY_OPS);
    let mut at = Vec::new();
    for i in 1..=200u64 {
        // 3 micro-operations an instruction: the 161st is the second of the 54th.
        let actions = core.execute(i, Class::Stores, 3);
        assert!(!actions.interrupt);
        if actions.sampling_interrupt {
            at.push(i);
        }
    }
    assert_eq!(at, [54]);
    assert_eq!(core.read(msr::IBS_OP_CTL), BY_OPS | OP_ENABLE | OP_VALID | 10, "no current count is left");
    assert_eq!((core.read(msr::IBS_OP_RIP), core.read(msr::IBS_DC_LINEAR)), (54, 0x303c));
    // A store, of eight bytes, across a line; its address is valid.
    assert_eq!(core.read(msr::IBS_OP_DATA3), 1 << 1 | 1 << 8 | 1 << 17 | 4 << 22);
    assert_eq!(core.budget.granularity, [Granularity::Off as u8; 2]);
    core.write(msr::IBS_OP_CTL, BY_OPS | OP_ENABLE | 10 | 100 << 32);
    let again = (1..=200).find(|&i| core.execute(i, Class::Taken, 1).sampling_interrupt);
    assert_eq!(again, Some(61), "from where the count was set");
    assert_eq!((core.read(msr::IBS_OP_DATA), core.read(msr::IBS_BRANCH_TARGET)), (1 << 16 | 1 << 35, 0x1000));
    assert_eq!(core.pmu.tally.records, 2);
}

#[test]
fn a_load_tells_where_its_data_came_from() {
    let mut core = Core::new(Settings::default());
    core.sample_ops(16, 0);
    for i in 1..=17 {
        core.execute(i, Class::Loads, 2);
    }
    assert_eq!(core.read(msr::IBS_OP_RIP), 17, "cycles: an instruction each");
    let data3 = core.read(msr::IBS_OP_DATA3);
    assert_eq!(data3, 1 | 1 << 7 | 1 << 17 | 1 << 20 | 4 << 22 | 39 << 32);
    assert_eq!((core.read(msr::IBS_OP_DATA2) & 7, core.read(msr::IBS_DC_LINEAR)), (2, 0x2011));
    assert_eq!(core.read(msr::IBS_OP_DATA), 39 << 16);
}

#[test]
fn wrmsr_itself_is_no_op_that_follows_it() {
    let mut core = Core::new(Settings::default());
    // Loads in the kernel are counted, so that every instruction of it is told of.
    core.write(msr::PERF_CTL0, 0x0129 | 1 << 17 | 1 << 22);
    core.mode = KERNEL;
    core.sample_ops(160, BY_OPS);
    core.execute(0, Class::Instructions, 1);
    let tagged = (1..=200).find(|&i| core.execute(i, Class::Instructions, 1).sampling_interrupt);
    assert_eq!(tagged, Some(161));
}

#[test]
fn the_extension_bits_and_the_firmwares_entry() {
    let mut core = Core::new(Settings::default());
    core.sample_ops(3 << 20, BY_OPS);
    let tagged = (1..=4 << 20).find(|&i| core.execute(i, Class::Instructions, 1).sampling_interrupt);
    assert_eq!(tagged, Some((3 << 20) + 1));
    assert!(core.told < 1000, "both modes share: told {} times", core.told);
    assert_eq!(core.read(msr::IBS_CTL), 0x100);
    assert!(!core.pmu.write(&mut core.budget, msr::IBS_CTL, 0x101));
}

#[test]
fn chance_is_of_the_cores_own_seed() {
    let starts = |ibs_random: bool| -> Vec<u64> {
        let mut core = Core::new(Settings { ibs_random, ..Settings::default() });
        let start = |core: &mut Core| {
            core.sample_ops(160, BY_OPS);
            while !core.execute(0, Class::Instructions, 1).sampling_interrupt {}
            core.read(msr::IBS_OP_CTL) >> 32
        };
        (0..50).map(|_| start(&mut core)).collect()
    };
    assert_eq!(starts(false), [0; 50]);
    let random = starts(true);
    assert!(random.iter().all(|&start| start < 128) && random.iter().any(|&start| start > 64));
    assert_eq!(random, starts(true));
}

#[test]
fn fetches_are_sampled_and_their_count_stays() {
    for (ibs_random, control) in [(false, RANDOM), (true, 0), (true, RANDOM)] {
        let mut core = Core::new(Settings { ibs_random, ..Settings::default() });
        core.write(msr::IBS_FETCH_CTL, control | 2);
        core.write(msr::IBS_FETCH_CTL, control | FETCH_ENABLE | 2);
        let mut fetches = 0;
        for i in 0.. {
            fetches += u64::from(i % 4 == 3);
            let class = if i % 4 == 3 { Class::Fetches } else { Class::Instructions };
            if core.execute(i, class, 1).sampling_interrupt {
                assert_eq!(core.read(msr::IBS_FETCH_LINEAR), i);
                break;
            }
        }
        assert!(if ibs_random && control != 0 { (18..=33).contains(&fetches) } else { fetches == 33 }, "{fetches}");
        assert_eq!(core.read(msr::IBS_FETCH_CTL), control | 1 << 50 | FETCH_VALID | FETCH_ENABLE | 2 << 16 | 2);
    }
}

proptest! {
    /// Whatever counts beside it, and however the modes alternate: samples come where the ops say.
    #[test]
    fn samples_come_where_the_ops_say(
        instructions in prop::collection::vec((1u32..5, any::<bool>()), 1..2000),
        sixteens in 1u64..20,
        beside in any::<bool>(),
    ) {
        let mut core = Core::new(Settings::default());
        if beside {
            core.write(msr::PERF_CTR0, (1 << 48) - 37);
            core.write(msr::PERF_CTL0, 0xc0 | 1 << 16 | 1 << 22);
        }
        let period = 16 * sixteens;
        core.sample_ops(period, BY_OPS);
        let mut ops = 0;
        for (i, &(uops, kernel)) in instructions.iter().enumerate() {
            core.mode = if kernel { KERNEL } else { USER };
            ops += u64::from(uops);
            let actions = core.execute(i as u64, Class::Instructions, uops);
            prop_assert_eq!(actions.sampling_interrupt, ops > period);
            if actions.sampling_interrupt {
                prop_assert_eq!(core.read(msr::IBS_OP_RIP), i as u64);
                ops = 0;
                core.mode = KERNEL;
                core.budget.granularity[KERNEL] = Granularity::Off as u8;
                core.sample_ops(period, BY_OPS);
            }
        }
    }
}
