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
    /// Events of the nearest action.
    least: u64,
    only_blocks: bool,
}

impl Default for Plan {
    fn default() -> Self {
        let budget = Budget { left: [[MAX_LEFT as i32; CLASSES]; 2], ..Budget::default() };
        Self { budget, followed: [false; 2], least: MAX_LEFT, only_blocks: true }
    }
}

impl Plan {
    /// Something that counts a class in these modes: so many events may pass, and the next one must be told of. Both modes draw on one
    /// counter: each gets half, and the rest is dealt out anew when one is used up.
    pub fn share(&mut self, modes: [bool; 2], class: Class, events: u64) {
        let shares = modes.iter().filter(|&&counts| counts).count().max(1) as u64;
        let allowed = events / shares;
        [KERNEL, USER].into_iter().filter(|&mode| modes[mode]).for_each(|mode| self.until(mode, class, allowed));
        self.least = self.least.min(allowed);
        self.only_blocks &= matches!(class, Class::Instructions | Class::Branches);
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

    /// Taken branches are recorded, in both modes.
    pub fn record_branches(&mut self) {
        self.budget.records_branches = 1;
        self.followed = [true; 2];
        self.only_blocks = false;
    }

    /// Accesses go through the simulated caches.
    pub fn watch_memory(&mut self) {
        self.budget.watches_memory = 1;
    }

    /// Every access takes its time: all instructions of both modes are followed, whether anything counts or not.
    pub fn charge_misses(&mut self) {
        self.watch_memory();
        self.follow_instructions();
        self.followed = [true; 2];
    }

    /// The budget. A block of `need` instructions must fit, or every instruction is followed.
    pub fn budget(mut self, need: u32) -> Budget {
        let blocks = self.only_blocks && self.least >= u64::from(need);
        for mode in [KERNEL, USER] {
            let granularity = match (self.followed[mode], blocks) {
                (false, _) => Granularity::Off,
                (true, true) => Granularity::Block,
                (true, false) => Granularity::Instruction,
            };
            self.budget.granularity[mode] = granularity as u8;
            if granularity == Granularity::Block {
                // Only the sign of what is left of instructions is looked at.
                let left = &mut self.budget.left[mode];
                left[Class::Instructions as usize] = left[Class::Instructions as usize].min(left[Class::Branches as usize]);
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
