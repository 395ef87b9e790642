//! How a hardware transaction ended.

use perf_event_open_sys::bindings as abi;

/// `PERF_TXN_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transaction(pub u64);

#[allow(clippy::unnecessary_cast)] // unsigned long in the bindings
impl Transaction {
    fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    /// From lock elision.
    pub fn elision(self) -> bool {
        self.has(abi::PERF_TXN_ELISION as u64)
    }

    /// From an explicit transaction.
    pub fn transaction(self) -> bool {
        self.has(abi::PERF_TXN_TRANSACTION as u64)
    }

    /// The sampled instruction caused the abort.
    pub fn synchronous(self) -> bool {
        self.has(abi::PERF_TXN_SYNC as u64)
    }

    /// Something else caused it.
    pub fn asynchronous(self) -> bool {
        self.has(abi::PERF_TXN_ASYNC as u64)
    }

    /// A retry may succeed.
    pub fn retry(self) -> bool {
        self.has(abi::PERF_TXN_RETRY as u64)
    }

    /// Another thread touched the same data.
    pub fn conflict(self) -> bool {
        self.has(abi::PERF_TXN_CONFLICT as u64)
    }

    /// Too much was written.
    pub fn capacity_write(self) -> bool {
        self.has(abi::PERF_TXN_CAPACITY_WRITE as u64)
    }

    /// Too much was read.
    pub fn capacity_read(self) -> bool {
        self.has(abi::PERF_TXN_CAPACITY_READ as u64)
    }

    /// The code that the program gave to its abort.
    pub fn abort_code(self) -> u32 {
        ((self.0 & abi::PERF_TXN_ABORT_MASK as u64) >> abi::PERF_TXN_ABORT_SHIFT) as u32
    }
}
