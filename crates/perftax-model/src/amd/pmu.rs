//! The PMU of one core.

use super::generation::{COUNTER_BITS, COUNTERS};
use super::{Branches, Fetch, Generation, Op, Random, counted, msr};
use crate::emulated::{
    Actions, Branch, Budget, CLOSE, Class, Counted, Granularity, Held, KERNEL, Plan, Retired, Settings, Skid, Tally, USER,
    Unmodelled,
};

const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;
const SELECT_USER: u64 = 1 << 16;
const SELECT_KERNEL: u64 = 1 << 17;
const SELECT_INTERRUPT: u64 = 1 << 20;
const SELECT_ENABLE: u64 = 1 << 22;
/// Counters with an old number, too.
const LEGACY_COUNTERS: u32 = 4;
/// IbsCtl: extended entry 0 of the local APIC, and that this is valid (bit 8). The firmware's to write; nobody else may.
const IBS_CTL: u64 = 1 << 8;

/// All counters, a bit each of the registers of version 2.
const ALL_COUNTERS: u64 = (1 << COUNTERS) - 1;
/// PerfCntrGlobalStatus: branch records are frozen, counters are.
const STATUS_BRANCHES_FROZEN: u64 = 1 << 58;
const STATUS_COUNTERS_FROZEN: u64 = 1 << 59;
/// DebugCtl: what freezes at an interrupt.
const DEBUGCTL_FREEZE_BRANCHES: u64 = 1 << 11;
const DEBUGCTL_FREEZE_COUNTERS: u64 = 1 << 12;
/// All of it that may be set (APM volume 2, 13.1.1.7): nothing but the freezes does anything here.
const DEBUGCTL: u64 = 0x3f | DEBUGCTL_FREEZE_BRANCHES | DEBUGCTL_FREEZE_COUNTERS;

/// Who counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Counter(usize),
    Op,
    Fetch,
}

/// What counts now.
#[derive(Clone, Copy, Debug)]
struct Running {
    who: Who,
    counted: Counted,
    /// By mode.
    counts: [bool; 2],
}

/// What became due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Due {
    /// An overflow of a counter that interrupts.
    interrupt: bool,
    op: bool,
    fetch: bool,
}

/// Registers, and what follows from them.
#[derive(Clone, Debug)]
pub struct Pmu {
    generation: Generation,
    /// What the manuals leave open; may be changed at any time.
    pub settings: Settings,
    counters: [u64; COUNTERS],
    selectors: [u64; COUNTERS],
    /// PerfCntrGlobalCtl and PerfCntrGlobalStatus: before version 2 all run.
    global_control: u64,
    status: u64,
    debugctl: u64,
    branches: Branches,
    op: Op,
    fetch: Fetch,
    random: Random,
    running: Vec<Running>,
    /// Counters of cycles whose condition held in the latest one, a bit each.
    held: Held,
    /// What counters were set to and is not modelled.
    pub unmodelled: Unmodelled,
    /// Budgets as they were when they were set.
    start: Budget,
    /// An interrupt that is due.
    skid: Skid,
    /// How often what happened.
    pub tally: Tally,
}

impl Pmu {
    /// As after a reset, of the core of this number.
    pub fn new(generation: Generation, core: u32, settings: Settings) -> Self {
        Self {
            generation,
            settings,
            counters: [0; COUNTERS],
            selectors: [0; COUNTERS],
            global_control: ALL_COUNTERS,
            status: 0,
            debugctl: 0,
            branches: Branches::default(),
            op: Op::new(generation),
            fetch: Fetch::new(generation.is_version_2()),
            random: Random::new(core + 1),
            running: Vec::new(),
            held: Held::default(),
            unmodelled: Unmodelled::default(),
            start: Budget::default(),
            skid: Skid::default(),
            tally: Tally::default(),
        }
    }

