//! Samples of `ibs_op`.

use super::super::bits::{bit, bits};
use super::super::cursor::Cursor;
use super::Capabilities;
use crate::Result;

/// One tagged op, from its tag to its retirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// What the machine can.
    pub capabilities: Capabilities,
    /// `IbsOpCtl`.
    pub control: OpControl,
    /// `IbsOpRip`: address of the op's instruction, if [`OpData::rip_invalid`] is not set.
    pub rip: u64,
    /// `IbsOpData`: its way to retirement.
    pub data: OpData,
    /// `IbsOpData2`: where its data came from, for loads.
    pub data2: OpData2,
    /// `IbsOpData3`: what it did to the data cache.
    pub data3: OpData3,
    /// `IbsDcLinAd`: address of its data, if [`OpData3::linear_address_valid`] is set.
    pub linear_address: u64,
    /// `IbsDcPhysAd`: the physical one, if [`OpData3::physical_address_valid`] is set. The kernel zeroes it for users without
    /// privilege.
    pub physical_address: u64,
    /// `IbsBrTarget`: target of a branch.
    pub branch_target: Option<u64>,
    /// `IbsOpData4`: bit 0 says that a load was resynchronised (family 15h).
    pub data4: Option<u64>,
}

/// `IbsOpCtl`, MSRC001_1033.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpControl(pub u64);

/// `IbsOpData`, MSRC001_1035.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpData(pub u64);

/// `IbsOpData2`, MSRC001_1036.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpData2(pub u64);

/// `IbsOpData3`, MSRC001_1037.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpData3(pub u64);

impl Op {
    /// From the raw data of a sample.
    ///
    /// # Errors
    /// [`crate::Error::Malformed`] where the data end inside the registers that the capabilities announce, or after them.
    pub fn decode(raw: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new("IBS op sample", 0, raw);
        let c = &mut cursor;
        let capabilities = Capabilities(c.u32("capabilities")?);
        let op = Self {
            capabilities,
            control: OpControl(c.u64("IbsOpCtl")?),
            rip: c.u64("IbsOpRip")?,
            data: OpData(c.u64("IbsOpData")?),
            data2: OpData2(c.u64("IbsOpData2")?),
            data3: OpData3(c.u64("IbsOpData3")?),
            linear_address: c.u64("IbsDcLinAd")?,
            physical_address: c.u64("IbsDcPhysAd")?,
            branch_target: capabilities.branch_target().then(|| c.u64("IbsBrTarget")).transpose()?,
            data4: capabilities.op_data_4().then(|| c.u64("IbsOpData4")).transpose()?,
        };
        cursor.finish()?;
        Ok(op)
    }
}

/// Where a load's data came from, as the machine's capabilities say how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpSource {
    /// The hardware does not say.
    NotSaid,
    /// A cache of this core complex: L3, or another core's (Zen 4 and later).
    OwnComplex,
    /// A cache of a core complex nearby, in the same node (Zen 4 and later).
    NearComplex,
    /// The L3 of this node or another core of it (before Zen 4).
    OwnNode,
    /// A cache of another node.
    OtherNode,
    /// Memory.
    Memory,
    /// Persistent memory.
    PersistentMemory,
    /// A device, or configuration space.
    Device,
    /// Extension memory (CXL).
    ExtensionMemory,
    /// Memory of a peer.
    PeerMemory,
    /// A value without a meaning that is known here.
    Unknown(u8),
}

impl Op {
    /// Where the data came from: meaningful for loads that missed the data cache and L2.
    pub fn source(&self) -> OpSource {
        let code = self.data2.data_source();
        if self.capabilities.zen_4() {
            return match code {
                0 => OpSource::NotSaid,
                1 => OpSource::OwnComplex,
                2 => OpSource::NearComplex,
                3 => OpSource::Memory,
                5 => OpSource::OtherNode,
                6 => OpSource::PersistentMemory,
                7 => OpSource::Device,
                8 => OpSource::ExtensionMemory,
                12 => OpSource::PeerMemory,
                other => OpSource::Unknown(other),
            };
        }
        // The upper two bits came with Zen 4's encoding.
        match code & 7 {
            0 => OpSource::NotSaid,
            2 => OpSource::OwnNode,
            3 => OpSource::Memory,
            4 => OpSource::OtherNode,
            7 => OpSource::Device,
            other => OpSource::Unknown(other),
        }
    }

    /// A store that goes past the caches; `None` where the machine does not tell (before Zen 6).
    pub fn streaming_store(&self) -> Option<bool> {
        self.capabilities.streaming_store_and_remote_socket().then(|| bit(self.data2.0, 8))
    }

    /// From another socket; `None` where the machine does not tell (before Zen 6).
    pub fn remote_socket(&self) -> Option<bool> {
        self.capabilities.streaming_store_and_remote_socket().then(|| bit(self.data2.0, 9))
    }

    /// Bytes of the page by which the address was translated; 4 KiB stands for pages that the hardware had put together, too. `None` where no address is
    /// there. Before Zen 5 a TLB must have had it; from there on (capability bit 19) the physical address must be valid, whether a TLB had it or not
    /// (Linux's 0b347a4218da).
    pub fn data_page_bytes(&self) -> Option<u64> {
        let data = self.data3;
        if !data.linear_address_valid() {
            return None;
        }
        if self.capabilities.data_tlb_page_size() {
            let size = bits(data.0, 4, 2);
            return [4 << 10, 2 << 20, 1 << 30].get(size as usize).copied().filter(|_| data.physical_address_valid());
        }
        if data.l1_tlb_miss() && data.l2_tlb_miss() {
            return None;
        }
        let (gigabyte, megabytes) = if data.l1_tlb_miss() { (19, 6) } else { (5, 4) };
        Some(match (bit(data.0, gigabyte), bit(data.0, megabytes)) {
            (true, _) => 1 << 30,
            (false, true) => 2 << 20,
            (false, false) => 4 << 10,
        })
    }
}

