//! How wide a program's code is: sampled by a clock while its tasks are looked at.

use perftax_cost::code::footprint;
use perftax_doc::code::CodeFootprint;
use perftax_pmu::Result;
use perftax_pmu::event::Event;
use perftax_pmu::sampler::{LiveSampler, ReaderThread, Sampler, Sampling};
use perftax_pmu::sys::Target;

use super::tasks::Begins;

/// A clock that code is looked at with.
#[derive(Clone, Debug)]
pub struct CodeClock {
    /// The clock.
    pub event: Event,
    /// ns of CPU time from one sample to the next.
    pub period_ns: u64,
}

impl CodeClock {
    /// For runs whose time nobody takes: 997 a second.
    pub const OF_A_RUN_NS: u64 = 1_003_009;
    /// For what somebody needs: 99 a second, some 0.2 % of its CPU time.
    pub const OF_A_PROCESS_NS: u64 = 10_101_011;
}

/// A look at code that goes on.
pub(super) struct CodeLook<'a> {
    clock: &'a CodeClock,
    reader: ReaderThread,
}

impl<'a> CodeLook<'a> {
    /// Opens the clock on tasks, with whatever they create, or on CPUs.
    pub(super) fn begin(clock: &'a CodeClock, targets: &[Target], begins: Begins, ring_pages: usize) -> Result<Self> {
        let plain = Sampling::every(clock.period_ns, ring_pages * rustix::param::page_size());
        let sampling = match begins {
            Begins::AtExec => plain.for_command(),
            Begins::Now => Sampling { inherit: targets.iter().all(|target| !matches!(target, Target::Cpu(_))), ..plain },
        };
        let mut sampler = LiveSampler::open(&[(clock.event.clone(), sampling)], targets, ring_pages)?;
        if begins == Begins::Now {
            Sampler::enable(&mut sampler)?;
        }
        Ok(Self { clock, reader: ReaderThread::start_with_code(sampler, targets.len())? })
    }

    /// What was seen; none where that was too little. Samples that were lost lay where the others do.
    pub(super) fn finish(self) -> Result<Option<CodeFootprint>> {
        let delivered = self.reader.finish()?;
        Ok(footprint(delivered.code, self.clock.period_ns, self.clock.event.modifiers.exclude_kernel))
    }
}
