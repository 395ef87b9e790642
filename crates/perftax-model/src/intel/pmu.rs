//! The PMU of one core.

use super::architectural_pebs::Architectural;
use super::debug_store::{self, Memory, Occasion};
use super::generation::COUNTER_BITS;
use super::metrics::Metrics;
use super::select::{counted_fixed, samples_stores};
use super::{Actions, Arm, Branch, Branches, Budget, Class, Generation, KERNEL, Retired, Settings, Tally, USER, counted, msr};
use crate::emulated::{CLOSE, Counted, Held, Plan, Skid, Unmodelled};

const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;
/// Number of the first fixed counter among all.
const FIXED: u64 = 32;
/// Number of the fixed counter of slots.
const SLOTS: u64 = FIXED + 3;
/// The number that the metrics of slots have among counters, and their bit of MSR_PERF_GLOBAL_CTRL.
const METRICS: u64 = 48;

const STATUS_BUFFER: u64 = 1 << 62;
/// Likewise the buffer of architectural PEBS (GLOBAL_STATUS_ARCH_PEBS_THRESHOLD of Linux 7.1).
const STATUS_THRESHOLD: u64 = 1 << 54;
const STATUS_COUNTERS_FROZEN: u64 = 1 << 59;
const STATUS_BRANCHES_FROZEN: u64 = 1 << 58;
/// Without architectural branch records, and before version 4: cleared where they freeze.
const DEBUGCTL_BRANCHES: u64 = 1;
const DEBUGCTL_FREEZE_BRANCHES: u64 = 1 << 11;
const DEBUGCTL_FREEZE_COUNTERS: u64 = 1 << 12;
const SELECT_USER: u64 = 1 << 16;
const SELECT_KERNEL: u64 = 1 << 17;
const SELECT_INTERRUPT: u64 = 1 << 20;
const SELECT_ENABLE: u64 = 1 << 22;
/// The counter's records hold the groups of MSR_PEBS_DATA_CFG; a fixed counter's such bit is [`FIXED_ADAPTIVE`] + 4 a counter.
const SELECT_ADAPTIVE: u64 = 1 << 34;
const FIXED_ADAPTIVE: u64 = 32;

/// A counter that counts.
#[derive(Clone, Copy, Debug)]
struct Running {
    number: u64,
    counted: Counted,
    /// By mode.
    counts: [bool; 2],
    interrupts: bool,
    /// Its records tell where their store found its line, and how long it took.
    of_stores: bool,
}

impl Running {
    /// The class, where it counts each event of one.
    fn class(&self) -> Option<Class> {
        match self.counted {
            Counted::Each(class, _) => Some(class),
            _ => None,
        }
    }
}

/// Registers, and what follows from them.
#[derive(Clone, Debug)]
pub struct Pmu {
    generation: Generation,
    /// What the SDM leaves open; may be changed at any time.
    pub settings: Settings,
    general: Vec<u64>,
    selectors: Vec<u64>,
    fixed: Vec<u64>,
    fixed_control: u64,
    global_control: u64,
    status: u64,
    pebs_enable: u64,
    data_config: u64,
    /// Latency from which on loads are [`Class::SlowLoads`], cycles.
    pub load_latency: u64,
    store: u64,
    architectural: Architectural,
    debugctl: u64,
    ignored: [u64; 3],
    branches: Branches,
    /// Branches were recorded when the budget was set.
    recorded: bool,
    metrics: Metrics,
    /// Cycles that the core was told to stand still, and that it has not yet said to have stood.
    asked_to_stand: u64,
    running: Vec<Running>,
    /// Counters of cycles whose condition held in the latest one, a bit each.
    held: Held,
    /// What counters were set to and is not modelled.
    pub unmodelled: Unmodelled,
    /// Counters whose next event PEBS records.
    armed: u64,
    /// Budgets as they were when they were set.
    start: Budget,
    /// An interrupt that is due.
    skid: Skid,
    /// How often what happened.
    pub tally: Tally,
}

