//! The means of taking a program's cache away.

use std::path::Path;

use perftax_pmu::resctrl::{Group, Resctrl};
use perftax_pmu::{Error, Result};

use super::evictor::Evictor;

/// Sizes of the evictor, bytes: none, first level, second level, and beyond.
const EVICTED: [u64; 6] = [0, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// How cache is taken away.
#[derive(Debug)]
pub enum Means {
    /// Somebody on the same CPU writes a working set, again and again: all levels, everywhere.
    Eviction {
        /// Whether he runs before the program, whenever he wants to (real time).
        ahead: bool,
    },
    /// The kernel leaves the program fewer ways of the last level: nobody else runs.
    Allocation {
        /// The program's group.
        group: Group,
        /// Ways of the last level.
        ways: u32,
        /// The fewest that can be left.
        least_ways: u32,
        /// Bytes of one way.
        way_bytes: u64,
    },
}

/// What happened beside a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// Visits of the evictor.
    pub visits: u64,
    /// Bytes that the program moved to and from memory, where the machine tells.
    pub memory_bytes: Option<u64>,
}

impl Means {
    /// By resctrl, mounted at a place, for programs on a CPU; `None` where the kernel has none.
    ///
    /// # Errors
    /// Where its files cannot be read or a group cannot be made.
    pub fn allocation(root: &Path, cpu: u32) -> Result<Option<Self>> {
        let Some(resctrl) = Resctrl::find(root)? else { return Ok(None) };
        let bytes = last_level_bytes(cpu)?;
        let group = resctrl.group(&format!("perftax-{}", std::process::id()))?;
        let way_bytes = bytes / u64::from(resctrl.ways);
        Ok(Some(Self::Allocation { group, ways: resctrl.ways, least_ways: resctrl.least_ways, way_bytes }))
    }

    /// Its name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Eviction { .. } => "eviction",
            Self::Allocation { .. } => "resctrl",
        }
    }

    /// Bytes that can be taken away, nothing first.
    pub fn sizes(&self) -> Vec<u64> {
        match *self {
            Self::Eviction { .. } => EVICTED.to_vec(),
            Self::Allocation { ways, least_ways, way_bytes, .. } => {
                let mut taken: Vec<u32> = [0, ways / 4, ways / 2, ways * 3 / 4, ways.saturating_sub(least_ways)].to_vec();
                taken.sort_unstable();
                taken.dedup();
                taken.retain(|taken| ways - taken >= least_ways);
                taken.into_iter().map(|taken| u64::from(taken) * way_bytes).collect()
            }
        }
    }

    /// Does something while so many bytes are taken away on a CPU.
    ///
    /// # Errors
    /// Those of what is done, or where it may not be.
    pub fn beside<T>(&self, cpu: u32, taken_bytes: u64, run: impl FnOnce() -> Result<T>) -> Result<(T, Beside)> {
        match self {
            Self::Eviction { ahead } => {
                let evictor = Evictor::start(cpu, taken_bytes as usize, *ahead)?;
                let ran = run();
                let visits = evictor.finish()?;
                Ok((ran?, Beside { visits, memory_bytes: None }))
            }
            Self::Allocation { group, ways, way_bytes, .. } => {
                group.leave(ways - (taken_bytes / way_bytes) as u32)?;
                let inside = group.enter()?;
                let before = group.memory_bytes();
                let ran = run()?;
                let memory_bytes = group.memory_bytes().zip(before).map(|(after, before)| after.saturating_sub(before));
                drop(inside);
                Ok((ran, Beside { visits: 0, memory_bytes }))
            }
        }
    }
}

/// Size of the last-level cache of a CPU, bytes.
fn last_level_bytes(cpu: u32) -> Result<u64> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index3/size");
    let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
    let kib = text.trim().strip_suffix('K').and_then(|digits| digits.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| Error::Malformed {
        what: path.clone(),
        offset: 0,
        why: format!("it reads '{}', not a number of K", text.trim()),
    })
}
