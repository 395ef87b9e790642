//! Memory whose every page faults on first touch, as often as asked. It stands below both who measures faults (perftax-lab) and who reads clocks by them
//! (perftax-trace).

use std::fs::File;
use std::io::Read;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::{Error, Result};

/// Private anonymous pages, never huge ones.
pub struct FaultArea {
    base: NonNull<u8>,
    pages: usize,
    page_bytes: usize,
}

impl FaultArea {
    /// Maps the area; no page is present yet.
    pub fn new(pages: usize) -> Result<Self> {
        let page_bytes = rustix::param::page_size();
        let failed = |call: &str| {
            let call = call.to_string();
            move |e: rustix::io::Errno| Error::System { call, source: e.into() }
        };
        // SAFETY: a fresh private mapping at an address of the kernel's choice.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), pages * page_bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let base = NonNull::new(base.map_err(failed("mmap"))?.cast::<u8>())
            .ok_or(Error::System { call: "mmap".into(), source: std::io::Error::from_raw_os_error(libc::EFAULT) })?;
        let area = Self { base, pages, page_bytes };
        // Kernels without transparent huge pages say EINVAL, and then there is nothing to switch off.
        // SAFETY: the range is our own mapping.
        unsafe { madvise(base.as_ptr().cast(), pages * page_bytes, Advice::LinuxNoHugepage).ok() };
        Ok(area)
    }

    /// Number of pages: the number of faults of one [`Self::touch`] after a [`Self::forget`].
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Gives all pages back, so that each faults again.
    pub fn forget(&mut self) -> Result<()> {
        // SAFETY: the range is our own anonymous mapping; its content is never read.
        unsafe { madvise(self.base.as_ptr().cast(), self.pages * self.page_bytes, Advice::LinuxDontNeed) }
            .map_err(|e| Error::System { call: "madvise MADV_DONTNEED".into(), source: e.into() })
    }

    /// Writes one byte to one page.
    #[inline]
    pub fn touch_page(&mut self, page: usize) {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        // SAFETY: within the mapping, as just checked.
        unsafe { self.base.as_ptr().add(page * self.page_bytes).write_volatile(1) };
    }

    /// Writes one byte to every page, all of them by one instruction, however this is compiled.
    #[inline]
    pub fn touch(&mut self) {
        for page in 0..self.pages {
            self.touch_by_one(page);
        }
    }

    /// Never inlined: a loop that is unrolled has several stores.
    #[inline(never)]
    fn touch_by_one(&mut self, page: usize) {
        self.touch_page(page);
    }

    /// Writes one byte to every page, by four instructions in turn; of what four does not divide the rest is left out.
    #[inline(never)]
    pub fn touch_by_four(&mut self) {
        for page in (0..self.pages / 4).map(|turn| 4 * turn) {
            self.touch_page(page);
            self.touch_page(page + 1);
            self.touch_page(page + 2);
            self.touch_page(page + 3);
        }
    }

    /// Has the kernel write to every page: a read of /dev/zero into each.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn touch_by_kernel(&mut self, zero: &File) -> Result<()> {
        // SAFETY: exactly our own mapping, of initialised (zero) bytes, which nobody else refers to.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.pages * self.page_bytes) };
        let mut zero = zero;
        zero.read_exact(bytes).map_err(Error::file("/dev/zero"))
    }

    /// A page as words, without touching it: whoever writes there first has it fault.
    pub fn words(&mut self, page: usize) -> &mut [u64] {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        // SAFETY: within the mapping, as just checked, and aligned to a page; its bytes are initialised (zero), and nobody else refers to them.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.base.as_ptr().add(page * self.page_bytes).cast(),
                self.page_bytes / size_of::<u64>(),
            )
        }
    }

    /// Where a page begins.
    pub fn address(&self, page: usize) -> u64 {
        (self.base.as_ptr() as usize + page * self.page_bytes) as u64
    }
}

impl Drop for FaultArea {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` got.
        unsafe { munmap(self.base.as_ptr().cast(), self.pages * self.page_bytes).ok() };
    }
}
