//! What programs and libraries say of themselves (ELF).

mod data;
mod debug;
mod functions;
mod go;
mod segments;
mod thread_local;

use std::fs::File;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSymbol, ReadCache, SymbolFlags, SymbolKind};

use crate::error::{Error, Result};

pub use data::{Data, Variable};
pub use debug::{by_build_id, debug_file};
pub use functions::FunctionTable;
pub use go::GoRelease;
pub use segments::Segments;
pub use thread_local::{ThreadLocal, ThreadLocalAccess};

/// A program or library, opened. Nothing of it is kept: each question reads what it needs.
#[derive(Debug)]
pub struct Elf {
    path: PathBuf,
    data: Source,
}

/// A file's bytes.
#[derive(Debug)]
enum Source {
    /// As far as they are asked for: a few questions of a file that may be large.
    Parts(ReadCache<File>),
    /// All: every name of a table, each of which would be read by a call of its own.
    Whole(Vec<u8>),
}

impl<'data> object::ReadRef<'data> for &'data Source {
    fn len(self) -> Result<u64, ()> {
        match self {
            Source::Parts(parts) => parts.len(),
            Source::Whole(bytes) => Ok(bytes.len() as u64),
        }
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        match self {
            Source::Parts(parts) => parts.read_bytes_at(offset, size),
            Source::Whole(bytes) => bytes.as_slice().read_bytes_at(offset, size),
        }
    }

    fn read_bytes_at_until(self, range: std::ops::Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        match self {
            Source::Parts(parts) => parts.read_bytes_at_until(range, delimiter),
            Source::Whole(bytes) => bytes.as_slice().read_bytes_at_until(range, delimiter),
        }
    }
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

type Parsed<'data> = object::File<'data, &'data Source>;
type Symbol<'data, 'file> = object::Symbol<'data, 'file, &'data Source>;

