//! What programs and libraries say of themselves (ELF).

mod data;
mod functions;
mod segments;

use std::fs::File;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSymbol, ReadCache, SymbolFlags, SymbolKind};

use crate::error::{Error, Result};

pub use data::{Data, Variable};
pub use functions::FunctionTable;
pub use segments::Segments;

/// A program or library, opened. Nothing of it is kept: each question reads what it needs.
#[derive(Debug)]
pub struct Elf {
    path: PathBuf,
    data: ReadCache<File>,
}

/// A function that a file defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// As the linker has it, without the version of a dynamic symbol (`@GLIBC_2.2.5`).
    pub name: String,
    /// Its address, without where the file is loaded.
    pub address: u64,
    /// Bytes; 0 where the file does not say.
    pub bytes: u64,
}

/// A symbol that stands in code: a function, or a label of an assembler's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodeSymbol {
    /// As the linker has it.
    pub name: String,
    /// Offset of its first instruction in the file.
    pub offset: u64,
    /// Whether it is an indirect function (`STT_GNU_IFUNC`): the symbol is that of its resolver.
    pub is_indirect: bool,
}

/// What a symbol that is no function stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// A variable.
    Variable,
    /// A variable of which each thread has its own: its address is an offset.
    ThreadLocal,
    /// Something without a type: a label of an assembler's, the end of a section.
    Other,
}

/// A symbol that is no function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSymbol {
    /// As the linker has it, without a version.
    pub linked: String,
    /// Its address, without where the file is loaded.
    pub address: u64,
    /// Bytes; 0 where the file does not say.
    pub bytes: u64,
    /// What it stands for.
    pub kind: DataKind,
    /// Whether other files can refer to it.
    pub is_global: bool,
}

/// A section's name, address and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// `.bss`.
    pub name: String,
    /// Its address, without where the file is loaded.
    pub address: u64,
    /// How many bytes it takes there.
    pub bytes: u64,
}

type Parsed<'data> = object::File<'data, &'data ReadCache<File>>;

