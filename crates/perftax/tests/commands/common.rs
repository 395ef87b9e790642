//! What tests of several commands share.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whether these tests are root's.
pub fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

/// A process that ends with its test, whatever becomes of that.
pub struct Running(pub Child);

impl Running {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until something is so of it.
    pub fn until(&mut self, what: &str, is_so: impl Fn(u32) -> bool) {
        let began = Instant::now();
        while !is_so(self.pid()) {
            assert!(self.0.try_wait().unwrap().is_none(), "it has ended, and not {what}");
            assert!(began.elapsed() < Duration::from_secs(60), "not {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Held by who measures: what one makes of the CPUs and the kernel's knobs is not to be another's trouble.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One measures at a time.
pub fn one_at_a_time<T>(work: impl FnOnce() -> T) -> T {
    let _turn = turn();
    work()
}

/// Runs a command that measures.
pub fn perftax(arguments: &[&str]) -> Output {
    one_at_a_time(|| Command::new(env!("CARGO_BIN_EXE_perftax")).args(arguments).env("NO_COLOR", "1").output().unwrap())
}

/// What it said on stderr.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Was it refused for what others do on this machine: blocks that they disturbed, arms without an event that differ (which one honest
/// control in a hundred finds by chance)? That is not what a test asks.
pub fn is_the_machines_fault(said: &str) -> bool {
    said.contains("quieten the machine") && !said.contains("no sample came")
}

/// Compiles a program of perftax-trace's tests into a folder; the marks' header is found.
pub fn traced(name: &str, compiler: &str, options: &[&str], folder: &Path) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = folder.join(name.trim_end_matches(".c").trim_end_matches(".cc"));
    let mut command = Command::new(compiler);
    command.args(["-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
    command.arg(crates.join("perftax-tag/include")).args(options).arg("-o").arg(&program);
    command.arg(crates.join("perftax-trace/tests/programs").join(name));
    assert!(command.status().unwrap().success(), "{compiler} {options:?} {name}");
    program
}

/// The first child of a process's first thread, where it has one.
pub fn child(pid: u32) -> Option<String> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().next().map(String::from)
}

/// Copies what is to be executed, by another process: a child that another test forks would hold a descriptor of ours open for a moment, and what is open for
/// writing cannot be executed (ETXTBSY, execve(2)).
pub fn copy_executable(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success(), "{} to {}", from.display(), to.display());
}
