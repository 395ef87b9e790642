//! The code of watched processes: what stands before an address that was sampled.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::AnonymousOf;
use iced_x86::InstructionInfoFactory;
use perftax_pmu::process::{file_of, mapped_file, maps, open_mapped};
use perftax_symbols::elf::{Elf, FunctionTable};
use perftax_symbols::{AddressSpaces, FileKey, Mapping};

use super::decode::{Candidates, Code, LONGEST, operand_bytes};

/// A function that is longer is not read from its start.
const LONGEST_FUNCTION: u64 = 1 << 16;

/// The processes, as far as their code was looked at.
pub struct Images {
    spaces: AddressSpaces,
    files: HashMap<FileKey, FunctionTable>,
    known: HashMap<(u32, u64), Candidates>,
    /// Bytes that instructions touch.
    operands: HashMap<(u32, u64), Option<u64>>,
    factory: InstructionInfoFactory,
    /// What processes did to memory of no file, in any order.
    memory: Vec<(u64, MemoryChange)>,
    /// Mappings that were more than are remembered.
    unnamed: u64,
    /// What came of it; made when it is asked for.
    anonymous: OnceCell<AnonymousOf>,
}

/// What a process did to its memory.
#[derive(Clone, Copy, Debug)]
enum MemoryChange {
    /// It can write there, and no file is behind it.
    Writable { pid: u32, start: u64, end: u64 },
    /// What brk(2) gives lies there now.
    Heap { pid: u32, start: u64, end: u64 },
    /// It was created by another.
    Forked { pid: u32, parent: u32 },
    /// It executes another program.
    Replaced { pid: u32 },
}

/// Changes after which mappings are not remembered any more, but counted: 40 bytes each.
const MAX_CHANGES: usize = 1 << 20;

impl Default for Images {
    fn default() -> Self {
        Self {
            spaces: AddressSpaces::default(),
            files: HashMap::new(),
            known: HashMap::new(),
            operands: HashMap::new(),
            factory: InstructionInfoFactory::new(),
            memory: Vec::new(),
            unnamed: 0,
            anonymous: OnceCell::new(),
        }
    }
}

impl Images {
    /// Notes what a process has mapped now: once it is gone, it cannot be asked.
    pub fn read(&mut self, pid: u32) {
        if let Ok(now) = maps(pid)
            && !now.is_empty()
        {
            self.spaces.replace(pid, now);
        }
    }

    /// A process began as a copy of another.
    pub fn forked(&mut self, pid: u32, parent: u32, time_ns: u64) {
        if pid != parent {
            self.spaces.forked(pid, parent);
            self.changed(time_ns, MemoryChange::Forked { pid, parent });
        }
    }

    /// A process can write to these addresses, and no file is behind them.
    pub fn writable(&mut self, pid: u32, start: u64, end: u64, time_ns: u64) {
        if self.memory.len() < MAX_CHANGES {
            self.changed(time_ns, MemoryChange::Writable { pid, start, end });
        } else {
            self.unnamed += 1;
        }
    }

    /// Mappings that were more than are remembered: what lies there is called by its address.
    pub fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// The memory that brk(2) gives a process lies there now.
    pub fn heap(&mut self, pid: u32, start: u64, end: u64, time_ns: u64) {
        self.changed(time_ns, MemoryChange::Heap { pid, start, end });
    }

    /// A process executes another program.
    pub fn replaced(&mut self, pid: u32, time_ns: u64) {
        self.changed(time_ns, MemoryChange::Replaced { pid });
    }

    fn changed(&mut self, time_ns: u64, change: MemoryChange) {
        self.memory.push((time_ns, change));
        self.anonymous = OnceCell::new();
    }

    /// What an address of memory of no file is called, by all that has come.
    pub fn anonymous(&self, pid: u32, address: u64) -> Option<String> {
        self.anonymous.get_or_init(|| self.replay()).name(pid, address)
    }

    /// Rings are read one after the other; what happened is in order of time.
    fn replay(&self) -> AnonymousOf {
        let mut memory = self.memory.clone();
        memory.sort_by_key(|(time_ns, _)| *time_ns);
        let mut all = AnonymousOf::default();
        for (_, change) in memory {
            match change {
                MemoryChange::Writable { pid, start, end } => all.writable(pid, start, end),
                MemoryChange::Heap { pid, start, end } => all.heap(pid, start, end),
                MemoryChange::Forked { pid, parent } => all.forked(pid, parent),
                MemoryChange::Replaced { pid } => all.replaced(pid),
            }
        }
        all
    }

    /// What a process had mapped when it was last asked, or its parent where it never could be.
    pub fn maps(&self, pid: u32) -> &[Mapping] {
        self.spaces.of(pid)
    }

    /// What may have trapped with the next instruction at `ip`.
    pub fn candidates(&mut self, pid: u32, ip: u64, bits: u32) -> &Candidates {
        if !self.known.contains_key(&(pid, ip)) {
            let found = self.look_up(pid, ip, bits);
            self.known.insert((pid, ip), found);
        }
        self.known.entry((pid, ip)).or_default()
    }

    /// Whether a process shares what it has at an address with others.
    pub fn is_shared(&mut self, pid: u32, address: u64) -> bool {
        self.map_of(pid, address).is_some_and(|map| map.is_shared)
    }

