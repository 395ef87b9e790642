//! Locked operations in the kernel, by perftax.ko.

use std::path::Path;

use perftax_pmu::sampler::{DirectSampler, KernelWork};
use perftax_pmu::{Error, Result};

use super::{Stimulus, noted};

/// So many locked operations in kernel mode, for the program that asks for them.
pub struct KernelLocks {
    work: KernelWork,
    operations: u64,
    outcome: Result<()>,
}

impl KernelLocks {
    /// Opens the module.
    ///
    /// # Errors
    /// Where it is not loaded.
    pub fn new(operations: u64) -> Result<Self> {
        Ok(Self { work: KernelWork::open(Path::new(DirectSampler::DEVICE))?, operations, outcome: Ok(()) })
    }
}

impl Stimulus for KernelLocks {
    /// Tells of a run before that was cut short.
    fn prepare(&mut self) -> Result<()> {
        std::mem::replace(&mut self.outcome, Ok(()))
    }

    fn run(&mut self) {
        self.outcome = self.work.run(self.operations);
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        for _ in 0..self.operations {
            let mut outcome = Ok::<(), Error>(());
            noted(ticks, || outcome = self.work.run(1));
            self.outcome = outcome;
        }
    }

    fn truth(&self) -> Option<u64> {
        Some(self.operations)
    }
}
