//! Numbers of model-specific registers (SDM volume 4, tables 2-2 and 2-39).

use std::ops::RangeInclusive;

/// First of the general counters, written as 32 bits and sign-extended.
pub const PERFCTR0: u32 = 0xc1;
/// First of their full-width aliases.
pub const FULL_WIDTH_PERFCTR0: u32 = 0x4c1;
/// First of the event selectors.
pub const PERFEVTSEL0: u32 = 0x186;
/// First of the fixed counters.
pub const FIXED_CTR0: u32 = 0x309;
/// What the fixed counters count, four bits each.
pub const FIXED_CTR_CTRL: u32 = 0x38d;
/// What has happened.
pub const GLOBAL_STATUS: u32 = 0x38e;
/// Which counters run.
pub const GLOBAL_CTRL: u32 = 0x38f;
/// Clears bits of [`GLOBAL_STATUS`].
pub const GLOBAL_STATUS_RESET: u32 = 0x390;
/// Sets bits of [`GLOBAL_STATUS`].
pub const GLOBAL_STATUS_SET: u32 = 0x391;
/// What the PMU can do.
pub const PERF_CAPABILITIES: u32 = 0x345;
/// Where slots went.
pub const PERF_METRICS: u32 = 0x329;
/// Which counters sample precisely.
pub const PEBS_ENABLE: u32 = 0x3f1;
/// What adaptive records hold.
pub const PEBS_DATA_CFG: u32 = 0x3f2;
/// Where architectural PEBS writes its records, as the memory's address, and how much is there.
pub const PEBS_BASE: u32 = 0x3f4;
/// Where in it the next one goes, and from where on an interrupt is due.
pub const PEBS_INDEX: u32 = 0x3f5;
/// Version 6: the first general counter; behind it stand its selector and its two registers CFG_B (which counters reload it) and CFG_C (what it is reloaded
/// with, and what its records hold), then the next one's four.
pub const V6_GENERAL0: u32 = 0x1900;
/// Likewise the first fixed counter, which has no selector.
pub const V6_FIXED0: u32 = 0x1980;
/// Loads are sampled from this latency on.
pub const PEBS_LD_LAT: u32 = 0x3f6;
/// Address of the debug store.
pub const DS_AREA: u32 = 0x600;
/// Branch records on, freezes.
pub const DEBUGCTL: u32 = 0x1d9;
/// Which branches are recorded.
pub const LBR_SELECT: u32 = 0x1c8;
/// The latest branch record.
pub const LBR_TOS: u32 = 0x1c9;
/// First of the branches' sources.
pub const LBR_FROM0: u32 = 0x680;
/// First of the branches' targets.
pub const LBR_TO0: u32 = 0x6c0;
/// First of the branches' particulars.
pub const LBR_INFO0: u32 = 0xdc0;
/// Which branches architectural records hold: IA32_LBR_CTL.
pub const LBR_CTL: u32 = 0x14ce;
/// How many there are: IA32_LBR_DEPTH.
pub const LBR_DEPTH: u32 = 0x14cf;
/// First of their particulars, of the newest.
pub const ARCH_LBR_INFO0: u32 = 0x1200;
/// First of their sources.
pub const ARCH_LBR_FROM0: u32 = 0x1500;
/// First of their targets.
pub const ARCH_LBR_TO0: u32 = 0x1600;
/// Events that leave the core: accepted and ignored.
pub const OFFCORE_RSP0: u32 = 0x1a6;
/// The second of them.
pub const OFFCORE_RSP1: u32 = 0x1a7;
/// Front-end events: accepted and ignored.
pub const PEBS_FRONTEND: u32 = 0x3f7;

/// Registers that make up a PMU's state, in the order in which they are written back: what starts counters comes last.
pub const STATE: &[RangeInclusive<u32>] = &[
    FULL_WIDTH_PERFCTR0..=FULL_WIDTH_PERFCTR0 + 7,
    FIXED_CTR0..=FIXED_CTR0 + 3,
    PERF_METRICS..=PERF_METRICS,
    PERFEVTSEL0..=PERFEVTSEL0 + 7,
    FIXED_CTR_CTRL..=FIXED_CTR_CTRL,
    OFFCORE_RSP0..=OFFCORE_RSP1,
    PEBS_DATA_CFG..=PEBS_DATA_CFG,
    PEBS_BASE..=PEBS_INDEX,
    V6_GENERAL0 + 2..=V6_GENERAL0 + 3,
    V6_GENERAL0 + 6..=V6_GENERAL0 + 7,
    V6_GENERAL0 + 10..=V6_GENERAL0 + 11,
    V6_GENERAL0 + 14..=V6_GENERAL0 + 15,
    V6_GENERAL0 + 18..=V6_GENERAL0 + 19,
    V6_GENERAL0 + 22..=V6_GENERAL0 + 23,
    V6_GENERAL0 + 26..=V6_GENERAL0 + 27,
    V6_GENERAL0 + 30..=V6_GENERAL0 + 31,
    V6_FIXED0 + 2..=V6_FIXED0 + 3,
    V6_FIXED0 + 6..=V6_FIXED0 + 7,
    V6_FIXED0 + 10..=V6_FIXED0 + 11,
    V6_FIXED0 + 14..=V6_FIXED0 + 15,
    V6_FIXED0 + 18..=V6_FIXED0 + 19,
    V6_FIXED0 + 22..=V6_FIXED0 + 23,
    V6_FIXED0 + 26..=V6_FIXED0 + 27,
    PEBS_LD_LAT..=PEBS_FRONTEND,
    DS_AREA..=DS_AREA,
    LBR_SELECT..=LBR_TOS,
    LBR_FROM0..=LBR_FROM0 + 31,
    LBR_TO0..=LBR_TO0 + 31,
    LBR_INFO0..=LBR_INFO0 + 31,
    LBR_DEPTH..=LBR_DEPTH,
    ARCH_LBR_FROM0..=ARCH_LBR_FROM0 + 31,
    ARCH_LBR_TO0..=ARCH_LBR_TO0 + 31,
    ARCH_LBR_INFO0..=ARCH_LBR_INFO0 + 31,
    LBR_CTL..=LBR_CTL,
    DEBUGCTL..=DEBUGCTL,
    PEBS_ENABLE..=PEBS_ENABLE,
    GLOBAL_STATUS..=GLOBAL_STATUS,
    GLOBAL_CTRL..=GLOBAL_CTRL,
];
