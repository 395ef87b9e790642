//! Processes as /proc shows them (proc(5)): their threads, whether they run, what they have mapped.

mod standing;
mod thread_memory;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use perftax_symbols::{FileId, FileKey, Mapping};

use crate::{Error, Result};
pub use standing::{Standing, own_number};
pub use thread_memory::{Memory, ThreadVariable};

/// A process's threads, those among them that have ended but were not reaped; none where it is gone.
pub fn threads(pid: u32) -> Vec<i32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Those of them that have not ended: what events can be opened on.
pub fn running_threads(pid: u32) -> Vec<i32> {
    threads(pid).into_iter().filter(|tid| runs(pid, *tid)).collect()
}

/// Whether no thread of a process is left to run. The first one may end before the others: it stays as a zombie until they have ended,
/// and by itself says nothing.
pub fn has_ended(pid: u32) -> bool {
    running_thread(pid).is_none()
}

/// Whether a filter decides about a process's system calls (seccomp(2)): one that it was not made for may kill it. One that is gone has none.
pub fn has_call_filter(pid: u32) -> bool {
    let status = std::fs::read_to_string(file_of(pid, "status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("Seccomp:")).is_some_and(|mode| mode.trim() != "0")
}

/// A thread of a process that has not ended: the first one where it runs, else another. /proc shows a process's memory, mappings, root
/// and program by each of its threads, but by none that has ended.
pub fn running_thread(pid: u32) -> Option<u32> {
    // Those of a few hundred are asked only where the first one has ended.
    if runs(pid, pid as i32) {
        return Some(pid);
    }
    threads(pid).into_iter().find(|tid| runs(pid, *tid)).map(|tid| tid as u32)
}

fn runs(pid: u32, tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    // Z: it has ended, and nobody has asked.
    standing::field(&stat, 3).is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// A process's folder in /proc, by a thread of it that has not ended.
fn folder_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{}", running_thread(pid).unwrap_or(pid)))
}

/// A file of a process in /proc that threads which have ended do not have: `maps`, `mem`, `exe`, `root`, `cmdline`.
pub fn file_of(pid: u32, name: &str) -> PathBuf {
    folder_of(pid).join(name)
}

/// Where the file can be read that a process has mapped there, and no other that lies at its path by now, or in another mount namespace: at its path as the process
/// sees it; where it was deleted, by the process's own links to what it has mapped; of a process that is gone, at its path as we see it. None where that is
/// another file, or cannot be told. A file is told by its number, which a new one may be given once the old one is gone.
pub fn mapped_file(pid: u32, mapping: &Mapping) -> Option<PathBuf> {
    let path = undeleted(mapping.file()?);
    let process = folder_of(pid);
    let seen = process.join("root").join(path.strip_prefix("/").unwrap_or(path));
    let look = |place: &Path| std::fs::metadata(place).ok().filter(Metadata::is_file).map(|file| FileId::of(&file));
    let Some(id) = mapping.file_id else {
        // Nobody told which one it is: what the process sees there, unless that was deleted.
        return (path == mapping.path).then_some(seen).filter(|seen| look(seen).is_some());
    };
    let is_it = |place: &Path| look(place).is_some_and(|other| other.is(&id));
    if is_it(&seen) {
        return Some(seen);
    }
    // An overlay may number a file otherwise than its mappings do: there its name tells.
    let links = [process.join("exe"), process.join(format!("map_files/{:x}-{:x}", mapping.from, mapping.to))];
    let is_named = |link: &Path| {
        let is_of_no_disk = look(link).is_some_and(|other| other.device.0 == 0);
        is_of_no_disk && std::fs::read_link(link).is_ok_and(|target| undeleted(&target) == path)
    };
    if let Some(link) = links.into_iter().find(|link| is_it(link) || is_named(link)) {
        return Some(link);
    }
    let is_mapped_now = || maps(pid).unwrap_or_default().iter().any(|now| now.path == path && now.file_id == Some(id));
    if look(&seen).is_some_and(|other| other.device.0 == 0) && is_mapped_now() {
        return Some(seen);
    }
    Some(path.to_path_buf()).filter(|path| is_it(path))
}

/// A path without what /proc says behind it of a file that was deleted.
pub fn undeleted(path: &Path) -> &Path {
    path.as_os_str().as_bytes().strip_suffix(b" (deleted)").map_or(path, |path| Path::new(OsStr::from_bytes(path)))
}

/// That file, opened: it stays the same one whatever becomes of its path.
pub fn open_mapped(pid: u32, mapping: &Mapping) -> Option<File> {
    File::open(mapped_file(pid, mapping)?).ok()
}

/// Where a file that is open can be read by its path, while it is.
pub fn place_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Files that processes have mapped, opened when that was told: later their processes are gone, and others may lie at their paths.
#[derive(Debug, Default)]
pub struct MappedFiles {
    held: HashMap<FileKey, File>,
}

impl MappedFiles {
    /// Files that are held open at most: what is mapped beyond is looked for when it is asked for.
    const MOST: usize = 256;

    /// Opens the file of a mapping, where it was not opened before and is to be had.
    pub fn hold(&mut self, pid: u32, mapping: &Mapping) {
        let key = mapping.file_key();
        if self.held.len() < Self::MOST
            && !self.held.contains_key(&key)
            && let Some(file) = open_mapped(pid, mapping)
        {
            self.held.insert(key, file);
        }
    }

    /// Where it can be read ([`mapped_file`]), while this lives.
    pub fn place(&self, pid: u32, mapping: &Mapping) -> Option<PathBuf> {
        self.held.get(&mapping.file_key()).map(place_of).or_else(|| mapped_file(pid, mapping))
    }
}

/// What a process was started as; nothing where it is gone, or a thread of the kernel's.
pub fn command_line(pid: u32) -> Vec<String> {
    let line = std::fs::read(file_of(pid, "cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Who traces this thread by ptrace(2), as strace and gdb do: its number and what it is called; nobody where it is outside of our PID namespace. Each system call, signal and exec takes many times as long then.
pub fn tracer() -> Option<(u32, String)> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let pid = tracer_in(&status)?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some((pid, name.trim_end().into()))
}

fn tracer_in(status: &str) -> Option<u32> {
    let pid = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?.trim().parse().ok()?;
    (pid != 0).then_some(pid)
}

/// Why a process (or a thread, by its number) may not be watched: whoever asks is neither its owner nor allowed to trace others (`ptrace_may_access`, which
/// perf_event_open(2) and /proc/PID/maps ask alike). None where it may, or is gone.
pub fn refusal(pid: u32) -> Option<Error> {
    let path = file_of(pid, "maps");
    let error = std::fs::File::open(&path).err().filter(|error| error.kind() == std::io::ErrorKind::PermissionDenied)?;
    Some(Error::Permission {
        what: format!("watch process {pid}"),
        knob: format!("the right to trace it ({})", path.display()),
        value: format!("refused ({error})"),
        needed: "its owner, or CAP_SYS_PTRACE".into(),
        command: "run perftax as that user, or as root".into(),
    })
}

/// What a process has mapped, in the order of addresses.
///
/// # Errors
/// Where it is gone, or may not be looked at ([`refusal`]).
pub fn maps(pid: u32) -> Result<Vec<Mapping>> {
    let path = file_of(pid, "maps");
    match std::fs::read(&path) {
        Ok(text) => Ok(Mapping::parse_all(&text)),
        Err(error) => Err(refusal(pid).unwrap_or_else(|| Error::file(&path)(error))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use std::process::{Child, Command, Stdio};

    /// Ends with its test.
    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }

    #[test]
    fn a_program_below_a_folder_with_spaces_is_among_its_maps() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("a  folder of programs/sleep for long");
        std::fs::create_dir(program.parent().unwrap()).unwrap();
        std::fs::copy("/bin/sleep", &program).unwrap();
        let running = Running(Command::new(&program).arg("60").stdin(Stdio::null()).spawn().unwrap());
        let program = program.canonicalize().unwrap();
        let is_there = || maps(running.0.id()).unwrap().iter().any(|line| line.path == program && line.is_code);
        // It is spawned before the kernel has mapped all of it.
        let began = std::time::Instant::now();
        while !is_there() {
            assert!(began.elapsed().as_secs() < 30, "{:?}", maps(running.0.id()));
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let map = maps(running.0.id()).unwrap().into_iter().find(|line| line.path == program && line.is_code).unwrap();
        assert!(mapped_file(running.0.id(), &map).unwrap().ends_with(program.strip_prefix("/").unwrap()));
        assert!(maps(u32::MAX).unwrap_err().to_string().contains("/proc/4294967295/maps"));
    }

    #[test]
    fn a_tracer_is_told() {
        assert_eq!(tracer_in("Name:\tsh\nTracerPid:\t4711\nUid:\t0\n"), Some(4711));
        assert_eq!((tracer_in("TracerPid:\t0\n"), tracer_in("Name:\tsh\n")), (None, None));
    }

    /// Another build lies at a program's path while it runs, and after it has ended.
    #[test]
    fn a_file_that_was_replaced_is_not_the_one_that_is_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let program = folder.join("sleep");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let running = Running(Command::new(&program).arg("60").stdin(Stdio::null()).spawn().unwrap());
        let pid = running.0.id();
        let code = || maps(pid).unwrap().into_iter().find(|line| line.path.starts_with(&program) && line.is_code);
        let began = std::time::Instant::now();
        while code().is_none() {
            assert!(began.elapsed().as_secs() < 30, "{:?}", maps(pid));
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let map = code().unwrap();
        assert!(map.file_id.is_some());
        let other = folder.join("other");
        std::fs::write(&other, "another build").unwrap();
        std::fs::rename(&other, &program).unwrap();
        let found = mapped_file(pid, &map).unwrap();
        assert_eq!(std::fs::read(&found).unwrap(), std::fs::read("/bin/sleep").unwrap(), "{}", found.display());
        let later = maps(pid).unwrap().into_iter().find(|line| line.is_code && line.from == map.from).unwrap();
        assert!(later.path.to_str().unwrap().ends_with("sleep (deleted)") && mapped_file(pid, &later).is_some(), "{later:?}");
        drop(running);
        assert_eq!(mapped_file(pid, &map), None);
        let here = Mapping { file_id: Some(FileId::of(&std::fs::metadata(&program).unwrap())), ..map };
        assert_eq!(mapped_file(pid, &here), Some(program), "it is gone, and the file is the one");
    }

    /// perl cannot end one thread of several, so it is C.
    #[test]
    fn a_process_without_its_first_thread_runs_on() {
        let source = "#include <pthread.h>\n#include <unistd.h>\n\
            static void *rest(void *x) { char c; read(0, &c, 1); return x; }\n\
            int main(void) { pthread_t t; pthread_create(&t, 0, rest, 0); pthread_exit(0); }\n";
        let folder = tempfile::tempdir().unwrap();
        let (text, program) = (folder.path().join("a.c"), folder.path().join("a) S (b"));
        std::fs::write(&text, source).unwrap();
        assert!(Command::new("cc").args(["-pthread", "-o"]).args([&program, &text]).status().unwrap().success());
        let mut running = Running(Command::new(&program).stdin(Stdio::piped()).spawn().unwrap());
        let pid = running.0.id();
        let began = std::time::Instant::now();
        while running_thread(pid) == Some(pid) {
            assert!(began.elapsed().as_secs() < 30, "its first thread does not end");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(!has_ended(pid));
        assert_eq!((threads(pid).len(), running_threads(pid).len()), (2, 1));
        assert!(maps(pid).unwrap().iter().any(|line| line.path == program.canonicalize().unwrap()));
        assert_eq!(std::fs::read_link(file_of(pid, "exe")).unwrap(), program.canonicalize().unwrap());
        drop(running.0.stdin.take());
        while !has_ended(pid) {
            assert!(began.elapsed().as_secs() < 30, "it does not end");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(has_ended(u32::MAX), "no such process");
    }
}