impl Pmu {
    /// As after a reset.
    pub fn new(generation: Generation, settings: Settings) -> Self {
        Self {
            generation,
            settings,
            general: vec![0; generation.general()],
            selectors: vec![0; generation.general()],
            fixed: vec![0; generation.fixed()],
            fixed_control: 0,
            global_control: (1 << generation.general()) - 1,
            status: 0,
            pebs_enable: 0,
            data_config: 0,
            load_latency: 0,
            store: 0,
            architectural: Architectural::default(),
            debugctl: 0,
            ignored: [0; 3],
            branches: Branches::new(generation),
            recorded: false,
            metrics: Metrics::default(),
            asked_to_stand: 0,
            running: Vec::new(),
            held: Held::default(),
            unmodelled: Unmodelled::default(),
            armed: 0,
            start: Budget::default(),
            skid: Skid::default(),
            tally: Tally::default(),
        }
    }

    /// The generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// An instruction has retired and its budget is used up, or branches are recorded: counters are brought up to date, and what is due
    /// happens.
    pub fn retire(&mut self, budget: &mut Budget, retired: &Retired, memory: &mut impl Memory) -> Actions {
        let mode = usize::from(retired.privilege & 1);
        let (of_cycles, due) = self.cycle(retired, mode);
        let overflowed = self.sync(budget) | due;
        let mut actions = Actions::default();
        let mut fired = 0u64;
        let mut interrupt = false;
        let precise = self.precise();
        for counter in &self.running {
            let bit = 1u64 << counter.number;
            let happened = match counter.counted {
                Counted::Cycles(_) => of_cycles & bit != 0,
                each => counter.counts[mode] && retired.classes & each.budgeted().bit() != 0,
            };
            if precise & bit != 0 {
                if happened && self.armed & bit != 0 {
                    self.armed &= !bit;
                    fired |= bit;
                } else if overflowed & bit != 0 {
                    match self.settings.arm {
                        Arm::Next => self.armed |= bit,
                        Arm::Same => fired |= bit,
                    }
                }
            } else if overflowed & bit != 0 && !self.architectural.reloads_itself(counter.number) {
                self.status |= bit;
                interrupt |= counter.interrupts;
            }
        }
        self.reload(overflowed);
        interrupt = self.skid.arrives(self.settings.skid, interrupt);
        if fired != 0 && self.assist(retired, fired, memory) {
            self.status |= if self.generation.has_architectural_pebs() { STATUS_THRESHOLD } else { STATUS_BUFFER };
            interrupt = true;
        }
        if fired != 0 {
            actions.stall_ns += self.settings.assist_ns;
        }
        if interrupt {
            self.freeze();
            self.tally.interrupts += 1;
            actions.interrupt = true;
            actions.stall_ns += self.settings.interrupt_ns;
        }
        self.asked_to_stand += actions.stall_ns;
        self.plan(budget, CLOSE);
        actions
    }

    /// A block of so many instructions does not fit the budget any more.
    pub fn replan(&mut self, budget: &mut Budget, instructions: u32) {
        // Blocks are refused before they could overflow a counter.
        let overflowed = self.sync(budget);
        debug_assert_eq!(overflowed, 0);
        self.plan(budget, instructions.max(CLOSE));
    }

    /// The core stood still for so many cycles: they count as cycles of the mode, and overflow nothing (the model's interrupts come at
    /// instructions).
    pub fn stand_still(&mut self, budget: &mut Budget, mode: usize, cycles: u64) {
        self.sync(budget);
        // An assist or an interrupt is no wait for memory.
        let asked = self.asked_to_stand.min(cycles);
        self.asked_to_stand -= asked;
        let for_memory = cycles - asked;
        for i in 0..self.running.len() {
            let counter = self.running[i];
            if !counter.counts[mode] {
                continue;
            }
            let events = match counter.counted {
                Counted::Cycles(condition) => self.held.judge(counter.number, |held| condition.standing(cycles, held)),
                each => each.of_standing().unwrap_or(0) * cycles,
            };
            let until = COUNTER_MASK + 1 - self.counter_value(counter.number);
            *self.counter(counter.number) += events.min(until - 1);
            if counter.number == METRICS {
                self.metrics.memory += for_memory * self.generation.slots_a_cycle();
            }
        }
        self.plan(budget, CLOSE);
    }

