//! What a process that runs has mapped.

use perftax_model::run::Mapping;
use perftax_pmu::Result;
use perftax_pmu::process::{MapLine, maps};

/// Everything that a process has mapped now, in the order of addresses; memory of no file has an empty path, or one in brackets.
///
/// # Errors
/// Where the process is gone, or belongs to somebody else.
pub fn mappings_of(pid: u32) -> Result<Vec<Mapping>> {
    let mapping = |line: MapLine| {
        let path = line.path.to_string_lossy().into_owned();
        Mapping { start: line.from, end: line.to, offset: line.file_offset, path }
    };
    Ok(maps(pid)?.into_iter().map(mapping).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

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
