//! Who called, from a copy of the top of a stack: by the tables that compilers leave for exceptions (`.eh_frame`, System V psABI for x86-64, 4.2;
//! DWARF 5, 6.4), which programs and libraries have also where they keep no frame pointers; by frame pointers in code without such tables.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};

use crate::Mapping;
use crate::elf::{Elf, Segments};

/// Callers that are told at most.
pub const MAX_CALLERS: usize = 12;
/// Processes whose modules are kept; more than there are at a time where anything is traced.
const MAX_PROCESSES: usize = 1 << 10;
/// Files whose tables are kept, and bytes of them.
const MAX_FILES: usize = 4 << 10;
const MAX_BYTES: usize = 256 << 20;
/// Changes of modules after which a cache is made anew.
const MAX_CHANGES: u32 = 60_000;
/// What the kernel maps into every process: code for the clock.
const VDSO: &str = "[vdso]";
/// A word of a stack.
const WORD_BYTES: u64 = 8;

/// The registers that a frame is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// rsp.
    pub stack: u64,
    /// rbp.
    pub base: u64,
}

/// Who called, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Return addresses.
    pub callers: Vec<u64>,
    /// The copy of the stack ended before they did.
    pub is_cut: bool,
}

/// A file as it was when it was read: another at its place is another, and one place may be several in containers.
type Identity = (u64, u64, i64, u64);

/// A section of a file: its address there, and its bytes.
type Section = (u64, Arc<[u8]>);

/// What a file says of its frames.
#[derive(Debug)]
struct Tables {
    segments: Segments,
    frames: Section,
    index: Option<Section>,
}

/// A process's code, as far as frames were found in it.
#[derive(Default)]
struct Process {
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    /// What was added, by first address.
    added: HashMap<u64, Mapping>,
}

/// Tables of files, read when they are first asked for.
#[derive(Default)]
pub struct Unwinder {
    files: HashMap<Identity, Option<Tables>>,
    /// Bytes of all their tables.
    bytes: usize,
    processes: HashMap<u32, Process>,
    cache: CacheX86_64,
    /// Changes since the cache was made: its rules are told apart by 16 bits of their number.
    changes: u32,
}

impl std::fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwinder").field("files", &self.files.keys()).finish_non_exhaustive()
    }
}

impl Unwinder {
    /// Return addresses of those who called a function that has just begun, innermost first, given what its process has mapped and a copy of
    /// its stack from its stack pointer on. They end where the copy does, or where a caller is not told by tables or frame pointers.
    /// `on_disk` says where the file of a mapping is to be read; none where that is not to be had.
    pub fn callers(
        &mut self,
        pid: u32,
        maps: &[Mapping],
        frame: Frame,
        stack: &[u8],
        on_disk: impl Fn(&Mapping) -> Option<PathBuf>,
    ) -> Vec<u64> {
        let copy = StackCopy { from: frame.stack, bytes: stack };
        // Nothing is on its frame yet but where it returns to.
        let Some(first) = copy.word(frame.stack) else { return Vec::new() };
        let registers = UnwindRegsX86_64::new(0, frame.stack.wrapping_add(WORD_BYTES), frame.base);
        self.walk(pid, maps, first, registers, copy, MAX_CALLERS, &on_disk).callers
    }

    /// The same of a function that was interrupted anywhere, at `at`: its callers, at most so many.
    #[allow(clippy::too_many_arguments)] // a thread's state, and what it lies in
    pub fn chain(
        &mut self,
        pid: u32,
        maps: &[Mapping],
        at: u64,
        frame: Frame,
        stack: &[u8],
        most: usize,
        on_disk: impl Fn(&Mapping) -> Option<PathBuf>,
    ) -> Walk {
        let copy = StackCopy { from: frame.stack, bytes: stack };
        let mut registers = UnwindRegsX86_64::new(at, frame.stack, frame.base);
        if let Some(map) = maps.iter().find(|map| map.is_code && map.contains(at)) {
            self.know(pid, map, &on_disk);
        }
        let process = self.processes.entry(pid).or_default();
        let address = FrameAddress::from_instruction_pointer(at);
        let mut is_cut = false;
        let mut word = |address| copy.read(address, &mut is_cut);
        let next = process.unwinder.unwind_frame(address, &mut registers, &mut self.cache, &mut word).ok().flatten();
        let Some(first) = next else { return Walk { callers: Vec::new(), is_cut } };
        self.walk(pid, maps, first, registers, copy, most, &on_disk)
    }

