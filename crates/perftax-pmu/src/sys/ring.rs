//! The mapped ring buffer that the kernel writes records into, and our reader of it.
//!
//! Records are handed out in place, without a copy; only one that wraps around the end is put together in a scratch buffer.

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings as abi;
use perftax_doc::steps::Setting;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::{Error, Result};
use crate::record::Header;
use crate::sys::OpenEvent;

/// How far ahead of the reader lines are asked for: some 50 samples.
const PREFETCH_AHEAD_BYTES: u64 = 2048;

/// A mapped ring: one page of control data and 2^n pages of records.
pub struct Ring {
    base: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
    scratch: Vec<u8>,
    fd: std::os::fd::OwnedFd,
}

// SAFETY: the mapping belongs to this value alone, and only `&mut self` methods touch its consumer side.
unsafe impl Send for Ring {}

impl Ring {
    /// Refuses sizes that cannot be mapped.
    pub fn check_pages(data_pages: usize) -> Result<()> {
        let needed = || Error::Argument {
            argument: Setting::RingPages.name(),
            value: data_pages.to_string(),
            needed: "a power of two".into(),
        };
        data_pages.is_power_of_two().then_some(()).ok_or_else(needed)
    }

    /// Maps a ring of `data_pages` (a power of two) onto an event, and brings its pages into the page table: older kernels (6.12) do that one by one as a ring is
    /// read, and a page fault may be what is sampled. Where each sample sends a signal such a kernel (from 6.4 on: a fault under a lock of its mapping alone) answers
    /// the signal before it brings the page, and samples the same fault again, for ever.
    pub fn map(event: &OpenEvent, data_pages: usize) -> Result<Self> {
        Self::check_pages(data_pages)?;
        let page_bytes = rustix::param::page_size();
        let bytes = (1 + data_pages) * page_bytes;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a fresh shared mapping at an address of the kernel's choice; nothing of ours can overlap it.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, event.as_fd(), 0) };
        let base = base.map_err(|error| map_error(error, bytes))?;
        let Some(base) = NonNull::new(base.cast::<u8>()) else {
            return Err(map_error(rustix::io::Errno::FAULT, bytes));
        };
        let fd = event
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| Error::System { call: "dup of an event's descriptor".into(), source })?;
        let ring = Self { base, page_bytes, data_bytes: data_pages * page_bytes, scratch: Vec::new(), fd };
        // Pages come for reading; to be written the first one takes a fault of its own.
        ring.tail().store(ring.tail().load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(ring)
    }

    /// Hands every complete record to `each`, then gives the space back to the kernel. Returns the bytes consumed.
    pub fn drain(&mut self, mut each: impl FnMut(Header, &[u8])) -> Result<u64> {
        let head = self.head().load(Ordering::Acquire);
        let start = self.tail().load(Ordering::Relaxed);
        let mut at = start;
        while at < head {
            self.prefetch(at + PREFETCH_AHEAD_BYTES);
            let header = self.header_at(at);
            let size = u64::from(header.size);
            if size < Header::BYTES as u64 || at + size > head {
                return Err(Error::Malformed {
                    what: "ring buffer".into(),
                    offset: at,
                    why: format!("a record of {size} bytes where {} are left", head - at),
                });
            }
            let body_at = at + Header::BYTES as u64;
            let body_bytes = usize::from(header.size) - Header::BYTES;
            let offset = self.offset(body_at);
            if offset + body_bytes <= self.data_bytes {
                // SAFETY: the range lies within the data area; the kernel does not write between tail and head.
                let body = unsafe { std::slice::from_raw_parts(self.data().add(offset), body_bytes) };
                each(header, body);
            } else {
                let mut scratch = std::mem::take(&mut self.scratch);
                scratch.clear();
                let first = self.data_bytes - offset;
                // SAFETY: both ranges lie within the data area, between tail and head as above.
                unsafe {
                    scratch.extend_from_slice(std::slice::from_raw_parts(self.data().add(offset), first));
                    scratch.extend_from_slice(std::slice::from_raw_parts(self.data(), body_bytes - first));
                }
                each(header, &scratch);
                self.scratch = scratch;
            }
            at += size;
        }
        self.tail().store(head, Ordering::Release);
        Ok(head - start)
    }

