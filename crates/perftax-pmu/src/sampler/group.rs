//! A group of events on one thread whose leader samples, each sample with the counts of all.

use std::time::Duration;

use perftax_doc::steps::Operation;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Payload, Sampling, Wakeup};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::record::{Header, Layout};
use crate::sys::{OpenEvent, Ring, Target};
use perf_event_open_sys::bindings as abi;

/// A leader that samples, and members that are counted with it: the kernel puts all of them on counters or none, so that the counts of a
/// sample are of the same time.
pub struct GroupSampler {
    leader: OpenEvent,
    members: Vec<OpenEvent>,
    ring: Ring,
    layout: Layout,
}

/// What a group counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Counts, the leader's first.
    pub values: Vec<u64>,
    /// Nanoseconds for which the group was on.
    pub time_enabled_ns: u64,
    /// Nanoseconds for which it counted.
    pub time_running_ns: u64,
    /// Samples that the kernel could not write (Linux 6.0 on; before, 0).
    pub lost: u64,
}

impl GroupSampler {
    /// Opens a group on a thread that is about to execute a program; it starts then. What the thread creates is not watched: before 6.13
    /// the kernel does not inherit a group that is read with samples.
    ///
    /// # Errors
    /// Where an event cannot be opened, or all of them do not fit the counters.
    pub fn on_exec(leader: &Event, period: u64, members: &[Event], tid: i32, ring_pages: usize) -> Result<Self> {
        let watermark = Wakeup::Bytes((ring_pages * rustix::param::page_size() / 2) as u32);
        let counting = Sampling { enable_on_exec: true, ..Sampling::COUNTING };
        let sampling = Sampling {
            period: Some(period),
            payload: Payload::BASIC.with_group_read(),
            task_records: true,
            wakeup: watermark,
            ..counting
        };
        let target = Target::Thread(tid);
        let first = OpenEvent::open(leader, &sampling, target, None)?;
        let mut opened = Vec::new();
        for member in members {
            let member_opened = OpenEvent::open(member, &counting, target, Some(&first));
            opened.push(member_opened.map_err(|error| beside(error, leader, member, members.len()))?);
        }
        let ring = Ring::map(&first, ring_pages)?;
        let mut layout = sampling.payload.layout();
        if first.has_lost() {
            layout.read_format |= u64::from(abi::PERF_FORMAT_LOST);
        }
        Ok(Self { leader: first, members: opened, ring, layout })
    }

    /// How its SAMPLE records are laid out.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The events' identities, as samples have them, the leader's first.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn ids(&self) -> Result<Vec<u64>> {
        std::iter::once(&self.leader).chain(&self.members).map(OpenEvent::id).collect()
    }

    /// Hands out every record that has arrived, in place.
    ///
    /// # Errors
    /// Where the ring holds what is no record.
    pub fn drain(&mut self, each: impl FnMut(Header, &[u8])) -> Result<u64> {
        self.ring.drain(each)
    }

    /// Waits until half of the ring is full, or so long.
    ///
    /// # Errors
    /// Where the ring cannot be waited for.
    pub fn wait(&self, longest: Duration) -> Result<()> {
        let timeout = Timespec { tv_sec: longest.as_secs() as _, tv_nsec: longest.subsec_nanos() as _ };
        let mut fds = [PollFd::new(&self.ring, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            // The ring of a thread that has ended is always "ready": whoever waits for its process looks again a little later.
            Ok(_) if fds[0].revents().contains(PollFlags::HUP) => std::thread::sleep(Duration::from_millis(1)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Error::System { call: "poll on a ring".into(), source: e.into() }),
        }
        Ok(())
    }

    /// What the group counted so far.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(&self) -> Result<GroupCounts> {
        // struct read_format with GROUP: the number of events, the two times, then value, id and lost of each.
        let each = if self.leader.has_lost() { 3 } else { 2 };
        let events = 1 + self.members.len();
        let mut bytes = vec![0u8; 8 * (3 + each * events)];
        let got = rustix::io::read(&self.leader, &mut bytes[..])
            .map_err(|e| Error::System { call: "read of a group of counters".into(), source: e.into() })?;
        let word = |i: usize| bytes.get(i * 8..).and_then(<[u8]>::first_chunk).map_or(0, |b| u64::from_ne_bytes(*b));
        if got != bytes.len() || word(0) != events as u64 {
            let why = format!("{} bytes about {events} events expected", bytes.len());
            return Err(Error::Malformed { what: "group of counters".into(), offset: got as u64, why });
        }
        Ok(GroupCounts {
            values: (0..events).map(|i| word(3 + each * i)).collect(),
            time_enabled_ns: word(1),
            time_running_ns: word(2),
            lost: if each == 3 { word(5) } else { 0 },
        })
    }
}

/// The kernel refuses a group that can never be on counters together (EINVAL, validate_group in arch/x86/events/core.c).
fn beside(error: Error, leader: &Event, member: &Event, members: usize) -> Error {
    match error {
        Error::Unsupported { why, .. } => Error::Unsupported {
            what: format!("count {} in one group with {}", member.name, leader.name),
            why: format!("{why}; all {} events of the group need counters at once", members + 1),
            remedy: format!(
                "check each with {}; other events, or fewer that need the same counters",
                Operation::DiagnoseEvent("EVENT".into())
            ),
        },
        other => other,
    }
}
