//! Events of the calling thread, which it starts, stops and reads by itself: what a program that measures itself uses, and what
//! `perftax selfcost` asks the price of.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use perf_event_open_sys::bindings as abi;
use syscalls::Sysno;
use syscalls::raw::{syscall0, syscall3, syscall5};

use super::CounterPage;
use super::open::{Attributes, Target, open_beside};
use crate::error::{Error, Result};

/// Most events of one monitor: what a read has room for.
pub const EVENTS_MAX: usize = 64;

/// Words before the counts of a group's read: the number of events, and the two times.
const GROUP_HEAD: usize = 3;

/// Counters of the calling thread.
///
/// Starting, stopping and reading are compiled here, with all that they call, and not in whoever calls them: what they cost is counted in
/// instructions, and is then the same for every caller.
#[derive(Debug)]
pub struct SelfMonitor {
    events: Vec<OwnedFd>,
    pages: Vec<CounterPage>,
    is_group: bool,
    words: Vec<u64>,
}

impl SelfMonitor {
    /// One without events yet.
    pub(crate) fn without_events(is_group: bool) -> Self {
        Self { events: Vec::new(), pages: Vec::new(), is_group, words: vec![0; GROUP_HEAD + EVENTS_MAX] }
    }

    /// Opens one event more, [`EVENTS_MAX`] in all at most.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn add(&mut self, mut attributes: Attributes) -> io::Result<()> {
        let leader = self.events.first().filter(|_| self.is_group);
        let attr = &mut attributes.0;
        if self.is_group {
            attr.read_format |= u64::from(abi::PERF_FORMAT_GROUP);
        }
        // Members are switched on with their leader, and off.
        attr.set_disabled(u64::from(leader.is_none()));
        let opened = open_beside(attr, Target::ThisThread, leader.map(AsFd::as_fd))?;
        self.events.push(opened);
        Ok(())
    }

    /// Switches counting on, by one ioctl for the group, or one for each event.
    ///
    /// # Errors
    /// The kernel's.
    pub fn start(&self) -> Result<()> {
        self.each(abi::ENABLE, 0)
    }

    /// Switches it off, likewise.
    ///
    /// # Errors
    /// The kernel's.
    pub fn stop(&self) -> Result<()> {
        self.each(abi::DISABLE, 0)
    }

    /// Counts from 0 again.
    ///
    /// # Errors
    /// The kernel's.
    pub fn reset(&self) -> Result<()> {
        self.each(abi::RESET, if self.is_group { abi::PERF_IOC_FLAG_GROUP.into() } else { 0 })
    }

    #[inline]
    fn each(&self, command: u32, argument: u64) -> Result<()> {
        let asked = if self.is_group { self.events.get(..1).unwrap_or_default() } else { &self.events };
        for event in asked {
            if let Err(source) = raw_ioctl(event.as_fd(), command, argument) {
                return Err(Error::System { call: "ioctl on a counter".into(), source });
            }
        }
        Ok(())
    }

    /// Reads all counts by read(2): one for the group, or one for each event. The counts are in the order of the events.
    ///
    /// # Errors
    /// The kernel's; where a pinned event got no counter; where fewer bytes come than asked for.
    pub fn read(&mut self) -> Result<&[u64]> {
        let count = self.events.len();
        if !self.is_group {
            for (place, event) in self.words.iter_mut().zip(&self.events) {
                // A count, and the two times.
                let mut words = [0u64; 3];
                let got = read_words(event.as_fd(), &mut words);
                if got != size_of_val(&words) {
                    return Err(unread(got, words.len()));
                }
                *place = words[0];
            }
            return Ok(&self.words[..count]);
        }
        let Some(leader) = self.events.first() else { return Ok(&[]) };
        let words = &mut self.words[..GROUP_HEAD + count];
        let got = read_words(leader.as_fd(), words);
        if got != size_of_val(words) {
            return Err(unread(got, words.len()));
        }
        Ok(&words[GROUP_HEAD..])
    }

    /// Maps the page of each event, so that [`Self::read_in_user_mode`] can be asked.
    ///
    /// # Errors
    /// The kernel's.
    pub fn map(&mut self) -> Result<()> {
        self.pages = self.events.iter().map(CounterPage::map).collect::<Result<_>>()?;
        Ok(())
    }

    /// Reads all counts by RDPMC, without a system call. None where one of them cannot be read so ([`CounterPage::read`]), or nothing is mapped:
    /// the caller then decides whether [`Self::read`] will do.
    pub fn read_in_user_mode(&mut self) -> Option<&[u64]> {
        if self.pages.len() != self.events.len() {
            return None;
        }
        for (place, page) in self.words.iter_mut().zip(&self.pages) {
            *place = page.read()?;
        }
        Some(&self.words[..self.pages.len()])
    }

    /// The pages that are mapped.
    pub fn pages(&self) -> &[CounterPage] {
        &self.pages
    }

    /// For which share of the time that it was enabled the first event of each call counted: less than 1 where it shared its counter.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn share(&self) -> Result<f64> {
        let mut least = 1.0_f64;
        let asked = if self.is_group { self.events.get(..1).unwrap_or_default() } else { &self.events };
        for event in asked {
            let mut words = [0u64; GROUP_HEAD + EVENTS_MAX];
            raw_read(event.as_fd(), &mut words).map_err(|source| Error::System { call: "read of a counter".into(), source })?;
            // The times stand behind the number of events, or behind the count.
            let (enabled, running) = (words[1], words[2]);
            if enabled > 0 {
                least = least.min(running as f64 / enabled as f64);
            }
        }
        Ok(least)
    }

    /// The descriptors, for calls of one's own.
    pub fn descriptors(&self) -> &[OwnedFd] {
        &self.events
    }
}

