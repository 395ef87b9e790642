//! What addresses of a process are called: code by function and source line, data by variable.

mod functions;
mod many;
mod search;
mod space;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

pub use functions::Functions;
pub use many::{By, functions_of_file, functions_of_kernel, functions_of_vdso};
pub(crate) use search::{MIN_ALIKE, alike, nearest};
pub use search::{NotFound, Symbol};

use crate::elf::Data;
use crate::{Mapping, demangled};
use space::{Place, Space};

/// Names of a cache line's variables that are said; the rest is counted.
const MAX_OF_A_LINE: usize = 3;

/// Names for everything that a process has mapped. Files are read when an address in them is asked for.
pub struct Names {
    space: Space,
    symbolizer: Symbolizer,
}

/// What an instruction's address is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodePlace {
    /// `function+0x12 [file]`; `file+0x1234`, by the offset in the file, where no function is known; the address outside of all files.
    pub function: String,
    /// `file.c:12` from debug information; where it was inlined, what it was inlined into behind: `queue.h:7 < worker.c:40`. None where
    /// there is no debug information.
    pub source: Option<String>,
}

/// What an address of data is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataPlace {
    /// `counters+0x8 [prog]`; `.bss+0x40 [prog]` where the file has no symbol there; `heap+0x2c0`; `stack-0x1f0 of the first thread`;
    /// `file+0x1000` of a mapped file; the address where nothing is known, as of what threads have of their own and of memory from mmap.
    pub name: String,
    /// The variable; none where it is not known.
    pub object: Option<DataObject>,
}

impl DataPlace {
    /// Whether it has any name but its address.
    pub fn is_known(&self) -> bool {
        self.object.is_some() || !self.name.starts_with("0x")
    }
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataObject {
    /// Its name.
    pub name: String,
    /// Its first byte's address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Names {
    /// For a process with these mappings. Where addresses without a file are among them (an empty
    /// path, `[heap]`, `[stack]`), more can be said of data.
    pub fn of(mappings: Vec<Mapping>) -> Self {
        Self { space: Space::of(mappings, None), symbolizer: Symbolizer::new() }
    }

    /// Likewise, where somebody else says where the file of a mapping is to be read: of a process in a container, or whose files were replaced. None where it is not to be had.
    pub fn read_at(mappings: Vec<Mapping>, on_disk: impl Fn(&Mapping) -> Option<PathBuf>) -> Self {
        let mut places = HashMap::new();
        for mapping in mappings.iter().filter(|mapping| mapping.file().is_some()) {
            if !places.contains_key(&mapping.path)
                && let Some(place) = on_disk(mapping)
            {
                places.insert(mapping.path.clone(), place);
            }
        }
        Self { space: Space::of(mappings, Some(places)), symbolizer: Symbolizer::new() }
    }

    /// The process has mapped something else since: what was read of files stays.
    pub fn remap(&mut self, mappings: Vec<Mapping>, on_disk: impl Fn(&Mapping) -> Option<PathBuf>) {
        let before = std::mem::replace(self, Self::read_at(mappings, on_disk));
        self.space.keep(before.space);
    }

    /// What the process has mapped, by address.
    pub fn mappings(&self) -> &[Mapping] {
        self.space.mappings()
    }

    /// The mapping that holds an address.
    pub fn mapping(&self, address: u64) -> Option<&Mapping> {
        self.space.mapping(address)
    }

    /// What an instruction is called.
    pub fn code(&self, ip: u64) -> CodePlace {
        let Some(mapping) = self.space.mapping(ip).filter(|mapping| !mapping.path.as_os_str().is_empty()) else {
            return CodePlace { function: format!("{ip:#x}"), source: None };
        };
        let file = short(&mapping.path);
        let offset = mapping.offset_of(ip);
        let path = self.space.on_disk(&mapping.path);
        let found = path.and_then(|path| self.symbolized(&path, offset));
        match found {
            Some(symbol) => CodePlace {
                function: format!("{} [{file}]", plus(&demangled(&symbol.name), symbol.offset as u64)),
                source: source(&symbol),
            },
            None => CodePlace { function: plus(&file, offset), source: None },
        }
    }

    /// By debug information; by symbols alone where that cannot be read.
    fn symbolized(&self, path: &Path, offset: u64) -> Option<Sym<'_>> {
        [true, false].into_iter().find_map(|debug_syms| {
            let elf = Elf { debug_syms, ..Elf::new(path) };
            let found = self.symbolizer.symbolize_single(&Source::Elf(elf), Input::FileOffset(offset)).ok()?;
            match found {
                Symbolized::Sym(symbol) => Some(symbol),
                Symbolized::Unknown(_) => None,
            }
        })
    }

    /// What lies at an address of data.
    pub fn data(&mut self, address: u64) -> DataPlace {
        self.lying_in(address, 1)
    }

    /// What lies in so many bytes, such as a cache line: its variables in the order of their addresses, `limit, served [prog]`. The first
    /// one is [`DataPlace::object`].
    pub fn lying_in(&mut self, address: u64, bytes: u64) -> DataPlace {
        let (object, bias, at) = match self.space.place(address) {
            Place::Loaded { object, bias, at } => (object, bias, at),
            Place::Other(name) => return DataPlace { name, object: None },
        };
        let found = object.variables(at, bytes);
        let Some(first) = found.first() else {
            return DataPlace { name: nameless(object, at), object: None };
        };
        let said = found.iter().take(MAX_OF_A_LINE).map(|variable| plus(&variable.name, at.saturating_sub(variable.at)));
        let rest = found.len().saturating_sub(MAX_OF_A_LINE);
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        let name = format!("{}{more} [{}]", said.collect::<Vec<_>>().join(", "), object.file);
        let object = DataObject { name: first.name.clone(), address: first.at.wrapping_add(bias), bytes: first.bytes };
        DataPlace { name, object: Some(object) }
    }

    /// The variables of that name, as it is written in the source or as the linker has it (C++ and Rust); several where files have
    /// static ones of one name. In files that are mapped now: a library that is loaded later is not searched.
    ///
    /// # Errors
    /// Where there is none: the names nearest to it, or that each thread has one of its own.
    pub fn symbol(&mut self, name: &str) -> Result<Vec<Symbol>, NotFound> {
        search::symbol(&mut self.space, name)
    }
}

/// Where no variable is known: the section, else the offset in the file's addresses.
fn nameless(object: &Data, at: u64) -> String {
    object
        .section(at)
        .map_or_else(|| plus(&object.file, at), |(section, start)| format!("{} [{}]", plus(section, at - start), object.file))
}

/// `name+0x12`; the name alone at its start.
fn plus(name: &str, offset: u64) -> String {
    if offset == 0 { name.into() } else { format!("{name}+{offset:#x}") }
}

/// A path's last part.
fn short(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.rsplit('/').next().unwrap_or(&text).to_owned()
}

/// Innermost first.
fn source(symbol: &Sym<'_>) -> Option<String> {
    let inlined = symbol.inlined.iter().rev().map(|function| function.code_info.as_ref());
    let places: Vec<String> = inlined.chain([symbol.code_info.as_deref()]).flatten().filter_map(line).collect();
    (!places.is_empty()).then(|| places.join(" < "))
}

fn line(code: &CodeInfo<'_>) -> Option<String> {
    Some(format!("{}:{}", code.file.to_string_lossy(), code.line?))
}
