//! Which sockets a process has open (proc(5), `/proc/PID/fd`).

use std::fs::read_link;
use std::path::Path;

use perftax_pmu::process::file_of;

/// Its descriptors that are sockets, each with the socket's number.
pub(super) fn open_sockets(pid: u32) -> Vec<(i32, u64)> {
    let entries = std::fs::read_dir(file_of(pid, "fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, socket_of(&entry.path())?))).collect()
}

/// The number of the socket that a descriptor is of.
pub(super) fn socket(pid: u32, fd: i32) -> Option<u64> {
    socket_of(&file_of(pid, "fd").join(fd.to_string()))
}

fn socket_of(descriptor: &Path) -> Option<u64> {
    let link = read_link(descriptor).ok()?;
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}
