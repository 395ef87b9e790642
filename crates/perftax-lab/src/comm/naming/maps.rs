//! What a process that runs has mapped.

use std::path::PathBuf;

use perftax_model::run::Mapping;
use perftax_pmu::{Error, Result};

/// Everything that a process has mapped now, in the order of addresses; memory of no file has an empty path, or one in brackets.
///
/// # Errors
/// Where the process is gone, or belongs to somebody else.
pub fn mappings_of(pid: u32) -> Result<Vec<Mapping>> {
    let path = PathBuf::from(format!("/proc/{pid}/maps"));
    let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
    Ok(text.lines().filter_map(mapping).collect())
}

/// A line of `/proc/PID/maps` (proc(5)): range, permissions, offset, device, inode, and a path, which may hold spaces.
fn mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let (field, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = behind;
        field
    };
    let (start, end) = field().split_once('-')?;
    let _permissions = field();
    let offset = field();
    let (_device, _inode) = (field(), field());
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Mapping { start: hex(start)?, end: hex(end)?, offset: hex(offset)?, path: rest.trim_start().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let found = mapping("7f10-7f20 r-xp 00001000 fe:00 1234     /opt/a program (deleted)").unwrap();
        assert_eq!(
            (found.start, found.end, found.offset, found.path.as_str()),
            (0x7f10, 0x7f20, 0x1000, "/opt/a program (deleted)")
        );
        let found = mapping("7f10-7f20 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!((found.start, found.path.as_str()), (0x7f10, ""));
        assert_eq!(mapping("7ffd0-7ffe0 rw-p 00000000 00:00 0                          [stack]").unwrap().path, "[stack]");
        assert_eq!(mapping("no line of maps"), None);
    }

    #[test]
    fn our_own_are_there() {
        let own = mappings_of(std::process::id()).unwrap();
        let here = own_code as *const () as u64;
        let found = own.iter().find(|mapping| (mapping.start..mapping.end).contains(&here)).unwrap();
        assert_eq!(std::path::Path::new(&found.path), std::env::current_exe().unwrap());
        assert!(mappings_of(u32::MAX).unwrap_err().to_string().contains("/proc/4294967295/maps"));
    }

    fn own_code() {}
}
