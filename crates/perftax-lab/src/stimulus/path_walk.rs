//! Work that stays in the kernel: the walk of a long path.

use std::ffi::CString;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, openat, statat};

use super::{Stimulus, lasting, noted};

/// Steps of the path: there and back again, as many as PATH_MAX (4096) takes of `proc/../`.
const STEPS: usize = 500;

/// Walks that a first trial makes.
const FEW: u64 = 10;

/// Looks a path up whose walk leads through one folder some hundred times: names are hashed, entries found, rights looked at, all by code of the
/// kernel's with branches and data of its own. Nine hundred and some of a thousand nanoseconds are spent there.
pub struct PathWalk {
    path: CString,
    walks: u64,
}

impl PathWalk {
    /// Work that takes about `duration` on this machine, undisturbed.
    pub fn lasting(duration: Duration) -> Self {
        let folder =
            ["/proc", "/dev", "/usr"].into_iter().find(|folder| openat(CWD, *folder, OFlags::PATH, Mode::empty()).is_ok());
        let path = format!("{}/..", folder.unwrap_or_default()).repeat(STEPS);
        let mut walk = Self { path: CString::new(path).unwrap_or_default(), walks: FEW };
        walk.walks = lasting(&mut walk, duration, FEW);
        walk
    }

    fn walk(&self) {
        // A walk that ends in an error was one.
        std::hint::black_box(statat(CWD, self.path.as_c_str(), rustix::fs::AtFlags::empty())).ok();
    }
}

impl Stimulus for PathWalk {
    fn run(&mut self) {
        for _ in 0..self.walks {
            self.walk();
        }
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        for _ in 0..self.walks {
            noted(ticks, || self.walk());
        }
    }

    fn truth(&self) -> Option<u64> {
        None
    }
}
