//! Where a memory access was served from (`union perf_mem_data_src`).

use perf_event_open_sys::bindings as abi;

/// The word as the kernel wrote it; each part is decoded when asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataSource(pub u64);

/// What the instruction did. More than one may be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Not known.
    pub not_available: bool,
    /// Load.
    pub load: bool,
    /// Store.
    pub store: bool,
    /// Prefetch.
    pub prefetch: bool,
    /// Instruction fetch.
    pub execute: bool,
}

/// The older, flag-like description of the level. Later kernels fill [`Level`] beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LevelFlags {
    /// Not known.
    pub not_available: bool,
    /// Hit at the levels set below.
    pub hit: bool,
    /// Missed at the levels set below.
    pub miss: bool,
    /// L1.
    pub l1: bool,
    /// Line fill buffer.
    pub line_fill_buffer: bool,
    /// L2.
    pub l2: bool,
    /// L3.
    pub l3: bool,
    /// Memory of this node.
    pub local_ram: bool,
    /// Memory one hop away.
    pub remote_ram_1_hop: bool,
    /// Memory two hops away.
    pub remote_ram_2_hops: bool,
    /// Another node's cache, one hop away.
    pub remote_cache_1_hop: bool,
    /// Another node's cache, two hops away.
    pub remote_cache_2_hops: bool,
    /// Device memory.
    pub io: bool,
    /// Uncached memory.
    pub uncached: bool,
}

/// `PERF_MEM_LVLNUM_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// The kernel did not fill it (value 0).
    Unset,
    /// L1.
    L1,
    /// L2.
    L2,
    /// L3.
    L3,
    /// L4.
    L4,
    /// L2's miss handling buffer.
    L2MissHandling,
    /// Memory side cache.
    MemorySideCache,
    /// L0.
    L0,
    /// Uncached.
    Uncached,
    /// CXL memory.
    Cxl,
    /// Device.
    Io,
    /// Some cache.
    AnyCache,
    /// Line fill buffer.
    LineFillBuffer,
    /// RAM.
    Ram,
    /// Persistent memory.
    PersistentMemory,
    /// Not known.
    NotAvailable,
}

/// What other caches answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Snoop {
    /// Not known.
    pub not_available: bool,
    /// None was asked.
    pub none: bool,
    /// One had the line.
    pub hit: bool,
    /// None had it.
    pub miss: bool,
    /// One had it modified.
    pub hit_modified: bool,
    /// The line was forwarded.
    pub forwarded: bool,
    /// The line came from a peer's cache.
    pub peer: bool,
}

/// Whether the access was locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Not known.
    pub not_available: bool,
    /// Atomic.
    pub locked: bool,
}

/// How its address was translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataTlb {
    /// Not known.
    pub not_available: bool,
    /// Hit at the levels set below.
    pub hit: bool,
    /// Missed at the levels set below.
    pub miss: bool,
    /// L1.
    pub l1: bool,
    /// L2.
    pub l2: bool,
    /// The hardware's page walker.
    pub walker: bool,
    /// The operating system's fault handler.
    pub os: bool,
}

/// Why it had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Blocked {
    /// Not known.
    pub not_available: bool,
    /// The data of an earlier store could not be forwarded.
    pub data: bool,
    /// The address conflicted with an earlier one.
    pub address: bool,
}

/// How far away the data were (`PERF_MEM_HOPS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hops {
    /// Not filled in.
    Unset,
    /// Another core of the same node.
    SameNode,
    /// Another node of the same socket.
    SameSocket,
    /// Another socket of the same board.
    SameBoard,
    /// Another board.
    OtherBoard,
    /// A value that the ABI does not define.
    Reserved(u8),
}

impl DataSource {
    fn bits(self, at: u32, width: u32) -> u32 {
        ((self.0 >> at) & ((1 << width) - 1)) as u32
    }

    /// What the instruction did.
    pub fn operation(self) -> Operation {
        let bits = self.bits(abi::PERF_MEM_OP_SHIFT, 5);
        Operation {
            not_available: bits & abi::PERF_MEM_OP_NA != 0,
            load: bits & abi::PERF_MEM_OP_LOAD != 0,
            store: bits & abi::PERF_MEM_OP_STORE != 0,
            prefetch: bits & abi::PERF_MEM_OP_PFETCH != 0,
            execute: bits & abi::PERF_MEM_OP_EXEC != 0,
        }
    }

    /// The level, as flags.
    pub fn level_flags(self) -> LevelFlags {
        let bits = self.bits(abi::PERF_MEM_LVL_SHIFT, 14);
        LevelFlags {
            not_available: bits & abi::PERF_MEM_LVL_NA != 0,
            hit: bits & abi::PERF_MEM_LVL_HIT != 0,
            miss: bits & abi::PERF_MEM_LVL_MISS != 0,
            l1: bits & abi::PERF_MEM_LVL_L1 != 0,
            line_fill_buffer: bits & abi::PERF_MEM_LVL_LFB != 0,
            l2: bits & abi::PERF_MEM_LVL_L2 != 0,
            l3: bits & abi::PERF_MEM_LVL_L3 != 0,
            local_ram: bits & abi::PERF_MEM_LVL_LOC_RAM != 0,
            remote_ram_1_hop: bits & abi::PERF_MEM_LVL_REM_RAM1 != 0,
            remote_ram_2_hops: bits & abi::PERF_MEM_LVL_REM_RAM2 != 0,
            remote_cache_1_hop: bits & abi::PERF_MEM_LVL_REM_CCE1 != 0,
            remote_cache_2_hops: bits & abi::PERF_MEM_LVL_REM_CCE2 != 0,
            io: bits & abi::PERF_MEM_LVL_IO != 0,
            uncached: bits & abi::PERF_MEM_LVL_UNC != 0,
        }
    }