/// Why a read brought something else than so many words.
#[cold]
#[inline(never)]
fn unread(got: usize, words: usize) -> Error {
    match outcome(got) {
        Err(source) => Error::System { call: "read of a counter".into(), source },
        Ok(0) => Error::Discarded {
            why: "a pinned event could not be scheduled and went into the error state".into(),
            remedy: "open fewer events at once".into(),
        },
        Ok(got) => {
            let why = format!("{} bytes expected", words * size_of::<u64>());
            Error::Malformed { what: "counter".into(), offset: got as u64, why }
        }
    }
}

/// read(2) into words, by the instruction itself: what nothing can be cheaper than. Bytes read.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn raw_read(fd: BorrowedFd<'_>, words: &mut [u64]) -> io::Result<usize> {
    outcome(read_words(fd, words))
}

/// As the kernel answers: bytes, or the negated number of an error.
#[inline(always)]
fn read_words(fd: BorrowedFd<'_>, words: &mut [u64]) -> usize {
    // SAFETY: the kernel writes at most the bytes of `words`, which lives across the call.
    unsafe { syscall3(Sysno::read as usize, fd.as_raw_fd() as usize, words.as_mut_ptr() as usize, size_of_val(words)) }
}

/// `PERF_EVENT_IOC_ENABLE` by the instruction itself: what nothing can be cheaper than.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn raw_start(fd: BorrowedFd<'_>) -> io::Result<()> {
    raw_ioctl(fd, abi::ENABLE, 0).map(|_| ())
}

/// `PERF_EVENT_IOC_DISABLE`, likewise.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn raw_stop(fd: BorrowedFd<'_>) -> io::Result<()> {
    raw_ioctl(fd, abi::DISABLE, 0).map(|_| ())
}

/// `PERF_EVENT_IOC_RESET`, likewise.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn raw_reset(fd: BorrowedFd<'_>) -> io::Result<()> {
    raw_ioctl(fd, abi::RESET, 0).map(|_| ())
}

/// `PERF_EVENT_IOC_PERIOD`: the kernel reads the period from memory (kernel/events/core.c, _perf_ioctl).
///
/// # Errors
/// The kernel's; EINVAL where the event does not sample.
#[inline(always)]
pub fn set_period(fd: BorrowedFd<'_>, period: u64) -> io::Result<()> {
    let period = &raw const period;
    raw_ioctl(fd, abi::PERIOD, period as u64).map(|_| ())
}

/// `PERF_EVENT_IOC_ID`: an event's number, as samples have it.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn id_of(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut id = 0u64;
    raw_ioctl(fd, abi::ID, &raw mut id as u64)?;
    Ok(id)
}

/// `PERF_EVENT_IOC_MODIFY_ATTRIBUTES`: gives an open breakpoint other attributes. Other events refuse it (EOPNOTSUPP).
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub(crate) fn modify(fd: BorrowedFd<'_>, attributes: &mut Attributes) -> io::Result<()> {
    raw_ioctl(fd, abi::MODIFY_ATTRIBUTES, &raw mut attributes.0 as u64).map(|_| ())
}

/// ioctl(2). Not for others: several commands take an address.
#[inline(always)]
fn raw_ioctl(fd: BorrowedFd<'_>, command: u32, argument: u64) -> io::Result<usize> {
    // SAFETY: callers above give a number where the command takes one, and a live address of what it reads or writes where it takes that; a
    // descriptor of another kind says ENOTTY.
    let got = unsafe { syscall3(Sysno::ioctl as usize, fd.as_raw_fd() as usize, command as usize, argument as usize) };
    outcome(got)
}

/// The least that a system call can be: getppid(2).
#[inline(always)]
pub fn raw_getppid() -> usize {
    // SAFETY: takes nothing and touches nothing.
    unsafe { syscall0(Sysno::getppid as usize) }
}

/// Switches on all events that the calling thread opened (`PR_TASK_PERF_EVENTS_ENABLE`), those of other monitors included.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn start_all_of_this_thread() -> io::Result<()> {
    prctl(libc::PR_TASK_PERF_EVENTS_ENABLE)
}

/// Switches them off.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn stop_all_of_this_thread() -> io::Result<()> {
    prctl(libc::PR_TASK_PERF_EVENTS_DISABLE)
}

#[inline(always)]
fn prctl(option: libc::c_int) -> io::Result<()> {
    // SAFETY: these options take no argument and touch the calling thread's events alone.
    let got = unsafe { syscall5(Sysno::prctl as usize, option as usize, 0, 0, 0, 0) };
    outcome(got).map(|_| ())
}

/// The kernel answers with the negated number of an error in the last page of numbers.
#[inline(always)]
fn outcome(got: usize) -> io::Result<usize> {
    const ERRORS: usize = 4095;
    if got > usize::MAX - ERRORS { Err(io::Error::from_raw_os_error(got.wrapping_neg() as i32)) } else { Ok(got) }
}