    /// The generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// An instruction has retired and its budget is used up: counters are brought up to date, and what is due happens.
    pub fn retire(&mut self, budget: &mut Budget, retired: &Retired) -> Actions {
        let due = self.cycle(retired);
        let Due { mut interrupt, mut op, mut fetch } = self.sync(budget);
        interrupt |= due;
        let mut actions = Actions::default();
        interrupt = self.skid.arrives(self.settings.skid, interrupt);
        if op {
            let random = Some(&mut self.random).filter(|_| self.settings.ibs_random);
            op = self.op.sample(retired, random);
        }
        if fetch {
            fetch = self.fetch.sample(retired);
        }
        if op || fetch {
            self.update_running();
            self.tally.records += u64::from(op) + u64::from(fetch);
            actions.sampling_interrupt = true;
        }
        actions.interrupt = interrupt;
        if interrupt {
            self.freeze();
        }
        if interrupt || op || fetch {
            self.tally.interrupts += 1;
            actions.stall_ns = self.settings.interrupt_ns;
        }
        self.plan(budget, CLOSE);
        actions
    }

    /// A block of so many instructions does not fit the budget any more.
    pub fn replan(&mut self, budget: &mut Budget, instructions: u32) {
        self.bring_up_to_date(budget);
        self.plan(budget, instructions.max(CLOSE));
    }

    /// The core stood still for so many cycles: they count as cycles of the mode, and neither overflow nor tag anything (the model's
    /// interrupts come at instructions).
    pub fn stand_still(&mut self, budget: &mut Budget, mode: usize, cycles: u64) {
        self.bring_up_to_date(budget);
        for at in 0..self.running.len() {
            let running = self.running[at];
            if !running.counts[mode] {
                continue;
            }
            match (running.who, running.counted) {
                (Who::Counter(i), counted) => {
                    let events = match counted {
                        Counted::Cycles(condition) => self.held.judge(i as u64, |held| condition.standing(cycles, held)),
                        each => each.of_standing().unwrap_or(0) * cycles,
                    };
                    let until = COUNTER_MASK + 1 - self.counters[i];
                    self.counters[i] += events.min(until - 1);
                }
                (Who::Op, counted) if counted.of_standing().is_some() => self.op.stand_still(cycles),
                (Who::Op | Who::Fetch, _) => {}
            }
        }
        self.plan(budget, CLOSE);
    }

    /// Reads a register; `None` where it is not one of ours.
    pub fn read(&mut self, budget: &mut Budget, number: u32) -> Option<u64> {
        self.bring_up_to_date(budget);
        if let Some((is_counter, i)) = core_register(number) {
            return Some(if is_counter { self.counters[i] } else { self.selectors[i] });
        }
        if number == msr::IBS_CTL {
            return Some(IBS_CTL);
        }
        if self.generation.is_version_2() {
            let found = match number {
                msr::GLOBAL_STATUS => Some(self.status),
                msr::GLOBAL_STATUS_CLR | msr::GLOBAL_STATUS_SET => Some(0),
                msr::GLOBAL_CTL => Some(self.global_control),
                _ => self.has_branches().then(|| self.read_of_branches(number)).flatten(),
            };
            if found.is_some() {
                return found;
            }
        }
        self.op.read(number).or_else(|| self.fetch.read(number))
    }

    /// Whether there are branch records.
    fn has_branches(&self) -> bool {
        self.generation.is_version_2() && !self.settings.without.branches
    }

    fn read_of_branches(&mut self, number: u32) -> Option<u64> {
        if number == msr::DEBUGCTL { Some(self.debugctl) } else { self.branches.read(number) }
    }

    /// Whether a register of the state is this generation's.
    pub fn has(&self, number: u32) -> bool {
        let of_branches = matches!(number, msr::DEBUGCTL | msr::LBR_SELECT | msr::DEBUG_EXTENSION)
            || (msr::LBR_FROM0..msr::LBR_FROM0 + 32).contains(&number);
        match number {
            msr::GLOBAL_STATUS..=msr::GLOBAL_STATUS_SET => self.generation.is_version_2(),
            _ => !of_branches || self.has_branches(),
        }
    }

    /// A branch was taken while branches are recorded; whether it was.
    pub fn branch(&mut self, branch: &Branch) -> bool {
        self.branches.record(branch)
    }