    /// The level, as a number.
    pub fn level(self) -> Level {
        match self.bits(abi::PERF_MEM_LVLNUM_SHIFT, 4) {
            abi::PERF_MEM_LVLNUM_L1 => Level::L1,
            abi::PERF_MEM_LVLNUM_L2 => Level::L2,
            abi::PERF_MEM_LVLNUM_L3 => Level::L3,
            abi::PERF_MEM_LVLNUM_L4 => Level::L4,
            abi::PERF_MEM_LVLNUM_L2_MHB => Level::L2MissHandling,
            abi::PERF_MEM_LVLNUM_MSC => Level::MemorySideCache,
            abi::PERF_MEM_LVLNUM_L0 => Level::L0,
            abi::PERF_MEM_LVLNUM_UNC => Level::Uncached,
            abi::PERF_MEM_LVLNUM_CXL => Level::Cxl,
            abi::PERF_MEM_LVLNUM_IO => Level::Io,
            abi::PERF_MEM_LVLNUM_ANY_CACHE => Level::AnyCache,
            abi::PERF_MEM_LVLNUM_LFB => Level::LineFillBuffer,
            abi::PERF_MEM_LVLNUM_RAM => Level::Ram,
            abi::PERF_MEM_LVLNUM_PMEM => Level::PersistentMemory,
            abi::PERF_MEM_LVLNUM_NA => Level::NotAvailable,
            _ => Level::Unset,
        }
    }

    /// Whether the level is another node's.
    pub fn remote(self) -> bool {
        self.bits(abi::PERF_MEM_REMOTE_SHIFT, 1) == abi::PERF_MEM_REMOTE_REMOTE
    }

    /// What other caches answered.
    pub fn snoop(self) -> Snoop {
        let bits = self.bits(abi::PERF_MEM_SNOOP_SHIFT, 5);
        let more = self.bits(abi::PERF_MEM_SNOOPX_SHIFT, 2);
        Snoop {
            not_available: bits & abi::PERF_MEM_SNOOP_NA != 0,
            none: bits & abi::PERF_MEM_SNOOP_NONE != 0,
            hit: bits & abi::PERF_MEM_SNOOP_HIT != 0,
            miss: bits & abi::PERF_MEM_SNOOP_MISS != 0,
            hit_modified: bits & abi::PERF_MEM_SNOOP_HITM != 0,
            forwarded: more & abi::PERF_MEM_SNOOPX_FWD != 0,
            peer: more & abi::PERF_MEM_SNOOPX_PEER != 0,
        }
    }

    /// Whether it was locked.
    pub fn lock(self) -> Lock {
        let bits = self.bits(abi::PERF_MEM_LOCK_SHIFT, 2);
        Lock { not_available: bits & abi::PERF_MEM_LOCK_NA != 0, locked: bits & abi::PERF_MEM_LOCK_LOCKED != 0 }
    }

    /// How its address was translated.
    pub fn data_tlb(self) -> DataTlb {
        let bits = self.bits(abi::PERF_MEM_TLB_SHIFT, 7);
        DataTlb {
            not_available: bits & abi::PERF_MEM_TLB_NA != 0,
            hit: bits & abi::PERF_MEM_TLB_HIT != 0,
            miss: bits & abi::PERF_MEM_TLB_MISS != 0,
            l1: bits & abi::PERF_MEM_TLB_L1 != 0,
            l2: bits & abi::PERF_MEM_TLB_L2 != 0,
            walker: bits & abi::PERF_MEM_TLB_WK != 0,
            os: bits & abi::PERF_MEM_TLB_OS != 0,
        }
    }

    /// Why it had to wait.
    pub fn blocked(self) -> Blocked {
        let bits = self.bits(abi::PERF_MEM_BLK_SHIFT, 3);
        Blocked {
            not_available: bits & abi::PERF_MEM_BLK_NA != 0,
            data: bits & abi::PERF_MEM_BLK_DATA != 0,
            address: bits & abi::PERF_MEM_BLK_ADDR != 0,
        }
    }

    /// How far away the data were.
    pub fn hops(self) -> Hops {
        match self.bits(abi::PERF_MEM_HOPS_SHIFT, 3) {
            0 => Hops::Unset,
            abi::PERF_MEM_HOPS_0 => Hops::SameNode,
            abi::PERF_MEM_HOPS_1 => Hops::SameSocket,
            abi::PERF_MEM_HOPS_2 => Hops::SameBoard,
            abi::PERF_MEM_HOPS_3 => Hops::OtherBoard,
            other => Hops::Reserved(other as u8),
        }
    }

    /// `PERF_MEM_REGION_*`: 0 not known, 2 and 3 cache shared or not, 4 to 6 another cache domain, 7 device memory, 8 to 15
    /// memory regions 0 to 7.
    pub fn region(self) -> u8 {
        self.bits(abi::PERF_MEM_REGION_SHIFT, 5) as u8
    }
}