    /// A branch was taken while branches are recorded; whether it was.
    pub fn branch(&mut self, branch: &Branch) -> bool {
        self.branches.record(branch)
    }

    /// Reads a register; `None` where it is not one of ours.
    pub fn read(&mut self, budget: &mut Budget, number: u32) -> Option<u64> {
        let number = self.generation.canonical(number);
        if !self.has(number) {
            return None;
        }
        self.bring_up_to_date(budget);
        Some(match number {
            msr::PERF_CAPABILITIES => self.generation.perf_capabilities(self.settings.without),
            msr::GLOBAL_STATUS_RESET | msr::GLOBAL_STATUS_SET => 0,
            msr::PERF_METRICS => self.metrics.register(self.fixed[(SLOTS - FIXED) as usize]) & self.metrics_mask(),
            number => *self.register(number)?,
        })
    }

    /// Writes a register; false where it is not one of ours or refuses the value.
    pub fn write(&mut self, budget: &mut Budget, number: u32, value: u64) -> bool {
        let number = self.generation.canonical(number);
        let is_read_only = number == msr::PERF_CAPABILITIES || number == msr::GLOBAL_STATUS;
        if !self.has(number) || is_read_only || !self.generation.takes(number, value) {
            return false;
        }
        self.bring_up_to_date(budget);
        let general = self.generation.general() as u32;
        match number {
            msr::GLOBAL_STATUS_RESET => self.status &= !value,
            msr::GLOBAL_STATUS_SET => self.status |= value,
            // What is armed stays so: Linux clears and restores this register around a switch between threads with like events, and leaves the
            // counters alone there (kernel/events/core.c, `context_equiv`). One that is beyond its overflow by then would fire no more.
            msr::PEBS_ENABLE => self.pebs_enable = value,
            msr::LBR_DEPTH => self.branches.set_depth(value),
            msr::PERF_METRICS => self.metrics = Metrics::of(value, self.fixed[(SLOTS - FIXED) as usize]),
            number if (msr::PERFEVTSEL0..msr::PERFEVTSEL0 + general).contains(&number) => {
                let i = number - msr::PERFEVTSEL0;
                self.held.clear(u64::from(i));
                self.selectors[i as usize] = value;
                let is_told = counted(self.generation, value).is_some_and(|counted| self.settings.tells(counted));
                if value & SELECT_ENABLE != 0 && !is_told {
                    self.unmodelled.add(value);
                }
            }
            number if (msr::PERFCTR0..msr::PERFCTR0 + general).contains(&number) => {
                self.armed &= !(1 << (number - msr::PERFCTR0));
                self.general[(number - msr::PERFCTR0) as usize] = value as u32 as i32 as u64 & COUNTER_MASK;
            }
            number if (msr::FULL_WIDTH_PERFCTR0..msr::FULL_WIDTH_PERFCTR0 + general).contains(&number) => {
                self.armed &= !(1 << (number - msr::FULL_WIDTH_PERFCTR0));
                self.general[(number - msr::FULL_WIDTH_PERFCTR0) as usize] = value & COUNTER_MASK;
            }
            number if (msr::FIXED_CTR0..msr::FIXED_CTR0 + self.generation.fixed() as u32).contains(&number) => {
                self.armed &= !(1 << (FIXED + u64::from(number - msr::FIXED_CTR0)));
                self.fixed[(number - msr::FIXED_CTR0) as usize] = value & COUNTER_MASK;
            }
            number => {
                let Some(register) = self.register(number) else { return false };
                *register = value;
            }
        }
        self.update_running();
        self.plan(budget, CLOSE);
        true
    }

    /// RDPMC: a general counter, with bit 30 a fixed one, with bit 29 the metrics of slots; `None` where there is none.
    pub fn rdpmc(&mut self, budget: &mut Budget, number: u32) -> Option<u64> {
        const FIXED_BIT: u32 = 1 << 30;
        const METRICS: u32 = 1 << 29;
        if number == METRICS {
            return self.read(budget, msr::PERF_METRICS);
        }
        if number & FIXED_BIT != 0
            && self.generation.fixed_mask().checked_shr(number & !FIXED_BIT).is_none_or(|there| there & 1 == 0)
        {
            return None;
        }
        self.bring_up_to_date(budget);
        let counters = if number & FIXED_BIT != 0 { &self.fixed } else { &self.general };
        counters.get((number & !FIXED_BIT) as usize).copied()
    }

