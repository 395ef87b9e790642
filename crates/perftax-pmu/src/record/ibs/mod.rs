//! AMD IBS: the registers that a sample of `ibs_op` or `ibs_fetch` brings in its raw data.
//!
//! The kernel writes a word of 32 bits, the machine's IBS capabilities (CPUID Fn8000_001B EAX), then the registers, 64 bits each
//! (`struct perf_ibs_data` and `perf_ibs_handle_irq` in arch/x86/events/amd/ibs.c). Which kind it is the raw data do not say:
//! the event's PMU does. Bit fields: AMD's Processor Programming Reference, family 19h and 1Ah, MSRC001_1030 and on; those that came with Zen 6 by Linux 7.1
//! (`asm/amd/ibs.h`), for no such machine was seen.

mod fetch;
mod op;

pub use fetch::{Fetch, FetchControl};
pub use op::{Op, OpControl, OpData, OpData2, OpData3, OpSource};

/// IBS capabilities of the machine that wrote the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capabilities(pub u32);

impl Capabilities {
    fn has(self, at: u32) -> bool {
        super::bits::bit(u64::from(self.0), at)
    }

    /// Ops can be counted, not cycles only (`IbsOpCntCtl`).
    pub fn counts_ops(self) -> bool {
        self.has(4)
    }

    /// Samples of ops have the branch's target.
    pub fn branch_target(self) -> bool {
        self.has(5)
    }

    /// `IbsRipInvalid` is there.
    pub fn rip_invalid_check(self) -> bool {
        self.has(7)
    }

    /// Samples of fetches have the refill latency of the instruction TLB.
    pub fn fetch_control_extended(self) -> bool {
        self.has(9)
    }

    /// Samples of ops have `IbsOpData4`.
    pub fn op_data_4(self) -> bool {
        self.has(10)
    }

    /// Zen 4 and later: L3 miss filter, extended data sources.
    pub fn zen_4(self) -> bool {
        self.has(11)
    }

    /// Zen 5 and later: load latency filter.
    pub fn load_latency_filter(self) -> bool {
        self.has(12)
    }

    /// Sampling has a bit of its own that stops it.
    pub fn disable_bit(self) -> bool {
        self.has(13)
    }

    /// Fetches can be filtered by latency.
    pub fn fetch_latency_filter(self) -> bool {
        self.has(14)
    }

    /// The hardware leaves out the kernel, or user mode, by the highest bit of the address.
    pub fn privilege_filter(self) -> bool {
        self.has(15)
    }

    /// Streaming stores can be filtered and are told, and so is whether data came from another socket.
    pub fn streaming_store_and_remote_socket(self) -> bool {
        self.has(16)
    }

    /// The page size of a data translation is given where the physical address is valid.
    pub fn data_tlb_page_size(self) -> bool {
        self.has(19)
    }
}
