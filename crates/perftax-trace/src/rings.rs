//! The rings that programs write marks into (`perftax_tag.h`): found in a folder, mapped, drained.
//!
//! Whoever writes them may be wrong, or hostile: what a ring says of itself is checked again at every look.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perftax_pmu::{Error, Result};
use rustix::fs::OFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::mark::{Kind, Statement};

/// `PERFTAX_RING_MAGIC`, and what it was before: marks alone.
const MAGIC: u64 = u64::from_le_bytes(*b"PTXMARK2");
const MAGIC_OF_MARKS: u64 = u64::from_le_bytes(*b"PTXMARK1");
/// What all of them begin with: seven letters.
const MAGIC_LETTERS: u64 = (1 << 56) - 1;
/// `PERFTAX_RING_HEADER`, bytes.
const HEADER_BYTES: u64 = 4096;
/// Bytes of a mark.
const MARK_BYTES: u64 = 16;
/// Offsets in the header, bytes.
const OWNER_AT: usize = 8;
const CAPACITY_AT: usize = 16;
const HEAD_AT: usize = 64;
const DROPPED_AT: usize = 72;
const COUNTERS_AT: usize = 88;
const TAIL_AT: usize = 128;
/// `PERFTAX_COUNTERS_READ`, `PERFTAX_COUNTERS_REFUSED`.
const COUNTERS_READ: u32 = 1;
const COUNTERS_REFUSED: u32 = 2;

/// A thread's ring.
#[derive(Debug)]
pub struct MarkRing {
    base: NonNull<u8>,
    bytes: usize,
    capacity: u64,
    path: PathBuf,
    /// Of what is said beyond marks.
    places: Vec<[u64; 2]>,
    /// The process that made it.
    pub pid: u32,
    /// The thread that writes it.
    pub tid: u32,
}

// SAFETY: the mapping belongs to this value alone; what others write in it is read by atomic loads.
unsafe impl Send for MarkRing {}

