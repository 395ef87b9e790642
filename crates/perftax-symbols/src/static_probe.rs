//! Static probes of programs (USDT): notes of a program that say where it can be watched, and what it tells there.
//!
//! The format: section `.note.stapsdt`, notes of owner `stapsdt` and type 3; each holds the probe's address, the address that `.stapsdt.base`
//! had then (a prelinked program's has moved), its semaphore's address or 0, and three texts: provider, name, arguments. The semaphore is a
//! 16-bit counter of watchers: the kernel keeps it where it is told its place.

use std::path::Path;

use crate::elf::Elf;
use crate::error::Result;

/// A static probe, at one of its places: the compiler may have made several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticProbe {
    /// Whose it is.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Offset of its instruction in the file.
    pub offset: u64,
    /// Offset of its semaphore in the file.
    pub semaphore: Option<u64>,
    /// Its arguments, as the compiler placed them: `8@%rdi`, `-4@-20(%rbp)`.
    pub arguments: Vec<String>,
}

/// NT_STAPSDT.
const TYPE: u32 = 3;
const OWNER: &[u8] = b"stapsdt\0";

/// The static probes of a program or library; none where it has none.
///
/// # Errors
/// Where it cannot be read, is no 64-bit ELF file, or a note is not what it should be.
pub fn static_probes(path: &Path) -> Result<Vec<StaticProbe>> {
    let elf = Elf::open_64_bit(path)?;
    let Some((_, bytes)) = elf.section(".note.stapsdt")? else { return Ok(Vec::new()) };
    let base = elf.section(".stapsdt.base")?.map(|(address, _)| address);
    let segments = elf.segments();
    let malformed = |offset: usize, why: &str| elf.malformed(offset as u64, why);
    let place = |address: u64| segments.offset(address);
    notes(&bytes)
        .into_iter()
        .map(|note| {
            let (at, note) = note.map_err(|at| malformed(at, "a note of .note.stapsdt ends within"))?;
            let moved = |address: u64| match base {
                Some(base) if note.base != 0 => address.wrapping_add(base.wrapping_sub(note.base)),
                _ => address,
            };
            let nowhere = |what: &str| malformed(at, &format!("{what} of {}:{} lies in no segment", note.provider, note.name));
            let semaphore = (note.semaphore != 0).then(|| place(moved(note.semaphore)).ok_or_else(|| nowhere("the semaphore")));
            Ok(StaticProbe {
                offset: place(moved(note.address)).ok_or_else(|| nowhere("the address"))?,
                semaphore: semaphore.transpose()?,
                arguments: split(&note.arguments),
                provider: note.provider,
                name: note.name,
            })
        })
        .collect()
}

struct Note {
    address: u64,
    base: u64,
    semaphore: u64,
    provider: String,
    name: String,
    arguments: String,
}

/// The section's notes with their offsets in it; the offset alone of one that is torn, and none after it.
fn notes(bytes: &[u8]) -> Vec<Result<(usize, Note), usize>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match note(&bytes[at..]) {
            Some((length, found)) => {
                all.extend(found.map(|note| Ok((at, note))));
                at += length;
            }
            None => {
                all.push(Err(at));
                break;
            }
        }
    }
    all
}

/// One note's length, and the note where it is a probe's (elf(5), Notes: each part is padded to four bytes).
fn note(bytes: &[u8]) -> Option<(usize, Option<Note>)> {
    let word = |at: usize| bytes.get(at..at + 4).map(|word| u32::from_ne_bytes(std::array::from_fn(|i| word[i])));
    let padded = |length: u32| (length as usize).checked_next_multiple_of(4);
    let (owner_bytes, body_bytes) = (word(0)? as usize, word(4)? as usize);
    let body_at = 12usize.checked_add(padded(word(0)?)?)?;
    let length = body_at.checked_add(padded(word(4)?)?)?;
    let owner = bytes.get(12..12usize.checked_add(owner_bytes)?)?;
    let body = bytes.get(body_at..body_at.checked_add(body_bytes)?)?;
    if owner != OWNER || word(8)? != TYPE {
        return Some((length, None));
    }
    let address = |at: usize| body.get(at..at + 8).map(|word| u64::from_ne_bytes(std::array::from_fn(|i| word[i])));
    let mut texts = body.get(24..)?.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    let (provider, name, arguments) = (texts.next()?, texts.next()?, texts.next()?);
    let note = Note { address: address(0)?, base: address(8)?, semaphore: address(16)?, provider, name, arguments };
    Some((length, Some(note)))
}

/// Arguments stand apart by spaces.
fn split(arguments: &str) -> Vec<String> {
    arguments.split_whitespace().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn torn_notes_are_said_and_others_passed_over() {
        let mut bytes = Vec::new();
        for word in [4u32, 4, 1] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(b"GNU\0abcd");
        let alone = bytes.len();
        assert!(notes(&bytes).is_empty());
        bytes.extend([8u8, 0, 0, 0, 255, 0]);
        assert_eq!(notes(&bytes).iter().map(|note| note.as_ref().err().copied()).collect::<Vec<_>>(), [Some(alone)]);
    }

    #[test]
    fn a_file_that_is_no_program_is_said() {
        let error = static_probes(Path::new("/etc/passwd")).unwrap_err().to_string();
        assert!(error.contains("/etc/passwd") && error.contains("ELF"), "{error}");
    }
}
