//! A child process that waits at a gate before it executes its program, so that events can be opened on it first.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::descendants::{kill_with_descendants, started_by};
use super::exec_image::ExecImage;
use crate::error::{Error, Result};
use crate::interrupt::{check_interrupted, interrupt_descriptor};
use crate::sys::monotonic_ns;

/// Where the child's standard output and error go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// To ours.
    Inherit,
    /// Both to our standard error: our own output goes to standard output.
    ToErrors,
    /// Nowhere.
    Discard,
    /// To whoever calls [`Child::read_output`] and does not let it get full, as the program waits then.
    Pipe,
    /// Standard output nowhere, and standard error to whoever calls [`Child::read_output`], likewise.
    PipeErrors,
}

/// What to execute, and how.
#[derive(Clone, Debug)]
pub struct ChildSpec {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Working directory.
    pub directory: Option<PathBuf>,
    /// Standard input; none means `/dev/null` when output is discarded, else ours.
    pub stdin: Option<PathBuf>,
    /// Standard output and error.
    pub output: Stdio,
    /// CPUs that it may run on; none means all.
    pub cpus: Option<Vec<u32>>,
    /// Variables that it gets beside ours.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether it goes on where we are killed: it is somebody's program, which we only look at. Else the kernel kills it then.
    pub survives: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
}

impl Ended {
    /// Whether a breakpoint, or what the kernel took for one, killed it.
    pub fn is_by_trap(self) -> bool {
        self == Self::Signal(libc::SIGTRAP)
    }
}

/// What the kernel accounted to a process and to those of its children that it waited for (getrusage(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User CPU time.
    pub user_s: f64,
    /// System CPU time.
    pub system_s: f64,
    /// Largest resident set.
    pub max_rss_bytes: u64,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Context switches by waiting.
    pub voluntary_switches: u64,
    /// Context switches by preemption.
    pub involuntary_switches: u64,
}

impl Usage {
    /// CPU time, ns.
    pub fn cpu_ns(&self) -> u64 {
        ((self.user_s + self.system_s) * 1e9) as u64
    }
}

/// The end of a child.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// How it ended.
    pub ended: Ended,
    /// From the opening of the gate to the end, or to where it was told to end.
    pub elapsed_s: f64,
    /// What it used.
    pub usage: Usage,
    /// It was told to end.
    pub stopped: bool,
}

/// For how long a child that is told to end may take for it.
pub const GOES_WITHIN: Duration = Duration::from_secs(2);

/// From one look to the next at what a child says that is told to end.
const LISTENS: Duration = Duration::from_millis(5);

/// A forked child at its gate, or running.
pub struct Child {
    pid: libc::pid_t,
    program: PathBuf,
    gate: Option<File>,
    failure: File,
    output: Option<File>,
    released_ns: u64,
    reaped: bool,
}

impl Child {
    /// Forks a child that stops before it executes the program: `argv`'s first word, looked up in our PATH as execvp(3) does.
    ///
    /// # Errors
    /// Where a file cannot be opened or a process cannot be made. A program that cannot be executed says so in [`Child::wait`].
    pub fn spawn(spec: &ChildSpec) -> Result<Self> {
        Self::spawn_image(spec, ExecImage::of(&spec.argv)?)
    }

