//! Which file was mapped where, and what the addresses that samples were taken at are called.
//!
//! Files are opened when they are mapped: by the end of a recording their processes are gone, others may lie at their paths, and paths in another mount namespace
//! lead elsewhere here.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use perftax_pmu::machine::KernelModule;
use perftax_pmu::process::{MappedFiles, maps, threads, undeleted};
use perftax_symbols::naming::{By, functions_of_file, functions_of_kernel, functions_of_vdso};
use perftax_symbols::{AddressSpaces, FileKey, Mapping};
use perftax_target::thread_name;
use rustc_hash::FxHashSet;

use super::locks::LockPlaces;
use super::objects::Objects;
use super::runtimes::Runtimes;
use crate::names::Names;
use crate::store::{Function, Symbols};

/// Addresses that were seen in a file: its offset there, and in which process; and a mapping of it.
struct InFile<'a> {
    pid: u32,
    mapping: &'a Mapping,
    addresses: BTreeSet<(u64, u32, u64)>,
}

/// What was mapped, and the addresses that were seen.
#[derive(Default)]
pub(super) struct Mappings {
    spaces: AddressSpaces,
    seen: FxHashSet<(u32, u64)>,
    files: MappedFiles,
    runtimes: Runtimes,
    looked_ns: u64,
    locks: LockPlaces,
    /// How functions are named.
    by: By,
    /// What lies at addresses of data.
    pub objects: Objects,
}

/// From one look at what runtimes write to the next, ns.
const LOOK_NS: u64 = 1_000_000_000;
/// What code is in that no file has.
const GENERATED: &str = "[generated code]";

/// What addresses are called.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// By process (0: the kernel) and address.
    pub functions: BTreeMap<(u32, u64), Function>,
    /// Files whose functions have no names, since what was mapped is not to be had any more: another lies at its path, or nothing.
    pub unread: BTreeSet<PathBuf>,
    /// Processes that ran code which their runtimes made and wrote nothing about: by name, and at how many addresses.
    pub unnamed_code: BTreeMap<String, usize>,
}

/// Code of no file: [vdso] and the like are the kernel's.
fn is_generated(mapping: &Mapping) -> bool {
    mapping.file().is_none() && !mapping.path.as_os_str().as_bytes().starts_with(b"[v")
}

/// The kernel's half of the addresses.
fn is_kernel(ip: u64) -> bool {
    ip >> 63 == 1
}

impl Mappings {
    /// Nothing yet; functions will be named so.
    pub fn naming(by: By) -> Self {
        Self { by, ..Self::default() }
    }

    /// A process has mapped something.
    pub fn mapped(&mut self, pid: u32, mapping: Mapping) {
        if mapping.is_code && pid != u32::MAX {
            self.runtimes.notice(pid);
            self.files.hold(pid, &mapping);
            self.spaces.map(pid, mapping);
        }
    }

    /// What a process that runs has mapped now, and what its threads are called. What is gone meanwhile says nothing.
    pub fn read(&mut self, pid: u32, names: &mut Names) {
        self.runtimes.notice(pid);
        for map in maps(pid).into_iter().flatten().filter(|map| map.is_code && !map.path.as_os_str().is_empty()) {
            if !self.spaces.has(pid, &map) {
                self.files.hold(pid, &map);
                self.spaces.map(pid, map);
            }
        }
        for tid in threads(pid) {
            thread_name(pid, tid).into_iter().for_each(|name| drop(names.threads.insert(tid as u32, name)));
        }
    }

    pub fn forked(&mut self, child: u32, parent: u32) {
        self.spaces.forked(child, parent);
        self.objects.forked(child, parent);
    }

    /// Looks for what runtimes have written, now and then, and where locks lie.
    pub fn look(&mut self, names: &Names, now_ns: u64) {
        self.locks.look(names, &mut self.files, now_ns);
        self.objects.look(&mut self.files, now_ns);
        if now_ns >= self.looked_ns + LOOK_NS {
            self.looked_ns = now_ns;
            self.runtimes.look();
        }
    }

    /// A sample was taken there.
    pub fn seen(&mut self, pid: u32, ip: u64) {
        self.seen.insert(Symbols::address(pid, ip));
    }

    /// Names the locks.
    pub fn name_locks(&self, names: &mut Names) {
        self.locks.name(names, &self.files);
    }

    /// A process is gone, and nobody asks of it any more.
    pub fn gone(&mut self, pid: u32) {
        self.spaces.forget(pid);
        self.runtimes.forget(pid);
    }

    /// What these addresses are called, by process (0: the kernel), and no others.
    pub fn name(&mut self, addresses: &[(u32, u64)], names: &Names) -> Vec<((u32, u64), Function)> {
        self.seen = addresses.iter().copied().collect();
        let named = self.resolve(names).functions;
        self.seen.clear();
        named.into_iter().collect()
    }

