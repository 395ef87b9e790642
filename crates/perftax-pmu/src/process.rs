//! Processes as /proc shows them (proc(5)): their threads, whether they run, what they have mapped.

use std::path::{Path, PathBuf};

use perftax_symbols::Mapping;

use crate::{Error, Result};

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
    // The name may hold anything, the state stands behind it. Z: it has ended, and nobody has asked.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A file of a process in /proc that threads which have ended do not have: `maps`, `mem`, `exe`, `root`, `cmdline`.
pub fn file_of(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/{name}", running_thread(pid).unwrap_or(pid)))
}

/// A file as a process sees it, whatever is mounted where; as we see it where that cannot be looked at.
pub fn seen_by(pid: u32, path: &Path) -> PathBuf {
    let seen = file_of(pid, "root").join(path.strip_prefix("/").unwrap_or(path));
    if seen.exists() { seen } else { path.into() }
}

/// What a process was started as; nothing where it is gone, or a thread of the kernel's.
pub fn command_line(pid: u32) -> Vec<String> {
    let line = std::fs::read(file_of(pid, "cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
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
        assert!(seen_by(running.0.id(), &program).exists());
        assert!(maps(u32::MAX).unwrap_err().to_string().contains("/proc/4294967295/maps"));
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