    fn spawn_image(spec: &ChildSpec, mut image: ExecImage) -> Result<Self> {
        let program = PathBuf::from(spec.argv.first().ok_or(Error::Argument {
            argument: "COMMAND",
            value: "empty".into(),
            needed: "a program to run, after --".into(),
        })?);
        // Everything that allocates happens before the fork: after it, only async-signal-safe calls are allowed.
        let environment = environment(&spec.environment)?;
        let mut environment_pointers: Vec<_> = environment.iter().map(|a| a.as_ptr()).collect();
        environment_pointers.push(std::ptr::null());
        let directory = spec.directory.as_deref().map(|d| c_string(d.as_os_str().as_bytes())).transpose()?;
        let stdin = match (&spec.stdin, spec.output) {
            (Some(path), _) => Some(open(path, false)?),
            (None, Stdio::Discard | Stdio::Pipe | Stdio::PipeErrors) => Some(open(Path::new("/dev/null"), false)?),
            (None, Stdio::Inherit | Stdio::ToErrors) => None,
        };
        let null = || open(Path::new("/dev/null"), true);
        let shared = |error: io::Error| Error::System { call: "dup".into(), source: error };
        let (output, streams) = match spec.output {
            Stdio::Inherit | Stdio::ToErrors => (None, None),
            Stdio::Discard => (None, Some([null()?, null()?])),
            Stdio::Pipe => {
                let (reading, writing) = output_pipe()?;
                (Some(reading), Some([writing.try_clone().map_err(shared)?, writing]))
            }
            Stdio::PipeErrors => {
                let (reading, writing) = output_pipe()?;
                (Some(reading), Some([null()?, writing]))
            }
        };
        let affinity = spec.cpus.as_deref().map(cpu_set);
        let (gate_read, gate_write) = pipe()?;
        let (failure_read, failure_write) = pipe()?;

        // SAFETY: the child branch calls only async-signal-safe functions, on data prepared above, and ends in exec or _exit.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(Error::System { call: "fork".into(), source: io::Error::last_os_error() });
        }
        if pid == 0 {
            // SAFETY: see above: plain system calls on descriptors and buffers that outlive them.
            unsafe {
                if !spec.survives {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                }
                // Rust ignores SIGPIPE, and what is ignored stays so across exec: a pipeline would then never end.
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                // At its gate it would run our handlers, and live on.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::signal(libc::SIGTERM, libc::SIG_DFL);
                let mut ok = true;
                if let Some(set) = &affinity {
                    ok &= libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) == 0;
                }
                if let Some(file) = &stdin {
                    ok &= libc::dup2(file.as_raw_fd(), 0) >= 0;
                }
                if spec.output == Stdio::ToErrors {
                    ok &= libc::dup2(2, 1) >= 0;
                }
                if let Some([output, errors]) = &streams {
                    ok &= libc::dup2(output.as_raw_fd(), 1) >= 0 && libc::dup2(errors.as_raw_fd(), 2) >= 0;
                }
                if let Some(directory) = &directory {
                    ok &= libc::chdir(directory.as_ptr()) == 0;
                }
                libc::close(gate_write.as_raw_fd());
                let mut byte = 0u8;
                let opened = loop {
                    let got = libc::read(gate_read.as_raw_fd(), (&raw mut byte).cast(), 1);
                    if got >= 0 || *libc::__errno_location() != libc::EINTR {
                        break got;
                    }
                };
                if opened == 1 {
                    let mut errno = *libc::__errno_location();
                    if ok {
                        errno = image.execute(&environment_pointers);
                    }
                    libc::write(failure_write.as_raw_fd(), (&raw const errno).cast(), size_of::<i32>());
                }
                libc::_exit(127)
            }
        }
        Ok(Self {
            pid,
            program,
            gate: Some(File::from(gate_write)),
            failure: File::from(failure_read),
            output,
            released_ns: 0,
            reaped: false,
        })
    }

    /// The child's process number: what events are opened on.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Reads what it has written, where that goes to a pipe ([`Stdio::Pipe`]), and does not wait for more: at most so many bytes, so that who writes on and on
    /// does not hold us up. Returns how many there were.
    pub fn read_output(&self, most: usize, mut take: impl FnMut(&[u8])) -> usize {
        let Some(mut output) = self.output.as_ref() else { return 0 };
        let mut buffer = [0; 1 << 16];
        let mut taken = 0;
        while taken < most {
            match output.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    taken += read;
                    take(&buffer[..read]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // There is no more for now.
                Err(_) => break,
            }
        }
        taken
    }

    /// Opens the gate: the child executes its program.
    pub fn release(&mut self) -> Result<()> {
        let gate = self.gate.take();
        self.released_ns = monotonic_ns();
        if let Some(mut gate) = gate {
            gate.write_all(&[1]).map_err(|source| Error::System { call: "write to the child's gate".into(), source })?;
        }
        Ok(())
    }

    /// Whether it has ended, without reaping it.
    pub fn has_ended(&self) -> bool {
        has_ended(self.pid)
    }

    /// Waits for the end. Where SIGINT or SIGTERM comes first, the child is killed.
    pub fn wait(self) -> Result<Exit> {
        wait_for_end(self.pid)?;
        self.reap(None)
    }

    /// The same, and `ask` is asked when it has run for `first`: for how long to wait on until it is asked once more, or nothing, and the child is told to
    /// end (SIGTERM; after [`GOES_WITHIN`] it is killed with all that it has started).
    ///
    /// # Errors
    /// What `ask` says; the child is killed then.
    pub fn wait_asking(self, first: Duration, mut ask: impl FnMut(&Self, Duration) -> Result<Option<Duration>>) -> Result<Exit> {
        let mut within = first;
        while !ends_within(self.pid, Some(within))? {
            let now_ns = monotonic_ns();
            match ask(&self, Duration::from_nanos(now_ns.saturating_sub(self.released_ns)))? {
                Some(next) => within = next,
                None => {
                    self.end()?;
                    return self.reap(Some(now_ns));
                }
            }
        }
        self.reap(None)
    }

    /// Has it and all that it has started end.
    fn end(&self) -> Result<()> {
        // By descriptors: whose parent has ended is nobody's child that we know, and its number may be another's.
        let started = started_by(self.pid);
        let tell = |signal| {
            for process in &started {
                // One that is gone already is no error.
                pidfd_send_signal(process, signal).ok();
            }
        };
        let until = Instant::now() + GOES_WITHIN;
        self.signal(libc::SIGTERM);
        tell(Signal::TERM);
        if !self.ends_within(GOES_WITHIN)? {
            kill_with_descendants(self.pid, &|_| false);
            wait_for_end(self.pid)?;
        }
        for process in &started {
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
            poll(&mut [PollFd::new(process, PollFlags::IN)], left.as_ref()).ok();
        }
        tell(Signal::KILL);
        Ok(())
    }

    /// Whether it ends within so long, somebody reading what it has to say at its end.
    fn ends_within(&self, time: Duration) -> Result<bool> {
        if self.output.is_none() {
            return ends_within(self.pid, Some(time));
        }
        let until = Instant::now() + time;
        loop {
            if ends_within(self.pid, Some(LISTENS.min(until.saturating_duration_since(Instant::now()))))? {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            self.read_output(OUTPUT_BYTES, |_| ());
        }
    }

    fn reap(mut self, stopped_ns: Option<u64>) -> Result<Exit> {
        let mut status = 0;
        // SAFETY: an all-zero rusage is valid; the kernel fills it.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        loop {
            // SAFETY: `status` and `usage` live across the call; the pid is our own unreaped child.
            let got = unsafe { libc::wait4(self.pid, &mut status, 0, &mut usage) };
            if got == self.pid {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(Error::System { call: "wait4".into(), source: error });
            }
        }
        let elapsed_s = (stopped_ns.unwrap_or_else(monotonic_ns) - self.released_ns) as f64 * 1e-9;
        self.reaped = true;
        let mut errno = [0u8; 4];
        if self.failure.read_exact(&mut errno).is_ok() {
            let source = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
            return Err(Error::Exec { program: self.program.clone(), source });
        }
        let ended = if libc::WIFSIGNALED(status) {
            Ended::Signal(libc::WTERMSIG(status))
        } else {
            Ended::Code(libc::WEXITSTATUS(status))
        };
        Ok(Exit { ended, elapsed_s, usage: Usage::from(usage), stopped: stopped_ns.is_some() })
    }

    /// Sends a signal; a child that is gone already is no error.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the pid is our own unreaped child, so it cannot have been given to another process.
        unsafe { libc::kill(self.pid, signal) };
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            // What it has started would go on beside whatever comes next.
            kill_with_descendants(self.pid, &|_| false);
            // SAFETY: reaps our own child; the status is not wanted.
            unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
        }
    }
}

