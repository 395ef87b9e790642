//! Calls of one function of our own, for user-space probes.

use std::hint::black_box;
use std::path::PathBuf;

use perftax_pmu::process::maps;
use perftax_pmu::{Error, Result};
use perftax_symbols::Mapping;

use super::{Stimulus, noted, under_frames};

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
    file_offset_in(&maps(std::process::id())?, address).ok_or_else(|| Error::Unsupported {
        what: "probe a function of its own".into(),
        why: format!("address {address:#x} stands in no file of /proc/self/maps"),
        remedy: "name a program and symbol: -e uprobe:PATH:SYMBOL".into(),
    })
}

fn file_offset_in(maps: &[Mapping], address: u64) -> Option<(PathBuf, u64)> {
    let map = maps.iter().find(|map| (map.from..map.to).contains(&address) && map.path.is_absolute())?;
    Some((map.path.clone(), address - map.from + map.file_offset))
}

impl Stimulus for ProbedCalls {
    fn run(&mut self) {
        under_frames(|| {
            for i in 0..self.calls {
                black_box(probed(i));
            }
        });
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn a_path_with_spaces_is_whole() {
        let lines = ["1000-2000 rw-p 00000000 00:00 0 ", "2000-3000 r-xp 00004000 fe:00 7     /opt/a folder/perftax"];
        let maps: Vec<Mapping> = lines.iter().filter_map(|line| Mapping::parse(line.as_bytes())).collect();
        assert_eq!(file_offset_in(&maps, 0x2010), Some(("/opt/a folder/perftax".into(), 0x4010)));
        assert_eq!(file_offset_in(&maps, 0x1010), None, "memory of no file");
        let own = file_offset_of(ProbedCalls::address()).unwrap();
        assert_eq!(own.0, std::env::current_exe().unwrap());
    }
}