    /// Bytes of records that wait to be drained.
    pub fn waiting_bytes(&self) -> u64 {
        self.head().load(Ordering::Acquire) - self.tail().load(Ordering::Relaxed)
    }

    /// Asks for bytes that will be read soon. Each record tells where the next one is, so without this the reader would wait for
    /// one line after the other to come over from the CPU that wrote it.
    #[inline(always)]
    fn prefetch(&self, position: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let offset = self.offset(position);
            // SAFETY: a prefetch never faults, and the address lies within the data area.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.data().add(offset).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = position;
    }

    /// Records are multiples of 8 bytes, so a header never wraps.
    fn header_at(&self, position: u64) -> Header {
        let offset = self.offset(position);
        // SAFETY: 8 aligned bytes within the data area, between tail and head.
        let bytes = unsafe { self.data().add(offset).cast::<[u8; 8]>().read() };
        Header::parse(&bytes)
    }

    /// Where a position lies in the data area. A mask, for a division would take longer than all else that a record costs.
    #[inline(always)]
    fn offset(&self, position: u64) -> usize {
        position as usize & (self.data_bytes - 1)
    }

    fn data(&self) -> *const u8 {
        // SAFETY: the data area starts one page into the mapping.
        unsafe { self.base.as_ptr().add(self.page_bytes) }
    }

    fn head(&self) -> &AtomicU64 {
        self.control_word(std::mem::offset_of!(abi::perf_event_mmap_page, data_head))
    }

    fn tail(&self) -> &AtomicU64 {
        self.control_word(std::mem::offset_of!(abi::perf_event_mmap_page, data_tail))
    }

    fn control_word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: data_head and data_tail are aligned u64 within the mapped control page, shared with the kernel by atomics.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast::<u64>()) }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` got.
        unsafe { munmap(self.base.as_ptr().cast(), self.page_bytes + self.data_bytes).ok() };
    }
}

fn map_error(error: rustix::io::Errno, bytes: usize) -> Error {
    if error == rustix::io::Errno::PERM || error == rustix::io::Errno::AGAIN {
        let knob = "/proc/sys/kernel/perf_event_mlock_kb";
        let value = std::fs::read_to_string(knob).map_or_else(|_| "unknown".into(), |s| s.trim().to_string());
        let needed = bytes.div_ceil(1024);
        let value_kib: u64 = value.parse().unwrap_or(0);
        return Error::Permission {
            what: format!("map a ring of {bytes} bytes"),
            knob: "kernel.perf_event_mlock_kb".into(),
            value,
            needed: format!(
                "{needed} KiB more for each CPU, all rings of all of this user's processes together (beyond it, `ulimit -l` counts)"
            ),
            command: format!(
                "sudo sysctl kernel.perf_event_mlock_kb={}   (or ask for less with {})",
                value_kib.saturating_add(needed as u64 * 4),
                Setting::RingPages
            ),
        };
    }
    Error::System { call: format!("mmap of a ring of {bytes} bytes"), source: error.into() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::event::{Catalog, parse};
    use crate::sampler::Sampling;
    use crate::sys::Target;

    /// Where page faults are sampled and each sample sends a signal, a fault of the reader's would be sampled for ever.
    #[test]
    fn a_ring_is_read_without_a_page_fault() {
        let faults = parse("page-faults:u", &Catalog::of_this_machine()).unwrap();
        let counted = || {
            let counter = OpenEvent::open(&faults[0], &Sampling::COUNTING, Target::ThisThread, None).unwrap();
            let mut ring = Ring::map(&counter, 8).unwrap();
            counter.enable().unwrap();
            let read: u64 = (0..8).map(|page| u64::from(ring.header_at(page * ring.page_bytes as u64).size)).sum();
            let drained = ring.drain(|_, _| ()).unwrap();
            counter.disable().unwrap();
            assert_eq!((read, drained, ring.waiting_bytes()), (0, 0, 0));
            counter.read().unwrap().value
        };
        // What its own code takes the first time, and what the kernel took away meanwhile, is none of the ring's.
        let least = (0..6).map(|_| counted()).min();
        assert_eq!(least, Some(0));
    }
}