    /// What stops at an interrupt of a counter.
    fn freeze(&mut self) {
        if self.debugctl & DEBUGCTL_FREEZE_BRANCHES != 0 {
            self.status |= STATUS_BRANCHES_FROZEN;
        }
        if self.debugctl & DEBUGCTL_FREEZE_COUNTERS != 0 {
            self.status |= STATUS_COUNTERS_FROZEN;
            self.update_running();
        }
    }

    /// Writes a register of version 2; false where it is not one or refuses the value.
    fn write_of_version_2(&mut self, number: u32, value: u64) -> bool {
        const STATUS: u64 = ALL_COUNTERS | STATUS_BRANCHES_FROZEN | STATUS_COUNTERS_FROZEN;
        if !self.generation.is_version_2() {
            return false;
        }
        match number {
            msr::GLOBAL_STATUS => return false,
            msr::GLOBAL_STATUS_CLR => self.status &= !value,
            msr::GLOBAL_STATUS_SET => self.status |= value & STATUS,
            msr::GLOBAL_CTL if value & !ALL_COUNTERS == 0 => self.global_control = value,
            msr::GLOBAL_CTL => return false,
            msr::DEBUGCTL if self.has_branches() && value & !DEBUGCTL == 0 => self.debugctl = value,
            msr::DEBUGCTL => return false,
            _ => return self.has_branches() && self.branches.write(number, value),
        }
        true
    }

    /// Writes a register; false where it is not one of ours or refuses the value.
    pub fn write(&mut self, budget: &mut Budget, number: u32, value: u64) -> bool {
        self.bring_up_to_date(budget);
        let followed = budget.granularity[KERNEL];
        let random = Some(&mut self.random).filter(|_| self.settings.ibs_random);
        match core_register(number) {
            Some((true, i)) => self.counters[i] = value & COUNTER_MASK,
            Some((false, i)) => {
                self.held.clear(i as u64);
                self.selectors[i] = value;
                let is_told = counted(value).is_some_and(|counted| self.settings.tells(counted));
                if value & SELECT_ENABLE != 0 && !is_told {
                    self.unmodelled.add(value);
                }
            }
            None => {
                let of_samples = self.op.write(number, value) || self.fetch.write(number, value, random);
                if !of_samples && !self.write_of_version_2(number, value) {
                    return false;
                }
            }
        }
        self.update_running();
        self.plan(budget, CLOSE);
        // WRMSR itself does not count as an op that follows it. It will be told of where its kind was followed before already.
        let still = budget.granularity[KERNEL];
        let told =
            followed == Granularity::Instruction as u8 || Granularity::is_of_blocks(followed) && Granularity::is_of_blocks(still);
        if number == msr::IBS_OP_CTL && told && self.op.class().is_some() {
            self.op.leave_out(1);
            self.plan(budget, CLOSE);
        }
        true
    }

    /// RDPMC: a core counter; `None` where there is none.
    pub fn rdpmc(&mut self, budget: &mut Budget, number: u32) -> Option<u64> {
        self.bring_up_to_date(budget);
        self.counters.get(number as usize).copied()
    }

    /// Counters up to date, between two instructions: what becomes due does so with an instruction that retires.
    fn bring_up_to_date(&mut self, budget: &mut Budget) {
        let due = self.sync(budget);
        debug_assert_eq!(due, Due::default());
    }

    fn update_running(&mut self) {
        self.running.clear();
        let runs = if self.status & STATUS_COUNTERS_FROZEN == 0 { self.global_control } else { 0 };
        for (i, &selector) in self.selectors.iter().enumerate() {
            let counts = [selector & SELECT_KERNEL != 0, selector & SELECT_USER != 0];
            let enabled = runs >> i & 1 == 1 && selector & SELECT_ENABLE != 0 && counts != [false; 2];
            if let Some(counted) = counted(selector).filter(|counted| enabled && *counted != Counted::Never) {
                self.running.push(Running { who: Who::Counter(i), counted, counts });
            }
        }
        // IBS knows no modes.
        if let Some(class) = self.op.class() {
            self.running.push(Running { who: Who::Op, counted: Counted::Each(class, 1), counts: [true; 2] });
        }
        if self.fetch.counts() {
            self.running.push(Running { who: Who::Fetch, counted: Counted::Each(Class::Fetches, 1), counts: [true; 2] });
        }
    }

