//! Samples from the kernel, through one ring per target.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Sampler, Sampling};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::record::{Header, Layout};
use crate::sys::{OpenEvent, Ring, Target};

/// Events open on one or more targets, each group of one target sharing a ring.
pub struct LiveSampler {
    events: Vec<OpenEvent>,
    rings: Vec<Ring>,
    layout: Layout,
}

impl LiveSampler {
    /// Opens `events` on every target, sampled alike. Each target gets a ring of `ring_pages` pages.
    pub fn open(events: &[(Event, Sampling)], targets: &[Target], ring_pages: usize) -> Result<Self> {
        let mut sampler = Self { events: Vec::new(), rings: Vec::new(), layout: Layout::default() };
        for &target in targets {
            let mut owner: Option<usize> = None;
            for (event, sampling) in events {
                let open = OpenEvent::open(event, sampling, target, None)?;
                match owner {
                    None => {
                        sampler.layout = sampling.payload.layout();
                        sampler.rings.push(Ring::map(&open, ring_pages)?);
                        owner = Some(sampler.events.len());
                    }
                    Some(index) => open.redirect_to(&sampler.events[index])?,
                }
                sampler.events.push(open);
            }
        }
        Ok(sampler)
    }

    /// The events, in the order of targets, and within one target in the order asked for.
    pub fn events(&self) -> &[OpenEvent] {
        &self.events
    }

    /// Samples that the kernel could not write (PERF_FORMAT_LOST), all events.
    pub fn lost(&self) -> Result<u64> {
        self.events.iter().map(|e| e.read().map(|r| r.lost)).sum()
    }

    /// Waits until a ring reaches its watermark, a watched process ends, `stop` becomes readable, or the time is up.
    pub fn wait(&self, timeout_ms: u32, stop: BorrowedFd<'_>) -> Result<()> {
        let mut fds: Vec<_> = self.rings.iter().map(|ring| PollFd::new(ring, PollFlags::IN)).collect();
        fds.push(PollFd::from_borrowed_fd(stop, PollFlags::IN));
        let timeout = Timespec { tv_sec: i64::from(timeout_ms / 1000), tv_nsec: i64::from(timeout_ms % 1000) * 1_000_000 };
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => {
                // A ring whose task has ended is always "ready"; its children may still write into the others.
                if ready > 0 && fds.iter().all(|fd| !fd.revents().contains(PollFlags::IN)) {
                    std::thread::sleep(std::time::Duration::from_millis(u64::from(timeout_ms.min(5))));
                }
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(Error::System { call: "poll on a ring".into(), source: e.into() }),
        }
    }

    /// Drains every ring, telling the ring's index (the target's) with each record.
    pub fn drain_by_target(&mut self, mut each: impl FnMut(usize, Header, &[u8])) -> Result<u64> {
        let mut bytes = 0;
        for (index, ring) in self.rings.iter_mut().enumerate() {
            bytes += ring.drain(|header, body| each(index, header, body))?;
        }
        Ok(bytes)
    }
}

impl Sampler for LiveSampler {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn enable(&mut self) -> Result<()> {
        self.events.iter().try_for_each(OpenEvent::enable)
    }

    fn disable(&mut self) -> Result<()> {
        self.events.iter().try_for_each(OpenEvent::disable)
    }

    fn drain(&mut self, each: &mut dyn FnMut(Header, &[u8])) -> Result<u64> {
        self.drain_by_target(|_, header, body| each(header, body))
    }
}
