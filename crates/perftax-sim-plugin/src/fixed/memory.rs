// SPDX-License-Identifier: GPL-2.0-or-later
//! The program's memory, as its system calls name it. QEMU has the program's addresses for its own; what is not mapped is an error, not a fault.

/// Reads so many bytes; none where they are not all there.
pub fn read<const N: usize>(address: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (copy(&mut bytes, address, Direction::FromProgram) == N).then_some(bytes)
}

/// A number of 64 bits.
pub fn number(address: u64) -> Option<u64> {
    read(address).map(u64::from_le_bytes)
}

/// Writes these bytes; false where they do not fit.
pub fn write(address: u64, bytes: &mut [u8]) -> bool {
    copy(bytes, address, Direction::ToProgram) == bytes.len()
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    FromProgram,
    ToProgram,
}

fn copy(bytes: &mut [u8], address: u64, direction: Direction) -> usize {
    if address == 0 {
        return 0;
    }
    let own = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let theirs = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
    // SAFETY: ours is as long as is said; of theirs the kernel checks that it may be read or written, and the program waits in a system call.
    let copied = unsafe {
        match direction {
            Direction::FromProgram => libc::process_vm_readv(libc::getpid(), &own, 1, &theirs, 1, 0),
            Direction::ToProgram => libc::process_vm_writev(libc::getpid(), &own, 1, &theirs, 1, 0),
        }
    };
    usize::try_from(copied).unwrap_or(0)
}

/// A struct timespec as nanoseconds.
pub fn timespec_ns(address: u64) -> Option<u64> {
    let [seconds, ns] = [number(address)?, number(address.wrapping_add(8))?];
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// Writes a struct timespec, or a struct timeval where `per_unit` is 1000.
pub fn write_time(address: u64, ns: u64, per_unit: u64) {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(ns / 1_000_000_000).to_le_bytes());
    bytes[8..].copy_from_slice(&(ns % 1_000_000_000 / per_unit).to_le_bytes());
    write(address, &mut bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_read_and_written_and_nothing_else() {
        let mut place = [0_u64; 2];
        let at = place.as_mut_ptr() as u64;
        write_time(at, 3_000_000_007, 1);
        assert_eq!(timespec_ns(at), Some(3_000_000_007));
        write_time(at, 3_000_009_000, 1000);
        assert_eq!(number(at + 8), Some(9));
        assert_eq!((number(0), number(8), write(8, &mut [1])), (None, None, false));
        assert_eq!(place[0], 3);
    }
}