impl OpControl {
    /// The period: what the counter counts up to. Multiples of 16.
    pub fn period(self) -> u64 {
        (bits(self.0, 0, 16) | bits(self.0, 20, 7) << 16) << 4
    }

    /// Where the counter stood.
    pub fn current_count(self) -> u32 {
        bits(self.0, 32, 27) as u32
    }

    /// Ops that miss L3 only (Zen 4 and later).
    pub fn l3_miss_only(self) -> bool {
        bit(self.0, 16)
    }

    /// Sampling is enabled.
    pub fn enabled(self) -> bool {
        bit(self.0, 17)
    }

    /// The other registers hold a sample.
    pub fn valid(self) -> bool {
        bit(self.0, 18)
    }

    /// Dispatched ops are counted, else cycles.
    pub fn counts_ops(self) -> bool {
        bit(self.0, 19)
    }

    /// Threshold of the load latency filter in cycles, where it is on: steps of 128, which a load's latency exceeds. The driver's, in its event, may be above it
    /// (Zen 5).
    pub fn load_latency_threshold_cycles(self) -> Option<u32> {
        bit(self.0, 63).then(|| (bits(self.0, 59, 4) as u32 + 1) * 128)
    }
}

impl OpData {
    /// Cycles from completion to retirement.
    pub fn completion_to_retirement_cycles(self) -> u16 {
        bits(self.0, 0, 16) as u16
    }

    /// Cycles from the tag to retirement.
    pub fn tag_to_retirement_cycles(self) -> u16 {
        bits(self.0, 16, 16) as u16
    }

    /// A return.
    pub fn is_return(self) -> bool {
        bit(self.0, 34)
    }

    /// A taken branch.
    pub fn branch_taken(self) -> bool {
        bit(self.0, 35)
    }

    /// A mispredicted branch.
    pub fn branch_mispredicted(self) -> bool {
        bit(self.0, 36)
    }

    /// A branch that retired.
    pub fn branch_retired(self) -> bool {
        bit(self.0, 37)
    }

    /// The address of the instruction is not valid.
    pub fn rip_invalid(self) -> bool {
        bit(self.0, 38)
    }

    /// A branch fused with the instruction before it.
    pub fn branch_fused(self) -> bool {
        bit(self.0, 39)
    }

    /// From microcode.
    pub fn microcode(self) -> bool {
        bit(self.0, 40)
    }
}

impl OpData2 {
    /// Where a load's data came from, as a number: [`Op::source`] says what it means on the machine.
    pub fn data_source(self) -> u8 {
        (bits(self.0, 0, 3) | bits(self.0, 6, 2) << 3) as u8
    }

    /// From another node.
    pub fn remote_node(self) -> bool {
        bit(self.0, 4)
    }

    /// The line was owned (else modified) in the cache that gave it.
    pub fn cache_hit_owned(self) -> bool {
        bit(self.0, 5)
    }
}

impl OpData3 {
    /// A load. An op may be both.
    pub fn load(self) -> bool {
        bit(self.0, 0)
    }

    /// A store.
    pub fn store(self) -> bool {
        bit(self.0, 1)
    }

    /// Missed the first data TLB. From Zen 5 on (capability bit 19) not known where the physical address is not valid.
    pub fn l1_tlb_miss(self) -> bool {
        bit(self.0, 2)
    }

    /// Missed the second; likewise.
    pub fn l2_tlb_miss(self) -> bool {
        bit(self.0, 3)
    }

    /// Missed the data cache.
    pub fn data_cache_miss(self) -> bool {
        bit(self.0, 7)
    }

    /// Misaligned.
    pub fn misaligned(self) -> bool {
        bit(self.0, 8)
    }

    /// To write-combining memory.
    pub fn write_combining(self) -> bool {
        bit(self.0, 13)
    }

    /// To uncached memory.
    pub fn uncached(self) -> bool {
        bit(self.0, 14)
    }

    /// Locked.
    pub fn locked(self) -> bool {
        bit(self.0, 15)
    }

    /// Missed without a miss buffer of its own: another access had asked for the line.
    pub fn miss_without_buffer(self) -> bool {
        bit(self.0, 16)
    }

    /// [`Op::linear_address`] is one.
    pub fn linear_address_valid(self) -> bool {
        bit(self.0, 17)
    }

    /// [`Op::physical_address`] is one.
    pub fn physical_address_valid(self) -> bool {
        bit(self.0, 18)
    }

    /// Missed L2.
    pub fn l2_miss(self) -> bool {
        bit(self.0, 20)
    }

    /// A software prefetch.
    pub fn software_prefetch(self) -> bool {
        bit(self.0, 21)
    }

    /// Bytes accessed; `None` where the hardware does not say.
    pub fn width_bytes(self) -> Option<u32> {
        match bits(self.0, 22, 4) {
            0 => None,
            code => Some(1 << (code - 1)),
        }
    }

    /// Accesses on their way when the line arrived.
    pub fn open_requests(self) -> u8 {
        bits(self.0, 26, 6) as u8
    }

    /// Cycles from the miss to the line's arrival.
    pub fn miss_latency_cycles(self) -> u16 {
        bits(self.0, 32, 16) as u16
    }

    /// Cycles that the refill of the first data TLB took.
    pub fn tlb_refill_cycles(self) -> u16 {
        bits(self.0, 48, 16) as u16
    }
}
