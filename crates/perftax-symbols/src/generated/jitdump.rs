//! `jit-PID.dump`: records of code that was loaded or moved (tools/perf/Documentation/jitdump-specification.txt, version 1, Linux 4.6 on).

use super::GeneratedCode;

/// `JiTD`, as a number of the machine that wrote it.
const MAGIC: u32 = 0x4A69_5444;
/// Of the head: where its own size stands. Of a record: number, size, time.
const HEAD_BYTES: usize = 40;
const RECORD_BYTES: usize = 16;
/// Records that say where code lies; others say more of it, or that no more comes.
const LOADED: u32 = 0;
const MOVED: u32 = 1;

impl GeneratedCode {
    /// Reads what a runtime has written so far; none where it is no such file of a machine like this one. A record that is being written ends it.
    pub fn of_jitdump(bytes: &[u8]) -> Option<Self> {
        let head_bytes = word(bytes, 8)? as usize;
        if word(bytes, 0)? != MAGIC || head_bytes < HEAD_BYTES {
            return None;
        }
        let mut code = Self::default();
        let mut rest = bytes.get(head_bytes..)?;
        while let (Some(what), Some(size)) = (word(rest, 0), word(rest, 4)) {
            let size = size as usize;
            let Some(body) = rest.get(RECORD_BYTES..size).filter(|_| size >= RECORD_BYTES) else { break };
            match what {
                LOADED => code.loaded(body),
                MOVED => code.moved(body),
                _ => None,
            };
            rest = &rest[size..];
        }
        Some(code)
    }

    /// Process, thread, address, address of the code, its size, its number, name, and the code itself.
    fn loaded(&mut self, body: &[u8]) -> Option<()> {
        let (from, bytes) = (long(body, 16)?, long(body, 24)?);
        let name = body.get(40..)?.split(|byte| *byte == 0).next()?;
        self.put(from, bytes, String::from_utf8_lossy(name).into_owned());
        Some(())
    }

    /// Process, thread, address, where the code was, where it is, its size, its number.
    fn moved(&mut self, body: &[u8]) -> Option<()> {
        let (was, is, bytes) = (long(body, 16)?, long(body, 24)?, long(body, 32)?);
        // What was sampled before it moved lies where it was.
        let name = self.functions.get(&was)?.1.clone();
        self.put(is, bytes, name);
        Some(())
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn record(what: u32, body: &[u8]) -> Vec<u8> {
        let size = (RECORD_BYTES + body.len()) as u32;
        [&what.to_ne_bytes()[..], &size.to_ne_bytes(), &77u64.to_ne_bytes(), body].concat()
    }

    fn loaded(from: u64, name: &str, code: &[u8]) -> Vec<u8> {
        let numbers = [from, from, code.len() as u64, 1].map(u64::to_ne_bytes).concat();
        record(LOADED, &[&7u32.to_ne_bytes()[..], &7u32.to_ne_bytes(), &numbers, name.as_bytes(), b"\0", code].concat())
    }

    fn moved(was: u64, is: u64, bytes: u64) -> Vec<u8> {
        let numbers = [is, was, is, bytes, 1].map(u64::to_ne_bytes).concat();
        record(MOVED, &[&7u32.to_ne_bytes()[..], &7u32.to_ne_bytes(), &numbers].concat())
    }

    #[test]
    fn records_are_read_up_to_the_one_that_is_being_written() {
        let head: Vec<u8> = [MAGIC, 1, HEAD_BYTES as u32, 62, 0, 7, 0, 0, 0, 0].map(u32::to_ne_bytes).concat();
        let last = loaded(0x9000, "late", &[0x90; 8]);
        let records = [
            loaded(0x1000, "first", &[0x90; 16]),
            record(2, &[1; 20]),
            moved(0x1000, 0x2000, 16),
            moved(0x5000, 0x6000, 16),
            last[..50].to_vec(),
        ];
        let file = [head, records.concat()].concat();
        let code = GeneratedCode::of_jitdump(&file).unwrap();
        assert_eq!(
            [0x100f, 0x1010, 0x2000, 0x6000, 0x9000].map(|at| code.function(at)),
            [Some("first"), None, Some("first"), None, None]
        );
        assert_eq!(GeneratedCode::of_jitdump(b"JiTD"), None);
        assert_eq!(GeneratedCode::of_jitdump(&[0; 100]), None);
        // A record that says that it has no length must not be read for ever.
        let odd = [&file[..HEAD_BYTES], &[0; 32]].concat();
        assert_eq!(GeneratedCode::of_jitdump(&odd).map(|code| code.count()), Some(0));
    }
}
