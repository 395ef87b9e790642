//! Functions of a file, by where they stand.

use super::{Elf, Function, Segments};

/// The functions of a file by address, each place once.
#[derive(Debug, Default)]
pub struct FunctionTable {
    segments: Segments,
    /// By address. Of several names for one place, the largest function's and the first by alphabet stays.
    functions: Vec<Function>,
}

impl FunctionTable {
    /// Of a file.
    pub fn of(elf: &Elf) -> Self {
        Self::of_functions(elf, elf.functions())
    }

    /// Of those of a file whose extent it says, without their names.
    pub fn of_extents(elf: &Elf) -> Self {
        let mut functions = elf.nameless_functions();
        functions.retain(|function| function.bytes > 0);
        Self::of_functions(elf, functions)
    }

    /// Of those that were stripped off a file, and are kept in another one.
    pub fn of_stripped(elf: &Elf, debug: &Elf) -> Self {
        Self::of_functions(elf, debug.functions())
    }

    fn of_functions(elf: &Elf, mut functions: Vec<Function>) -> Self {
        functions.retain(|function| function.address != 0);
        functions.sort_by(|a, b| (a.address, b.bytes, &a.name).cmp(&(b.address, a.bytes, &b.name)));
        functions.dedup_by_key(|function| function.address);
        Self { segments: elf.segments(), functions }
    }

    /// The function that stands at an offset of the file, and how far into it that is. Of one whose size the file does not say, its first
    /// byte alone is known to be of it.
    pub fn at_offset(&self, offset: u64) -> Option<(&Function, u64)> {
        let address = self.segments.address(offset)?;
        let behind = self.functions.partition_point(|function| function.address <= address);
        let function = self.functions.get(behind.checked_sub(1)?)?;
        let into = address - function.address;
        (into < function.bytes.max(1)).then_some((function, into))
    }
}
