//! The arms of a calibration.

use perftax_cost::prediction::{CACHED_WORK_TERM, WIDE_CODE_TERM};
use perftax_doc::left_out::{EXCLUDED_KERNEL_TERM, EXCLUDED_USER_TERM, OFF_IN_KERNEL_ARM};
use perftax_pmu::Error;
use perftax_pmu::sampler::{Pages, Payload, Sampling, Wakeup};

pub use crate::run::{OFF, OFF_AGAIN};

/// The arm that α comes from: sampled at the main period with the basic payload.
pub const ON: &str = "on";
/// The event runs at a period at which no sample is due: what the other arms of a mechanism with a buffer are held against, so that
/// starting and stopping it is in neither side's cost.
pub const IDLE: &str = "idle";
/// Period of [`IDLE`], events: days away.
const IDLE_PERIOD: u64 = 1 << 46;
/// Our module with a buffer of one record: an interrupt for each.
pub const EACH: &str = "each";
/// Beside our module: the event of perf's own PEBS ([`perftax_doc::ArmName::Perf`]) without a sample.
pub const PERF_IDLE: &str = "perf-idle";
/// The event is open but never enabled: what a uprobe costs by merely being there.
pub const ARMED: &str = "armed";
/// Each sample holds the counts of a group, or is a signal.
pub const GROUP_READ: &str = "group-read";
/// See [`GROUP_READ`].
pub const SIGNAL: &str = "signal";
/// The event is counted, not sampled.
pub const COUNTING: &str = "counting";

/// Every sample is dropped by the event's filter: what an interrupt of the program's own mode takes without one ([`perftax_doc::LeftOut`]).
pub const EXCLUDED_IN_USER: &str = EXCLUDED_USER_TERM;
/// The same of the kernel's mode, where the work stays for it.
pub const EXCLUDED_IN_KERNEL: &str = EXCLUDED_KERNEL_TERM;
/// That work without any monitoring.
pub const OFF_IN_KERNEL: &str = OFF_IN_KERNEL_ARM;
/// Work that lives off its second-level cache, sampled; and without any monitoring.
pub const CACHED: &str = CACHED_WORK_TERM;
/// See [`CACHED`].
pub const OFF_CACHED: &str = "off-cached";
/// Work of wide code, sampled; and without any monitoring.
pub const WIDE_CODE: &str = WIDE_CODE_TERM;
/// See [`WIDE_CODE`].
pub const OFF_WIDE_CODE: &str = "off-wide-code";

/// One condition under which the fixed work is timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// Its name in the raw observations.
    pub name: String,
    /// What is opened; none opens nothing.
    pub monitoring: Option<Monitoring>,
    /// Over which work.
    pub work: Work,
}

/// What is done in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// The mechanism's own: what most arms have.
    #[default]
    Usual,
    /// It stays in the kernel.
    InKernel,
    /// It lives off its second-level cache.
    Cached,
    /// Its code is wide.
    WideCode,
}

/// An arm that is not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its name.
    pub arm: String,
    /// Why.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

impl Skipped {
    /// By an error: the arms that α does not depend on may be missing.
    pub(super) fn by(arm: &str, error: &Error) -> Self {
        let remedy = error.remedy().unwrap_or_else(|| "run as root, or raise kernel.perf_event_mlock_kb".into());
        Self { arm: arm.into(), why: error.headline(), remedy }
    }
}

/// A buffer of our own kernel module's, instead of perf's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnBuffer {
    /// Bytes a CPU.
    pub bytes: u64,
    /// Of which pages.
    pub pages: Pages,
}

/// What an arm opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Monitoring {
    /// Our module's buffer, where the arm does without perf.
    pub own_buffer: Option<OwnBuffer>,
    /// How the event is sampled.
    pub sampling: Sampling,
    /// Whether it is enabled at all.
    pub enabled: bool,
    /// Whether every sample is delivered as a signal.
    pub signal: bool,
    /// Whether the event excludes both modes, so that every sample is taken and dropped.
    pub drops_all: bool,
    /// Further counters that are read with every sample.
    pub group_members: u32,
    /// Ring size in pages.
    pub ring_pages: usize,
}

impl Monitoring {
    fn of(sampling: Sampling, ring_pages: usize) -> Self {
        Self { own_buffer: None, sampling, enabled: true, signal: false, drops_all: false, group_members: 0, ring_pages }
    }
}

impl Arm {
    /// Nothing is opened.
    pub fn unmonitored(name: &str) -> Self {
        Self { name: name.into(), monitoring: None, work: Work::Usual }
    }

    /// Counting without sampling, or (`enabled` false) not even that.
    pub fn counting(name: &str, enabled: bool) -> Self {
        let monitoring = Monitoring { enabled, ..Monitoring::of(Sampling::COUNTING, RING_PAGES) };
        Self { name: name.into(), monitoring: Some(monitoring), work: Work::Usual }
    }

    /// Sampling with a payload.
    pub fn sampled(name: &str, period: u64, payload: Payload, ring_pages: usize) -> Self {
        let ring_bytes = ring_pages * rustix::param::page_size();
        let sampling = Sampling::every(period, ring_bytes).carrying(payload);
        let monitoring = Monitoring::of(sampling, ring_pages);
        Self { name: name.into(), monitoring: Some(monitoring), work: Work::Usual }
    }

    /// Sampling by our own module.
    pub fn direct(name: &str, period: u64, buffer: OwnBuffer) -> Self {
        let sampling = Sampling { period: Some(period), ..Sampling::COUNTING };
        let monitoring = Monitoring { own_buffer: Some(buffer), ..Monitoring::of(sampling, RING_PAGES) };
        Self { name: name.into(), monitoring: Some(monitoring), work: Work::Usual }
    }

    /// By our own module, without a sample.
    pub fn direct_idle(name: &str, buffer: OwnBuffer) -> Self {
        Self::direct(name, IDLE_PERIOD, buffer)
    }

    /// Perf's event beside our module's, without a sample.
    pub fn perf_idle(payload: Payload) -> Self {
        Self::idle(payload).called(PERF_IDLE)
    }

    /// The same by another name.
    pub fn called(self, name: &str) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Ready to sample, without ever doing so.
    pub fn idle(payload: Payload) -> Self {
        Self::sampled(IDLE, IDLE_PERIOD, payload, RING_PAGES)
    }

    /// The same with a signal at every sample.
    pub fn with_signal(mut self) -> Self {
        if let Some(monitoring) = &mut self.monitoring {
            monitoring.signal = true;
            monitoring.sampling.wakeup = Wakeup::EverySample;
        }
        self
    }

    /// The same with every sample dropped.
    pub fn dropping_all(mut self) -> Self {
        if let Some(monitoring) = &mut self.monitoring {
            monitoring.drops_all = true;
        }
        self
    }

    /// The same over other work.
    pub fn over(self, work: Work) -> Self {
        Self { work, ..self }
    }

    /// The same with a group of counters read at every sample.
    pub fn with_group(mut self, members: u32) -> Self {
        if let Some(monitoring) = &mut self.monitoring {
            monitoring.group_members = members;
            monitoring.sampling.payload = monitoring.sampling.payload.with_group_read();
        }
        self
    }

    /// The sampling period; 0 where nothing is sampled.
    pub fn period(&self) -> u64 {
        self.monitoring.and_then(|m| m.sampling.period).unwrap_or(0)
    }
}

/// Ring of an arm without a bulky payload: room for 3000 basic samples.
pub const RING_PAGES: usize = 32;
