//! Which file each sampled page of code belongs to. Mappings and samples stand in any order, so that both are kept, and looked up at the end.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::recording::{SeenRecord, SeenSample, kind, text};

/// Mappings of code by process, and samples in user mode by process and page.
#[derive(Default)]
pub(super) struct CodeMap {
    files: Vec<String>,
    number_of: FxHashMap<String, u32>,
    mapped: FxHashMap<u32, BTreeMap<u64, Mapping>>,
    /// Build ids that mappings carry, by file.
    ids: FxHashMap<u32, Vec<u8>>,
    mappings: usize,
    parents: FxHashMap<u32, u32>,
    samples: FxHashMap<(u32, u64), u64>,
    /// Samples in user mode, of pages that are kept.
    pub(super) user_samples: u64,
    sampled: OnceCell<SampledCode>,
    /// Whether there were more mappings than [`MAX_MAPPINGS`].
    pub(super) mappings_left_out: bool,
}

/// By its first address.
#[derive(Clone, Copy)]
struct Mapping {
    to: u64,
    file: u32,
}

/// What was sampled, looked up.
pub(super) struct SampledCode {
    /// By file.
    pub(super) by_file: BTreeMap<String, SampledFile>,
    /// Samples in no mapping of their process.
    pub(super) unmapped: u64,
    /// A process and an address of those.
    pub(super) example: Option<(u32, u64)>,
}

/// A file that was sampled.
#[derive(Default)]
pub(super) struct SampledFile {
    pub(super) samples: u64,
    /// Some of the processes.
    pub(super) processes: BTreeSet<u32>,
    /// Its build id, where mappings carry it.
    pub(super) build_id: Option<Vec<u8>>,
}

/// Processes of a file that are told.
const MAX_PROCESSES: usize = 64;
const PAGE_SHIFT: u32 = 12;
const MAX_PAGES: usize = 1 << 17;
const MAX_MAPPINGS: usize = 1 << 18;
const MAX_FILES: usize = 1 << 14;
const MAX_PARENTS: usize = 1 << 16;
/// Parents are asked for so many generations: process numbers are given out again, so that a chain may be a ring.
const MAX_GENERATIONS: usize = 16;

impl CodeMap {
    pub(super) fn sample(&mut self, sample: &SeenSample<'_>) {
        if sample.is_user() != Some(true) {
            return;
        }
        let (Some((pid, _)), Some(ip)) = (sample.belongs.thread, sample.ip()) else { return };
        let key = (pid, ip >> PAGE_SHIFT);
        if let Some(samples) = self.samples.get_mut(&key) {
            *samples += 1;
        } else if self.samples.len() < MAX_PAGES {
            self.samples.insert(key, 1);
        } else {
            return;
        }
        self.user_samples += 1;
    }

    pub(super) fn record(&mut self, record: &SeenRecord<'_>) {
        let (order, body) = (record.order, record.body);
        match record.kind {
            kind::MMAP | kind::MMAP2 if record.misc & kind::MISC_MMAP_DATA == 0 => {
                // pid, tid, address, length, offset; the second kind has 32 bytes of file and protection more
                let name_at = if record.kind == kind::MMAP { 32 } else { 64 };
                let (Some(pid), Some(from), Some(length)) = (order.u32(body, 0), order.u64(body, 8), order.u64(body, 16)) else {
                    return;
                };
                let Some(name) = body.get(name_at..) else { return };
                if self.mappings >= MAX_MAPPINGS || pid == u32::MAX {
                    self.mappings_left_out |= pid != u32::MAX;
                    return;
                }
                let file = self.file(text(name));
                if record.kind == kind::MMAP2 && record.misc & kind::MISC_MMAP_BUILD_ID != 0 {
                    let bytes = body.get(32).map_or(0, |bytes| usize::from(*bytes).min(20));
                    self.ids.entry(file).or_insert_with(|| body[36..36 + bytes].to_vec());
                }
                let mapping = Mapping { to: from.saturating_add(length), file };
                self.mappings += insert(self.mapped.entry(pid).or_default(), from, mapping);
            }
            kind::FORK => {
                let (Some(pid), Some(parent)) = (order.u32(body, 0), order.u32(body, 4)) else { return };
                if pid != parent && self.parents.len() < MAX_PARENTS {
                    self.parents.insert(pid, parent);
                }
            }
            _ => {}
        }
    }

