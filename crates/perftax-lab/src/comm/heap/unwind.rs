//! Who called, from a copy of the top of a stack: by the tables that compilers leave for exceptions (`.eh_frame`, System V psABI for x86-64, 4.2;
//! DWARF 5, 6.4), which programs and libraries have also where they keep no frame pointers; by frame pointers in code without such tables.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use gimli::{BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, RegisterRule, UnwindContext, UnwindSection, X86_64};
use object::{Object, ObjectSection};
use perftax_pmu::process::{MapLine, seen_by};

use crate::segments::Segments;

/// Callers that are told at most.
pub const MOST: usize = 12;
/// A word of a stack.
const WORD: u64 = 8;

/// Where a frame's caller's registers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    /// The canonical frame address is this far from rbp, else from rsp.
    is_from_rbp: bool,
    /// How far.
    offset: i64,
    /// Where the return address is saved, from the canonical frame address.
    return_address: i64,
    /// Where rbp is saved, likewise; none where it is as it was.
    rbp: Option<i64>,
}

/// A file's tables.
#[derive(Debug, Default)]
struct Tables {
    /// Offset in the file, bytes and address of what is loaded.
    segments: Segments,
    frames: Vec<u8>,
    index: Vec<u8>,
    bases: BaseAddresses,
    /// Rules by address, as far as they were asked for; none where there is none.
    known: HashMap<u64, Option<Rule>>,
}

/// The registers that a frame is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// rsp.
    pub stack: u64,
    /// rbp.
    pub base: u64,
}

/// A copy of the top of a stack.
#[derive(Clone, Copy)]
struct Copied<'a> {
    from: u64,
    bytes: &'a [u8],
}

impl Copied<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.from)?).ok()?;
        self.bytes.get(at..at.checked_add(WORD as usize)?)?.first_chunk().map(|word| u64::from_le_bytes(*word))
    }
}

/// Tables of files, read when they are first asked for.
#[derive(Debug, Default)]
pub struct Unwinder {
    files: HashMap<PathBuf, Tables>,
}

impl Unwinder {
    /// Return addresses of those who called a function that has just begun, innermost first, given what its process has mapped and a copy of
    /// its stack from its stack pointer on. They end where the copy does, or where a caller is not told by tables or frame pointers.
    pub fn callers(&mut self, pid: u32, maps: &[MapLine], mut frame: Frame, stack: &[u8]) -> Vec<u64> {
        let copied = Copied { from: frame.stack, bytes: stack };
        let mut callers = Vec::new();
        let mut next = copied.word(frame.stack);
        frame.stack = frame.stack.wrapping_add(WORD);
        while let Some(caller) = next.filter(|_| callers.len() < MOST) {
            // The call stands before what it returns to, which may be another function's.
            let call = caller.wrapping_sub(1);
            let Some(map) = maps.iter().find(|map| map.is_code && (map.from..map.to).contains(&call)) else { break };
            callers.push(caller);
            next = self.step(pid, map, call, &mut frame, copied);
        }
        callers
    }

    /// The return address of the frame that an address is in; `frame` becomes its caller's.
    fn step(&mut self, pid: u32, map: &MapLine, at: u64, frame: &mut Frame, copied: Copied<'_>) -> Option<u64> {
        let rule = self.rule(pid, map, at).unwrap_or(Rule { is_from_rbp: true, offset: 16, return_address: -8, rbp: Some(-16) });
        let top = if rule.is_from_rbp { frame.base } else { frame.stack }.wrapping_add_signed(rule.offset);
        // A caller's frame lies above.
        if top <= frame.stack {
            return None;
        }
        let caller = copied.word(top.wrapping_add_signed(rule.return_address))?;
        let base = rule.rbp.map_or(Some(frame.base), |saved| copied.word(top.wrapping_add_signed(saved)))?;
        *frame = Frame { stack: top, base };
        Some(caller)
    }