impl MarkRing {
    /// Maps a ring; `None` where the program has not finished making it.
    ///
    /// # Errors
    /// Where it cannot be mapped, or its size is not what it says.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        // Whoever writes there may have put a link, or no file at all.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).map_err(Error::file(path))?;
        let file_is = file.metadata().map_err(Error::file(path))?;
        if !file_is.is_file() {
            return Err(Error::Malformed { what: path.display().to_string(), offset: 0, why: "it is no ordinary file".into() });
        }
        let bytes = file_is.len();
        if bytes <= HEADER_BYTES {
            return Ok(None);
        }
        let mut ring = Self::map(&file, bytes as usize, path)?;
        match ring.word(0).load(Ordering::Acquire) {
            MAGIC | MAGIC_OF_MARKS => {}
            other if other & MAGIC_LETTERS == MAGIC & MAGIC_LETTERS => {
                let version = (other >> 56) as u8 as char;
                let why = format!("version {version} of perftax_tag.h, of which this perftax knows 1 and 2");
                return Err(Error::Malformed { what: path.display().to_string(), offset: 0, why });
            }
            _ => return Ok(None),
        }
        let (owner, capacity) = (ring.word(OWNER_AT).load(Ordering::Relaxed), ring.word(CAPACITY_AT).load(Ordering::Relaxed));
        if !capacity.is_power_of_two() || capacity.checked_mul(MARK_BYTES).is_none_or(|marks| marks + HEADER_BYTES != bytes) {
            let why = format!("{capacity} marks in a file of {bytes} bytes");
            return Err(Error::Malformed { what: path.display().to_string(), offset: CAPACITY_AT as u64, why });
        }
        (ring.capacity, ring.pid, ring.tid) = (capacity, owner as u32, (owner >> 32) as u32);
        Ok(Some(ring))
    }

    fn map(file: &File, bytes: usize, path: &Path) -> Result<Self> {
        // SAFETY: a fresh shared mapping at an address of the kernel's choice; nothing of ours can overlap it.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0) };
        let base = base.map_err(|error| Error::file(path)(error.into()))?;
        let base = NonNull::new(base.cast()).ok_or_else(|| Error::file(path)(rustix::io::Errno::FAULT.into()))?;
        Ok(Self { base, bytes, capacity: 0, path: path.into(), places: Vec::new(), pid: 0, tid: 0 })
    }

    /// Hands out everything that waits, with its counter. What is not known is left out. Returns how many places were read.
    ///
    /// # Errors
    /// Where the ring says that more wait than it holds.
    pub fn drain(&mut self, mut each: impl FnMut(u64, Statement)) -> Result<u64> {
        let (head, tail) = (self.word(HEAD_AT).load(Ordering::Acquire), self.word(TAIL_AT).load(Ordering::Relaxed));
        let waiting = head.wrapping_sub(tail);
        if waiting > self.capacity {
            let why = format!("{waiting} marks wait in a ring of {}", self.capacity);
            return Err(Error::Malformed { what: self.path.display().to_string(), offset: HEAD_AT as u64, why });
        }
        let mut i = 0;
        while i < waiting {
            let [counter, word] = self.place(tail.wrapping_add(i));
            i += 1;
            if let Some(kind) = Kind::of(word) {
                each(counter, Statement::Mark(word >> 2, kind));
                continue;
            }
            // All of its places are written before the head goes on; what says otherwise is none.
            let (wanted, more) = (word >> 8 & 0xff, (word >> 8 & 0xff).min(waiting - i));
            let mut places = std::mem::take(&mut self.places);
            places.clear();
            places.extend((i..i + more).map(|i| self.place(tail.wrapping_add(i))));
            if let Some(statement) = Statement::of(word, &places).filter(|_| more == wanted) {
                each(counter, statement);
            }
            self.places = places;
            i += more;
        }
        self.word(TAIL_AT).store(head, Ordering::Release);
        Ok(waiting)
    }

    /// Both words of a place, counted from the ring's first one on.
    fn place(&self, i: u64) -> [u64; 2] {
        let at = (HEADER_BYTES + (i & (self.capacity - 1)) * MARK_BYTES) as usize;
        [at, at + 8].map(|at| self.word(at).load(Ordering::Relaxed))
    }

    /// Whether anything waits to be read.
    fn waits(&self) -> bool {
        self.word(HEAD_AT).load(Ordering::Acquire) != self.word(TAIL_AT).load(Ordering::Relaxed)
    }

    /// Marks that found no room.
    pub fn dropped(&self) -> u64 {
        self.word(DROPPED_AT).load(Ordering::Relaxed)
    }

    /// Whether its marks come with what the thread has executed; where the thread was refused its counters, why (errno).
    pub fn counters(&self) -> RingCounters {
        let word = self.word(COUNTERS_AT).load(Ordering::Relaxed);
        match word as u32 {
            COUNTERS_READ => RingCounters::Read,
            COUNTERS_REFUSED => RingCounters::Refused((word >> 32) as u32),
            _ => RingCounters::None,
        }
    }

    /// A word of the mapping; `at` is a multiple of 8 that lies in it.
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes, "byte {at} of {}", self.bytes);
        // SAFETY: aligned and within the mapping (asserted; the base is a page's), which lives as long as `self`; all access is atomic.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU64>() }
    }
}

impl Drop for MarkRing {
    fn drop(&mut self) {
        // SAFETY: this mapping of these bytes is ours, and no reference to it is left.
        unsafe { munmap(self.base.as_ptr().cast(), self.bytes) }.ok();
    }
}

/// Whether a ring's marks come with what its thread has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RingCounters {
    /// They do not: nobody asked, or whoever writes it knows nothing of that.
    None,
    /// They do.
    Read,
    /// The thread could not have its counters: errno.
    Refused(u32),
}

/// The folder in which programs make rings (`PERFTAX_MARKS`).
#[derive(Debug)]
pub struct MarkFolder {
    path: PathBuf,
    rings: BTreeMap<PathBuf, MarkRing>,
    /// Rings that cannot be read, each with the reason; not tried again.
    broken: BTreeMap<PathBuf, String>,
    /// Rings that were given up, and the marks that had found no room in them.
    given_up: (usize, u64),
    /// What their marks came with.
    counters_given_up: BTreeMap<RingCounters, usize>,
}

