//! The functions that give memory out and take it back, and where a program has them: in its C library, in an allocator that it was linked
//! with, or in itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use perftax_doc::steps::Setting;
use perftax_pmu::process::mapped_file;
use perftax_pmu::{Error, Result};
use perftax_symbols::Mapping;
use perftax_symbols::elf::Elf;

/// Registers that hold a function's first three arguments, by their numbers in `asm/perf_regs.h` (x86-64 psABI 3.2.3: rdi, rsi, rdx).
const ARGUMENTS: [u32; 3] = [5, 4, 3];

/// What a function does, by which of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Allocates so many bytes.
    Allocate(Bytes),
    /// Allocates so many bytes in place of the object that its first argument points to.
    Again(Bytes),
    /// Allocates so many bytes, whose address it stores where its first argument points to.
    Store(Bytes),
    /// Frees what its first argument points to.
    Free,
}

/// How many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// As this argument says, counted from 0.
    Argument(usize),
    /// The product of this argument and the next.
    Product(usize),
}

impl Bytes {
    /// The number, given the value of each register; none where one is missing, or no memory is so large.
    pub fn value(self, register: impl Fn(u32) -> Option<u64>) -> Option<u64> {
        let argument = |number: usize| register(*ARGUMENTS.get(number)?);
        match self {
            Self::Argument(number) => argument(number),
            Self::Product(number) => argument(number)?.checked_mul(argument(number + 1)?),
        }
    }
}

/// The first argument.
pub fn first_argument(register: impl Fn(u32) -> Option<u64>) -> Option<u64> {
    register(ARGUMENTS[0])
}

/// Functions by name: C's (malloc(3), posix_memalign(3)), jemalloc's own (jemalloc(3)), and C++'s, which some allocators have without
/// calling malloc.
const FUNCTIONS: &[(&str, Does)] = &[
    ("malloc", Does::Allocate(Bytes::Argument(0))),
    ("calloc", Does::Allocate(Bytes::Product(0))),
    ("realloc", Does::Again(Bytes::Argument(1))),
    ("reallocarray", Does::Again(Bytes::Product(1))),
    ("aligned_alloc", Does::Allocate(Bytes::Argument(1))),
    ("memalign", Does::Allocate(Bytes::Argument(1))),
    ("posix_memalign", Does::Store(Bytes::Argument(2))),
    ("valloc", Does::Allocate(Bytes::Argument(0))),
    ("pvalloc", Does::Allocate(Bytes::Argument(0))),
    ("free", Does::Free),
    ("mallocx", Does::Allocate(Bytes::Argument(0))),
    ("rallocx", Does::Again(Bytes::Argument(1))),
    ("dallocx", Does::Free),
    ("sdallocx", Does::Free),
    ("_Znwm", Does::Allocate(Bytes::Argument(0))),
    ("_Znam", Does::Allocate(Bytes::Argument(0))),
    ("_ZnwmSt11align_val_t", Does::Allocate(Bytes::Argument(0))),
    ("_ZnamSt11align_val_t", Does::Allocate(Bytes::Argument(0))),
    ("_ZdlPv", Does::Free),
    ("_ZdaPv", Does::Free),
    ("_ZdlPvm", Does::Free),
    ("_ZdaPvm", Does::Free),
];

/// What allocators put before these names where they are not to replace the C library's: jemalloc by itself and in Rust, mimalloc, tcmalloc.
const PREFIXES: [&str; 5] = ["", "je_", "_rjem_", "mi_", "tc_"];

/// A function of a program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it does.
    pub does: Does,
    /// The file that it is in, for the kernel to find.
    pub path: PathBuf,
    /// Offset of its first instruction in that file.
    pub offset: u64,
}

