//! Where the kernel's own code lies, for whoever may know it (`/proc/kallsyms`, `/proc/modules`).

use std::io::{BufRead, BufReader, Read};

use perftax_pmu::machine::KernelModule;
use perftax_pmu::record::{Encoder, MappedCode};

/// The kernel's text, first address and one behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Text {
    from: u64,
    to: u64,
}

/// Records of the kernel's code and that of its modules; nothing where their addresses are hidden.
pub fn kernel_code(encoder: &Encoder) -> Vec<u8> {
    let size = std::fs::read_to_string("/proc/iomem").ok().and_then(|map| size_of_text(&map));
    let Some(text) = std::fs::File::open("/proc/kallsyms").ok().and_then(|file| text_of(file, size)) else { return Vec::new() };
    // perf's name for it: the symbol that relocation is told by (`machine__create_kernel_maps`).
    let kernel = MappedCode {
        address: text.from,
        length: text.to - text.from,
        file_offset: text.from,
        path: b"[kernel.kallsyms]_text",
        device: (0, 0),
        inode: 0,
    };
    let mut records = encoder.kernel_mmap(&kernel);
    for module in KernelModule::loaded() {
        let path = format!("[{}]", module.name);
        let code = MappedCode { address: module.from, length: module.bytes, path: path.as_bytes(), file_offset: 0, ..kernel };
        records.extend(encoder.kernel_mmap(&code));
    }
    records
}

/// From `_text` to `_etext`. Symbols are sorted by address, so the first stands near the beginning; where the size is known already, the other hundred thousand
/// need not be read, which takes some 40 ms.
fn text_of(file: impl Read, size: Option<u64>) -> Option<Text> {
    let mut reader = BufReader::with_capacity(1 << 14, file);
    let (mut from, mut line) = (None, Vec::new());
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let wanted: &[u8] = if from.is_none() { b" _text\n" } else { b" _etext\n" };
        if !line.ends_with(wanted) {
            continue;
        }
        let digits = line.split(|byte| *byte == b' ').next()?;
        let address = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|address| *address > 0)?;
        match (from, size) {
            (None, None) => from = Some(address),
            (None, Some(size)) => return Some(Text { from: address, to: address.checked_add(size)? }),
            (Some(from), _) => return (address > from).then_some(Text { from, to: address }),
        }
    }
}

/// The size of the kernel's text by where it lies in memory; addresses are zeros for whoever may not know them.
fn size_of_text(memory: &str) -> Option<u64> {
    let line = memory.lines().find(|line| line.ends_with(" : Kernel code"))?;
    let (from, to) = line.trim().split_once(' ')?.0.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (from, to) = (hex(from)?, hex(to)?);
    (to > from).then(|| to - from + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_and_hidden_addresses_are_none() {
        let symbols =
            b"0000000000000000 A fixed\nffffffff81000000 T _text\nffffffff81000000 T startup\nffffffff82200000 T _etext\n";
        let text = Some(Text { from: 0xffff_ffff_8100_0000, to: 0xffff_ffff_8220_0000 });
        assert_eq!(text_of(&symbols[..], None), text);
        assert_eq!(text_of(&symbols[..], Some(0x120_0000)), text);
        assert_eq!(text_of(&b"0000000000000000 T _text\n0000000000000000 T _etext\n"[..], None), None);
        assert_eq!(text_of(&b""[..], Some(5)), None);
    }

    #[test]
    fn the_texts_size_is_told_to_root_alone() {
        let memory = "00000000-00000fff : Reserved\n00100000-bfffffff : System RAM\n  01000000-02209987 : Kernel code\n";
        assert_eq!(size_of_text(memory), Some(0x120_9988));
        assert_eq!(size_of_text("  00000000-00000000 : Kernel code\n"), None);
    }
}