/// Whether a child of ours has ended, which is not reaped by it.
fn has_ended(pid: i32) -> bool {
    // SAFETY: an all-zero siginfo_t is valid; the kernel fills it.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` lives across the call; of a pid that is no child of ours waitid says so.
    let outcome =
        unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) };
    // SAFETY: waitid has filled the part of the union that si_pid lies in, or left it 0.
    outcome == 0 && unsafe { info.si_pid() } == pid
}

/// Waits for the end of a process, again and again. None of it is needed for anything else: whoever waits looks again.
pub struct EndWait {
    /// None before Linux 5.3, or where it was gone at once.
    descriptor: Option<OwnedFd>,
}

impl EndWait {
    /// Of this process.
    pub fn new(pid: u32) -> Self {
        let pid = rustix::process::Pid::from_raw(pid as i32);
        Self { descriptor: pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) }
    }

    /// Returns when it has ended, or after this time, or earlier where a signal comes.
    pub fn at_most(&self, limit: Duration) {
        let Some((ended, limit)) = self.descriptor.as_ref().zip(Timespec::try_from(limit).ok()) else {
            return std::thread::sleep(limit);
        };
        poll(&mut [PollFd::new(ended, PollFlags::IN)], Some(&limit)).ok();
    }
}

/// Returns when a child of ours has ended, which is not reaped by it.
///
/// # Errors
/// Once SIGINT or SIGTERM has come, be it before this is called.
pub fn wait_for_end(pid: i32) -> Result<()> {
    ends_within(pid, None).map(|_| ())
}