    /// Adds what has passed since the budget was set to the counters; what is due.
    fn sync(&mut self, budget: &mut Budget) -> Due {
        let mut due = Due::default();
        let passed = |start: &Budget, mode: usize, class: Class| start.passed(budget, mode, class);
        for running in &self.running {
            let modes = [KERNEL, USER].into_iter().filter(|&mode| running.counts[mode]);
            let events: i64 = modes.map(|mode| passed(&self.start, mode, running.counted.budgeted())).sum();
            match running.who {
                Who::Counter(i) => {
                    let value = self.counters[i] as i64 + events * running.counted.weight() as i64;
                    let overflowed = value > COUNTER_MASK as i64;
                    self.status |= u64::from(overflowed) << i;
                    due.interrupt |= overflowed && self.selectors[i] & SELECT_INTERRUPT != 0;
                    self.counters[i] = value as u64 & COUNTER_MASK;
                }
                Who::Op => due.op |= self.op.pass(events),
                Who::Fetch => due.fetch |= self.fetch.pass(events),
            }
        }
        if self.skid.left().is_some() {
            let instructions: i64 = [KERNEL, USER].iter().map(|&mode| passed(&self.start, mode, Class::Instructions)).sum();
            self.skid.pass(instructions);
        }
        self.start = budget.clone();
        due
    }

    /// A cycle has passed, in which an instruction retired; whether a counter of cycles interrupts by it.
    fn cycle(&mut self, retired: &Retired) -> bool {
        let mut interrupt = false;
        for at in 0..self.running.len() {
            let running = self.running[at];
            let (Who::Counter(i), Counted::Cycles(condition)) = (running.who, running.counted) else { continue };
            if !running.counts[usize::from(retired.privilege & 1)] {
                continue;
            }
            let value = self.counters[i] + self.held.judge(i as u64, |held| condition.cycle(retired.classes, retired.uops, held));
            self.status |= u64::from(value > COUNTER_MASK) << i;
            interrupt |= value > COUNTER_MASK && self.selectors[i] & SELECT_INTERRUPT != 0;
            self.counters[i] = value & COUNTER_MASK;
        }
        interrupt
    }

    /// Sets the budget: how many events of each class may pass until something is due, and how closely to follow.
    fn plan(&mut self, budget: &mut Budget, need: u32) {
        let mut plan = Plan::default();
        for running in &self.running {
            let events = match (running.who, running.counted) {
                // Each cycle is looked at.
                (Who::Counter(_), Counted::Cycles(_)) => 0,
                (Who::Counter(i), _) => COUNTER_MASK - self.counters[i],
                (Who::Op, _) => self.op.left(),
                (Who::Fetch, _) => self.fetch.left(),
            };
            plan.share(running.counts, running.counted.budgeted(), events);
        }
        if let Some(left) = self.skid.left() {
            plan.skid(left);
        }
        let of_data = |running: &Running| running.who == Who::Op || running.counted.budgeted().bit() & Class::OF_CACHES != 0;
        if self.settings.caches && self.running.iter().any(of_data) {
            plan.watch_memory();
            // Accesses are told of with the instructions that make them.
            plan.follow_instructions();
        }
        if self.branches.are_on() && self.status & STATUS_BRANCHES_FROZEN == 0 {
            plan.record_branches();
        }
        if self.settings.miss_time {
            plan.charge_misses();
        }
        *budget = plan.budget(need);
        self.start = budget.clone();
    }
}

/// Whether a number is a core counter's or its selector's, and which one.
fn core_register(number: u32) -> Option<(bool, usize)> {
    if let Some(i) = number.checked_sub(msr::PERF_CTL0).filter(|&i| i < 2 * COUNTERS as u32) {
        return Some((i % 2 == 1, i as usize / 2));
    }
    let i = number.checked_sub(msr::LEGACY_PERF_CTL0).filter(|&i| i < 2 * LEGACY_COUNTERS)?;
    Some((i >= LEGACY_COUNTERS, (i % LEGACY_COUNTERS) as usize))
}
