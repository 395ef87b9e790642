//! Locks that threads wait for in the kernel, by their addresses (futex(2)).

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

/// A lock, a condition, a semaphore: an address that threads of a process wait at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The process.
    pub pid: u32,
    /// The address, as `futex` is told it: of glibc's mutexes that of the mutex.
    pub address: u64,
    /// What lies there; none where that is not known.
    pub name: Option<String>,
}

/// Numbers of locks among those of system calls, which are below a thousand.
const FIRST: u32 = 1 << 30;
/// `futex`'s commands that wait for an address, without `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME` (include/uapi/linux/futex.h): WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI,
/// LOCK_PI2.
const WAITS: [u64; 5] = [0, 6, 9, 11, 13];
const COMMAND: u64 = 0x7f;

impl Lock {
    /// Where a thread of a process waits by a system call; none where it does so for no address.
    pub fn of_call(pid: u32, number: u32, arguments: [u64; 2]) -> Option<Self> {
        let [address, command] = arguments;
        let is_futex = number == syscalls::Sysno::futex as u32;
        (is_futex && WAITS.contains(&(command & COMMAND))).then_some(Self { pid, address, name: None })
    }

    /// Its number, where a system call's stands otherwise. Two locks of a trace have one number by chance: of ten thousand locks, one pair in twenty traces.
    pub fn number(&self) -> u32 {
        let mut hasher = FxHasher::default();
        (self.pid, self.address).hash(&mut hasher);
        FIRST | (hasher.finish() >> 34) as u32
    }

    /// Whether a number is a lock's.
    pub fn is_one(number: u32) -> bool {
        number & FIRST != 0
    }

    /// What stands for a lock of which no more is known, or for a system call: that call's number.
    pub fn or_call(number: u32) -> u32 {
        if Self::is_one(number) { syscalls::Sysno::futex as u32 } else { number }
    }

    /// What it is called.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{:#x}", self.address))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn who_waits_at_an_address_waits_for_a_lock() {
        let futex = syscalls::Sysno::futex as u32;
        // FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME, and FUTEX_WAKE.
        let lock = Lock::of_call(7, futex, [0x1000, 9 | 128 | 256]).unwrap();
        assert_eq!((lock.address, lock.name()), (0x1000, "0x1000".to_string()));
        assert_eq!(Lock::of_call(7, futex, [0x1000, 1 | 128]), None);
        assert_eq!(Lock::of_call(7, futex + 1, [0x1000, 0]), None);
        let other = Lock { pid: 8, ..lock.clone() };
        assert!(lock.number() != other.number() && Lock::is_one(lock.number()) && !Lock::is_one(futex));
        assert_eq!((Lock::or_call(lock.number()), Lock::or_call(3)), (futex, 3));
        assert!(lock.number() < u32::MAX / 2);
    }
}
