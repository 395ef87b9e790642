//! What a Go program says of itself: the release that built it, and its functions, also where it was stripped.
//!
//! Sections `.go.buildinfo` (debug/buildinfo) and `.gopclntab` (runtime/symtab.go, `pcHeader`, and internal/abi/symtab.go for its magic numbers), Go 1.18 and later.

use object::Object;

use super::{Elf, Function};

const BUILD_INFO: &[u8] = b"\xff Go buildinf:";
/// The version stands in the section itself, behind its header (Go 1.18 on).
const IS_INLINE: u8 = 2;
const HEADER_BYTES: usize = 32;
/// Go 1.18 and 1.20.
const MAGIC: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Where the kernel begins, where no linker of C's was asked.
const ENTRIES: [&str; 2] = ["_rt0_amd64_linux", "_rt0_arm64_linux"];

/// A release of Go: `(1, 26)`.
pub type GoRelease = (u32, u32);

impl Elf {
    /// The release of Go that built it; none where it was not Go, or one before 1.18.
    pub fn go_release(&self) -> Option<GoRelease> {
        let (_, bytes) = self.section(".go.buildinfo").ok()??;
        let header = bytes.get(..HEADER_BYTES).filter(|header| header.starts_with(BUILD_INFO))?;
        let text = (header[15] & IS_INLINE != 0).then(|| counted(bytes.get(HEADER_BYTES..)?)).flatten()?;
        release(std::str::from_utf8(text).ok()?)
    }

    /// Whether it was built by Go, whichever release.
    pub fn is_go(&self) -> bool {
        let is_its = |name: &str| name == ".go.buildinfo" || name.ends_with(".gopclntab");
        self.sections().iter().any(|section| is_its(&section.name))
    }

    /// Its functions as the Go runtime knows them, for tracebacks: those of a stripped program, too.
    pub(super) fn go_functions(&self) -> Vec<Function> {
        let name = self.sections().into_iter().map(|section| section.name).find(|name| name.ends_with(".gopclntab"));
        let Some(Ok(Some((_, table)))) = name.map(|name| self.section(&name)) else { return Vec::new() };
        let Some(mut functions) = functions(&table) else { return Vec::new() };
        let Some(base) = self.go_text(&table, &functions) else { return Vec::new() };
        for function in &mut functions {
            function.address = function.address.wrapping_add(base);
        }
        functions
    }

    /// Where the text begins that the table's offsets are of. Go 1.26 does not say that in the table any more: then it is the section's begin, which the program's
    /// entry must bear out. Where C's linker put other code in front nobody tells.
    fn go_text(&self, table: &[u8], functions: &[Function]) -> Option<u64> {
        let told = word(table, 24)?;
        if told != 0 {
            return Some(told);
        }
        let text = self.section_address(".text")?;
        let entry = self.parse().ok()?.entry();
        let first = functions.iter().find(|function| ENTRIES.contains(&function.name.as_str()))?;
        (text.wrapping_add(first.address) == entry).then_some(text)
    }

    fn section_address(&self, name: &str) -> Option<u64> {
        self.sections().into_iter().find(|section| section.name == name).map(|section| section.address)
    }
}

/// Bytes behind their number (binary.Uvarint).
fn counted(bytes: &[u8]) -> Option<&[u8]> {
    let mut length = 0usize;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return bytes.get(at + 1..(at + 1).checked_add(length)?);
        }
    }
    None
}

/// `go1.26.8`, `devel go1.27-0123456`.
fn release(text: &str) -> Option<GoRelease> {
    let (_, rest) = text.split_once("go")?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?).map(|word| u64::from_le_bytes(std::array::from_fn(|i| word[i])))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?).map(|word| u32::from_le_bytes(std::array::from_fn(|i| word[i])))
}

/// The table's functions, with addresses from the begin of its text. None where it is no such table, or ends within.
fn functions(table: &[u8]) -> Option<Vec<Function>> {
    // The size of a pointer stands behind that of the least instruction.
    let is_known = half(table, 0).is_some_and(|magic| MAGIC.contains(&magic)) && table.get(7) == Some(&8);
    if !is_known {
        return None;
    }
    let place = |at: usize| word(table, at).and_then(|offset| usize::try_from(offset).ok());
    let (count, names, all) = (place(8)?, table.get(place(32)?..)?, table.get(place(64)?..)?);
    // Offsets of a function and of what is said of it; behind the last one the end alone.
    let is_whole = count.checked_mul(8).is_some_and(|bytes| bytes.saturating_add(4) <= all.len());
    if !is_whole {
        return None;
    }
    let function = |at: usize| {
        let (begin, said, end) = (half(all, 8 * at)?, half(all, 8 * at + 4)?, half(all, 8 * at + 8)?);
        let name = names.get(half(all, (said as usize).checked_add(4)?)? as usize..)?;
        let name = name.split(|byte| *byte == 0).next()?;
        let name = String::from_utf8_lossy(name).into_owned();
        Some(Function { name, address: begin.into(), bytes: u64::from(end.saturating_sub(begin)) })
    };
    (0..count).map(function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_told() {
        for (text, wanted) in [("go1.26.8", Some((1, 26))), ("devel go1.27-012345", Some((1, 27))), ("go", None), ("", None)] {
            assert_eq!(release(text), wanted, "{text}");
        }
        assert_eq!(counted(b"\x03abcd"), Some(&b"abc"[..]));
        assert_eq!((counted(b"\x09abcd"), counted(b"\xff\xff\xff\xff\xff")), (None, None));
    }

    /// A table of two functions, and that table torn at every byte.
    #[test]
    fn a_torn_table_has_no_functions() {
        let mut table = Vec::new();
        table.extend(MAGIC[1].to_le_bytes());
        table.extend([0, 0, 1, 8]);
        // Functions, files, the text, names, three that are not asked for, functions.
        for word in [2u64, 0, 0x1000, 72, 0, 0, 0, 80] {
            table.extend(word.to_le_bytes());
        }
        table.extend(b"a.b\0c.d\0");
        for half in [0u32, 20, 0x40, 28, 0x90, 0, 0, 0x40, 4] {
            table.extend(half.to_le_bytes());
        }
        let named = |name: &str, address, bytes| Function { name: name.into(), address, bytes };
        assert_eq!(functions(&table), Some(vec![named("a.b", 0, 0x40), named("c.d", 0x40, 0x50)]));
        for bytes in 0..table.len() {
            assert_eq!(functions(&table[..bytes]), None, "{bytes}");
        }
    }
}
