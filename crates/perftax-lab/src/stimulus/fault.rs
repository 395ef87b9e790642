//! First touches of pages.

use perftax_pmu::Result;
use perftax_pmu::sys::FaultArea;

use super::{Stimulus, noted};

/// Touches a number of absent pages: one page fault each.
pub struct PageFaults {
    area: FaultArea,
}

impl PageFaults {
    /// Work of `faults` page faults.
    pub fn new(faults: usize) -> Result<Self> {
        Ok(Self { area: FaultArea::new(faults)? })
    }
}

impl Stimulus for PageFaults {
    fn prepare(&mut self) -> Result<()> {
        self.area.forget()
    }

    fn run(&mut self) {
        self.area.touch();
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
