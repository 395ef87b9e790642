// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel tells of the machine that the program runs on: one processor, eight GiB, the usual limits, wherever that is.

use super::memory;

const GIB: u64 = 1 << 30;
/// As Linux has it for a login: bytes of the stack, open files, and no limit for all else.
const STACK: [u64; 2] = [8 << 20, u64::MAX];
const FILES: [u64; 2] = [4096; 2];
const UNLIMITED: [u64; 2] = [u64::MAX; 2];

/// CPUs that may be used (sched_getaffinity(2)): the first one, of as many bytes as were written.
pub fn one_cpu(address: u64, bytes: u64) {
    let mut mask = vec![0; bytes.min(1024) as usize];
    if let Some(first) = mask.first_mut() {
        *first = 1;
    }
    memory::write(address, &mut mask);
}

/// The host's name in a struct new_utsname (uname(2)): five fields of 65 bytes before the domain's, the name the second.
pub fn name(address: u64) {
    let mut name = [0; 65];
    name[..7].copy_from_slice(b"perftax");
    memory::write(address + 65, &mut name);
}

/// A struct sysinfo (sysinfo(2)): seconds up, loads, memory, memory that is free, and the rest 0; the unit of memory at byte 104.
pub fn memory(address: u64) {
    let mut bytes = [0; 112];
    let mut put = |at: usize, number: u64| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    put(0, 1000);
    put(32, 8 * GIB);
    put(40, 4 * GIB);
    put(80, 1);
    put(104, 1);
    memory::write(address, &mut bytes);
}

/// A limit (getrlimit(2)): what it is and what it may be raised to.
pub fn limit(resource: u64, address: u64) {
    let [now, most] = match u32::try_from(resource) {
        Ok(libc::RLIMIT_STACK) => STACK,
        Ok(libc::RLIMIT_NOFILE) => FILES,
        _ => UNLIMITED,
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&now.to_le_bytes());
    bytes[8..].copy_from_slice(&most.to_le_bytes());
    memory::write(address, &mut bytes);
}

/// What was used (getrusage(2), times(2)): nothing.
pub fn nothing(address: u64, bytes: usize) {
    memory::write(address, &mut vec![0; bytes]);
}