/// Whether it ends within this time; without one it is waited for.
fn ends_within(pid: i32, limit: Option<Duration>) -> Result<bool> {
    let until = limit.map(|limit| Instant::now() + limit);
    let pid = rustix::process::Pid::from_raw(pid);
    // Kernels before 5.3 have no such descriptor: then signals are noticed when the child has ended, or every now and then where there is a limit.
    let Some(Ok(ended)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        while let (Some(until), Some(pid)) = (until, pid) {
            check_interrupted()?;
            if has_ended(pid.as_raw_nonzero().get()) || Instant::now() >= until {
                return Ok(has_ended(pid.as_raw_nonzero().get()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        return Ok(true);
    };
    let mut fds = vec![PollFd::new(&ended, PollFlags::IN)];
    fds.extend(interrupt_descriptor().map(|signal| PollFd::from_borrowed_fd(signal, PollFlags::IN)));
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // wait4 would be restarted after a signal, poll never is (signal(7)).
        match poll(&mut fds, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => check_interrupted()?,
            Ok(0) => return Ok(false),
            // A child that has ended has done its work, signal or not.
            Ok(_) if fds[0].revents().is_empty() => check_interrupted()?,
            _ => return Ok(true),
        }
    }
}

impl From<libc::rusage> for Usage {
    fn from(usage: libc::rusage) -> Self {
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
        Self {
            user_s: seconds(usage.ru_utime),
            system_s: seconds(usage.ru_stime),
            max_rss_bytes: usage.ru_maxrss as u64 * 1024,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }
}

/// Our environment with these variables set, as exec wants it.
fn environment(set: &[(OsString, OsString)]) -> Result<Vec<CString>> {
    let ours = std::env::vars_os().filter(|(name, _)| set.iter().all(|(other, _)| other != name));
    ours.chain(set.iter().cloned()).map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())).collect()
}

pub(super) fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::Argument {
        argument: "COMMAND",
        value: String::from_utf8_lossy(bytes).into_owned(),
        needed: "no NUL bytes".into(),
    })
}

fn open(path: &Path, write: bool) -> Result<File> {
    File::options().read(!write).write(write).open(path).map_err(Error::file(path))
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|e| Error::System { call: "pipe2".into(), source: e.into() })
}

/// For a program's output, read from time to time: as large as anybody may have it, and our end does not block.
fn output_pipe() -> Result<(File, File)> {
    let (reading, writing) = pipe()?;
    // A smaller one does, too.
    fcntl_setpipe_size(&writing, OUTPUT_BYTES).ok();
    ioctl_fionbio(&reading, true).map_err(|e| Error::System { call: "ioctl FIONBIO".into(), source: e.into() })?;
    Ok((reading.into(), writing.into()))
}

/// What a pipe may hold without a privilege (`/proc/sys/fs/pipe-max-size`, pipe(7)).
const OUTPUT_BYTES: usize = 1 << 20;