impl MarkFolder {
    /// Watches a folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            rings: BTreeMap::new(),
            broken: BTreeMap::new(),
            given_up: (0, 0),
            counters_given_up: BTreeMap::new(),
        }
    }

    /// Looks for new rings, and hands out what waits in all of them: whose it is, the counter then, and what is said.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn drain(&mut self, mut each: impl FnMut(&MarkOwner, u64, Statement)) -> Result<u64> {
        self.look()?;
        let mut marks = 0;
        for (path, ring) in &mut self.rings {
            if self.broken.contains_key(path) {
                continue;
            }
            let owner = MarkOwner { pid: ring.pid, tid: ring.tid };
            match ring.drain(|counter, statement| each(&owner, counter, statement)) {
                Ok(read) => marks += read,
                Err(error) => {
                    self.broken.insert(path.clone(), error.to_string());
                }
            }
        }
        Ok(marks)
    }

    /// Lets go of the rings of those who write no more, as far as all of them was read, and of their files.
    pub fn give_up(&mut self, mut has_ended: impl FnMut(&MarkOwner) -> bool) {
        let (broken, given_up, counters) = (&self.broken, &mut self.given_up, &mut self.counters_given_up);
        self.rings.retain(|path, ring| {
            let owner = MarkOwner { pid: ring.pid, tid: ring.tid };
            let keeps = broken.contains_key(path) || ring.waits() || !has_ended(&owner);
            if !keeps {
                *given_up = (given_up.0 + 1, given_up.1 + ring.dropped());
                *counters.entry(ring.counters()).or_default() += 1;
                // Where it cannot be removed it is found again, and read.
                std::fs::remove_file(path).ok();
            }
            keeps
        });
    }

    /// Marks that found no room, all rings.
    pub fn dropped(&self) -> u64 {
        self.given_up.1 + self.rings.values().map(MarkRing::dropped).sum::<u64>()
    }

    /// Rings found so far.
    pub fn rings(&self) -> usize {
        self.given_up.0 + self.rings.len()
    }

    /// How many of them come with what their threads have executed.
    pub fn counters(&self) -> BTreeMap<RingCounters, usize> {
        let mut all = self.counters_given_up.clone();
        self.rings.values().for_each(|ring| *all.entry(ring.counters()).or_default() += 1);
        all
    }

    /// Why some of them are not read.
    pub fn broken(&self) -> impl Iterator<Item = &str> {
        self.broken.values().map(String::as_str)
    }

    fn look(&mut self) -> Result<()> {
        for entry in std::fs::read_dir(&self.path).map_err(Error::file(&self.path))? {
            let path = entry.map_err(Error::file(&self.path))?.path();
            let is_new = path.extension().is_some_and(|extension| extension == "marks")
                && !self.rings.contains_key(&path)
                && !self.broken.contains_key(&path);
            if is_new {
                match MarkRing::open(&path) {
                    Ok(Some(ring)) => drop(self.rings.insert(path, ring)),
                    // It is being made.
                    Ok(None) => {}
                    Err(error) => drop(self.broken.insert(path, error.to_string())),
                }
            }
        }
        Ok(())
    }
}

/// Who writes a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MarkOwner {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// A ring of four marks with one that begins message 7, as a program makes it.
    fn ring(path: &Path, tid: u64) {
        let mut bytes = vec![0u8; HEADER_BYTES as usize + 4 * MARK_BYTES as usize];
        let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        put(0, MAGIC);
        put(OWNER_AT, tid << 32 | 5);
        put(CAPACITY_AT, 4);
        put(HEAD_AT, 1);
        put(DROPPED_AT, 3);
        put(HEADER_BYTES as usize, 1000);
        put(HEADER_BYTES as usize + 8, 7 << 2 | 1);
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn rings_of_who_writes_no_more_are_given_up_once_they_are_read() {
        let folder = tempfile::tempdir().unwrap();
        for tid in [8, 9] {
            ring(&folder.path().join(format!("{tid}.marks")), tid);
        }
        let mut marks = MarkFolder::new(folder.path());
        let mut read = Vec::new();
        marks.look().unwrap();
        marks.give_up(|_| true);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing of them was read");
        marks.drain(|owner, _, statement| read.push((owner.tid, statement))).unwrap();
        read.sort_by_key(|(tid, _)| *tid);
        assert_eq!(read, [8, 9].map(|tid| (tid, Statement::Mark(7, Kind::Begin))));
        marks.give_up(|owner| owner.tid == 8);
        assert_eq!((marks.rings(), marks.rings.len(), marks.dropped()), (2, 1, 6));
        assert!(!folder.path().join("8.marks").exists() && folder.path().join("9.marks").exists());
        marks.drain(|_, _, _| panic!("all of it was read")).unwrap();
    }
}