    /// Counters up to date; what overflows here, between two instructions, only shows in the status.
    fn bring_up_to_date(&mut self, budget: &mut Budget) {
        let overflowed = self.sync(budget);
        debug_assert_eq!(overflowed, 0);
    }

    fn register(&mut self, number: u32) -> Option<&mut u64> {
        let general = self.generation.general() as u32;
        let nth = |first: u32, count: u32| (first..first + count).contains(&number).then(|| (number - first) as usize);
        if let Some(i) = nth(msr::PERFCTR0, general).or(nth(msr::FULL_WIDTH_PERFCTR0, general)) {
            return self.general.get_mut(i);
        }
        if let Some(i) = nth(msr::PERFEVTSEL0, general) {
            return self.selectors.get_mut(i);
        }
        if let Some(i) = nth(msr::FIXED_CTR0, self.generation.fixed() as u32) {
            return self.fixed.get_mut(i);
        }
        if let Some(register) = self.branches.register(number) {
            return Some(register);
        }
        if let Some(register) = self.architectural.register(number) {
            return Some(register);
        }
        Some(match number {
            msr::FIXED_CTR_CTRL => &mut self.fixed_control,
            msr::GLOBAL_CTRL => &mut self.global_control,
            msr::GLOBAL_STATUS => &mut self.status,
            msr::PEBS_ENABLE => &mut self.pebs_enable,
            msr::PEBS_DATA_CFG => &mut self.data_config,
            msr::PEBS_LD_LAT => &mut self.load_latency,
            msr::DS_AREA => &mut self.store,
            msr::DEBUGCTL => &mut self.debugctl,
            msr::OFFCORE_RSP0 => &mut self.ignored[0],
            msr::OFFCORE_RSP1 => &mut self.ignored[1],
            msr::PEBS_FRONTEND => &mut self.ignored[2],
            _ => return None,
        })
    }

    fn counter(&mut self, number: u64) -> &mut u64 {
        match number {
            METRICS => &mut self.metrics.retiring,
            FIXED.. => &mut self.fixed[(number - FIXED) as usize],
            _ => &mut self.general[number as usize],
        }
    }

    fn update_running(&mut self) {
        self.running.clear();
        if self.status & STATUS_COUNTERS_FROZEN != 0 {
            return;
        }
        for (i, &selector) in self.selectors.iter().enumerate() {
            let enabled = self.global_control >> i & 1 == 1 && selector & SELECT_ENABLE != 0;
            let counts = [selector & SELECT_KERNEL != 0, selector & SELECT_USER != 0];
            let interrupts = selector & SELECT_INTERRUPT != 0;
            let counted = counted(self.generation, selector).filter(|counted| enabled && *counted != Counted::Never);
            if let Some(counted) = counted {
                let of_stores = samples_stores(self.generation, selector);
                self.running.push(Running { number: i as u64, counted, counts, interrupts, of_stores });
            }
        }
        for i in 0..self.fixed.len() as u64 {
            let control = self.fixed_control >> (4 * i) & 0xf;
            let counts = [control & 1 != 0, control & 2 != 0];
            let counted = counted_fixed(self.generation, i as usize);
            let number = FIXED + i;
            if self.global_control >> number & 1 == 1 && counts != [false; 2] && counted != Counted::Never {
                self.running.push(Running { number, counted, counts, interrupts: control & 8 != 0, of_stores: false });
                if number == SLOTS && self.global_control >> METRICS & 1 == 1 {
                    let counted = Counted::Each(Class::Uops, 1);
                    self.running.push(Running { number: METRICS, counted, counts, interrupts: false, of_stores: false });
                }
            }
        }
    }

