//! A budget in the making.

use super::{Budget, CLASSES, Class, Granularity, KERNEL, USER};

/// Budgets are kept far from the ends of their type, so that a block may overdraw them.
const MAX_LEFT: u64 = 1 << 30;
/// Below so many events to the next action every instruction is followed: more than a block has instructions, as a rule.
pub const CLOSE: u32 = 16;

/// What counts, and how far each is from doing something.
#[derive(Clone, Debug)]
pub struct Plan {
    budget: Budget,
    followed: [bool; 2],
    /// Instructions that may pass, by mode, before the nearest action, if each is of all classes that are counted.
    least: [u64; 2],
    only_blocks: bool,
    /// Blocks have to tell of their loads and stores.
    of_data: bool,
    /// And of the branches at their ends.
    of_branches: bool,
}

impl Default for Plan {
    fn default() -> Self {
        let budget = Budget { left: [[MAX_LEFT as i32; CLASSES]; 2], ..Budget::default() };
        Self { budget, followed: [false; 2], least: [MAX_LEFT; 2], only_blocks: true, of_data: false, of_branches: false }
    }
}

impl Plan {
    /// Something that counts a class in these modes: so many events may pass, and the next one must be told of. Both modes draw on one
    /// counter: each gets half, and the rest is dealt out anew when one is used up.
    pub fn share(&mut self, modes: [bool; 2], class: Class, events: u64) {
        let shares = modes.iter().filter(|&&counts| counts).count().max(1) as u64;
        let allowed = events / shares;
        let most = class.most_in_blocks();
        for mode in [KERNEL, USER].into_iter().filter(|&mode| modes[mode]) {
            self.until(mode, class, allowed);
            self.least[mode] = self.least[mode].min(allowed / most.unwrap_or(1));
        }
        self.only_blocks &= most.is_some();
        self.of_data |= !matches!(class, Class::Instructions | Class::Branches);
        self.of_branches |= class.bit() & Class::OF_BRANCHES != 0;
    }

    /// An interrupt is due after so many instructions, whatever their mode.
    pub fn skid(&mut self, instructions: u32) {
        let left = u64::from(instructions.saturating_sub(1));
        [KERNEL, USER].into_iter().for_each(|mode| self.until(mode, Class::Instructions, left));
        self.only_blocks = false;
    }

    /// No blocks.
    pub fn follow_instructions(&mut self) {
        self.only_blocks = false;
    }

    /// Registers are recorded with the next instruction that uses up a budget.
    pub fn want_registers(&mut self) {
        self.budget.wants_registers = 1;
    }

    /// Taken branches are recorded, in both modes.
    pub fn record_branches(&mut self) {
        self.budget.records_branches = 1;
        self.followed = [true; 2];
        self.of_branches = true;
    }

    /// Accesses go through the simulated caches.
    pub fn watch_memory(&mut self) {
        self.follow_instructions();
        self.budget.watches_memory = 1;
    }

    /// Every access takes its time: all instructions of both modes are followed, whether anything counts or not.
    pub fn charge_misses(&mut self) {
        self.watch_memory();
        self.followed = [true; 2];
    }

    /// The budget. A block of `need` instructions must fit, or every instruction is followed.
    pub fn budget(mut self, need: u32) -> Budget {
        let blocks = self.only_blocks && self.least.iter().all(|least| *least >= u64::from(need));
        for mode in [KERNEL, USER] {
            let granularity = match (self.followed[mode], blocks) {
                (false, _) => Granularity::Off,
                (true, false) => Granularity::Instruction,
                (true, true) if self.of_branches => Granularity::BlockAndBranches,
                (true, true) if self.of_data => Granularity::BlockAndData,
                (true, true) => Granularity::Block,
            };
            self.budget.granularity[mode] = granularity as u8;
            if blocks {
                // Only the sign of what is left of instructions is looked at.
                self.budget.left[mode][Class::Instructions as usize] = self.least[mode] as i32;
            }
        }
        self.budget
    }

    fn until(&mut self, mode: usize, class: Class, events: u64) {
        let left = &mut self.budget.left[mode][class as usize];
        *left = (*left).min(events.min(MAX_LEFT) as i32);
        self.budget.watched[mode] |= class.bit();
        self.followed[mode] = true;
    }
}
