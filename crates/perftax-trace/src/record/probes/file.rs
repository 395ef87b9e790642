//! The file that has the places.

use std::path::{Path, PathBuf};

use perftax_doc::steps::Setting;
use perftax_pmu::process::{file_of, mapped_file, maps, undeleted};
use perftax_pmu::{Error, Result};
use perftax_symbols::{FileId, Mapping};
use perftax_target::Subject;

/// The file that was named, or the program itself: as it is called, and where it can be read. Of a process that runs it is what that has mapped, which may lie in another mount namespace,
/// or be gone from its path.
///
/// # Errors
/// Where there is no such file, or the process has not mapped it.
pub(super) fn find(named: Option<&Path>, subject: &Subject) -> Result<(PathBuf, PathBuf)> {
    match subject {
        Subject::Command(_) => {
            let found = named.map_or_else(|| executed(&subject.program()), Path::to_path_buf);
            let found = found.canonicalize().map_err(Error::file(&found))?;
            Ok((found.clone(), found))
        }
        Subject::Processes(pids) => {
            // Whichever of them has it.
            let found = pids.iter().find_map(|pid| mapped(*pid, named).ok());
            found.map_or_else(|| mapped(pids.first().copied().unwrap_or_default(), named), Ok)
        }
    }
}

/// A command's program, as a shell finds it.
fn executed(program: &Path) -> PathBuf {
    if program.components().count() > 1 {
        return program.into();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let files = std::env::split_paths(&folders).map(|folder| folder.join(program));
    files.into_iter().find(|file| file.is_file()).unwrap_or_else(|| program.into())
}

fn mapped(pid: u32, named: Option<&Path>) -> Result<(PathBuf, PathBuf)> {
    let maps = maps(pid)?;
    let called = match named {
        Some(path) => path.to_path_buf(),
        None => {
            let link = file_of(pid, "exe");
            std::fs::read_link(&link).map_err(Error::file(&link))?
        }
    };
    // What is called otherwise may be a link to it, there or here.
    let there = file_of(pid, "root").join(called.strip_prefix("/").unwrap_or(&called));
    let ids: Vec<FileId> =
        [&there, &called].into_iter().filter_map(|path| Some(FileId::of(&std::fs::metadata(path).ok()?))).collect();
    let is_it = |mapping: &&Mapping| mapping.file_id.is_some_and(|id| ids.iter().any(|other| other.is(&id)));
    let code = || maps.iter().filter(|mapping| mapping.is_code);
    let is_called = |mapping: &&Mapping| undeleted(&mapping.path) == undeleted(&called);
    let found = code().find(is_called).or_else(|| code().find(is_it));
    let wrong = |needed: String| {
        let value = called.display().to_string();
        Error::Argument { argument: Setting::Tag.name(), value, needed }
    };
    let Some(mapping) = found else {
        let mut files: Vec<&Path> = code().filter_map(Mapping::file).collect();
        files.dedup();
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        return Err(wrong(format!(
            "a file that process {pid} has mapped as code, by the path that it has there: {}",
            files.join(", ")
        )));
    };
    let place = mapped_file(pid, mapping)
        .ok_or_else(|| wrong(format!("a file that can be read: what process {pid} has mapped is gone, or root's alone")))?;
    Ok((mapping.path.clone(), place))
}