/// The functions of all that a process has mapped. A C++ library's `operator new` calls malloc, and is none of them.
///
/// # Errors
/// `Unsupported` where there is no malloc.
pub fn functions(pid: u32, maps: &[Mapping]) -> Result<Vec<Function>> {
    let files: BTreeMap<&Path, &Mapping> =
        maps.iter().filter(|map| map.is_code && map.file().is_some()).map(|map| (map.path.as_path(), map)).collect();
    let mut functions: Vec<Function> = Vec::new();
    for map in files.values() {
        functions.extend(mapped_file(pid, map).iter().flat_map(|file| of_file(file)));
    }
    if functions.is_empty() {
        let searched: Vec<String> = files.keys().map(|path| path.display().to_string()).collect();
        let is_replaced = searched.iter().any(|path| path.ends_with(" (deleted)"));
        let remedy = if is_replaced {
            "files of the program were replaced while it runs: start it again, then perftax".into()
        } else {
            format!(
                "a program that is linked statically and stripped has no such table: keep its symbols (no -s, no strip), or link it \
                 dynamically; or leave {} out",
                Setting::Heap
            )
        };
        return Err(Error::Unsupported {
            what: format!("tell objects of the heap ({})", Setting::Heap),
            why: format!("no symbol table of {} names malloc and free", searched.join(", ")),
            remedy,
        });
    }
    Ok(functions)
}

/// Those of a file: of one that has malloc and free.
fn of_file(path: &Path) -> Vec<Function> {
    let mut found: Vec<Function> = Vec::new();
    let symbols = symbols(path).unwrap_or_default();
    for prefix in PREFIXES {
        let of =
            |wanted: &str| symbols.iter().find(|(name, _)| name.strip_prefix(prefix) == Some(wanted)).map(|(_, offset)| *offset);
        if of("malloc").is_none() || of("free").is_none() {
            continue;
        }
        for (name, does) in FUNCTIONS {
            // One function may have several names: it is probed once.
            let is_new = |offset: &u64| found.iter().all(|known| known.offset != *offset);
            if let Some(offset) = of(name).filter(is_new) {
                let function = Function { name: format!("{prefix}{name}"), does: *does, path: path.into(), offset };
                found.push(function);
            }
        }
    }
    found
}

/// Functions that a file defines, with their offsets in it.
fn symbols(path: &Path) -> Option<Vec<(String, u64)>> {
    let elf = Elf::open(path).ok()?;
    let segments = elf.segments();
    let is_ours = |name: &str| {
        PREFIXES
            .iter()
            .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| FUNCTIONS.iter().any(|(known, _)| *known == rest)))
    };
    let functions = elf.functions().into_iter().filter(|function| is_ours(&function.name));
    Some(functions.filter_map(|function| Some((function.name, segments.offset(function.address)?))).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use perftax_pmu::process::maps;

    #[test]
    fn the_c_library_s_are_found_in_us() {
        let pid = std::process::id();
        let found = functions(pid, &maps(pid).unwrap()).unwrap();
        for name in ["malloc", "calloc", "realloc", "posix_memalign", "free"] {
            let one = found.iter().find(|function| function.name == name).unwrap_or_else(|| panic!("{name} in {found:?}"));
            assert!(one.offset > 0 && one.path.exists(), "{one:?}");
        }
        let mut places: Vec<_> = found.iter().map(|function| (&function.path, function.offset)).collect();
        let all = places.len();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), all, "each place once");
    }

    #[test]
    fn where_there_is_none_that_is_said() {
        let error = functions(std::process::id(), &[]).unwrap_err();
        assert!(error.to_string().contains("malloc") && matches!(error, Error::Unsupported { .. }), "{error}");
    }

    #[test]
    fn bytes_are_what_arguments_say() {
        let registers =
            |number: u32| [(5, 24), (4, 10), (3, 4)].into_iter().find(|(known, _)| *known == number).map(|(_, value)| value);
        assert_eq!(Bytes::Argument(0).value(registers), Some(24));
        assert_eq!(Bytes::Product(0).value(registers), Some(240));
        assert_eq!(Bytes::Product(1).value(registers), Some(40));
        assert_eq!(Bytes::Product(2).value(registers), None, "no fourth argument");
        assert_eq!(Bytes::Product(0).value(|_| Some(1 << 40)), None);
        assert_eq!(first_argument(registers), Some(24));
    }
}
