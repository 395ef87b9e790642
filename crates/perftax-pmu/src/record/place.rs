//! Where tasks live: control groups and namespaces.

use super::cursor::Cursor;
use super::header::Header;
use super::sample_id::{SampleId, Task};
use crate::Result;

/// `PERF_RECORD_CGROUP`: the path of a control group's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroup<'a> {
    /// As in samples' `CGROUP`.
    pub id: u64,
    /// Its path, without NUL.
    pub path: &'a [u8],
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// `PERF_RECORD_NAMESPACES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces<'a> {
    /// Whose.
    pub task: Task,
    links: &'a [[u8; 16]],
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// One namespace: the file under `/proc/PID/ns` that it is. In order: net, uts, ipc, pid, user, mnt, cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NamespaceLink {
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
}

impl<'a> Cgroup<'a> {
    pub(super) fn decode(header: Header, body: &'a [u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        Ok(Self { id: cursor.u64("id")?, path: cursor.text("path")?, sample_id })
    }
}

impl<'a> Namespaces<'a> {
    pub(super) fn decode(header: Header, body: &'a [u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let task = Task::decode(cursor)?;
        let count = cursor.u64("number of namespaces")?;
        let links = cursor.chunks(count, "namespaces")?;
        cursor.finish()?;
        Ok(Self { task, links, sample_id })
    }

    /// The namespaces in the kernel's order.
    pub fn links(&self) -> impl ExactSizeIterator<Item = NamespaceLink> + use<'a> {
        self.links.iter().map(|link| {
            let word = u128::from_le_bytes(*link);
            NamespaceLink { device: word as u64, inode: (word >> 64) as u64 }
        })
    }
}
