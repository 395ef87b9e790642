//! What a program was before it was watched: its threads, their names, its code.

use perftax_pmu::process::{maps, running_threads};
use perftax_pmu::record::{Encoder, MappedCode, Task};
use perftax_target::thread_name;
use std::os::unix::ffi::OsStrExt;

/// Records that say so of a process; of one that is gone, or may not be looked at, what can be had.
pub fn known(encoder: &Encoder, pid: u32) -> Vec<u8> {
    let mut records = Vec::new();
    let main = Task { pid, tid: pid };
    for tid in running_threads(pid) {
        let task = Task { pid, tid: tid as u32 };
        if task != main {
            records.extend(encoder.fork(task, main));
        }
        if let Some(name) = thread_name(pid, tid) {
            records.extend(encoder.comm(task, name.as_bytes()));
        }
    }
    for mapping in maps(pid).unwrap_or_default().iter().filter(|mapping| mapping.is_code) {
        let path = mapping.path.as_os_str().as_bytes();
        let code = MappedCode {
            address: mapping.from,
            length: mapping.to - mapping.from,
            file_offset: mapping.file_offset,
            path: if path.is_empty() { b"//anon" } else { path },
            device: mapping.file_id.map_or((0, 0), |id| id.device),
            inode: mapping.file_id.map_or(0, |id| id.inode),
        };
        records.extend(encoder.mmap2(main, &code));
    }
    records
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use perftax_pmu::record::{Header, Layout, Record, decode, stream};

    #[test]
    fn this_very_process_is_known() {
        let layout = Layout::default();
        let pid = std::process::id();
        let records = known(&Encoder::new(&layout), pid);
        let (mut names, mut files) = (Vec::new(), Vec::new());
        for raw in stream(&records) {
            let raw = raw.unwrap();
            assert!(usize::from(raw.header.size) >= Header::BYTES);
            match decode(raw.header, raw.body, &layout).unwrap() {
                Record::Comm(comm) => names.push(comm.task.tid),
                Record::Mmap2(map) => files.push(String::from_utf8_lossy(map.mapping.path).into_owned()),
                Record::Fork(fork) => assert_eq!(fork.parent, Task { pid, tid: pid }),
                other => panic!("{other:?}"),
            }
        }
        assert!(names.contains(&pid), "{names:?}");
        assert!(files.iter().any(|file| file.contains("libc")) && files.iter().any(|file| file == "[vdso]"), "{files:?}");
    }
}
