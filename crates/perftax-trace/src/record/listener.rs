//! Who reads the marks, and puts them on the kernel's clock.

use std::collections::BTreeMap;
use std::path::Path;

use perftax_pmu::Result;
use perftax_pmu::sys::{Tsc, monotonic_raw_ns, process_cpu_ns};
use perftax_target::TimeOrder;

use super::Row;
use super::identity::Held;
use crate::clock::Anchors;
use crate::mark::{Kind, Mark};
use crate::rings::MarkFolder;

/// Readings of both clocks of which the tightest is kept.
const ANCHOR_ATTEMPTS: u32 = 5;

pub(super) struct Listener {
    pub folder: MarkFolder,
    anchors: Anchors,
    raw: Vec<(u32, u64, u64, Kind)>,
    /// Messages that have ended, and CPU time when it was last asked for, ns, by process.
    processes: BTreeMap<u32, (u64, u64)>,
}

impl Listener {
    pub fn new(folder: &Path) -> Self {
        Self { folder: MarkFolder::new(folder), anchors: Anchors::default(), raw: Vec::new(), processes: BTreeMap::new() }
    }

    /// Takes the marks that wait. What the counter said when is asked after it, so that they lie between two anchors.
    pub fn listen(&mut self, order: &mut TimeOrder<Held>) -> Result<()> {
        let raw = &mut self.raw;
        let processes = &mut self.processes;
        self.folder.drain(|owner, counter, id, kind| {
            if kind == Kind::End {
                processes.entry(owner.pid).or_default().0 += 1;
            }
            raw.push((owner.tid, counter, id, kind));
        })?;
        self.anchor();
        for (tid, counter, id, kind) in self.raw.drain(..) {
            if let Some(time_ns) = self.anchors.time_ns(counter) {
                order.push(time_ns, Held::Row(Row::Mark(Mark { time_ns, tid, id, kind })));
            }
        }
        Ok(())
    }

    /// Messages that have ended, and CPU time of the processes that mark them, and of one that is to be there in any case, ns.
    pub fn progress(&mut self, pid: u32) -> (u64, u64) {
        self.processes.entry(pid).or_default();
        for (pid, (_, cpu_ns)) in &mut self.processes {
            // One that is gone takes no more.
            *cpu_ns = process_cpu_ns(*pid).unwrap_or(*cpu_ns).max(*cpu_ns);
        }
        self.processes.values().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    pub fn anchor(&mut self) {
        self.anchors.take(ANCHOR_ATTEMPTS, || {
            let before = monotonic_raw_ns();
            let counter = Tsc::now();
            (counter, before, monotonic_raw_ns())
        });
    }
}