    /// From a return address on.
    #[allow(clippy::too_many_arguments)] // a thread's state, and what it lies in
    fn walk(
        &mut self,
        pid: u32,
        maps: &[Mapping],
        first: u64,
        mut registers: UnwindRegsX86_64,
        copy: StackCopy<'_>,
        most: usize,
        on_disk: &impl Fn(&Mapping) -> Option<PathBuf>,
    ) -> Walk {
        let (mut callers, mut next, mut is_cut) = (Vec::new(), Some(first), false);
        while let Some(caller) = next.filter(|_| callers.len() < most) {
            // The call stands before what it returns to, which may be another function's.
            let call = caller.wrapping_sub(1);
            let Some(map) = maps.iter().find(|map| map.is_code && map.contains(call)) else { break };
            let Some(address) = FrameAddress::from_return_address(caller) else { break };
            callers.push(caller);
            self.know(pid, map, on_disk);
            let process = self.processes.entry(pid).or_default();
            let mut word = |address| copy.read(address, &mut is_cut);
            next = process.unwinder.unwind_frame(address, &mut registers, &mut self.cache, &mut word).ok().flatten();
        }
        Walk { callers, is_cut }
    }

    /// A process executes another program, or has ended: what was known of it is of the old one.
    pub fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Nobody is known any more. Tables of files stay.
    pub fn forget_all(&mut self) {
        self.processes.clear();
    }

    /// Adds a mapping's tables to its process, where it was not added before.
    fn know(&mut self, pid: u32, map: &Mapping, on_disk: &impl Fn(&Mapping) -> Option<PathBuf>) {
        if self.processes.get(&pid).is_some_and(|process| process.added.get(&map.from) == Some(map)) {
            return;
        }
        if self.processes.len() >= MAX_PROCESSES {
            self.processes.clear();
        }
        if self.files.len() >= MAX_FILES || self.bytes >= MAX_BYTES {
            // Those that are used are read again.
            self.files.clear();
            self.processes.clear();
            self.bytes = 0;
        }
        // One is added, one may be removed, and a process may be new.
        self.changes += 3;
        if self.changes >= MAX_CHANGES {
            (self.cache, self.changes) = (CacheX86_64::new(), 0);
        }
        let process = self.processes.entry(pid).or_default();
        // What lies there now replaces all that lay there.
        let covered: Vec<u64> =
            process.added.values().filter(|old| old.from < map.to && map.from < old.to).map(|old| old.from).collect();
        for from in covered {
            process.unwinder.remove_module(from);
            process.added.remove(&from);
        }
        process.added.insert(map.from, map.clone());
        let (identity, read): (Identity, Box<dyn FnOnce() -> Option<Tables>>) = match map.file() {
            Some(_) => {
                let Some(place) = on_disk(map) else { return };
                let Ok(found) = std::fs::metadata(&place) else { return };
                let identity = (found.dev(), found.ino(), found.mtime(), found.len());
                (identity, Box::new(move || Tables::read(&place)))
            }
            None if map.path.as_os_str() == VDSO => (Identity::default(), Box::new(Tables::of_vdso)),
            None => return,
        };
        let tables = self.files.entry(identity).or_insert_with(|| {
            let tables = read().filter(|tables| tables.bytes() < MAX_BYTES);
            self.bytes += tables.as_ref().map_or(0, Tables::bytes);
            tables
        });
        if let Some(module) = tables.as_ref().and_then(|tables| tables.module(map)) {
            process.unwinder.add_module(module);
        }
    }
}

/// A copy of the top of a stack.
#[derive(Clone, Copy)]
struct StackCopy<'a> {
    from: u64,
    bytes: &'a [u8],
}

impl StackCopy<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.from)?).ok()?;
        self.bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The same for who unwinds, and whether it lay above the copy.
    fn read(&self, address: u64, is_cut: &mut bool) -> Result<u64, ()> {
        let word = self.word(address);
        *is_cut |= word.is_none() && address >= self.from;
        word.ok_or(())
    }
}

impl Tables {
    fn read(path: &Path) -> Option<Self> {
        Self::of(&Elf::open(path).ok()?)
    }

