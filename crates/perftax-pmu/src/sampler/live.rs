//! Samples from the kernel, through one ring per CPU.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::{Sampler, Sampling};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::record::{Header, Layout};
use crate::sys::{OpenEvent, Ring, Target};
use perf_event_open_sys::bindings as abi;

/// Events open on one or more targets, those of one CPU sharing a ring.
pub struct LiveSampler {
    events: Vec<OpenEvent>,
    rings: Vec<Ring>,
    layout: Layout,
    /// Of each target that has counters: where the first of them, and the first event in their group, are among the events.
    groups: Vec<(usize, usize)>,
}

/// From one look to the next where a watched task has ended but not all that it created.
const AFTER_THE_END: Duration = Duration::from_millis(5);

impl LiveSampler {
    /// Opens `events` on every target, sampled alike. Each CPU gets a ring of `ring_pages` pages; so does a target on no one CPU.
    ///
    /// # Errors
    /// Where one of them cannot be opened.
    pub fn open(events: &[(Event, Sampling)], targets: &[Target], ring_pages: usize) -> Result<Self> {
        Self::open_all(&[], events, false, targets, ring_pages)
    }

    /// The same with the events of each target as one group, led by the first: all of them are on the counters together, or none.
    ///
    /// # Errors
    /// As [`LiveSampler::open`], and where the kernel does not take the events as a group.
    pub fn open_group(events: &[(Event, Sampling)], targets: &[Target], ring_pages: usize) -> Result<Self> {
        Self::open_all(&[], events, true, targets, ring_pages)
    }

    /// The same with counters on each target, of which every sample tells what they have counted by then: events carry their group
    /// ([`super::Payload::with_group_read`]). On a target all of them are on, or none.
    ///
    /// # Errors
    /// As [`LiveSampler::open`].
    pub fn open_beside(counters: &[Event], events: &[(Event, Sampling)], targets: &[Target], ring_pages: usize) -> Result<Self> {
        Self::open_all(counters, events, !counters.is_empty(), targets, ring_pages)
    }

    /// Counters and events, on each target one group or each by itself.
    fn open_all(
        counters: &[Event],
        events: &[(Event, Sampling)],
        is_group: bool,
        targets: &[Target],
        ring_pages: usize,
    ) -> Result<Self> {
        let mut sampler = Self { events: Vec::new(), rings: Vec::new(), layout: Layout::default(), groups: Vec::new() };
        let mut by_cpu: BTreeMap<u32, usize> = BTreeMap::new();
        for &target in targets {
            let mut owner = target.cpu().and_then(|cpu| by_cpu.get(&cpu)).copied();
            let first = sampler.events.len();
            for counter in counters {
                let clock = events.first().map_or(Sampling::COUNTING.clock, |(_, sampling)| sampling.clock);
                let counting = Sampling { clock, ..Sampling::COUNTING };
                let open = OpenEvent::open(counter, &counting, target, sampler.events.get(first))?;
                sampler.events.push(open);
            }
            if !counters.is_empty() {
                sampler.groups.push((first, sampler.events.len()));
            }
            let leader = is_group.then_some(first);
            for (event, sampling) in events {
                let open = OpenEvent::open(event, sampling, target, leader.and_then(|first| sampler.events.get(first)))?;
                match owner {
                    None => {
                        sampler.layout = sampling.payload.layout();
                        if open.reads_group() && open.has_lost() {
                            sampler.layout.read_format |= u64::from(abi::PERF_FORMAT_LOST);
                        }
                        sampler.rings.push(Ring::map(&open, ring_pages)?);
                        owner = Some(sampler.events.len());
                        by_cpu.extend(target.cpu().map(|cpu| (cpu, sampler.events.len())));
                    }
                    Some(index) => open.redirect_to(&sampler.events[index])?,
                }
                sampler.events.push(open);
            }
        }
        Ok(sampler)
    }

    /// Checks that counters count: pinned ones that found no room never will. They must be on.
    ///
    /// # Errors
    /// [`Error::Discarded`] where they do not.
    pub fn check_counters(&self) -> Result<()> {
        self.groups.iter().try_for_each(|(leader, _)| self.events[*leader].read().map(drop))
    }

    /// The events, in the order of targets, and within one target in the order asked for, behind the counters.
    pub fn events(&self) -> &[OpenEvent] {
        &self.events
    }

    /// Samples that the kernel could not write (PERF_FORMAT_LOST), all events.
    pub fn lost(&self) -> Result<u64> {
        let alone = self.events.iter().filter(|event| !event.reads_group()).map(|event| event.read().map(|reading| reading.lost));
        let of_groups = self.groups.iter().filter_map(|(_, member)| self.events.get(*member)).map(OpenEvent::lost_by_group);
        alone.chain(of_groups).sum()
    }

    /// Waits until a ring reaches its watermark, a watched process ends, or `stop` becomes readable. Without a timeout: setting
    /// and cancelling a timer costs a guest two exits to its hypervisor, more than draining a thousand records.
    pub fn wait(&self, stop: BorrowedFd<'_>) -> Result<()> {
        let mut fds: Vec<_> = self.rings.iter().map(|ring| PollFd::new(ring, PollFlags::IN)).collect();
        fds.push(PollFd::from_borrowed_fd(stop, PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) => {
                // A ring whose task has ended is always "ready"; its children may still write into the others.
                if fds.iter().all(|fd| !fd.revents().contains(PollFlags::IN)) {
                    std::thread::sleep(AFTER_THE_END);
                }
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(Error::System { call: "poll on a ring".into(), source: e.into() }),
        }
    }

    /// Bytes of records that wait in the rings.
    pub fn waiting_bytes(&self) -> u64 {
        self.rings.iter().map(Ring::waiting_bytes).sum()
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
