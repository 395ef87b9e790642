//! What a thread was at since its counters were read last.

use super::{Key, Slot};
use crate::executed::{Executed, ReadBy, Reading};

/// Messages among which what was executed from one reading to the next can be shared out. Of more each had next to anything: it is not known then.
const MAX: usize = 64;

/// Since its counters were read last.
#[derive(Default)]
pub(super) struct Unread {
    /// What they said; none: nothing that the next reading could be compared with.
    last: Option<Executed>,
    /// Messages that it was at since, with their slots' serials, and how long in its own code, ns; none: no message.
    at: Vec<(Option<(Key, u64)>, u64)>,
    /// There were more of them than that.
    is_too_many: bool,
    /// It has left its CPU, or is about to.
    has_left: bool,
    /// We read its counters, also whenever it leaves its CPU: the next reading comes, whatever it does.
    is_by_us: bool,
}

impl Unread {
    /// It was on a CPU in its own code, for a message. Returns whether it was, by what the counters say.
    pub fn ran(&mut self, at: Option<(Key, u64)>, ns: u64) -> bool {
        if self.has_left {
            return false;
        }
        if self.last.is_some() && !self.is_too_many {
            match self.at.iter().position(|(other, _)| *other == at) {
                Some(place) => self.at[place].1 += ns,
                None if self.at.len() < MAX => self.at.push((at, ns)),
                None => (self.is_too_many, self.at) = (true, Vec::new()),
            }
        }
        true
    }

    /// Whether the next reading will tell something of a message.
    pub fn waits(&self, key: Key) -> bool {
        self.is_by_us && self.at.iter().any(|(at, _)| at.is_some_and(|(other, _)| other == key))
    }

    /// It gets a CPU.
    pub fn come(&mut self) {
        self.has_left = false;
    }

    /// Its counters are read while it is at a message; its time is accounted for until then.
    pub fn read(&mut self, reading: &Reading, at: Option<(Key, u64)>, slots: &mut [Slot]) {
        let executed = reading.executed.zip(self.last).and_then(|(now, before)| now.since(before));
        if self.at.is_empty() && !self.is_too_many {
            // No time has passed, by the clock.
            self.at.push((at, 0));
        }
        let all_ns = self.at.iter().map(|(_, ns)| ns).sum();
        for (at, ns) in self.at.drain(..) {
            let slot = at.and_then(|(key, serial)| slots.get_mut(key as usize).filter(|slot| slot.serial == serial));
            if let (Some(slot), Some(executed)) = (slot, executed) {
                slot.message.executed.read(executed, ns, all_ns);
            }
        }
        (self.last, self.is_too_many, self.has_left) = (reading.executed, false, reading.by == ReadBy::UsAsItLeaves);
        self.is_by_us = reading.by != ReadBy::Itself;
    }
}
