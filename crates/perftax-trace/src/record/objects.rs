//! What lies at the addresses that counted events are about: looked up while their processes are there.

use std::collections::{BTreeMap, BTreeSet};

use perftax_pmu::process::{MappedFiles, maps};
use perftax_symbols::Mapping;
use perftax_symbols::naming::Names;
use rustc_hash::FxHashMap;

/// From one reading of a process's mappings to the next at least, ns: less than rows are held back.
const AGAIN_NS: u64 = 50_000_000;
/// Addresses of a process that wait to be looked up, at most; of those beyond, nothing is known.
const MAX_WANTED: usize = 1 << 17;
/// Places of a process that are remembered, at most.
const MAX_KNOWN: usize = 1 << 16;
/// Processes that are looked up, at most.
const MAX_PROCESSES: usize = 1000;
/// Objects that are told apart. Those beyond are not known.
const MAX_OBJECTS: usize = u16::MAX as usize;
/// What is told apart where no variable is known, bytes: no two variables are so close.
const WORD: u64 = 8;
/// What lies in the kernel's half.
const OF_KERNEL: &str = "kernel memory";

/// What lies where, by process.
#[derive(Default)]
pub(super) struct Objects {
    by_pid: BTreeMap<u32, OfProcess>,
    named: Named,
}

/// Objects by number, from 1.
#[derive(Default)]
struct Named {
    names: Vec<String>,
    numbers: FxHashMap<String, u16>,
}

impl Named {
    /// The number of an object; 0 where there are too many.
    fn number(&mut self, name: &str) -> u16 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        if self.names.len() >= MAX_OBJECTS {
            return 0;
        }
        self.names.push(name.into());
        let number = self.names.len() as u16;
        self.numbers.insert(name.into(), number);
        number
    }
}

/// One process's.
#[derive(Default)]
struct OfProcess {
    /// When its mappings were read last.
    read_ns: Option<u64>,
    names: Option<Names>,
    /// From where to where, and which object.
    known: BTreeMap<u64, (u64, u16)>,
    wanted: BTreeSet<u64>,
    /// It cannot be asked any more.
    is_gone: bool,
}

impl Objects {
    /// An event was about an address.
    pub fn seen(&mut self, pid: u32, address: u64) {
        if address == 0 || address >> 63 == 1 || self.by_pid.len() >= MAX_PROCESSES && !self.by_pid.contains_key(&pid) {
            return;
        }
        let process = self.by_pid.entry(pid).or_default();
        if !process.is_gone && process.find(address).is_none() && process.wanted.len() < MAX_WANTED {
            process.wanted.insert(address);
        }
    }

    /// A process has what its parent has.
    pub fn forked(&mut self, child: u32, parent: u32) {
        if child == parent || self.by_pid.len() >= MAX_PROCESSES {
            return;
        }
        let Some(known) = self.by_pid.get(&parent).map(|parent| parent.known.clone()) else { return };
        self.by_pid.entry(child).or_insert_with(|| OfProcess { known, ..OfProcess::default() });
    }

    /// Looks up what waits.
    pub fn look(&mut self, files: &mut MappedFiles, now_ns: u64) {
        let Self { by_pid, named } = self;
        for (pid, process) in by_pid.iter_mut().filter(|(_, process)| !process.wanted.is_empty()) {
            let is_new = process.wanted.iter().any(|address| process.mapping(*address).is_none());
            let is_time = process.read_ns.is_none_or(|read_ns| now_ns >= read_ns + AGAIN_NS);
            let has_read = is_new && is_time;
            if has_read {
                process.read(*pid, files, now_ns);
            }
            for address in std::mem::take(&mut process.wanted) {
                if process.find(address).is_some() || process.known.len() >= MAX_KNOWN {
                    continue;
                }
                match process.describe(address) {
                    Some((from, to, name)) => {
                        process.known.insert(from, (to, named.number(&name)));
                    }
                    // Mapped since, perhaps; not at all, if they were read just now.
                    None if has_read => {}
                    None => drop(process.wanted.insert(address)),
                }
            }
        }
    }

    /// The number of what lies at an address; 0 where that is not known.
    pub fn number(&mut self, pid: u32, address: u64) -> u16 {
        if address >> 63 == 1 {
            return self.named.number(OF_KERNEL);
        }
        self.by_pid.get(&pid).and_then(|process| process.find(address)).unwrap_or(0)
    }

    /// What they are called, by number from 1.
    pub fn into_names(self) -> Vec<String> {
        self.named.names
    }
}

impl OfProcess {
    fn find(&self, address: u64) -> Option<u16> {
        let (_, (to, object)) = self.known.range(..=address).next_back()?;
        (address < *to).then_some(*object)
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        self.names.as_ref()?.mapping(address)
    }

