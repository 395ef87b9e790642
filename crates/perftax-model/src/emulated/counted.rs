//! What a counter counts of an event: each one, or cycles in which it happens often enough.

use super::Class;

/// Micro-operations that an instruction has at most: its own, a load's, and a store's two.
const MOST_UOPS: u8 = 4;

/// What an event selector asks for beside the event: bits 18, 23 and 24 to 31, of both vendors (SDM volume 3, 20.2.1.1; APM volume 2, 13.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// Cycles with at least so many events; 0: each event.
    pub counter_mask: u8,
    /// Cycles with fewer; means nothing without a mask.
    pub inverted: bool,
    /// How often that begins to hold.
    pub edge: bool,
}

impl Masks {
    /// Of a selector.
    pub fn of(selector: u64) -> Self {
        Self { counter_mask: (selector >> 24) as u8, inverted: selector >> 23 & 1 == 1, edge: selector >> 18 & 1 == 1 }
    }
}

/// Cycles that are counted. An instruction takes a cycle; while the core stands still nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    class: Class,
    at_least: u8,
    inverted: bool,
    edge: bool,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Each event, as so much.
    Each(Class, u64),
    /// Cycles.
    Cycles(Condition),
    /// What does not happen in this machine: the event is modelled, and there are none.
    Never,
}

impl Counted {
    /// Events of a class, under masks.
    pub fn of(class: Class, masks: Masks) -> Self {
        let most = if class == Class::Uops { MOST_UOPS } else { 1 };
        let Masks { counter_mask, inverted, edge } = masks;
        let inverted = inverted && counter_mask > 0;
        let at_least = counter_mask.max(1);
        // Each cycle has one of its own.
        let always = (class == Class::Cycles && at_least == 1 && !inverted) || (inverted && at_least > most);
        match (counter_mask, edge) {
            (0, false) => Self::Each(class, 1),
            // It began before anybody looked.
            _ if always && edge => Self::Never,
            _ if always => Self::Each(Class::Cycles, 1),
            _ if !inverted && at_least > most || class == Class::Cycles => Self::Never,
            (1, false) if !inverted && most == 1 => Self::Each(class, 1),
            _ => Self::Cycles(Condition { class, at_least, inverted, edge }),
        }
    }

    /// Of an event that does not happen in this machine.
    pub fn none(masks: Masks) -> Self {
        let always = masks.inverted && masks.counter_mask > 0 && !masks.edge;
        if always { Self::Each(Class::Cycles, 1) } else { Self::Never }
    }

    /// The class, where its events are what is counted.
    pub fn class(self) -> Option<Class> {
        match self {
            Self::Each(class, _) | Self::Cycles(Condition { class, .. }) => Some(class),
            Self::Never => None,
        }
    }

    /// What the budget is kept of: cycles pass with instructions, and what else takes cycles is added where it happens.
    pub fn budgeted(self) -> Class {
        match self {
            Self::Each(Class::Cycles, _) | Self::Cycles(_) | Self::Never => Class::Instructions,
            Self::Each(class, _) => class,
        }
    }

    /// Whether it counts cycles that the core stands still, as so much each.
    pub fn of_standing(self) -> Option<u64> {
        match self {
            Self::Each(Class::Cycles, weight) => Some(weight),
            _ => None,
        }
    }

    /// How much an event that is budgeted adds.
    pub fn weight(self) -> u64 {
        match self {
            Self::Each(_, weight) => weight,
            Self::Cycles(_) | Self::Never => 0,
        }
    }
}

impl Condition {
    /// What a cycle adds in which an instruction of these classes retires. `held` is whether it held in the cycle before, and is brought up to date.
    pub fn cycle(self, classes: u32, uops: u32, held: &mut bool) -> u64 {
        let happened = classes & self.class.bit() != 0;
        let events = if self.class == Class::Uops { uops } else { u32::from(happened) };
        self.counts(events, held)
    }

    /// What cycles add in which the core stands still.
    pub fn standing(self, cycles: u64, held: &mut bool) -> u64 {
        let first = self.counts(0, held);
        if self.edge { first } else { first * cycles }
    }

    fn counts(self, events: u32, held: &mut bool) -> u64 {
        let holds = (events >= u32::from(self.at_least)) != self.inverted;
        let before = std::mem::replace(held, holds);
        u64::from(holds && !(self.edge && before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(counter_mask: u8, inverted: bool, edge: bool) -> Masks {
        Masks { counter_mask, inverted, edge }
    }

    #[test]
    fn masks_that_change_nothing_cost_nothing() {
        assert_eq!(Masks::of(0x0184_01c0), masks(1, true, true));
        for (class, masks, counted) in [
            (Class::Loads, masks(0, false, false), Counted::Each(Class::Loads, 1)),
            // Inversion means nothing without a mask.
            (Class::Loads, masks(0, true, false), Counted::Each(Class::Loads, 1)),
            (Class::Loads, masks(1, false, false), Counted::Each(Class::Loads, 1)),
            (Class::Loads, masks(2, false, false), Counted::Never),
            // As perf's cycles:pp asks.
            (Class::Instructions, masks(16, true, false), Counted::Each(Class::Cycles, 1)),
            (Class::Uops, masks(16, true, false), Counted::Each(Class::Cycles, 1)),
            (Class::Cycles, masks(1, false, false), Counted::Each(Class::Cycles, 1)),
            (Class::Cycles, masks(1, true, false), Counted::Never),
        ] {
            assert_eq!(Counted::of(class, masks), counted, "{class:?} {masks:?}");
        }
        assert_eq!(Counted::none(masks(1, true, false)), Counted::Each(Class::Cycles, 1));
    }

    #[test]
    fn cycles_are_counted_by_how_much_happens_in_each() {
        let counted = |masks: Masks| {
            let Counted::Cycles(condition) = Counted::of(Class::Uops, masks) else { panic!("{masks:?}") };
            let mut held = false;
            let of = |uops: u32, held: &mut bool| condition.cycle(Class::Uops.bit(), uops, held);
            let retired: u64 = [1, 2, 3, 4, 1, 4].iter().map(|uops| of(*uops, &mut held)).sum();
            (retired, condition.standing(10, &mut held))
        };
        assert_eq!(counted(masks(2, false, false)), (4, 0));
        assert_eq!(counted(masks(2, true, false)), (2, 10));
        assert_eq!(counted(masks(2, false, true)), (2, 0), "it began to hold twice");
        assert_eq!(counted(masks(2, true, true)), (2, 1));
    }
}