    fn file(&mut self, name: String) -> u32 {
        if let Some(number) = self.number_of.get(&name) {
            return *number;
        }
        let name = if self.files.len() < MAX_FILES { name } else { OTHER_FILES.into() };
        let number = self.files.len().min(MAX_FILES) as u32;
        if self.files.len() <= MAX_FILES {
            self.files.push(name.clone());
            self.number_of.insert(name, number);
        }
        number
    }

    /// What was sampled; looked up once, when all is read.
    pub(super) fn looked_up(&self) -> &SampledCode {
        self.sampled.get_or_init(|| self.look_up())
    }

    fn look_up(&self) -> SampledCode {
        let mut code = SampledCode { by_file: BTreeMap::new(), unmapped: 0, example: None };
        for (&(pid, page), &samples) in &self.samples {
            match self.file_of(pid, page) {
                Some(file) => {
                    let sampled = code.by_file.entry(self.files[file as usize].clone()).or_default();
                    sampled.samples += samples;
                    if sampled.processes.len() < MAX_PROCESSES {
                        sampled.processes.insert(pid);
                    }
                    sampled.build_id = self.ids.get(&file).cloned();
                }
                None => {
                    code.unmapped += samples;
                    code.example = code.example.max(Some((pid, page << PAGE_SHIFT)));
                }
            }
        }
        code
    }

    /// The file mapped last at a page, by the process or by the one that it was forked from.
    fn file_of(&self, pid: u32, page: u64) -> Option<u32> {
        let (from, to) = (page << PAGE_SHIFT, (page + 1) << PAGE_SHIFT);
        let mut seen = FxHashSet::default();
        let mut process = Some(pid);
        for _ in 0..MAX_GENERATIONS {
            let asked = process.filter(|pid| seen.insert(*pid))?;
            let before = self.mapped.get(&asked).and_then(|mapped| mapped.range(..to).next_back());
            if let Some((_, mapping)) = before.filter(|(_, mapping)| mapping.to > from) {
                return Some(mapping.file);
            }
            process = self.parents.get(&asked).copied();
        }
        None
    }
}

/// Puts a mapping over those that were there; says how many there are more at most.
fn insert(mapped: &mut BTreeMap<u64, Mapping>, from: u64, mapping: Mapping) -> usize {
    let mut more = 1;
    if let Some((_, before)) = mapped.range_mut(..from).next_back().filter(|(_, before)| before.to > from) {
        let rest = *before;
        before.to = from;
        if rest.to > mapping.to {
            mapped.insert(mapping.to, rest);
            more += 1;
        }
    }
    while let Some((&at, &over)) = mapped.range(from..mapping.to).next() {
        mapped.remove(&at);
        if over.to > mapping.to {
            mapped.insert(mapping.to, over);
        }
    }
    mapped.insert(from, mapping);
    more
}

/// What is mapped beyond [`MAX_FILES`].
const OTHER_FILES: &str = "//other";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_mapping_lies_above_the_others() {
        let mut mapped = BTreeMap::new();
        for (from, to, file) in [(0, 100, 1), (40, 60, 2), (50, 120, 3), (10, 20, 4), (0, 10, 5)] {
            insert(&mut mapped, from, Mapping { to, file });
        }
        let found: Vec<(u64, u64, u32)> = mapped.iter().map(|(from, mapping)| (*from, mapping.to, mapping.file)).collect();
        assert_eq!(found, [(0, 10, 5), (10, 20, 4), (20, 40, 1), (40, 50, 2), (50, 120, 3)]);
    }
}