    /// What the addresses that were seen are called.
    pub fn resolve(&self, names: &Names) -> Named {
        let mut named = Named::default();
        let mut by_file: BTreeMap<FileKey, InFile<'_>> = BTreeMap::new();
        let mut of_kernel = Vec::new();
        let mut generated: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for &(pid, ip) in &self.seen {
            match (is_kernel(ip), self.spaces.find(pid, ip)) {
                (true, _) => of_kernel.push(ip),
                // Of who was never told of nobody knows what it runs.
                (false, None) if self.spaces.of(pid).is_empty() => {}
                (false, mapping) if mapping.is_none_or(is_generated) => {
                    generated.entry(pid).or_default().insert(ip);
                }
                (false, Some(mapping)) => {
                    let file = by_file.entry(mapping.file_key());
                    let file = file.or_insert_with(|| InFile { pid, mapping, addresses: BTreeSet::new() });
                    file.addresses.insert((mapping.offset_of(ip), pid, ip));
                }
                (false, None) => {}
            }
        }
        for (pid, addresses) in generated {
            let mut found = self.runtimes.functions(pid, &addresses, &self.spaces, &self.files);
            if found.len() < addresses.len() {
                *named.unnamed_code.entry(names.thread(pid)).or_default() += addresses.len() - found.len();
            }
            named.functions.extend(addresses.into_iter().map(|ip| {
                let name = found.remove(&ip).unwrap_or_default();
                ((pid, ip), Function { name, module: GENERATED.into() })
            }));
        }
        of_kernel.sort_unstable();
        let modules = if of_kernel.is_empty() { Vec::new() } else { KernelModule::loaded() };
        for (ip, name) in of_kernel.iter().zip(functions_of_kernel(&of_kernel)) {
            let module = KernelModule::at(&modules, *ip).map_or("kernel", |module| &module.name).into();
            named.functions.insert((0, *ip), Function { name, module });
        }
        for InFile { pid, mapping, addresses } in by_file.into_values() {
            let path = &mapping.path;
            let module = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            let offsets: Vec<u64> = addresses.iter().map(|(offset, ..)| *offset).collect();
            let place = self.files.place(pid, mapping);
            if place.is_none() && mapping.file().is_some() {
                named.unread.insert(path.clone());
            }
            let names = match place {
                Some(place) => functions_of_file(&place, undeleted(path), &offsets, self.by),
                None if path.as_os_str() == "[vdso]" => functions_of_vdso(&offsets),
                None => vec![String::new(); offsets.len()],
            };
            for ((_, pid, ip), name) in addresses.iter().zip(names) {
                named.functions.insert((*pid, *ip), Function { name, module: module.clone() });
            }
        }
        named
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use perftax_symbols::FileId;

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
        let file_id = Some(FileId::of(&std::fs::metadata(&library).unwrap()));
        mappings.spaces.map(7, Mapping { from: 0x10_0000, to: 0x20_0000, path: library, file_id, ..Mapping::default() });
        for (linked, name) in [("f", "f"), ("s", "s"), ("_Z3addii", "add(int, int)")] {
            // Code lies in the file as it lies in memory: linkers begin a shared library at address 0.
            let ip = 0x10_0000 + elf.address_of(linked).unwrap();
            mappings.seen(7, ip);
            let function = &mappings.resolve(&Names::default()).functions[&(7, ip)];
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
        let named = mappings.resolve(&Names::default());
        let function = &named.functions[&(own + 1, ip)];
        assert!(function.name.contains("landmark") && !function.module.is_empty(), "{function:?}");
        assert_eq!((named.functions.len(), named.unread.len(), named.unnamed_code.values().sum::<usize>()), (2, 0, 1));
    }

    /// A process is gone, and another build lies at its path: held, the first one is read; not held, nothing is.
    #[test]
    fn another_build_at_the_path_gives_no_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.so");
        let build = |function: &str| {
            let source = folder.path().join("a.c");
            std::fs::write(&source, format!("int {function}(int x) {{ return x * 3; }}\n")).unwrap();
            let new = folder.path().join("new");
            let built = std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&new, &source]).status();
            assert!(built.unwrap().success());
            std::fs::rename(&new, &path).unwrap();
        };
        build("first");
        let elf = perftax_symbols::elf::Elf::open(&path).unwrap();
        let ip = 0x10_0000 + elf.address_of("first").unwrap();
        let file_id = Some(FileId::of(&std::fs::metadata(&path).unwrap()));
        let mapping = Mapping { from: 0x10_0000, to: 0x20_0000, path: path.clone(), file_id, ..Mapping::default() };
        let nobody = u32::MAX - 1;
        let (mut held, mut late) = (Mappings::default(), Mappings::default());
        held.files.hold(nobody, &mapping);
        for mappings in [&mut held, &mut late] {
            mappings.spaces.map(nobody, mapping.clone());
            mappings.seen(nobody, ip);
        }
        build("second");
        let name = |mappings: &Mappings| mappings.resolve(&Names::default()).functions[&(nobody, ip)].name.clone();
        assert_eq!([name(&held), name(&late)], ["first", ""]);
        assert_eq!((held.resolve(&Names::default()).unread.len(), late.resolve(&Names::default()).unread), (0, [path].into()));
    }
}