    /// What a process has mapped at an address; it is asked again where nothing was known to be there.
    fn map_of(&mut self, pid: u32, address: u64) -> Option<&Mapping> {
        let holds = |map: &&Mapping| map.contains(address);
        if self.maps(pid).iter().find(holds).is_none() {
            self.read(pid);
        }
        self.maps(pid).iter().find(holds)
    }

    /// Bytes that the memory operand of the instruction at an address touches; none where that is not known.
    pub fn operand_bytes(&mut self, pid: u32, ip: u64) -> Option<u64> {
        if let Some(known) = self.operands.get(&(pid, ip)) {
            return *known;
        }
        let map = self.map_of(pid, ip).cloned();
        let code = map.map(|map| read(pid, &map, ip, ip.saturating_add(LONGEST).min(map.to)));
        let found = code.and_then(|code| operand_bytes(&code, ip, &mut self.factory));
        self.operands.insert((pid, ip), found);
        found
    }

    fn look_up(&mut self, pid: u32, ip: u64, bits: u32) -> Candidates {
        let before = ip.saturating_sub(1);
        let holds = |map: &&Mapping| map.contains(before);
        if !self.spaces.knows(pid) || self.maps(pid).iter().find(holds).is_none() {
            self.read(pid);
        }
        let Some(map) = self.maps(pid).iter().find(holds).cloned() else { return Candidates::default() };
        let function = self.function(pid, &map, before).filter(|start| ip - start <= LONGEST_FUNCTION);
        let start = function.unwrap_or(ip.saturating_sub(LONGEST).max(map.from));
        let bytes = read(pid, &map, start, ip.saturating_add(LONGEST).min(map.to));
        Candidates::at(ip, Code { bytes: &bytes, start, is_function: function.is_some(), bits }, &mut self.factory)
    }

    /// The first address of the function that an address lies in.
    fn function(&mut self, pid: u32, map: &Mapping, address: u64) -> Option<u64> {
        if !map.path.is_absolute() {
            return None;
        }
        let table = || mapped_file(pid, map).map(|file| functions(&file)).unwrap_or_default();
        let file = self.files.entry(map.file_key()).or_insert_with(table);
        file.at_offset(map.offset_of(address)).map(|(_, into)| address - into)
    }
}

/// Code of a process: its memory, or once it is gone the file that it was mapped from.
fn read(pid: u32, map: &Mapping, from: u64, to: u64) -> Vec<u8> {
    let mut bytes = vec![0; to.saturating_sub(from) as usize];
    let memory = File::open(file_of(pid, "mem"));
    if memory.is_ok_and(|memory| memory.read_exact_at(&mut bytes, from).is_ok()) {
        return bytes;
    }
    let file = open_mapped(pid, map);
    let read = file.and_then(|file| file.read_at(&mut bytes, from.saturating_sub(map.from) + map.file_offset).ok());
    bytes.truncate(read.unwrap_or(0));
    bytes
}

/// Functions of a file whose extent it says.
fn functions(path: &Path) -> FunctionTable {
    Elf::open(path).map(|elf| FunctionTable::of_extents(&elf)).unwrap_or_default()
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    /// Some code of ours, whose bytes are looked at.
    #[inline(never)]
    fn landmark(x: &mut u64) {
        *x = std::hint::black_box(*x).wrapping_mul(3);
    }

    #[test]
    fn a_function_of_ours_is_read_from_its_start() {
        let mut x = 1;
        landmark(&mut x);
        let address = landmark as fn(&mut u64) as usize as u64;
        let pid = std::process::id();
        let mut images = Images::default();
        images.read(pid);
        let map = images.maps(pid).iter().find(|map| (map.from..map.to).contains(&address)).cloned();
        let map = map.filter(|map| map.is_code).map(|map| (images.function(pid, &map, address + 4), map));
        let Some((Some(start), map)) = map else { panic!("the function is not found") };
        assert_eq!(start, address);
        let in_memory = read(pid, &map, start, start + 32);
        assert_eq!(in_memory, read(u32::MAX, &map, start, start + 32), "its file has the same bytes");
        // A child that nobody could ask has what its parent had.
        images.forked(pid + 1, pid, 0);
        assert_eq!(images.maps(pid + 1), images.maps(pid));
        assert_eq!(*images.candidates(u32::MAX, 0x10, 64), Candidates::default());
    }

    #[test]
    fn mappings_that_are_too_many_are_counted_and_processes_are_not() {
        let mut images = Images::default();
        (0..MAX_CHANGES).for_each(|time_ns| images.writable(1, 0x1000, 0x2000, time_ns as u64));
        let after = MAX_CHANGES as u64;
        images.writable(1, 0x9000, 0xa000, after);
        images.writable(1, 0xb000, 0xc000, after);
        images.forked(2, 1, after);
        images.replaced(1, after + 1);
        assert_eq!(images.unnamed(), 2);
        assert_eq!(images.anonymous(2, 0x1000).as_deref(), Some("mmap #1 of 4096 bytes"));
        assert_eq!((images.anonymous(2, 0x9000), images.anonymous(1, 0x1000)), (None, None));
    }
}
