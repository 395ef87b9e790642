//! Numbers of model-specific registers (PPR for family 17h models 31h, 2.1.14.3 and 2.1.14.4).

use std::ops::RangeInclusive;

/// First event selector; counters and selectors take turns.
pub const PERF_CTL0: u32 = 0xc001_0200;
/// First counter.
pub const PERF_CTR0: u32 = 0xc001_0201;
/// First event selector's old number, of four.
pub const LEGACY_PERF_CTL0: u32 = 0xc001_0000;
/// First counter's old number, of four.
pub const LEGACY_PERF_CTR0: u32 = 0xc001_0004;
/// PerfCntrGlobalStatus: what has happened, of version 2.
pub const GLOBAL_STATUS: u32 = 0xc000_0300;
/// PerfCntrGlobalCtl: which counters run.
pub const GLOBAL_CTL: u32 = 0xc000_0301;
/// PerfCntrGlobalStatusClr: clears bits of [`GLOBAL_STATUS`].
pub const GLOBAL_STATUS_CLR: u32 = 0xc000_0302;
/// PerfCntrGlobalStatusSet: sets bits of it.
pub const GLOBAL_STATUS_SET: u32 = 0xc000_0303;
/// LbrSelect: which branches are left out.
pub const LBR_SELECT: u32 = 0xc000_010e;
/// DebugExtnCtl: branch records on.
pub const DEBUG_EXTENSION: u32 = 0xc000_010f;
/// First branch record's source, of the newest; sources and targets take turns.
pub const LBR_FROM0: u32 = 0xc001_0300;
/// DebugCtl: freezes.
pub const DEBUGCTL: u32 = 0x1d9;
/// IbsFetchCtl.
pub const IBS_FETCH_CTL: u32 = 0xc001_1030;
/// IbsFetchLinAd: address of the fetch.
pub const IBS_FETCH_LINEAR: u32 = 0xc001_1031;
/// IbsFetchPhysAd.
pub const IBS_FETCH_PHYSICAL: u32 = 0xc001_1032;
/// IbsOpCtl.
pub const IBS_OP_CTL: u32 = 0xc001_1033;
/// IbsOpRip: address of the instruction.
pub const IBS_OP_RIP: u32 = 0xc001_1034;
/// IbsOpData: times, and what branch it was.
pub const IBS_OP_DATA: u32 = 0xc001_1035;
/// IbsOpData2: where a load's data came from.
pub const IBS_OP_DATA2: u32 = 0xc001_1036;
/// IbsOpData3: what access it was.
pub const IBS_OP_DATA3: u32 = 0xc001_1037;
/// IbsDcLinAd: address of the data.
pub const IBS_DC_LINEAR: u32 = 0xc001_1038;
/// IbsDcPhysAd.
pub const IBS_DC_PHYSICAL: u32 = 0xc001_1039;
/// IbsCtl: the local APIC's extended entry for the interrupt.
pub const IBS_CTL: u32 = 0xc001_103a;
/// BpIbsBrTarget: where a taken branch went.
pub const IBS_BRANCH_TARGET: u32 = 0xc001_103b;
/// IcIbsExtdCtl: latency of a fetch's translation.
pub const IBS_FETCH_CTL_EXTENDED: u32 = 0xc001_103c;
/// IbsOpData4, which these generations do not have: reads as 0.
pub const IBS_OP_DATA4: u32 = 0xc001_103d;

/// Registers that make up a PMU's state, in the order in which they are written back: what starts sampling comes last.
pub const STATE: &[RangeInclusive<u32>] = &[
    PERF_CTR0..=PERF_CTR0,
    PERF_CTR0 + 2..=PERF_CTR0 + 2,
    PERF_CTR0 + 4..=PERF_CTR0 + 4,
    PERF_CTR0 + 6..=PERF_CTR0 + 6,
    PERF_CTR0 + 8..=PERF_CTR0 + 8,
    PERF_CTR0 + 10..=PERF_CTR0 + 10,
    PERF_CTL0..=PERF_CTL0,
    PERF_CTL0 + 2..=PERF_CTL0 + 2,
    PERF_CTL0 + 4..=PERF_CTL0 + 4,
    PERF_CTL0 + 6..=PERF_CTL0 + 6,
    PERF_CTL0 + 8..=PERF_CTL0 + 8,
    PERF_CTL0 + 10..=PERF_CTL0 + 10,
    LBR_SELECT..=LBR_SELECT,
    LBR_FROM0..=LBR_FROM0 + 31,
    DEBUGCTL..=DEBUGCTL,
    DEBUG_EXTENSION..=DEBUG_EXTENSION,
    GLOBAL_STATUS..=GLOBAL_CTL,
    IBS_FETCH_LINEAR..=IBS_FETCH_PHYSICAL,
    IBS_OP_RIP..=IBS_DC_PHYSICAL,
    IBS_BRANCH_TARGET..=IBS_FETCH_CTL_EXTENDED,
    IBS_CTL..=IBS_CTL,
    IBS_FETCH_CTL..=IBS_FETCH_CTL,
    IBS_OP_CTL..=IBS_OP_CTL,
];
