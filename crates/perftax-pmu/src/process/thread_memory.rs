//! A process's memory, and where a thread's own variables lie in it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use perftax_symbols::elf::{ThreadLocal, ThreadLocalAccess};

use super::file_of;
use crate::sys::robust_list_head;
use crate::{Error, Result};

/// A process's memory, to be read.
#[derive(Debug)]
pub struct Memory(File);

/// Where a variable of each thread's own lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadVariable {
    /// So far from the thread pointer.
    Near(i64),
    /// In the part of a module, at so many bytes: that is made when a thread first gets at it.
    InModule {
        /// The module's number.
        module: u64,
        /// The variable's place in it.
        offset: u64,
    },
}

/// What C libraries keep of a thread begins so far before its list of robust locks, at most.
const DESCRIPTOR_BYTES: usize = 4096;
/// Of modules in a process, at most: more is no number of one.
const MAX_MODULES: u64 = 1 << 16;
/// `TLS_DTV_UNALLOCATED` (glibc, sysdeps/generic/dl-dtv.h).
const UNALLOCATED: u64 = u64::MAX;

impl Memory {
    /// Opens it.
    ///
    /// # Errors
    /// Where the caller may not look at the process (ptrace(2)), or it is gone.
    pub fn open(pid: u32) -> Result<Self> {
        let path = file_of(pid, "mem");
        File::open(&path).map(Self).map_err(Error::file(&path))
    }

    /// A word; none where nothing is mapped.
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, address).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }

    /// Bytes; none where not all of them are mapped.
    pub fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    /// Where a variable lies whose file is loaded at `bias`; none before the loader has said so. glibc's, of x86-64.
    pub fn variable(&self, of: ThreadLocal, bias: u64) -> Option<ThreadVariable> {
        let of_module =
            |module: u64, offset| (1..MAX_MODULES).contains(&module).then_some(ThreadVariable::InModule { module, offset });
        match of.access {
            ThreadLocalAccess::Program(below) => Some(ThreadVariable::Near((below as i64).wrapping_neg())),
            ThreadLocalAccess::Distance(at) => {
                let distance = self.word(bias.wrapping_add(at))?.cast_signed();
                (distance < 0).then_some(ThreadVariable::Near(distance))
            }
            ThreadLocalAccess::Module(at) => of_module(self.word(bias.wrapping_add(at))?, of.offset),
            ThreadLocalAccess::Descriptor(at) => {
                // The second word is for the function in the first: a distance, which is negative, or where the module's number and the place in it stand
                // (sysdeps/x86/dl-tlsdesc.h).
                let argument = self.word(bias.wrapping_add(at).wrapping_add(8))?;
                match argument.cast_signed() {
                    ..0 => Some(ThreadVariable::Near(argument.cast_signed())),
                    0 => None,
                    _ => of_module(self.word(argument)?, self.word(argument + 8)?),
                }
            }
        }
    }

    /// Where it lies for one thread; none where the thread has no part of that module yet, or is gone.
    pub fn of_thread(&self, variable: ThreadVariable, tid: u32) -> Option<u64> {
        let pointer = self.thread_pointer(tid)?;
        match variable {
            ThreadVariable::Near(distance) => Some(pointer.wrapping_add_signed(distance)),
            ThreadVariable::InModule { module, offset } => {
                // Parts by module, two words each, before them how many there is room for (sysdeps/generic/dl-dtv.h).
                let parts = self.word(pointer + 8)?;
                let room = self.word(parts.checked_sub(16)?)?;
                let part = (module <= room).then(|| self.word(parts + 16 * module)).flatten()?;
                (part != UNALLOCATED && part != 0).then(|| part.wrapping_add(offset))
            }
        }
    }

    /// A thread's pointer (`fs`): what glibc keeps of a thread begins with its own address, and has it again two words behind (sysdeps/x86_64/nptl/tls.h).
    fn thread_pointer(&self, tid: u32) -> Option<u64> {
        let head = robust_list_head(tid).ok()??;
        let from = head.checked_sub(DESCRIPTOR_BYTES as u64)? & !7;
        // It may begin at the beginning of what is mapped.
        let page = 4096 - from % 4096;
        let (from, bytes) = match self.bytes::<{ DESCRIPTOR_BYTES + 8 }>(from) {
            Some(bytes) => (from, bytes.to_vec()),
            None => {
                let mut bytes = vec![0; (head - (from + page)) as usize & !7];
                self.0.read_exact_at(&mut bytes, from + page).ok()?;
                (from + page, bytes)
            }
        };
        let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        // The nearest one: what lies before may be of another thread.
        (0..bytes.len()).step_by(8).rev().find_map(|at| {
            let address = from + at as u64;
            (word(at) == Some(address) && word(at + 16) == Some(address)).then_some(address)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// In this very process: the C library's own word for where threads have their variables is their pointer.
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    #[test]
    fn a_thread_s_pointer_is_found() {
        let memory = Memory::open(std::process::id()).unwrap();
        let look = |memory: &Memory| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let pointer = memory.thread_pointer(tid).unwrap();
            assert_eq!(memory.word(pointer), Some(pointer));
            (pointer, memory.of_thread(ThreadVariable::Near(-8), tid))
        };
        let (own, near) = look(&memory);
        assert_eq!(near, Some(own - 8));
        let other = std::thread::scope(|scope| scope.spawn(|| look(&memory).0).join().unwrap());
        assert_ne!(own, other);
        assert_eq!(memory.thread_pointer(u32::MAX - 1), None);
    }
}
