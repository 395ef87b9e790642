//! First touches of pages.

use std::fs::File;

use perftax_pmu::sys::FaultArea;
use perftax_pmu::{Error, Result};

use super::{Stimulus, noted, under_frames};

/// Who touches the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sites {
    /// One instruction.
    One,
    /// Four instructions in turn.
    FourInTurn,
    /// The kernel, in a read.
    Kernel,
}

/// Touches a number of absent pages: one page fault each.
pub struct PageFaults {
    area: FaultArea,
    sites: Sites,
    zero: File,
}

impl PageFaults {
    /// Work of `faults` page faults.
    pub fn new(faults: usize) -> Result<Self> {
        Self::by(Sites::One, faults)
    }

    /// Work of `faults` page faults; of those by four in turn what four does not divide is left out.
    pub fn by(sites: Sites, faults: usize) -> Result<Self> {
        let zero = File::open("/dev/zero").map_err(Error::file("/dev/zero"))?;
        let mut faults = Self { area: FaultArea::new(faults)?, sites, zero };
        // Code that has not been executed yet faults, too.
        faults.run();
        faults.area.forget()?;
        Ok(faults)
    }

    /// Where a page begins; they are touched in their order.
    pub fn address(&self, page: usize) -> u64 {
        self.area.address(page)
    }
}

impl Stimulus for PageFaults {
    fn prepare(&mut self) -> Result<()> {
        self.area.forget()
    }

    fn run(&mut self) {
        match self.sites {
            Sites::One => under_frames(|| self.area.touch()),
            Sites::FourInTurn => self.area.touch_by_four(),
            // What it did not read leaves fewer faults than there should be: whoever counts them sees it.
            Sites::Kernel => self.area.touch_by_kernel(&self.zero).unwrap_or(()),
        }
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        for page in 0..self.area.pages() {
            noted(ticks, || self.area.touch_page(page));
        }
    }

    fn truth(&self) -> Option<u64> {
        Some(self.area.pages() as u64)
    }
}