    /// Of what the kernel has mapped into this process as into every other.
    fn of_vdso() -> Option<Self> {
        let maps = Mapping::parse_all(&std::fs::read("/proc/self/maps").ok()?);
        let map = maps.into_iter().find(|map| map.path.as_os_str() == VDSO)?;
        let mut bytes = vec![0; usize::try_from(map.to - map.from).ok()?];
        File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, map.from).ok()?;
        Self::of(&Elf::of_bytes(Path::new(VDSO), bytes).ok()?)
    }

    fn bytes(&self) -> usize {
        self.frames.1.len() + self.index.as_ref().map_or(0, |index| index.1.len())
    }

    fn of(elf: &Elf) -> Option<Self> {
        let section = |name| elf.section(name).ok().flatten().map(|(address, bytes)| (address, Arc::from(bytes)));
        Some(Self { segments: elf.segments(), frames: section(".eh_frame")?, index: section(".eh_frame_hdr") })
    }

    /// The tables for where the file is mapped.
    fn module(&self, map: &Mapping) -> Option<Module<Arc<[u8]>>> {
        let bias = self.segments.bias_of_code(map.from, map.file_offset)?;
        let range = |section: &Section| -> Range<u64> { section.0..section.0.saturating_add(section.1.len() as u64) };
        let sections = ExplicitModuleSectionInfo {
            eh_frame_svma: Some(range(&self.frames)),
            eh_frame: Some(self.frames.1.clone()),
            eh_frame_hdr_svma: self.index.as_ref().map(range),
            eh_frame_hdr: self.index.as_ref().map(|index| index.1.clone()),
            ..Default::default()
        };
        Some(Module::new(map.path.display().to_string(), map.from..map.to, bias, sections))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn map(from: u64, to: u64) -> Mapping {
        Mapping { from, to, is_code: true, ..Mapping::default() }
    }

    fn stack(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn callers(maps: &[Mapping], frame: Frame, stack: &[u8]) -> Vec<u64> {
        Unwinder::default().callers(1, maps, frame, stack, |map| Some(map.path.clone()))
    }

    /// Code of no file: its frames are chained by rbp.
    #[test]
    fn frame_pointers_lead_on_where_there_are_no_tables() {
        let maps = [map(0x1000, 0x2000)];
        let words = stack(&[0x1010, 7, 0x8020, 0x1020, 0, 0x1030, 9]);
        let frame = Frame { stack: 0x8000, base: 0x8010 };
        assert_eq!(callers(&maps, frame, &words), [0x1010, 0x1020, 0x1030]);
        let astray = Frame { stack: 0x8000, base: 0x10 };
        assert_eq!(callers(&maps, astray, &words), [0x1010], "rbp is used for something else");
        assert!(callers(&maps, frame, &stack(&[0x5000])).is_empty(), "no code");
        assert!(callers(&maps, frame, &[]).is_empty(), "no stack");
    }

    /// The C library keeps no frame pointers, and has tables: a frame of qsort's, found by them, ends in the function that called it.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn tables_lead_through_the_c_library() {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
        // Its own frame has rbp saved, and above that what it returns to.
        let text = r#"
            #include <stdio.h>
            #include <stdlib.h>
            static int is_told;
            static int compare(const void *a, const void *b) {
                unsigned long *frame = __builtin_frame_address(0);
                if (!is_told++) {
                    printf("%lx %lx\n", (unsigned long)(frame + 1), frame[0]);
                    fwrite(frame + 1, 8, 256, stdout);
                }
                return *(const int *)a - *(const int *)b;
            }
            int main(void) {
                int all[3] = {3, 1, 2};
                qsort(all, 3, sizeof all[0], compare);
                return all[0] - 1;
            }
        "#;
        std::fs::write(&source, text).unwrap();
        let mut built = std::process::Command::new("cc");
        built.args(["-O0", "-fno-omit-frame-pointer", "-no-pie", "-static", "-o"]);
        assert!(built.args([&program, &source]).status().unwrap().success());
        let output = std::process::Command::new(&program).output().unwrap();
        let line_end = output.stdout.iter().position(|byte| *byte == b'\n').unwrap();
        let line = std::str::from_utf8(&output.stdout[..line_end]).unwrap();
        let numbers: Vec<u64> = line.split(' ').map(|text| u64::from_str_radix(text, 16).unwrap()).collect();
        let elf = Elf::open(&program).unwrap();
        let main = elf.functions().into_iter().find(|function| function.name == "main").unwrap();
        let segments = elf.segments();
        let (from_offset, to_offset) = segments.code()[0];
        let from = segments.address(from_offset).unwrap();
        let map = Mapping { file_offset: from_offset, path: program, ..map(from, from + to_offset - from_offset) };
        let frame = Frame { stack: numbers[0], base: numbers[1] };
        let found = callers(&[map], frame, &output.stdout[line_end + 1..]);
        let is_of_main = |caller: &u64| (main.address..main.address + main.bytes).contains(caller);
        assert!(found.len() >= 2 && found[1..].iter().any(is_of_main), "{found:x?} of {main:x?}");
    }
}
