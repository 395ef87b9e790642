//! The page that the kernel keeps about an event, and reading a hardware counter in user mode by it.

use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};

use perf_event_open_sys::bindings as abi;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::{Error, Result};

/// A mapped page of a thread's event: `struct perf_event_mmap_page`. Not for events of CPUs or cgroups: from Linux 7.0 on Intel's newest close their counters to
/// user mode (RDPMC user disable), where RDPMC reads 0 and the page says nothing of it.
#[derive(Debug)]
pub struct CounterPage {
    page: NonNull<abi::perf_event_mmap_page>,
    bytes: usize,
}

impl CounterPage {
    /// Maps it, without a ring of records behind.
    ///
    /// # Errors
    /// Where the kernel does not let it be mapped.
    pub fn map(event: &impl AsFd) -> Result<Self> {
        Self::map_with(event, 0, ProtFlags::READ)
    }

    /// Maps it with `data_pages` (a power of two) of a ring behind it, of which nothing is read here.
    ///
    /// # Errors
    /// As [`Self::map`]; EPERM where more memory is locked than `kernel.perf_event_mlock_kb` allows.
    pub fn map_ring(event: &impl AsFd, data_pages: usize) -> Result<Self> {
        Self::map_with(event, data_pages, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn map_with(event: &impl AsFd, data_pages: usize, protection: ProtFlags) -> Result<Self> {
        let bytes = (1 + data_pages) * rustix::param::page_size();
        // SAFETY: a fresh shared mapping at an address of the kernel's choice; nothing of ours can overlap it.
        let page = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, event, 0) };
        let failed = |e: rustix::io::Errno| Error::System { call: "mmap of an event's page".into(), source: e.into() };
        let page = page.map_err(failed)?.cast();
        Ok(Self { page: NonNull::new(page).ok_or_else(|| failed(rustix::io::Errno::FAULT))?, bytes })
    }

    /// The count, read in user mode. None where only the kernel can tell: the event is no hardware counter's, it is not on its counter at the
    /// moment, or RDPMC is not allowed (`/sys/bus/event_source/devices/cpu/rdpmc`).
    ///
    /// As linux/perf_event.h has it: the kernel makes `lock` odd or changes it while it rewrites the page, and then all is read anew. The
    /// count of an event that shares its counter is not scaled.
    #[inline]
    pub fn read(&self) -> Option<u64> {
        let page = self.page.as_ptr();
        loop {
            // SAFETY: the mapping lives as long as this value; fields are read as volatile, since the kernel writes them.
            let (lock, capabilities, index, offset, width) = unsafe {
                let lock = (&raw const (*page).lock).read_volatile();
                compiler_fence(Ordering::SeqCst);
                let capabilities = (&raw const (*page).__bindgen_anon_1.capabilities).read_volatile();
                let index = (&raw const (*page).index).read_volatile();
                let offset = (&raw const (*page).offset).read_volatile();
                (lock, capabilities, index, offset, (&raw const (*page).pmc_width).read_volatile())
            };
            if capabilities & CAP_USER_RDPMC == 0 || index == 0 {
                return None;
            }
            let counter = rdpmc(index - 1)?;
            compiler_fence(Ordering::SeqCst);
            // SAFETY: as above.
            if unsafe { (&raw const (*page).lock).read_volatile() } == lock {
                return Some((offset + signed(counter, width)) as u64);
            }
        }
    }

    /// The index of the hardware counter and 1 more; 0 where there is none at the moment.
    pub fn index(&self) -> u32 {
        // SAFETY: as in `read`.
        unsafe { (&raw const (*self.page.as_ptr()).index).read_volatile() }
    }

    /// Whether the kernel lets user mode read the counter.
    pub fn is_readable(&self) -> bool {
        // SAFETY: as in `read`.
        unsafe { (&raw const (*self.page.as_ptr()).__bindgen_anon_1.capabilities).read_volatile() & CAP_USER_RDPMC != 0 }
    }
}

impl Drop for CounterPage {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` got.
        unsafe { munmap(self.page.as_ptr().cast(), self.bytes).ok() };
    }
}

/// `cap_user_rdpmc` of `capabilities` (linux/perf_event.h: bit 2 since 3.12).
const CAP_USER_RDPMC: u64 = 1 << 2;

/// A counter of `width` bits with its sign: it counts up to 0 from below.
#[inline]
fn signed(counter: u64, width: u16) -> i64 {
    let unused = 64 - u32::from(width).clamp(1, 64);
    ((counter << unused) as i64) >> unused
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn rdpmc(counter: u32) -> Option<u64> {
    let (low, high): (u32, u32);
    // SAFETY: the kernel's page says that RDPMC is allowed and which counter is the event's; it faults only where it is not.
    unsafe { core::arch::asm!("rdpmc", in("ecx") counter, out("eax") low, out("edx") high, options(nostack)) };
    Some(u64::from(high) << 32 | u64::from(low))
}

/// Other architectures read their counters by other instructions, which nothing here needs yet.
#[cfg(not(target_arch = "x86_64"))]
fn rdpmc(_: u32) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_a_sign() {
        assert_eq!(signed(0xffff_ffff_ffff, 48), -1);
        assert_eq!(signed(5, 48), 5);
        assert_eq!(signed(1 << 47, 48), -(1 << 47));
        assert_eq!(signed(u64::MAX, 64), -1);
    }
}