    fn rule(&mut self, pid: u32, map: &MapLine, at: u64) -> Option<Rule> {
        if !map.path.is_absolute() {
            return None;
        }
        if !self.files.contains_key(&map.path) {
            self.files.insert(map.path.clone(), Tables::read(&seen_by(pid, &map.path)).unwrap_or_default());
        }
        let file = self.files.get_mut(&map.path)?;
        let offset = at - map.from + map.file_offset;
        let address = file.segments.address(offset)?;
        if let Some(known) = file.known.get(&address) {
            return *known;
        }
        let rule = file.look_up(address);
        file.known.insert(address, rule);
        rule
    }
}

impl Tables {
    fn read(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let elf = object::File::parse(&*bytes).ok()?;
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some((section.address(), section.data().ok()?.to_vec()))
        };
        let (frames_at, frames) = section(".eh_frame")?;
        let (index_at, index) = section(".eh_frame_hdr").unwrap_or_default();
        let bases = BaseAddresses::default().set_eh_frame(frames_at).set_eh_frame_hdr(index_at);
        Some(Self { segments: Segments::of(&elf), frames, index, bases, known: HashMap::new() })
    }

    fn look_up(&self, address: u64) -> Option<Rule> {
        let frames = EhFrame::new(&self.frames, LittleEndian);
        let index = EhFrameHdr::new(&self.index, LittleEndian).parse(&self.bases, WORD as u8).ok();
        let mut context = UnwindContext::new();
        let row = match index.as_ref().and_then(|index| index.table()) {
            Some(table) => {
                table.unwind_info_for_address(&frames, &self.bases, &mut context, address, EhFrame::cie_from_offset).ok()?
            }
            None => frames.unwind_info_for_address(&self.bases, &mut context, address, EhFrame::cie_from_offset).ok()?,
        };
        let (is_from_rbp, offset) = match row.cfa() {
            CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => (false, *offset),
            CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => (true, *offset),
            CfaRule::RegisterAndOffset { .. } | CfaRule::Expression(_) => return None,
        };
        let Some(RegisterRule::Offset(return_address)) = row.register(X86_64::RA) else { return None };
        let rbp = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => None,
            Some(RegisterRule::Offset(saved)) => Some(saved),
            Some(_) => return None,
        };
        Some(Rule { is_from_rbp, offset, return_address, rbp })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn map(from: u64, to: u64) -> MapLine {
        MapLine { from, to, is_shared: false, is_code: true, is_writable: false, file_offset: 0, path: PathBuf::new() }
    }

    fn stack(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Code of no file: its frames are chained by rbp.
    #[test]
    fn frame_pointers_lead_on_where_there_are_no_tables() {
        let maps = [map(0x1000, 0x2000)];
        let words = stack(&[0x1010, 7, 0x8020, 0x1020, 0, 0x1030, 9]);
        let frame = Frame { stack: 0x8000, base: 0x8010 };
        let found = Unwinder::default().callers(1, &maps, frame, &words);
        assert_eq!(found, [0x1010, 0x1020, 0x1030]);
        let astray = Frame { stack: 0x8000, base: 0x10 };
        assert_eq!(Unwinder::default().callers(1, &maps, astray, &words), [0x1010], "rbp is used for something else");
        let data = stack(&[0x5000]);
        assert!(Unwinder::default().callers(1, &maps, frame, &data).is_empty(), "no code");
        assert!(Unwinder::default().callers(1, &maps, frame, &[]).is_empty(), "no stack");
    }

    /// The C library keeps no frame pointers, and has tables.
    #[test]
    fn tables_say_where_a_frame_s_caller_is() {
        let pid = std::process::id();
        let maps = crate::comm::maps::maps(pid).unwrap();
        let here = tables_say_where_a_frame_s_caller_is as *const () as u64;
        let map = maps.iter().find(|map| map.is_code && (map.from..map.to).contains(&here)).unwrap();
        let rule = Unwinder::default().rule(pid, map, here).unwrap();
        // At a function's first instruction nothing but the return address is on its frame.
        assert_eq!(rule, Rule { is_from_rbp: false, offset: 8, return_address: -8, rbp: None });
    }
}
