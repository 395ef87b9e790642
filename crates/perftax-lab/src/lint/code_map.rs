//! Which file each sampled page of code belongs to. Mappings and samples stand in any order, so that both are kept, and looked up at the end.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::recording::{SeenRecord, SeenSample, kind, text};

/// Mappings of code by process, and samples in user mode by process and page.
#[derive(Default)]
pub(super) struct CodeMap {
    files: Vec<String>,
    number_of: FxHashMap<String, u32>,
    mapped: FxHashMap<u32, Vec<Mapping>>,
    mappings: usize,
    parents: FxHashMap<u32, u32>,
    samples: FxHashMap<(u32, u64), u64>,
    /// Samples in user mode.
    pub(super) user_samples: u64,
    /// Those of pages beyond [`MAX_PAGES`], and mappings beyond [`MAX_MAPPINGS`]: nobody looks them up.
    pub(super) left_out: u64,
    mappings_left_out: bool,
}

#[derive(Clone, Copy)]
struct Mapping {
    from: u64,
    to: u64,
    file: u32,
}

/// What was sampled, looked up.
pub(super) struct SampledCode {
    /// Samples by file.
    pub(super) by_file: BTreeMap<String, u64>,
    /// Samples in no mapping of their process.
    pub(super) unmapped: u64,
    /// A process and an address of those.
    pub(super) example: Option<(u32, u64)>,
}

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
        self.user_samples += 1;
        let key = (pid, ip >> PAGE_SHIFT);
        if let Some(samples) = self.samples.get_mut(&key) {
            *samples += 1;
        } else if self.samples.len() < MAX_PAGES {
            self.samples.insert(key, 1);
        } else {
            self.left_out += 1;
        }
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
                self.mapped.entry(pid).or_default().push(Mapping { from, to: from.saturating_add(length), file });
                self.mappings += 1;
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

    /// Whether the recording tells of any code at all.
    pub(super) fn is_told(&self) -> bool {
        self.mappings > 0 && !self.mappings_left_out
    }

    pub(super) fn looked_up(&self) -> SampledCode {
        let mut code = SampledCode { by_file: BTreeMap::new(), unmapped: 0, example: None };
        for (&(pid, page), &samples) in &self.samples {
            match self.file_of(pid, page) {
                Some(file) => *code.by_file.entry(self.files[file as usize].clone()).or_default() += samples,
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
            let mapped = self.mapped.get(&asked).map_or(&[][..], Vec::as_slice);
            if let Some(mapping) = mapped.iter().rev().find(|mapping| mapping.from < to && mapping.to > from) {
                return Some(mapping.file);
            }
            process = self.parents.get(&asked).copied();
        }
        None
    }
}

/// What is mapped beyond [`MAX_FILES`].
const OTHER_FILES: &str = "//other";
