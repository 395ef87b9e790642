//! The addresses of a process: which file's which part lies where.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{plus, short};
use crate::elf::Data;
use crate::{FileId, Mapping};

/// What a process has mapped, and the files that were read for it.
#[derive(Debug)]
pub(super) struct Space {
    /// By address.
    mappings: Vec<Mapping>,
    /// Where each file is to be read, where somebody has said so of all.
    places: Option<HashMap<PathBuf, PathBuf>>,
    objects: HashMap<PathBuf, Data>,
}

/// What an address belongs to.
pub(super) enum Place<'a> {
    /// A program or library.
    Loaded {
        /// Which.
        object: &'a Data,
        /// How far from its own addresses it lies.
        bias: u64,
        /// The address, of its own.
        at: u64,
    },
    /// Something else, by its name.
    Other(String),
}

impl Space {
    pub(super) fn of(mut mappings: Vec<Mapping>, places: Option<HashMap<PathBuf, PathBuf>>) -> Self {
        mappings.sort_by_key(|mapping| mapping.from);
        Self { mappings, places, objects: HashMap::new() }
    }

    /// Keeps what was read of files that are where they were.
    pub(super) fn keep(&mut self, before: Self) {
        let Some(then) = before.places else { return };
        let is_same =
            |path: &PathBuf| self.places.as_ref().and_then(|now| now.get(path)) == then.get(path) && then.contains_key(path);
        self.objects = before.objects.into_iter().filter(|(path, _)| is_same(path)).collect();
    }

    /// By address.
    pub(super) fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// The mapping that holds an address.
    pub(super) fn mapping(&self, address: u64) -> Option<&Mapping> {
        let behind = self.mappings.partition_point(|mapping| mapping.from <= address);
        self.mappings[..behind].last().filter(|mapping| address < mapping.to)
    }

    /// Where a mapped file is to be read; none where what lies there is another one.
    pub(super) fn on_disk(&self, path: &Path) -> Option<PathBuf> {
        if let Some(places) = &self.places {
            return places.get(path).cloned();
        }
        let id = self.mappings.iter().filter(|mapping| mapping.path == path).find_map(|mapping| mapping.file_id);
        let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        id.is_none_or(|id| FileId::of(&file).is(&id)).then(|| path.into())
    }

    /// What an address belongs to.
    pub(super) fn place(&mut self, address: u64) -> Place<'_> {
        // What a program has beyond its file (.bss) lies behind its last part, in memory of no file.
        let behind = self.mappings.partition_point(|mapping| mapping.from <= address);
        let Some(part) = self.mappings[..behind].iter().rposition(|mapping| mapping.file().is_some()) else {
            return Place::Other(self.unloaded(address));
        };
        let Some(bias) = self.bias(part) else { return Place::Other(self.unloaded(address)) };
        let at = address.wrapping_sub(bias);
        let path = self.mappings[part].path.clone();
        if !self.object(&path).segments.is_loaded(at) {
            return Place::Other(self.unloaded(address));
        }
        Place::Loaded { bias, at, object: self.object(&path) }
    }

    /// Where each file lies that is loaded: its path and how far it is from its own addresses.
    pub(super) fn loaded(&mut self) -> Vec<(PathBuf, u64)> {
        let mut loaded: Vec<(PathBuf, u64)> = Vec::new();
        for part in 0..self.mappings.len() {
            if self.mappings[part].file().is_none() {
                continue;
            }
            if let Some(bias) = self.bias(part) {
                let one = (self.mappings[part].path.clone(), bias);
                if !loaded.contains(&one) {
                    loaded.push(one);
                }
            }
        }
        loaded
    }

    /// A file, read when it is first asked for.
    pub(super) fn object(&mut self, path: &Path) -> &Data {
        if !self.objects.contains_key(path) {
            let object = self.on_disk(path).map(|place| Data::read(&place, &short(path))).unwrap_or_default();
            self.objects.insert(path.into(), object);
        }
        &self.objects[path]
    }

    /// How far from its own addresses the file lies that a mapping is of; none where it is no program or library.
    fn bias(&mut self, part: usize) -> Option<u64> {
        let Mapping { from, file_offset, path, .. } = self.mappings[part].clone();
        // A file may be loaded twice (an emulator and its guest have the same libraries): its first part tells which.
        let first =
            self.mappings[..=part].iter().rfind(|mapping| mapping.file_offset == 0 && mapping.path == path).map(|m| m.from);
        let object = self.object(&path);
        let like = first.and_then(|start| object.segments.bias(start, 0, None));
        object.segments.bias(from, file_offset, like)
    }

    /// The name of an address that is of no program or library.
    fn unloaded(&self, address: u64) -> String {
        let Some(mapping) = self.mapping(address) else { return format!("{address:#x}") };
        let from_start = address - mapping.from;
        match &*mapping.path.to_string_lossy() {
            "" => format!("{address:#x}"),
            // It grows in mappings that touch: its first one is where it begins.
            "[heap]" => plus("heap", address - self.first("[heap]").unwrap_or(mapping.from)),
            "[stack]" => format!("stack-{:#x} of the first thread", mapping.to - address),
            _ if mapping.file().is_some() => plus(&short(&mapping.path), mapping.offset_of(address)),
            // `[anon:glibc: malloc arena]`, `[stack:123]`, `[vvar]`: the kernel knows a name.
            path => plus(path.trim_matches(['[', ']']).trim_start_matches("anon:"), from_start),
        }
    }

    fn first(&self, path: &str) -> Option<u64> {
        self.mappings.iter().find(|mapping| mapping.path == Path::new(path)).map(|mapping| mapping.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        let of = |from, to, file_offset, path: &str| Mapping { from, to, file_offset, path: path.into(), ..Mapping::default() };
        let stack = of(0x7ffd_0000, 0x7ffe_0000, 0, "[stack]");
        let arena = of(0x7f00_0000, 0x7f10_0000, 0, "[anon:glibc: malloc arena]");
        let data = of(0x7e00_0000, 0x7e01_0000, 0x3000, "/var/lib/data of ours");
        Space::of(vec![stack, arena, data, of(0x60_0000, 0x70_0000, 0, "[heap]"), of(0x7d00_0000, 0x7d01_0000, 0, "")], None)
    }

    #[test]
    fn what_is_of_no_program_has_the_name_that_its_mapping_says() {
        let mut space = space();
        let mut name = |address| match space.place(address) {
            Place::Other(name) => name,
            Place::Loaded { object, .. } => panic!("{address:#x} is of {}", object.file),
        };
        assert_eq!(name(0x60_02c0), "heap+0x2c0");
        assert_eq!(name(0x7ffd_fff0), "stack-0x10 of the first thread");
        assert_eq!(name(0x7f00_0040), "glibc: malloc arena+0x40");
        assert_eq!(name(0x7e00_0010), "data of ours+0x3010");
        assert_eq!(name(0x7d00_0010), "0x7d000010", "memory of no file");
        assert_eq!(name(0x10), "0x10", "nothing");
    }
}