impl Elf {
    /// Opens a program or library.
    ///
    /// # Errors
    /// Where it cannot be opened, or is no ELF file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::file(path))?;
        let opened = Self { path: path.into(), data: ReadCache::new(file) };
        if opened.parse().is_ok_and(|parsed| parsed.format() == object::BinaryFormat::Elf) {
            return Ok(opened);
        }
        Err(opened.malformed(0, "not an ELF program or library"))
    }

    /// Likewise, of one for 64-bit machines.
    ///
    /// # Errors
    /// As [`Elf::open`], and where it is of another width.
    pub fn open_64_bit(path: &Path) -> Result<Self> {
        let opened = Self::open(path);
        match opened {
            Ok(elf) if elf.parse().is_ok_and(|parsed| parsed.is_64()) => Ok(elf),
            Ok(_) | Err(Error::Malformed { .. }) => Err(Error::malformed(path, 0, "not a 64-bit ELF program or library")),
            Err(other) => Err(other),
        }
    }

    fn parse(&self) -> object::read::Result<Parsed<'_>> {
        object::File::parse(&self.data)
    }

    /// The error that something in it is wrong.
    pub(crate) fn malformed(&self, offset: u64, why: impl ToString) -> Error {
        Error::malformed(&self.path, offset, why)
    }

    /// Its loaded parts.
    pub fn segments(&self) -> Segments {
        self.parse().map(|parsed| Segments::of(&parsed)).unwrap_or_default()
    }

    /// The functions that it defines, in the order of its tables; one that is in both stands twice.
    pub fn functions(&self) -> Vec<Function> {
        self.symbols(|symbol, linked| {
            let is_function = !symbol.is_undefined() && symbol.kind() == SymbolKind::Text;
            is_function.then(|| Function { name: linked.into(), address: symbol.address(), bytes: symbol.size() })
        })
    }

    /// What it defines in code, by name, each place once.
    pub fn code_symbols(&self) -> Vec<CodeSymbol> {
        let segments = self.segments();
        let mut found = self.symbols(|symbol, linked| {
            let is_indirect = is_indirect(symbol.flags());
            let is_defined = !symbol.is_undefined() && (symbol.is_definition() || is_indirect);
            let offset = segments.code_offset(symbol.address()).filter(|_| is_defined)?;
            Some(CodeSymbol { name: linked.into(), offset, is_indirect })
        });
        found.sort();
        found.dedup();
        found
    }

    /// What it defines but functions, likewise.
    pub fn data_symbols(&self) -> Vec<DataSymbol> {
        self.symbols(|symbol, linked| {
            let kind = match symbol.kind() {
                SymbolKind::Text | SymbolKind::File | SymbolKind::Section => return None,
                SymbolKind::Data => DataKind::Variable,
                SymbolKind::Tls => DataKind::ThreadLocal,
                _ => DataKind::Other,
            };
            let found = || DataSymbol {
                linked: linked.into(),
                address: symbol.address(),
                bytes: symbol.size(),
                kind,
                is_global: symbol.is_global(),
            };
            (!symbol.is_undefined()).then(found)
        })
    }

    /// Whether it names any function.
    pub fn has_functions(&self) -> bool {
        let Ok(parsed) = self.parse() else { return false };
        let mut all = parsed.symbols().chain(parsed.dynamic_symbols());
        all.any(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
    }

    /// Whether it has a table of symbols for linkers, and not that for loaders alone.
    pub fn has_symbol_table(&self) -> bool {
        self.parse().is_ok_and(|parsed| parsed.symbols().next().is_some())
    }

    /// The address of a symbol that it defines.
    pub fn address_of(&self, linked: &str) -> Option<u64> {
        let parsed = self.parse().ok()?;
        let mut all = parsed.symbols().chain(parsed.dynamic_symbols());
        all.find(|symbol| symbol.is_definition() && symbol.name() == Ok(linked)).map(|symbol| symbol.address())
    }

    /// Sections that have an address.
    pub fn sections(&self) -> Vec<Section> {
        let Ok(parsed) = self.parse() else { return Vec::new() };
        let section = |section: object::Section<'_, '_, _>| {
            let name = section.name().ok().filter(|name| !name.is_empty())?.to_owned();
            let found = Section { name, address: section.address(), bytes: section.size() };
            (found.address != 0).then_some(found)
        };
        parsed.sections().filter_map(section).collect()
    }

    /// A section's address and bytes; none where there is no such section.
    ///
    /// # Errors
    /// Where its bytes cannot be read.
    pub fn section(&self, name: &str) -> Result<Option<(u64, Vec<u8>)>> {
        let wrong = |error: object::read::Error| self.malformed(0, error);
        let parsed = self.parse().map_err(wrong)?;
        let Some(section) = parsed.section_by_name(name) else { return Ok(None) };
        Ok(Some((section.address(), section.data().map_err(wrong)?.to_vec())))
    }

    /// What tells this build from others (`.note.gnu.build-id`).
    pub fn build_id(&self) -> Option<Vec<u8>> {
        self.parse().ok()?.build_id().ok()?.map(<[u8]>::to_vec)
    }

    fn symbols<T>(&self, each: impl Fn(&object::Symbol<'_, '_, &ReadCache<File>>, &str) -> Option<T>) -> Vec<T> {
        let Ok(parsed) = self.parse() else { return Vec::new() };
        let all = parsed.symbols().chain(parsed.dynamic_symbols());
        all.filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            each(&symbol, name.split('@').next().unwrap_or(name))
        })
        .collect()
    }
}

fn is_indirect<S, A>(flags: SymbolFlags<S, A>) -> bool {
    matches!(flags, SymbolFlags::Elf { st_info, .. } if st_info.st_type() == object::elf::STT_GNU_IFUNC)
}

/// Where a build id is kept below a folder of them: `ab/cdef…`.
pub fn by_build_id(id: &[u8]) -> Option<String> {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{}/{}", hex.get(..2)?, hex.get(2..).filter(|rest| !rest.is_empty())?))
}

/// Where distributions put what was stripped off a build (gdb manual, "Separate Debug Files").
pub fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    Some(Path::new("/usr/lib/debug/.build-id").join(format!("{}.debug", by_build_id(build_id)?)))
}
