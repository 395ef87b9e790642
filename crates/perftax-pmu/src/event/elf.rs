//! From a function's name to its place in an ELF file.

use std::fs::File;
use std::path::Path;

use object::read::elf::{ElfFile, FileHeader, ProgramHeader as _};
use object::{Endianness, Object, ObjectSymbol, ReadCache, SymbolFlags, elf};

use crate::error::{Error, Result};

/// A function of a program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Offset of its first instruction in the file.
    pub(super) offset: u64,
    /// Whether it is an indirect function (`STT_GNU_IFUNC`): the symbol is that of its resolver.
    pub(super) is_indirect: bool,
}

/// What a uprobe needs to know of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    /// Functions of `.symtab` and `.dynsym`, by name.
    pub(super) functions: Vec<Function>,
    /// File ranges that are mapped executable: first offset, and one behind the last.
    pub(super) code: Vec<(u64, u64)>,
}

impl Program {
    /// Reads a program or library.
    ///
    /// # Errors
    /// `File` where it cannot be read, `Malformed` where it is not ELF.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::file(path))?;
        let data = ReadCache::new(file);
        let malformed = |why: String| Error::Malformed { what: path.display().to_string(), offset: 0, why };
        match object::FileKind::parse(&data) {
            Ok(object::FileKind::Elf64) => read::<elf::FileHeader64<Endianness>>(&data).map_err(malformed),
            Ok(object::FileKind::Elf32) => read::<elf::FileHeader32<Endianness>>(&data).map_err(malformed),
            _ => Err(malformed("not an ELF program or library".into())),
        }
    }

    /// Whether an instruction can stand at this offset of the file.
    pub(super) fn is_code(&self, offset: u64) -> bool {
        self.code.iter().any(|(from, to)| (*from..*to).contains(&offset))
    }
}

fn read<H: FileHeader<Endian = Endianness>>(data: &ReadCache<File>) -> Result<Program, String> {
    let parsed = ElfFile::<H, _>::parse(data).map_err(|error| error.to_string())?;
    let endian = parsed.endian();
    let loaded: Vec<(u64, u64, u64)> = parsed
        .elf_program_headers()
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian).0 & elf::PF_X.0 != 0)
        .map(|segment| (segment.p_vaddr(endian).into(), segment.p_offset(endian).into(), segment.p_filesz(endian).into()))
        .collect();
    let place = |address: u64| {
        let within = |(start, _, bytes): &&(u64, u64, u64)| address >= *start && address - *start < *bytes;
        loaded.iter().find(within).and_then(|(start, offset, _)| offset.checked_add(address - start))
    };
    let mut functions: Vec<Function> = parsed
        .symbols()
        .chain(parsed.dynamic_symbols())
        .filter(|symbol| !symbol.is_undefined() && (symbol.is_definition() || is_indirect(symbol.flags())))
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            let offset = place(symbol.address())?;
            Some(Function { name: name.into(), offset, is_indirect: is_indirect(symbol.flags()) })
        })
        .collect();
    functions.sort_by(|a, b| (&a.name, a.offset).cmp(&(&b.name, b.offset)));
    functions.dedup();
    let code = loaded.iter().map(|(_, offset, bytes)| (*offset, offset.saturating_add(*bytes))).collect();
    Ok(Program { functions, code })
}

fn is_indirect<S, A>(flags: SymbolFlags<S, A>) -> bool {
    matches!(flags, SymbolFlags::Elf { st_info, .. } if st_info.st_type() == elf::STT_GNU_IFUNC)
}
