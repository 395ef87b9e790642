//! Who touched what: threads by number, and lines as the memory of a process.

use std::collections::HashMap;

use crate::{Access, Kind, LINE_BYTES, lines_of};
use perftax_pmu::record::Sample;

use super::spaces::Spaces;
use super::threads::Threads;
use crate::live::accounts::{Entry, Seen};
use crate::live::image::Images;

/// A sampled access, and when it was.
#[derive(Clone, Copy)]
pub struct Sampled {
    /// CLOCK_MONOTONIC_RAW, ns.
    pub time_ns: u64,
    /// It.
    pub access: Access,
}

/// Threads and address spaces that were met.
pub struct Numbering {
    /// Threads.
    pub threads: Threads,
    /// Whose memory lines are.
    pub spaces: Spaces,
    /// The core of each CPU.
    core_of: HashMap<u32, u32>,
}

impl Numbering {
    /// Of a program, by its first process.
    pub fn new(pid: u32, core_of: HashMap<u32, u32>) -> Self {
        Self { threads: Threads::default(), spaces: Spaces::new(pid), core_of }
    }

    /// What a sample tells of an access. Its instruction is the very one (`:pp`); how many bytes it touches stands there.
    pub fn sampled(&mut self, sample: &Sample<'_>, kind: Kind, images: &mut Images) -> Option<Sampled> {
        let (task, time_ns, ip, address) = (sample.task?, sample.time_ns?, sample.ip?, sample.address?);
        let thread = self.threads.number(task.pid, task.tid, self.core(sample.cpu.unwrap_or(0)), time_ns);
        let touched = images.operand_bytes(task.pid, ip).unwrap_or(1).clamp(1, LINE_BYTES);
        // One that straddles is its first line's: the second one is as likely to be sampled by another.
        let (line, bytes) = lines_of(address, touched).next()?;
        let line = self.spaces.line(task.pid, line, |pid, address| images.is_shared(pid, address));
        Some(Sampled { time_ns, access: Access { thread, line, bytes, kind, ip } })
    }

    /// What a trap tells of one.
    pub fn trapped(&mut self, seen: &Seen, time_ns: u64, images: &mut Images) -> Access {
        let thread = self.threads.number(seen.pid, seen.tid, self.core(seen.cpu), time_ns);
        let line = self.spaces.line(seen.pid, seen.line, |pid, address| images.is_shared(pid, address));
        Access { thread, line, bytes: seen.bytes, kind: seen.kind, ip: seen.ip }
    }

    /// A thread that was created or named is noted; nothing else is.
    pub fn meet(&mut self, time_ns: u64, entry: Entry) {
        match entry {
            Entry::Name { tid, name, .. } => self.threads.name(tid, name),
            Entry::Fork { tid, parent } => self.threads.created(tid, parent, time_ns),
            Entry::Access(_) | Entry::Lost | Entry::Begin { .. } | Entry::End => {}
        }
    }

    fn core(&self, cpu: u32) -> u32 {
        self.core_of.get(&cpu).copied().unwrap_or(cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Line};

    #[test]
    fn traps_are_of_threads_by_number_and_of_cores() {
        let pid = u32::MAX;
        let mut numbering = Numbering::new(pid, HashMap::from([(5, 1)]));
        let mut images = Images::default();
        numbering.meet(1, Entry::Name { pid, tid: 8, name: "reader".into(), is_exec: false });
        let seen = |tid, cpu| Seen {
            pid,
            tid,
            cpu,
            ip: 0x10,
            kind: Kind::Load,
            line: Line::of(0x1000),
            bytes: Bytes::new(0, 8),
            is_shared: false,
        };
        let accesses = [seen(7, 5), seen(8, 6)].map(|seen| numbering.trapped(&seen, 2, &mut images));
        assert_eq!(
            accesses.map(|access| (access.thread, access.line.address(), access.ip)),
            [(0, 0x1000, 0x10), (1, 0x1000, 0x10)]
        );
        let threads = numbering.threads.document();
        let told: Vec<_> = threads.iter().map(|thread| (thread.name.as_str(), thread.core)).collect();
        assert_eq!(told, [("", Some(1)), ("reader", Some(6))]);
    }
}
