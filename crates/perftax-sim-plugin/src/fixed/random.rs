// SPDX-License-Identifier: GPL-2.0-or-later
//! What the program takes for random: the same numbers in every run of one seed.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::lock::lock;

use super::memory;

/// Bytes that are written at once.
const PIECE: usize = 256;

/// The numbers, and descriptors that they are read from.
pub struct Random {
    numbers: Mutex<fastrand::Rng>,
    files: Mutex<HashSet<u64>>,
}

impl Random {
    /// Of a seed.
    pub fn new(seed: u64) -> Self {
        Self { numbers: Mutex::new(fastrand::Rng::with_seed(seed)), files: Mutex::default() }
    }

    /// Puts so many bytes where the kernel has put its own.
    pub fn fill(&self, address: u64, bytes: u64) {
        let mut numbers = lock(&self.numbers);
        let mut done = 0;
        while done < bytes {
            let mut piece = [0; PIECE];
            let piece = &mut piece[..(bytes - done).min(PIECE as u64) as usize];
            numbers.fill(piece);
            memory::write(address + done, piece);
            done += piece.len() as u64;
        }
    }

    /// A file was opened: what is it?
    pub fn opened(&self, descriptor: u64) {
        let target = std::fs::read_link(format!("/proc/self/fd/{descriptor}"));
        let is_random = target.is_ok_and(|path| path.as_os_str() == "/dev/urandom" || path.as_os_str() == "/dev/random");
        let mut files = lock(&self.files);
        if is_random {
            files.insert(descriptor)
        } else {
            files.remove(&descriptor)
        };
    }

    /// Bytes were read from a file.
    pub fn was_read(&self, descriptor: u64, address: u64, bytes: u64) {
        if lock(&self.files).contains(&descriptor) {
            self.fill(address, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut place = [0_u8; 2 * PIECE + 3];
            Random::new(seed).fill(place.as_mut_ptr() as u64, place.len() as u64);
            place
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert!(numbers(7)[2 * PIECE..].iter().any(|byte| *byte != 0));
    }
}
