//! Names of addresses in a simulated program.

use std::collections::HashMap;

use crate::segments::Segments;
use object::{Object, ObjectSymbol, SymbolKind};
use perftax_model::run::Mapping;

/// Functions of one file, by address.
#[derive(Debug, Default)]
struct File {
    segments: Segments,
    /// Address, size and name, by address.
    functions: Vec<(u64, u64, String)>,
}

/// The functions of everything that a program had mapped.
#[derive(Debug)]
pub struct Symbols {
    mappings: Vec<Mapping>,
    files: HashMap<String, File>,
}

impl Symbols {
    /// Of these mappings; files are read when an address in them is asked for.
    pub fn of(mappings: Vec<Mapping>) -> Self {
        Self { mappings, files: HashMap::new() }
    }

    /// `function+0x12`, or the file and offset where no function is known; none outside of all files.
    pub fn name(&mut self, address: u64) -> Option<String> {
        let mapping = self.mappings.iter().find(|m| (m.start..m.end).contains(&address))?;
        let offset = address - mapping.start + mapping.offset;
        let file = self.files.entry(mapping.path.clone()).or_insert_with(|| read(&mapping.path));
        let short = mapping.path.rsplit('/').next().unwrap_or_default();
        let unnamed = || Some(format!("{short}+{offset:#x}"));
        let Some(place) = file.segments.address(offset) else { return unnamed() };
        let behind = file.functions.partition_point(|(start, _, _)| *start <= place);
        match behind.checked_sub(1).map(|i| &file.functions[i]) {
            Some((start, size, name)) if place < start + (*size).max(1) => Some(match place - start {
                0 => name.clone(),
                into => format!("{name}+{into:#x}"),
            }),
            _ => unnamed(),
        }
    }
}

/// A file that cannot be read has no names: its addresses are still told by file and offset.
fn read(path: &str) -> File {
    let Ok(bytes) = std::fs::read(path) else { return File::default() };
    let Ok(object) = object::File::parse(&*bytes) else { return File::default() };
    let mut functions: Vec<(u64, u64, String)> = object
        .symbols()
        .chain(object.dynamic_symbols())
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.address() != 0)
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_string())))
        .collect();
    functions.sort();
    functions.dedup_by_key(|(start, _, _)| *start);
    File { segments: Segments::of(&object), functions }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::naming::mappings_of;

    /// This test's own program, at an address of this very function.
    #[test]
    fn a_function_is_found_in_its_file() {
        let program = std::env::current_exe().unwrap();
        let address = a_function_is_found_in_its_file as *const () as u64;
        let own = mappings_of(std::process::id()).unwrap();
        let mappings = own.into_iter().filter(|mapping| mapping.path == program.to_str().unwrap());
        let mut symbols = Symbols::of(mappings.collect());
        let name = symbols.name(address + 1).unwrap();
        assert!(name.contains("a_function_is_found") && name.ends_with("+0x1"), "{name}");
        assert_eq!(symbols.name(8), None);
    }
}
