//! What a program or library says of its data: segments, sections, variables.

use std::path::Path;

use super::{DataKind, Elf, Section, Segments};
use crate::demangled;

/// A loaded file, by its data.
#[derive(Debug, Default)]
pub struct Data {
    /// Its name without folders.
    pub file: String,
    /// What of it is loaded.
    pub segments: Segments,
    /// By address.
    variables: Vec<Variable>,
    sections: Vec<Section>,
    thread_local: Vec<String>,
}

/// A variable at an address of the file's own (without where it is loaded).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variable {
    /// Its address.
    pub at: u64,
    /// Bytes.
    pub bytes: u64,
    /// As the source has it.
    pub name: String,
    /// As the linker has it.
    pub linked: String,
}

impl Data {
    /// Reads a file; without anything in it where it cannot be read or is no ELF file.
    pub fn read(path: &Path, file: &str) -> Self {
        let empty = Self { file: file.into(), ..Self::default() };
        let Ok(elf) = Elf::read(path) else { return empty };
        let mut data = Self { segments: elf.segments(), sections: elf.sections(), ..empty };
        // Each thread has its own copy.
        data.sections.retain(|section| !section.name.starts_with(".tbss"));
        data.take_symbols(&elf);
        if !elf.has_symbol_table() {
            let debug = elf.debug(path).and_then(|path| Elf::read(&path).ok());
            debug.iter().for_each(|debug| data.take_symbols(debug));
        }
        data.sort();
        data
    }

    fn take_symbols(&mut self, elf: &Elf) {
        for symbol in elf.data_symbols() {
            let name = demangled(&symbol.linked);
            match symbol.kind {
                DataKind::Variable if symbol.bytes > 0 => {
                    self.variables.push(Variable { at: symbol.address, bytes: symbol.bytes, name, linked: symbol.linked })
                }
                DataKind::ThreadLocal => self.thread_local.push(name),
                DataKind::Variable | DataKind::Other => {}
            }
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

    /// The variables that lie in so many bytes, by address; of those that begin at one place, the first.
    pub fn variables(&self, at: u64, bytes: u64) -> Vec<&Variable> {
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
    pub fn section(&self, at: u64) -> Option<(&str, u64)> {
        let holds = |section: &&Section| section.address <= at && at - section.address < section.bytes;
        self.sections.iter().find(holds).map(|section| (section.name.as_str(), section.address))
    }

    /// All variables, by address.
    pub fn all_variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Names of variables of which each thread has its own.
    pub fn thread_local(&self) -> &[String] {
        &self.thread_local
    }
}
