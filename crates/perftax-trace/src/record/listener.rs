//! Who reads the marks, and puts them on the kernel's clock.

use std::path::Path;

use perftax_pmu::Result;
use perftax_pmu::sys::{Tsc, monotonic_raw_ns};

use super::Row;
use super::identity::Held;
use super::reorder::Reorder;
use crate::clock::Anchors;
use crate::mark::{Kind, Mark};
use crate::rings::MarkFolder;

/// Readings of both clocks of which the tightest is kept.
const ANCHOR_ATTEMPTS: u32 = 5;

pub(super) struct Listener {
    pub folder: MarkFolder,
    anchors: Anchors,
    raw: Vec<(u32, u64, u64, Kind)>,
    /// Messages that have ended.
    pub ended: u64,
}

impl Listener {
    pub fn new(folder: &Path) -> Self {
        Self { folder: MarkFolder::new(folder), anchors: Anchors::default(), raw: Vec::new(), ended: 0 }
    }

    /// Takes the marks that wait. What the counter said when is asked after it, so that they lie between two anchors.
    pub fn listen(&mut self, reorder: &mut Reorder) -> Result<()> {
        let raw = &mut self.raw;
        self.folder.drain(|owner, counter, id, kind| raw.push((owner.tid, counter, id, kind)))?;
        self.anchor();
        for (tid, counter, id, kind) in self.raw.drain(..) {
            self.ended += u64::from(kind == Kind::End);
            if let Some(time_ns) = self.anchors.time_ns(counter) {
                reorder.push(Held::Row(Row::Mark(Mark { time_ns, tid, id, kind })));
            }
        }
        Ok(())
    }

    pub fn anchor(&mut self) {
        self.anchors.take(ANCHOR_ATTEMPTS, || {
            let before = monotonic_raw_ns();
            let counter = Tsc::now();
            (counter, before, monotonic_raw_ns())
        });
    }
}