impl Elf {
    /// Opens a program or library, to be asked for little of it.
    ///
    /// # Errors
    /// Where it cannot be opened, or is no ELF file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::file(path))?;
        Self { path: path.into(), data: Source::Parts(ReadCache::new(file)) }.checked()
    }

    /// Reads a program or library whole, to be asked for all its names.
    ///
    /// # Errors
    /// As [`Elf::open`].
    pub fn read(path: &Path) -> Result<Self> {
        // What is no such file may be larger than memory.
        Self::open(path)?;
        let bytes = std::fs::read(path).map_err(Error::file(path))?;
        Self { path: path.into(), data: Source::Whole(bytes) }.checked()
    }

    /// The same of bytes that are at hand: what the kernel maps into every process, of no file.
    ///
    /// # Errors
    /// Where they are no ELF file.
    pub fn of_bytes(name: &Path, bytes: Vec<u8>) -> Result<Self> {
        Self { path: name.into(), data: Source::Whole(bytes) }.checked()
    }

    fn checked(self) -> Result<Self> {
        let why = match object::FileKind::parse(&self.data) {
            Ok(object::FileKind::Elf32 | object::FileKind::Elf64) => match self.parse() {
                Ok(_) => return Ok(self),
                Err(error) => error.to_string(),
            },
            _ => "not an ELF program or library".into(),
        };
        Err(self.malformed(0, why))
    }

    /// Likewise, of one for 64-bit machines.
    ///
    /// # Errors
    /// As [`Elf::open`], and where it is of another width.
    pub fn open_64_bit(path: &Path) -> Result<Self> {
        let elf = Self::open(path)?;
        match elf.parse() {
            Ok(parsed) if parsed.is_64() => Ok(elf),
            _ => Err(elf.malformed(0, "not a 64-bit ELF program or library")),
        }
    }

    fn parse(&self) -> object::read::Result<Parsed<'_>> {
        object::File::parse(&self.data)
    }

    /// The error that something in it is wrong.
    pub(crate) fn malformed(&self, offset: u64, why: impl ToString) -> Error {
        Error::malformed(&self.path, offset, why)
    }

    /// Whether it is for x86-64.
    pub fn is_x86_64(&self) -> bool {
        self.parse().is_ok_and(|parsed| parsed.architecture() == object::Architecture::X86_64)
    }

    /// Bytes of its code from one of its addresses on, as many as the file has of them.
    pub fn code(&self, address: u64, bytes: u64) -> Option<Vec<u8>> {
        let offset = self.segments().code_offset(address)?;
        let bytes = bytes.min(object::ReadRef::len(&self.data).ok()?.saturating_sub(offset));
        object::ReadRef::read_bytes_at(&self.data, offset, bytes).ok().map(<[u8]>::to_vec)
    }

    /// Its loaded parts.
    pub fn segments(&self) -> Segments {
        self.parse().map(|parsed| Segments::of(&parsed)).unwrap_or_default()
    }

    /// The functions that it defines, in the order of its tables; one that is in both stands twice. Of a Go program without symbols, those that its runtime knows.
    pub fn functions(&self) -> Vec<Function> {
        let found = self.symbols(is_function, |symbol, name| Function {
            name: unversioned(name).into(),
            address: symbol.address(),
            bytes: symbol.size(),
        });
        if self.has_symbol_table() { found } else { [found, self.go_functions()].concat() }
    }

    /// The same without their names, which take the most time to read.
    pub fn nameless_functions(&self) -> Vec<Function> {
        let Ok(parsed) = self.parse() else { return Vec::new() };
        let all = parsed.symbols().chain(parsed.dynamic_symbols()).filter(is_function);
        all.map(|symbol| Function { name: String::new(), address: symbol.address(), bytes: symbol.size() }).collect()
    }

    /// What it defines in code, by name, each place once. Names have their versions (`foo@VER`), where the table has them.
    pub fn code_symbols(&self) -> Vec<CodeSymbol> {
        let segments = self.segments();
        let offset = |symbol: &Symbol<'_, '_>| segments.code_offset(symbol.address());
        let is_code = |symbol: &Symbol<'_, '_>| {
            let is_defined = !symbol.is_undefined() && (symbol.is_definition() || is_indirect(symbol.flags()));
            is_defined && offset(symbol).is_some()
        };
        let mut found = self.symbols(is_code, |symbol, name| CodeSymbol {
            name: name.into(),
            offset: offset(symbol).unwrap_or(0),
            is_indirect: is_indirect(symbol.flags()),
        });
        found.sort();
        found.dedup();
        found
    }

    /// What it defines but functions, likewise.
    pub fn data_symbols(&self) -> Vec<DataSymbol> {
        self.symbols(
            |symbol| !symbol.is_undefined() && kind_of_data(symbol).is_some(),
            |symbol, name| DataSymbol {
                linked: unversioned(name).into(),
                address: symbol.address(),
                bytes: symbol.size(),
                kind: kind_of_data(symbol).unwrap_or(DataKind::Other),
                is_global: symbol.is_global(),
            },
        )
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

    /// Symbols that are wanted and have a name, which is read of these alone.
    fn symbols<T>(&self, is_wanted: impl Fn(&Symbol<'_, '_>) -> bool, each: impl Fn(&Symbol<'_, '_>, &str) -> T) -> Vec<T> {
        let Ok(parsed) = self.parse() else { return Vec::new() };
        let all = parsed.symbols().chain(parsed.dynamic_symbols()).filter(|symbol| is_wanted(symbol));
        all.filter_map(|symbol| Some(each(&symbol, symbol.name().ok().filter(|name| !name.is_empty())?))).collect()
    }
}

fn is_function(symbol: &Symbol<'_, '_>) -> bool {
    !symbol.is_undefined() && symbol.kind() == SymbolKind::Text
}

/// What a symbol stands for; none where it is a function, a file or a section.
fn kind_of_data(symbol: &Symbol<'_, '_>) -> Option<DataKind> {
    match symbol.kind() {
        SymbolKind::Text | SymbolKind::File | SymbolKind::Section => None,
        SymbolKind::Data => Some(DataKind::Variable),
        SymbolKind::Tls => Some(DataKind::ThreadLocal),
        _ => Some(DataKind::Other),
    }
}

/// A name without the version that linkers put behind it: `stdout@GLIBC_2.2.5`.
fn unversioned(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

fn is_indirect<S, A>(flags: SymbolFlags<S, A>) -> bool {
    matches!(flags, SymbolFlags::Elf { st_info, .. } if st_info.st_type() == object::elf::STT_GNU_IFUNC)
}
