//! The emulated machine's memory, by functions of the emulator's.

use std::ffi::c_void;

use perftax_model::intel::Memory;

/// See `struct perftax_memory` in the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HostMemory {
    of: *mut c_void,
    read: extern "C" fn(*mut c_void, u64, *mut u64) -> bool,
    write: extern "C" fn(*mut c_void, u64, *const u64, usize) -> bool,
    write_physical: extern "C" fn(*mut c_void, u64, *const u64, usize) -> bool,
}

impl Memory for HostMemory {
    fn read(&mut self, address: u64) -> Option<u64> {
        let mut value = 0;
        (self.read)(self.of, address, &mut value).then_some(value)
    }

    fn write(&mut self, address: u64, words: &[u64]) -> bool {
        (self.write)(self.of, address, words.as_ptr(), words.len())
    }

    fn write_physical(&mut self, address: u64, words: &[u64]) -> bool {
        (self.write_physical)(self.of, address, words.as_ptr(), words.len())
    }
}

#[cfg(test)]
impl HostMemory {
    /// That of a machine which cannot be reached.
    pub const NONE: Self = {
        extern "C" fn read(_: *mut c_void, _: u64, _: *mut u64) -> bool {
            false
        }
        extern "C" fn write(_: *mut c_void, _: u64, _: *const u64, _: usize) -> bool {
            false
        }
        Self { of: std::ptr::null_mut(), read, write, write_physical: write }
    };
}
