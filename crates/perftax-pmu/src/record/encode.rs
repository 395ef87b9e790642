//! Records of our own making: what a process was like before anybody watched it.
//!
//! The kernel tells of what a watched task does from then on; whoever reads a recording wants to know what it had done before: its name, its parent,
//! the files mapped into it. Such records have the kernel's form (`include/uapi/linux/perf_event.h`), a time of 0, and a trailer of zeros.

use perf_event_open_sys::bindings as abi;

use super::header::Header;
use super::layout::Layout;
use super::sample_id::Task;

/// `PERF_RECORD_FINISHED_ROUND` of perf's own records (`util/event.h`): what follows is later than all that stood before the last one.
const FINISHED_ROUND: u32 = 68;
/// A record's size is 16 bits.
const LONGEST_NAME: usize = 4096;

/// Makes records for recordings whose events have this layout.
#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    trailer_bytes: usize,
}

/// A file, or what the kernel calls one, mapped as code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedCode<'a> {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Offset in the file, bytes.
    pub file_offset: u64,
    /// Path.
    pub path: &'a [u8],
    /// Device of the file: major, minor.
    pub device: (u32, u32),
    /// Its inode; 0 where it is no file.
    pub inode: u64,
}

impl Encoder {
    /// For records beside samples of this layout.
    pub fn new(layout: &Layout) -> Self {
        Self { trailer_bytes: layout.trailer_bytes() }
    }

    /// `PERF_RECORD_COMM`: what a thread is called.
    pub fn comm(&self, task: Task, name: &[u8]) -> Vec<u8> {
        let body = [words(&[task.pid, task.tid]), padded(name)].concat();
        self.record(abi::PERF_RECORD_COMM, 0, body)
    }

    /// `PERF_RECORD_FORK`: who created a thread or process.
    pub fn fork(&self, task: Task, parent: Task) -> Vec<u8> {
        let body = [words(&[task.pid, parent.pid, task.tid, parent.tid]), vec![0; 8]].concat();
        self.record(abi::PERF_RECORD_FORK, 0, body)
    }

    /// `PERF_RECORD_MMAP2`: code that is mapped into a process.
    pub fn mmap2(&self, task: Task, code: &MappedCode<'_>) -> Vec<u8> {
        /// `PROT_READ | PROT_EXEC`, `MAP_PRIVATE`.
        const RIGHTS: [u32; 2] = [5, 2];
        let (major, minor) = code.device;
        let body = [
            words(&[task.pid, task.tid]),
            longs(&[code.address, code.length, code.file_offset]),
            words(&[major, minor]),
            longs(&[code.inode, 0]),
            words(&RIGHTS),
            padded(code.path),
        ];
        self.record(abi::PERF_RECORD_MMAP2, abi::PERF_RECORD_MISC_USER as u16, body.concat())
    }

    /// `PERF_RECORD_MMAP` of the kernel itself, or a module of it.
    pub fn kernel_mmap(&self, code: &MappedCode<'_>) -> Vec<u8> {
        let body = [words(&[u32::MAX, 0]), longs(&[code.address, code.length, code.file_offset]), padded(code.path)].concat();
        self.record(abi::PERF_RECORD_MMAP, abi::PERF_RECORD_MISC_KERNEL as u16, body)
    }

    /// perf's mark behind each look at all rings.
    pub fn finished_round() -> [u8; Header::BYTES] {
        Header { kind: FINISHED_ROUND, misc: 0, size: Header::BYTES as u16 }.bytes()
    }

    fn record(&self, kind: u32, misc: u16, body: Vec<u8>) -> Vec<u8> {
        let size = (Header::BYTES + body.len() + self.trailer_bytes) as u16;
        let mut record = Header { kind, misc, size }.bytes().to_vec();
        record.extend(body);
        record.resize(usize::from(size), 0);
        record
    }
}

impl Header {
    /// The header as it stands in a ring.
    #[inline]
    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.kind.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.misc.to_le_bytes());
        bytes[6..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A text with at least one NUL behind it, up to a multiple of 8 bytes, cut where it is longer than any path.
fn padded(text: &[u8]) -> Vec<u8> {
    let mut bytes = text[..text.len().min(LONGEST_NAME - 1)].to_vec();
    bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::record::{MappedFile, Record, decode};

    const LAYOUT: Layout = Layout {
        sample_type: (abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_CPU) as u64,
        read_format: 0,
        branch_sample_type: 0,
        sample_regs_user: 0,
        sample_regs_intr: 0,
        sample_id_all: true,
    };

    /// Hands the record's decoding to a check: what is decoded borrows of it.
    fn check(record: &[u8], expected: impl FnOnce(Record<'_>)) {
        let header = Header::parse(record.first_chunk().unwrap());
        assert_eq!(usize::from(header.size), record.len());
        assert!(record.len().is_multiple_of(8), "records are of whole words");
        expected(decode(header, &record[Header::BYTES..], &LAYOUT).unwrap());
    }

    #[test]
    fn what_is_made_reads_as_what_was_meant() {
        let encoder = Encoder::new(&LAYOUT);
        let (task, parent) = (Task { pid: 7, tid: 9 }, Task { pid: 3, tid: 4 });
        for name in [&b"sh"[..], b"1234567", b"12345678"] {
            check(&encoder.comm(task, name), |record| match record {
                Record::Comm(comm) => assert_eq!((comm.task, comm.name, comm.by_exec), (task, name, false)),
                other => panic!("{other:?}"),
            });
        }
        check(&encoder.fork(task, parent), |record| match record {
            Record::Fork(fork) => assert_eq!((fork.task, fork.parent, fork.time_ns), (task, parent, 0)),
            other => panic!("{other:?}"),
        });
        let path = b"/usr/lib/a b.so";
        let code = MappedCode { address: 0x1000, length: 0x2000, file_offset: 0x3000, path, device: (8, 1), inode: 77 };
        check(&encoder.mmap2(task, &code), |record| match record {
            Record::Mmap2(map) => {
                let mapping = map.mapping;
                assert_eq!((mapping.task, mapping.address, mapping.length), (task, 0x1000, 0x2000));
                assert_eq!((mapping.file_offset, mapping.path, mapping.is_data), (0x3000, &path[..], false));
                assert_eq!(map.file, MappedFile::Inode { major: 8, minor: 1, inode: 77, generation: 0 });
            }
            other => panic!("{other:?}"),
        });
        check(&encoder.kernel_mmap(&code), |record| match record {
            Record::Mmap(map) => assert_eq!((map.task.pid, map.path), (u32::MAX, &path[..])),
            other => panic!("{other:?}"),
        });
    }

    #[test]
    fn a_name_that_is_longer_than_any_is_cut() {
        let long = vec![b'x'; 100_000];
        check(&Encoder::new(&LAYOUT).comm(Task { pid: 1, tid: 1 }, &long), |record| match record {
            Record::Comm(comm) => assert_eq!(comm.name.len(), LONGEST_NAME - 1),
            other => panic!("{other:?}"),
        });
    }
}