    /// Adds what has passed since the budget was set to the counters; those that overflowed, a bit each.
    fn sync(&mut self, budget: &mut Budget) -> u64 {
        let mut overflowed = 0;
        for i in 0..self.running.len() {
            let counter = self.running[i];
            let counted = counter.counted;
            let mut events = 0;
            for mode in [KERNEL, USER] {
                if counter.counts[mode] {
                    events += self.start.passed(budget, mode, counted.budgeted());
                }
            }
            let value = self.counter_value(counter.number) as i64 + events * counted.weight() as i64;
            overflowed |= u64::from(value > COUNTER_MASK as i64) << counter.number;
            *self.counter(counter.number) = value as u64 & COUNTER_MASK;
        }
        if self.skid.left().is_some() {
            let instructions: i64 = [KERNEL, USER].iter().map(|&mode| self.start.passed(budget, mode, Class::Instructions)).sum();
            self.skid.pass(instructions);
        }
        self.start = budget.clone();
        overflowed
    }

    /// What the generation has of the metrics: those of the second level are Sapphire Rapids's.
    fn metrics_mask(&self) -> u64 {
        if self.generation == Generation::SapphireRapids { u64::MAX } else { 0xffff_ffff }
    }

    fn counter_value(&self, number: u64) -> u64 {
        match number {
            METRICS => self.metrics.retiring,
            FIXED.. => self.fixed[(number - FIXED) as usize],
            _ => self.general[number as usize],
        }
    }

    /// Whether a register belongs to this PMU, and is not of what it lacks.
    pub fn has(&self, number: u32) -> bool {
        let without = self.settings.without;
        let lacks = without.branches && Generation::is_of_branches(number) || without.precise && Generation::is_of_pebs(number);
        self.generation.has(number) && !lacks && self.branches.have(number)
    }

    /// Counters that PEBS samples. Before version 5 the upper half says which of them sample loads by latency (SDM volume 3, 20.3.4.4.2).
    fn precise(&self) -> u64 {
        if self.generation.has_architectural_pebs() {
            return self.architectural.precise();
        }
        self.pebs_enable & self.generation.precise()
    }

    /// A cycle has passed, in which an instruction retired: counters of cycles that it is one for, and those that overflowed by it.
    fn cycle(&mut self, retired: &Retired, mode: usize) -> (u64, u64) {
        let (mut counted, mut overflowed) = (0, 0);
        for i in 0..self.running.len() {
            let counter = self.running[i];
            let Counted::Cycles(condition) = counter.counted else { continue };
            if !counter.counts[mode] {
                continue;
            }
            let events = self.held.judge(counter.number, |held| condition.cycle(retired.classes, retired.uops, held));
            let value = self.counter_value(counter.number) + events;
            counted |= events.min(1) << counter.number;
            overflowed |= u64::from(value > COUNTER_MASK) << counter.number;
            *self.counter(counter.number) = value & COUNTER_MASK;
        }
        (counted, overflowed)
    }

    /// Sets the budget: how many events of each class may pass until something is due, and how closely to follow. A block of `need`
    /// instructions must fit, or every instruction is followed.
    fn plan(&mut self, budget: &mut Budget, need: u32) {
        let mut plan = Plan::default();
        for counter in &self.running {
            // An armed counter's next event is of interest, whatever its value.
            let armed = self.armed >> counter.number & 1 == 1;
            let distance = COUNTER_MASK - self.counter_value(counter.number);
            let events = match counter.counted {
                // Each cycle is looked at.
                Counted::Cycles(_) => 0,
                _ if armed => 0,
                each => distance / each.weight().max(1),
            };
            plan.share(counter.counts, counter.counted.budgeted(), events);
        }
        if let Some(left) = self.skid.left() {
            plan.skid(left);
        }
        if self.armed != 0 {
            plan.follow_instructions();
        }
        if self.armed != 0 || self.settings.arm == Arm::Same && self.precise() != 0 {
            plan.want_registers();
        }
        let records = self.branches.are_on(self.debugctl) && self.status & STATUS_BRANCHES_FROZEN == 0;
        if records {
            plan.record_branches();
        }
        if records && !self.recorded {
            self.branches.begin();
        }
        self.recorded = records;
        let precise = self.precise();
        let of_data = |counter: &Running| {
            let precise = precise >> counter.number & 1 == 1;
            counter.class().is_some_and(|class| class.bit() & Class::OF_CACHES != 0)
                || precise && matches!(counter.class(), Some(Class::Loads | Class::LockedLoads))
        };
        // Latencies are told without caches that evict, too: by who has written to the line.
        let of_latency = |counter: &Running| {
            counter.class() == Some(Class::SlowLoads) || counter.of_stores && precise >> counter.number & 1 == 1
        };
        if self.running.iter().any(|counter| of_latency(counter) || self.settings.caches && of_data(counter)) {
            plan.watch_memory();
        }
        if self.settings.miss_time {
            plan.charge_misses();
        }
        *budget = plan.budget(need);
        self.start = budget.clone();
    }

