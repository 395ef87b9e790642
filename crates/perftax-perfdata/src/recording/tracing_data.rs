//! Names of tracepoints by their numbers, out of the tracing data that a recording carries: the format files of tracefs
//! (`tools/perf/util/trace-event-info.c`; trace-cmd.dat(5) before its options).

use std::collections::BTreeMap;

use super::bytes::{Cursor, Order, text};

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// `system:name` by number; what cannot be read is left out.
pub(super) fn tracepoints(bytes: &[u8]) -> BTreeMap<u64, String> {
    let mut names = BTreeMap::new();
    // What is read up to the damage counts.
    let _ = read(bytes, &mut names);
    names
}

fn read(bytes: &[u8], names: &mut BTreeMap<u64, String>) -> Option<()> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let version = rest.iter().position(|byte| *byte == 0)?;
    let rest = &rest[version + 1..];
    let order = if *rest.first()? == 0 { Order::Little } else { Order::Big };
    // The size of a long, and of a page.
    let mut cursor = Cursor::new(order, rest.get(6..)?);
    for header in ["header_page\0", "header_event\0"] {
        cursor.take(header.len())?;
        section(&mut cursor)?;
    }
    let ftrace = cursor.u32()?;
    for _ in 0..ftrace {
        section(&mut cursor)?;
    }
    let systems = cursor.u32()?;
    for _ in 0..systems {
        let system = cursor.c_string()?;
        let events = cursor.u32()?;
        for _ in 0..events {
            let format = text(section(&mut cursor)?);
            let field = |key: &str| format.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
            if let (Some(name), Some(Ok(id))) = (field("name:"), field("ID:").map(str::parse)) {
                names.insert(id, format!("{system}:{name}"));
            }
        }
    }
    Some(())
}

/// A length of eight bytes, and so much.
fn section<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let bytes = cursor.u64()?;
    cursor.take(usize::try_from(bytes).ok()?)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Tracing data of one tracepoint.
    pub fn of(id: u64, system: &str, name: &str) -> Vec<u8> {
        let sized = |bytes: &[u8]| [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat();
        let format = format!("name: {name}\nID: {id}\nformat:\n\tfield:int x;\n");
        [
            MAGIC,
            b"0.6\0\0\x08\0\x10\0\0",
            b"header_page\0",
            &sized(b"page"),
            b"header_event\0",
            &sized(b"event"),
            &1_u32.to_le_bytes(),
            &sized(b"name: function\nID: 1\n"),
            &1_u32.to_le_bytes(),
            system.as_bytes(),
            b"\0",
            &1_u32.to_le_bytes(),
            &sized(format.as_bytes()),
        ]
        .concat()
    }

    #[test]
    fn a_number_is_named() {
        let bytes = of(314, "sched", "sched_switch");
        assert_eq!(tracepoints(&bytes), BTreeMap::from([(314, "sched:sched_switch".to_string())]));
        for cut in 0..bytes.len() {
            assert!(tracepoints(&bytes[..cut]).is_empty());
        }
    }
}
