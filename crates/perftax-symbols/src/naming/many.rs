//! Functions of many addresses at once, each file read once.

use std::path::Path;

use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

use crate::demangled;
use crate::elf::{self, FunctionTable};

/// The functions at offsets of a file, by its symbols alone; empty where none is known.
pub fn functions_of_file(path: &Path, offsets: &[u64]) -> Vec<String> {
    // [vdso], //anon and the like are no files.
    if !path.is_absolute() || !path.is_file() {
        return vec![String::new(); offsets.len()];
    }
    let elf = Elf { debug_syms: false, ..Elf::new(path) };
    let mut names = functions(&Source::Elf(elf), Input::FileOffset(offsets), offsets.len());
    // The runtime of a Go program that was stripped still knows its functions.
    if names.iter().any(String::is_empty)
        && let Ok(elf) = elf::Elf::open(path)
        && elf.is_go()
        && !elf.has_symbol_table()
    {
        let table = FunctionTable::of(&elf);
        for (name, offset) in names.iter_mut().zip(offsets).filter(|(name, _)| name.is_empty()) {
            *name = table.at_offset(*offset).map_or_else(String::new, |(function, _)| function.name.clone());
        }
    }
    names
}

/// The functions at addresses of this machine's kernel; empty where none is known, or the kernel hides its addresses (`kptr_restrict`).
pub fn functions_of_kernel(addresses: &[u64]) -> Vec<String> {
    functions(&Source::Kernel(Kernel::default()), Input::AbsAddr(addresses), addresses.len())
}

fn functions(source: &Source<'_>, input: Input<&[u64]>, wanted: usize) -> Vec<String> {
    // The library would read the kernel's symbols, a hundred thousand lines, to look for none.
    if wanted == 0 {
        return Vec::new();
    }
    let name = |symbolized: Symbolized<'_>| symbolized.into_sym().map_or_else(String::new, |symbol| demangled(&symbol.name));
    match Symbolizer::new().symbolize(source, input) {
        Ok(all) if all.len() == wanted => all.into_iter().map(name).collect(),
        _ => vec![String::new(); wanted],
    }
}
