//! Messages that go from one process to another and keep their number: who begins one that another has begun comes to it, and leaves it by its end; who receives one is at it until it
//! sends it on, or ends it for all.

use rustc_hash::{FxHashMap, FxHashSet};

/// How a process came to a message of another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// It began it, too: it leaves it where it ends it.
    Began,
    /// It received it: it leaves it where it sends it.
    Received,
}

/// What an end of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its end.
    Its,
    /// A guest leaves it.
    Guests,
    /// It is over already, as far as this process was at it.
    Over,
}

/// Messages under way, by the process that began them, where there are several processes.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    last: u32,
    processes: FxHashSet<u32>,
    owners: FxHashMap<u64, u32>,
    guests: FxHashMap<(u64, u32), Came>,
}

/// Messages that are kept in mind; where there are so many that never end, it begins anew.
const MAX: usize = 1 << 20;

impl Guests {
    /// Whether there are several processes, of which this is one.
    fn are_several(&mut self, pid: u32) -> bool {
        if self.last != pid {
            self.last = pid;
            self.processes.insert(pid);
        }
        self.processes.len() > 1
    }

    /// Whether a message of this number is another process's, and under way.
    fn is_anothers(&self, pid: u32, id: u64) -> bool {
        self.owners.get(&id).is_some_and(|owner| *owner != pid)
    }

    fn come(&mut self, pid: u32, id: u64, how: Came) -> bool {
        let comes = self.are_several(pid) && self.is_anothers(pid, id) && self.guests.len() < MAX;
        if comes && self.guests.get(&(id, pid)) != Some(&Came::Began) {
            self.guests.insert((id, pid), how);
        }
        comes
    }

    /// A process begins a message: whether it comes to one of another's.
    pub fn begin(&mut self, pid: u32, id: u64) -> bool {
        if self.come(pid, id, Came::Began) {
            return true;
        }
        // Of one process, all are its own; those under way when another comes are not known to be.
        if self.owners.len() >= MAX {
            self.owners.clear();
        }
        self.owners.insert(id, pid);
        false
    }

    /// A process receives one: whether it is at another's from now on.
    pub fn receive(&mut self, pid: u32, id: u64) -> bool {
        self.come(pid, id, Came::Received)
    }

    /// A process sends one: whether it leaves it.
    pub fn send(&mut self, pid: u32, id: u64) -> bool {
        let leaves = self.guests.get(&(id, pid)) == Some(&Came::Received);
        if leaves {
            self.guests.remove(&(id, pid));
        }
        leaves
    }

    /// A process is no more: what it had begun is nobody's.
    pub fn gone(&mut self, pid: u32) {
        if self.processes.remove(&pid) {
            self.owners.retain(|_, owner| *owner != pid);
            self.guests.retain(|(_, guest), _| *guest != pid);
        }
        self.last = 0;
    }

    /// A process ends one.
    pub fn end(&mut self, pid: u32, id: u64) -> End {
        if self.guests.remove(&(id, pid)) == Some(Came::Began) {
            return if self.is_anothers(pid, id) { End::Guests } else { End::Over };
        }
        self.owners.remove(&id);
        End::Its
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_began_it_ends_it() {
        let mut guests = Guests::default();
        assert!(!guests.begin(1, 7) && !guests.receive(1, 7));
        assert!(guests.begin(2, 7) && guests.receive(3, 7));
        assert!(guests.send(3, 7) && !guests.send(3, 7) && !guests.send(2, 7));
        assert_eq!([guests.end(2, 7), guests.end(1, 7)], [End::Guests, End::Its]);
        // One that is received and begun is left by its end, one that is received alone is ended.
        assert!(!guests.begin(1, 8) && guests.receive(2, 8) && guests.begin(2, 8) && !guests.send(2, 8));
        assert_eq!(guests.end(2, 8), End::Guests);
        assert!(guests.receive(2, 8));
        assert_eq!([guests.end(2, 8), guests.end(1, 8)], [End::Its, End::Its]);
        // Another message of the same number.
        assert!(!guests.begin(2, 7) && guests.begin(1, 7));
        assert_eq!(guests.end(2, 7), End::Its);
        assert_eq!(guests.end(1, 7), End::Over);
        assert!(guests.guests.is_empty() && guests.owners.is_empty());
        // Whoever is gone has left it.
        assert!(!guests.begin(1, 9));
        guests.gone(1);
        assert!(!guests.begin(2, 9) && guests.begin(3, 9));
    }
}
