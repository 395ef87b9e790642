//! Calls of one function of our own, for user-space probes.

use std::hint::black_box;
use std::path::PathBuf;

use perftax_pmu::{Error, Result};

use super::{Stimulus, noted};

/// Calls a function a number of times: one hit of a uprobe at its entry each.
pub struct ProbedCalls {
    calls: u64,
}

/// The probed function: never inlined, and with a body that cannot be folded away.
#[inline(never)]
fn probed(x: u64) -> u64 {
    black_box(x).rotate_left(7) ^ 0x5bd1_e995
}

impl ProbedCalls {
    /// Work of `calls` calls.
    pub fn new(calls: u64) -> Self {
        Self { calls }
    }

    /// Where the function begins.
    pub fn address() -> u64 {
        probed as fn(u64) -> u64 as usize as u64
    }

    /// The event that probes it, in perftax's syntax: this program's file, and the function's offset in it.
    pub fn event_text() -> Result<String> {
        let (path, offset) = file_offset_of(Self::address())?;
        Ok(format!("uprobe:{}+{offset:#x}", path.display()))
    }
}

/// Which file is mapped at an address of this process, and the offset in it.
fn file_offset_of(address: u64) -> Result<(PathBuf, u64)> {
    let maps_path = "/proc/self/maps";
    let maps = std::fs::read_to_string(maps_path).map_err(Error::file(maps_path))?;
    let found = maps.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
        let path = fields.nth(2)?;
        (start..end).contains(&address).then(|| (PathBuf::from(path), address - start + offset))
    });
    found.ok_or_else(|| Error::Unsupported {
        what: "probe a function of its own".into(),
        why: format!("address {address:#x} stands in no file of {maps_path}"),
        remedy: "name a program and symbol: -e uprobe:PATH:SYMBOL".into(),
    })
}

impl Stimulus for ProbedCalls {
    fn run(&mut self) {
        for i in 0..self.calls {
            black_box(probed(i));
        }
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        for i in 0..self.calls {
            noted(ticks, || {
                black_box(probed(i));
            });
        }
    }

    fn truth(&self) -> Option<u64> {
        Some(self.calls)
    }
}
