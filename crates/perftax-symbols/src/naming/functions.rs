//! Functions by address, without debug information: quickly, for many.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{plus, short};
use crate::Mapping;
use crate::elf::{Elf, FunctionTable};

/// The functions of everything that a program had mapped.
#[derive(Debug)]
pub struct Functions {
    mappings: Vec<Mapping>,
    files: HashMap<PathBuf, FunctionTable>,
}

impl Functions {
    /// Of these mappings; files are read when an address in them is asked for.
    pub fn of(mappings: Vec<Mapping>) -> Self {
        Self { mappings, files: HashMap::new() }
    }

    /// `function+0x12`, or the file and offset where no function is known; none outside of all files.
    pub fn name(&mut self, address: u64) -> Option<String> {
        let mapping = self.mappings.iter().find(|mapping| mapping.contains(address))?;
        let offset = mapping.offset_of(address);
        let file = self.files.entry(mapping.path.clone()).or_insert_with(|| table(&mapping.path));
        Some(match file.at_offset(offset) {
            Some((function, into)) => plus(&function.name, into),
            None => format!("{}+{offset:#x}", short(&mapping.path)),
        })
    }
}

/// A file that cannot be read has no names: its addresses are still told by file and offset.
fn table(path: &Path) -> FunctionTable {
    Elf::read(path).map(|elf| FunctionTable::of(&elf)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// This test's own program, at an address of this very function.
    #[test]
    fn a_function_is_found_in_its_file() {
        let program = std::env::current_exe().unwrap();
        let address = a_function_is_found_in_its_file as *const () as u64;
        let mut own = Mapping::parse_all(&std::fs::read("/proc/self/maps").unwrap());
        own.retain(|mapping| mapping.path == program);
        let mut functions = Functions::of(own);
        let name = functions.name(address + 1).unwrap();
        assert!(name.contains("a_function_is_found") && name.ends_with("+0x1"), "{name}");
        assert_eq!(functions.name(8), None);
    }
}
