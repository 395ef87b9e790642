//! What an executable or library says of its data: segments, sections, variables.

use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use perftax_pmu::symbol::demangled;

/// Pages that segments are mapped in (x86-64 psABI, "Program Loading").
const PAGE: u64 = 4096;

/// A loaded file.
#[derive(Debug, Default)]
pub(super) struct Object {
    /// Its name without folders.
    pub(super) file: String,
    segments: Vec<Segment>,
    /// By address.
    variables: Vec<Variable>,
    /// Address, bytes and name.
    sections: Vec<(u64, u64, String)>,
    thread_local: Vec<String>,
}

/// What is loaded in one piece.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    file_bytes: u64,
    at: u64,
    bytes: u64,
}

/// A variable at an address of the file's own (without where it is loaded).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Variable {
    pub(super) at: u64,
    pub(super) bytes: u64,
    /// As the source has it.
    pub(super) name: String,
    /// As the linker has it.
    pub(super) linked: String,
}

impl Object {
    /// Reads a file; without anything in it where it cannot be read or is no ELF file.
    pub(super) fn read(path: &Path, file: &str) -> Self {
        let empty = Self { file: file.into(), ..Self::default() };
        let Ok(bytes) = std::fs::read(path) else { return empty };
        let Ok(elf) = object::File::parse(&*bytes) else { return empty };
        let segment = |segment: object::Segment<'_, '_>| {
            let (offset, file_bytes) = segment.file_range();
            Segment { offset, file_bytes, at: segment.address(), bytes: segment.size() }
        };
        let section = |section: object::Section<'_, '_>| {
            let name = section.name().ok().filter(|name| !name.is_empty())?;
            (section.address() != 0 && !name.starts_with(".tbss")).then(|| (section.address(), section.size(), name.to_string()))
        };
        let mut object = Self {
            segments: elf.segments().map(segment).collect(),
            sections: elf.sections().filter_map(section).collect(),
            ..empty
        };
        object.take_symbols(&elf);
        if elf.symbols().next().is_none() {
            object.take_symbols_of_debug_file(&elf);
        }
        object.sort();
        object
    }

    fn take_symbols(&mut self, elf: &object::File<'_>) {
        for symbol in elf.symbols().chain(elf.dynamic_symbols()).filter(|symbol| !symbol.is_undefined()) {
            let Ok(linked) = symbol.name() else { continue };
            // The static linker marks copies of a library's variables with their version: `stdout@GLIBC_2.2.5`.
            let linked = linked.split('@').next().unwrap_or(linked);
            match symbol.kind() {
                SymbolKind::Data if symbol.size() > 0 => self.variables.push(Variable {
                    at: symbol.address(),
                    bytes: symbol.size(),
                    name: demangled(linked),
                    linked: linked.into(),
                }),
                SymbolKind::Tls => self.thread_local.push(demangled(linked)),
                _ => {}
            }
        }
    }

    /// Symbols that were stripped off into a file of their own, where distributions put it (gdb manual, "Separate Debug Files").
    fn take_symbols_of_debug_file(&mut self, elf: &object::File<'_>) {
        let Ok(Some([first, rest @ ..])) = elf.build_id() else { return };
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug"));
        let Ok(bytes) = std::fs::read(path) else { return };
        if let Ok(debug) = object::File::parse(&*bytes) {
            self.take_symbols(&debug);
        }
    }

    /// Of several names for one place, the largest variable's and the shortest name stay.
    fn sort(&mut self) {
        self.variables.sort_by(|a, b| {
            (a.at, std::cmp::Reverse(a.bytes), a.name.len(), &a.name).cmp(&(
                b.at,
                std::cmp::Reverse(b.bytes),
                b.name.len(),
                &b.name,
            ))
        });
        self.variables.dedup_by(|b, a| a == b);
        self.thread_local.sort();
        self.thread_local.dedup();
    }

    /// How far from its own addresses the file lies where a part of it is mapped: `start` for the file's `offset`. A page in which one
    /// segment ends and the next begins is mapped for both: then it is `like` the others, else the one that begins there.
    pub(super) fn bias(&self, start: u64, offset: u64, like: Option<u64>) -> Option<u64> {
        let holds = |segment: &&Segment| {
            segment.offset - segment.offset % PAGE <= offset && offset < segment.offset + segment.file_bytes.max(1)
        };
        let bias = |segment: &Segment| start.wrapping_sub(offset).wrapping_add(segment.offset).wrapping_sub(segment.at);
        let candidates = || self.segments.iter().filter(holds);
        candidates()
            .map(bias)
            .find(|bias| Some(*bias) == like)
            .or_else(|| candidates().rfind(|segment| segment.offset - segment.offset % PAGE == offset).map(bias))
            .or_else(|| candidates().next().map(bias))
    }

    /// Whether one of the file's own addresses is loaded at all: also beyond what the file holds of it (.bss).
    pub(super) fn is_loaded(&self, at: u64) -> bool {
        self.segments.iter().any(|segment| segment.at <= at && at - segment.at < segment.bytes)
    }

    /// The variables that lie in so many bytes, by address; of those that begin at one place, the first.
    pub(super) fn variables(&self, at: u64, bytes: u64) -> Vec<&Variable> {
        let end = at.saturating_add(bytes.max(1));
        let behind = self.variables.partition_point(|variable| variable.at < end);
        let mut found: Vec<&Variable> = Vec::new();
        for variable in &self.variables[..behind] {
            let covers = at < variable.at.saturating_add(variable.bytes);
            if covers && found.last().is_none_or(|last| last.at != variable.at) {
                found.push(variable);
            }
        }
        found
    }

    /// The section that an address is in, and its start.
    pub(super) fn section(&self, at: u64) -> Option<(&str, u64)> {
        let holds = |(start, bytes, _): &&(u64, u64, String)| *start <= at && at - start < *bytes;
        self.sections.iter().find(holds).map(|(start, _, name)| (name.as_str(), *start))
    }

    /// All variables, by address.
    pub(super) fn all_variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Names of variables of which each thread has its own.
    pub(super) fn thread_local(&self) -> &[String] {
        &self.thread_local
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `readelf -lW` has it of a small program that is not position-independent: data begin in the page where the code's constants end.
    fn program() -> Object {
        let segment = |offset, file_bytes, at, bytes| Segment { offset, file_bytes, at, bytes };
        Object {
            segments: vec![
                segment(0, 0x5b0, 0x40_0000, 0x5b0),
                segment(0x1000, 0x200, 0x40_1000, 0x200),
                segment(0x2000, 0xd00, 0x40_2000, 0xd00),
                segment(0x2df8, 0x240, 0x40_3df8, 0x500),
            ],
            ..Object::default()
        }
    }

    #[test]
    fn a_page_of_two_segments_is_of_the_one_that_lies_like_the_others() {
        let object = program();
        assert_eq!(object.bias(0x40_1000, 0x1000, None), Some(0));
        assert_eq!(object.bias(0x40_2000, 0x2000, Some(0)), Some(0));
        assert_eq!(object.bias(0x40_3000, 0x2000, Some(0)), Some(0), "the data, not the constants");
        assert_eq!(object.bias(0x40_3000, 0x2000, None), Some(0), "of two that begin there, the later one");
        assert_eq!(object.bias(0x40_4000, 0x3000, None), Some(0), "what mprotect made a mapping of its own");
        assert_eq!(object.bias(0x40_4000, 0x7000, None), None);
        assert!(object.is_loaded(0x40_42f7) && !object.is_loaded(0x40_42f8) && !object.is_loaded(0x40_5b1));
    }
}