    fn read(&mut self, pid: u32, files: &mut MappedFiles, now_ns: u64) {
        self.read_ns = Some(now_ns);
        // Of who is gone nobody tells any more: one that has not been waited for yet has no mapping.
        let now = maps(pid).unwrap_or_default();
        if now.is_empty() {
            (self.is_gone, self.names) = (true, None);
            return;
        }
        now.iter().filter(|mapping| mapping.is_code).for_each(|mapping| files.hold(pid, mapping));
        let on_disk = |mapping: &Mapping| files.place(pid, mapping);
        let Some(names) = &mut self.names else {
            self.names = Some(Names::read_at(now, on_disk));
            return;
        };
        // Where something else is mapped by now, something else lies; what is unmapped is what rows that wait yet are about.
        let is_other = |mapping: &&Mapping| !names.mappings().contains(mapping);
        let other: Vec<(u64, u64)> = now.iter().filter(is_other).map(|mapping| (mapping.from, mapping.to)).collect();
        self.known.retain(|from, _| !other.iter().any(|(start, end)| (start..end).contains(&from)));
        names.remap(now, on_disk);
    }

    /// From where to where what lies at an address reaches, and what it is called.
    fn describe(&mut self, address: u64) -> Option<(u64, u64, String)> {
        let mapping = self.mapping(address)?.clone();
        let place = self.names.as_mut()?.data(address);
        if let Some(variable) = place.object {
            let file = place.name.rsplit_once(" [").map_or(String::new(), |(_, file)| format!(" [{file}"));
            return Some((variable.address, variable.address + variable.bytes.max(1), format!("{}{file}", variable.name)));
        }
        let whole = |name: String| Some((mapping.from, mapping.to, name));
        match &*mapping.path.to_string_lossy() {
            "[heap]" => whole("heap".into()),
            "[stack]" => whole("stack of the first thread".into()),
            "" if place.name.starts_with("0x") => whole(format!("mmap of {} bytes", mapping.to - mapping.from)),
            path if path.starts_with('[') => whole(path.trim_matches(['[', ']']).trim_start_matches("anon:").into()),
            // A section of a program or library: variables may be known beside it.
            _ if place.name.contains(" [") => {
                let word = address & !(WORD - 1);
                Some((word, word + WORD, without_offset(&place.name)))
            }
            _ => whole(without_offset(&place.name)),
        }
    }
}

/// `.bss+0x40 [prog]` as `.bss [prog]`.
fn without_offset(name: &str) -> String {
    let Some((before, rest)) = name.split_once("+0x") else { return name.into() };
    let behind = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    format!("{before}{behind}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// Of this process: a variable, what is on the heap or came from mmap, the stack, and nothing at all.
    #[test]
    fn what_lies_at_addresses_is_told_apart() {
        static TABLE: [u64; 1000] = [7; 1000];
        let mapped = vec![7u8; 64 << 20];
        let local = [3u8; 8];
        let own = std::process::id();
        let (table, large, stack) = (&raw const TABLE[500] as u64, mapped.as_ptr() as u64 + (40 << 20), local.as_ptr() as u64);
        let all = [table, table + 16, large, large + 4096, stack, 0x10, 0, 1 << 63];
        let mut objects = Objects::default();
        let mut files = MappedFiles::default();
        all.iter().for_each(|address| objects.seen(own, *address));
        objects.look(&mut files, 1);
        let numbers = all.map(|address| objects.number(own, address));
        let names = objects.into_names();
        let name = |at: usize| numbers[at].checked_sub(1).map_or("", |number| names[usize::from(number)].as_str());
        assert!(name(0).contains("TABLE") && name(0).contains('[') && numbers[0] == numbers[1], "{names:?}");
        assert!(name(2).starts_with("mmap of ") && numbers[2] == numbers[3] && numbers[2] != numbers[0], "{names:?}");
        assert!(numbers[4] != 0 && numbers[4] != numbers[2], "{names:?}");
        assert_eq!((numbers[5], numbers[6], name(7)), (0, 0, OF_KERNEL), "{names:?}");
        assert_eq!((mapped[1], local[1], TABLE[1]), (7, 3, 7));
    }

    /// Rows wait for their names: what a process had that has ended meanwhile is what it was.
    #[test]
    fn what_is_gone_keeps_its_name() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let mut objects = Objects::default();
        let mut files = MappedFiles::default();
        let heap = (0..200).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            maps(pid).ok()?.into_iter().find(|mapping| mapping.path == std::path::Path::new("[heap]")).map(|heap| heap.from + 8)
        });
        let heap = heap.unwrap();
        objects.seen(pid, heap);
        objects.look(&mut files, 1);
        let number = objects.number(pid, heap);
        assert!(number != 0);
        child.kill().unwrap();
        // Not waited for: its mappings can be read, and there are none.
        let is_over = |_: &u32| maps(pid).is_ok_and(|maps| maps.is_empty());
        assert!((0..200u32).inspect(|_| std::thread::sleep(std::time::Duration::from_millis(10))).any(|turn| is_over(&turn)));
        objects.seen(pid, 0x10);
        objects.look(&mut files, 1 + 2 * AGAIN_NS);
        assert_eq!(objects.number(pid, heap), number);
        child.wait().unwrap();
    }

    #[test]
    fn a_section_is_called_without_the_place_in_it() {
        assert_eq!([".bss+0x40 [prog]", "data+0x1f", "x"].map(without_offset), [".bss [prog]", "data", "x"]);
    }
}