    /// Records for the counters that fired, and reloads them; whether the buffer is due.
    fn assist(&mut self, retired: &Retired, fired: u64, memory: &mut impl Memory) -> bool {
        let first = self.running.iter().find(|counter| fired >> counter.number & 1 == 1);
        let Some(first) = first.copied() else { return false };
        let is_architectural = self.generation.has_architectural_pebs();
        if !is_architectural {
            for number in numbers(fired) {
                if let Some(reset) = debug_store::reset(memory, self.store, number) {
                    *self.counter(number) = reset & COUNTER_MASK;
                }
            }
        }
        let adaptive = match first.number {
            FIXED.. => self.fixed_control >> (FIXED_ADAPTIVE + 4 * (first.number - FIXED)) & 1 == 1,
            number => self.selectors[number as usize] & SELECT_ADAPTIVE != 0,
        };
        let groups = match (is_architectural, adaptive) {
            (true, _) => self.architectural.groups(fired),
            (false, true) => self.data_config,
            (false, false) => 0,
        };
        let occasion = Occasion {
            generation: self.generation,
            counters: fired,
            class: first.counted.budgeted(),
            groups,
            of_stores: first.of_stores,
            latency_cycles: &self.settings.latency_cycles,
            branches: &self.branches,
        };
        let stored = if is_architectural {
            self.architectural.store(memory, retired, &occasion, [&self.general, &self.fixed])
        } else {
            debug_store::store(memory, self.store, retired, &occasion)
        };
        // A record's counters are those before the reload.
        for number in numbers(if is_architectural { fired } else { 0 }) {
            if let Some(reload) = self.architectural.reload(number) {
                *self.counter(number) = reload & COUNTER_MASK;
            }
        }
        self.tally.records += u64::from(stored.written);
        self.tally.lost += u64::from(!stored.written);
        stored.due
    }

    /// Counters that those which overflowed reload (auto counter reload: CFG_B, and the lower half of CFG_C).
    fn reload(&mut self, overflowed: u64) {
        if overflowed == 0 || !self.generation.has_architectural_pebs() {
            return;
        }
        for number in numbers(self.architectural.reloaded_by(overflowed)) {
            // One that samples goes on to its record first, where it is its own overflow.
            if overflowed & self.armed & 1 << number == 0 {
                self.armed &= !(1 << number);
                *self.counter(number) = self.architectural.reloaded_with(number) & COUNTER_MASK;
            }
        }
    }

    /// What stops at an interrupt (SDM volume 3, 18.4.7 and 20.2.4).
    fn freeze(&mut self) {
        if self.debugctl & DEBUGCTL_FREEZE_BRANCHES != 0 {
            if self.generation.freezes_by_status() {
                self.status |= STATUS_BRANCHES_FROZEN;
            } else {
                self.debugctl &= !DEBUGCTL_BRANCHES;
            }
        }
        if self.debugctl & DEBUGCTL_FREEZE_COUNTERS != 0 {
            if self.generation.freezes_by_status() {
                self.status |= STATUS_COUNTERS_FROZEN;
            } else {
                self.global_control = 0;
            }
            self.update_running();
        }
    }
}

/// Numbers of the bits that are set.
fn numbers(mut bits: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let number = u64::from(bits.trailing_zeros());
        bits &= bits.wrapping_sub(1);
        (number < 64).then_some(number)
    })
}
