//! Which file was mapped where, and what the addresses that samples were taken at are called.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use perftax_pmu::process::{maps, threads};
use perftax_pmu::record::Mmap;
use perftax_symbols::naming::{functions_of_file, functions_of_kernel};
use perftax_symbols::{AddressSpaces, Mapping};
use perftax_target::thread_name;
use rustc_hash::FxHashSet;

use crate::names::Names;
use crate::store::{Function, Symbols};

/// What was mapped, and the addresses that were seen.
#[derive(Default)]
pub(super) struct Mappings {
    spaces: AddressSpaces,
    seen: FxHashSet<(u32, u64)>,
}

/// The kernel's half of the addresses.
fn is_kernel(ip: u64) -> bool {
    ip >> 63 == 1
}

impl Mappings {
    pub fn mapped(&mut self, mmap: &Mmap<'_>) {
        if mmap.is_data || mmap.task.pid == u32::MAX {
            return;
        }
        let path = PathBuf::from(String::from_utf8_lossy(mmap.path).into_owned());
        let to = mmap.address.saturating_add(mmap.length);
        let mapping =
            Mapping { from: mmap.address, to, file_offset: mmap.file_offset, path, is_code: true, ..Mapping::default() };
        self.spaces.map(mmap.task.pid, mapping);
    }

    /// What a process that runs has mapped now, and what its threads are called. What is gone meanwhile says nothing.
    pub fn read(&mut self, pid: u32, names: &mut Names) {
        for map in maps(pid).into_iter().flatten().filter(|map| map.is_code && !map.path.as_os_str().is_empty()) {
            if !self.spaces.has(pid, &map) {
                self.spaces.map(pid, map);
            }
        }
        for tid in threads(pid) {
            thread_name(pid, tid).into_iter().for_each(|name| drop(names.threads.insert(tid as u32, name)));
        }
    }

    pub fn forked(&mut self, child: u32, parent: u32) {
        self.spaces.forked(child, parent);
    }

    /// A sample was taken there.
    pub fn seen(&mut self, pid: u32, ip: u64) {
        self.seen.insert(Symbols::address(pid, ip));
    }

    /// What the addresses that were seen are called.
    pub fn resolve(&self) -> BTreeMap<(u32, u64), Function> {
        let mut named = BTreeMap::new();
        let mut by_file: BTreeMap<&Path, BTreeSet<(u64, u32, u64)>> = BTreeMap::new();
        let mut of_kernel = Vec::new();
        for &(pid, ip) in &self.seen {
            match (is_kernel(ip), self.spaces.find(pid, ip)) {
                (true, _) => of_kernel.push(ip),
                (false, Some(mapping)) => {
                    let offset = mapping.offset_of(ip);
                    by_file.entry(&mapping.path).or_default().insert((offset, pid, ip));
                }
                (false, None) => {}
            }
        }
        of_kernel.sort_unstable();
        for (ip, name) in of_kernel.iter().zip(functions_of_kernel(&of_kernel)) {
            named.insert((0, *ip), Function { name, module: "kernel".into() });
        }
        for (path, addresses) in by_file {
            let module = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            let offsets: Vec<u64> = addresses.iter().map(|(offset, ..)| *offset).collect();
            for ((_, pid, ip), name) in addresses.iter().zip(functions_of_file(path, &offsets)) {
                named.insert((*pid, *ip), Function { name, module: module.clone() });
            }
        }
        named
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// Symbols alone name a trace's functions; `f` and `s` are C++'s abbreviations of types.
    #[test]
    fn functions_of_c_are_not_demangled_and_those_of_cpp_are() {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("a.c"), folder.path().join("a library.so"));
        std::fs::write(
            &source,
            "int f(int x) { return x * 3; }\nint s(int x) { return x * 5; }\nint _Z3addii(int x) { return x * 7; }\n",
        )
        .unwrap();
        let built = std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
        assert!(built.unwrap().success());
        let elf = perftax_symbols::elf::Elf::open(&library).unwrap();
        let mut mappings = Mappings::default();
        mappings.spaces.map(7, Mapping { from: 0x10_0000, to: 0x20_0000, path: library, ..Mapping::default() });
        for (linked, name) in [("f", "f"), ("s", "s"), ("_Z3addii", "add(int, int)")] {
            // Code lies in the file as it lies in memory: linkers begin a shared library at address 0.
            let ip = 0x10_0000 + elf.address_of(linked).unwrap();
            mappings.seen(7, ip);
            let function = &mappings.resolve()[&(7, ip)];
            assert_eq!((function.name.as_str(), function.module.as_str()), (name, "a library.so"));
        }
    }

    /// A function whose address is asked for.
    #[inline(never)]
    fn landmark(x: u64) -> u64 {
        std::hint::black_box(x).wrapping_mul(3)
    }

    #[test]
    fn a_function_of_ours_is_found_by_its_address_also_in_a_child() {
        assert_eq!(landmark(1), 3);
        let ip = landmark as fn(u64) -> u64 as usize as u64;
        let own = std::process::id();
        let mut mappings = Mappings::default();
        mappings.read(own, &mut Names::default());
        mappings.forked(own + 1, own);
        mappings.seen(own + 1, ip);
        mappings.seen(own + 1, 0x10);
        let named = mappings.resolve();
        let function = &named[&(own + 1, ip)];
        assert!(function.name.contains("landmark") && !function.module.is_empty(), "{function:?}");
        assert_eq!(named.len(), 1);
    }
}