fn cpu_set(cpus: &[u32]) -> libc::cpu_set_t {
    // SAFETY: an all-zero cpu_set_t is the empty set; CPU_SET checks its bounds.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu as usize, &mut set);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Writes a file with these rights into a folder that is made where it is missing.
    fn file(path: PathBuf, text: &str, rights: u32) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Written by another process: a child that another test forks would hold this one's descriptor open for a moment, and what is open for writing
        // cannot be executed (ETXTBSY).
        let (piped, null) = (std::process::Stdio::piped(), std::process::Stdio::null());
        let mut writer = std::process::Command::new("tee").arg(&path).stdin(piped).stdout(null).spawn().unwrap();
        std::io::Write::write_all(&mut writer.stdin.take().unwrap(), text.as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(rights)).unwrap();
    }

    /// Executes a command in a folder, with this PATH (`@` is the folder): the file `said`, and the program's exit code, or a shell's for one that is not executed.
    fn run(folder: &Path, argv: &[&str], path: Option<&str>) -> (String, u8) {
        let said = folder.join("said");
        std::fs::remove_file(&said).ok();
        let (argv, path) = (argv.iter().map(Into::into).collect(), path.map(|path| path.replace('@', folder.to_str().unwrap())));
        let (directory, output) = (Some(folder.into()), Stdio::Discard);
        let spec = ChildSpec { argv, directory, stdin: None, output, cpus: None, environment: Vec::new(), survives: false };
        let image = ExecImage::in_path(&spec.argv, path.as_deref().map(AsRef::as_ref)).unwrap();
        let mut child = Child::spawn_image(&spec, image).unwrap();
        child.release().unwrap();
        let code = match child.wait() {
            Ok(Exit { ended: Ended::Code(code), .. }) => code as u8,
            Ok(exit) => panic!("{exit:?}"),
            // As shells tell them apart.
            Err(Error::Exec { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => 127,
            Err(Error::Exec { .. }) => 126,
            Err(error) => panic!("{error}"),
        };
        (std::fs::read_to_string(said).unwrap_or_default().trim_end().into(), code)
    }

    /// As `sh` and execvp(3) have it.
    #[test]
    fn programs_are_found_as_execvp_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let script = |text: &str| format!("#!/bin/sh\necho {text} $# \"$1\" >said; exit 7\n");
        file(folder.join("own"), &script("own"), 0o755);
        file(folder.join("a/tool"), &script("a"), 0o755);
        file(folder.join("b/tool"), &script("b"), 0o755);
        file(folder.join("refused/tool"), &script("refused"), 0o644);
        file(folder.join("refused/only"), &script("refused"), 0o644);
        file(folder.join("plain/plain"), "echo plain $# \"$1\" \"$0\" >said; exit 7\n", 0o755);
        file(folder.join("file"), "", 0o644);
        let ran = |argv: &[&str], path: &str| run(folder, argv, Some(path));
        let said = |text: &str| (text.to_string(), 7);

        assert_eq!(ran(&["tool", "x y"], "@/a:@/b"), said("a 1 x y"), "the first one");
        assert_eq!(
            ran(&["tool"], "@/none:@/file:@/refused:@/b"),
            said("b 0"),
            "behind what is not there, no folder, not executable"
        );
        assert_eq!(ran(&["tool"], "a"), said("a 0"), "a relative folder is below the child's");
        for path in ["", ":@/none", "@/none:", "@/none::@/a"] {
            assert_eq!(ran(&["own"], path), said("own 0"), "an empty element of {path:?} is the current folder");
        }
        assert_eq!(ran(&["./own", "1"], "@/none"), said("own 1 1"), "a name with a slash");
        assert_eq!(ran(&["b/tool"], "@/a"), said("b 0"), "a name with a slash is not looked for in PATH");
        let plain = folder.join("plain/plain");
        let by_shell = said(&format!("plain 1 x y {}", plain.display()));
        assert_eq!(ran(&["plain", "x y"], "@/a:@/plain:@/b"), by_shell, "a script without #! is the shell's");
        assert_eq!(ran(&[plain.to_str().unwrap(), "x y"], ""), by_shell);

        assert_eq!(ran(&["only"], "@/refused:@/a"), (String::new(), 126), "EACCES is remembered");
        assert_eq!(ran(&["refused/only"], "@/a"), (String::new(), 126));
        assert_eq!(ran(&["a"], "@"), (String::new(), 126), "a folder");
        assert_eq!(ran(&["no_such"], "@/a:@/b"), (String::new(), 127));
        assert_eq!(ran(&["./no_such"], "@"), (String::new(), 127));
        assert_eq!(ran(&[""], "@"), (String::new(), 127), "a name of nothing");
        assert_eq!(ran(&["own"], "@/none"), (String::new(), 127), "the current folder is not in PATH");
        assert_eq!(run(folder, &["sh", "-c", "exit 7"], None), (String::new(), 7), "without PATH: /bin and /usr/bin");
    }
}
