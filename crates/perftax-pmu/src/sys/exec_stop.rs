//! A child that is held where it has just executed its program, or where that program begins: what it has mapped can then be looked up, and
//! watched, before its first instruction. It is traced (ptrace(2)) until it is let go, and neither sees signals of ours nor runs code of ours.

use std::io;
use std::time::{Duration, Instant};

use perftax_doc::steps::Setting;

use crate::error::{Error, Result};
use crate::interrupt::check_interrupted;
use crate::sys::Child;

/// From one question whether it has stopped to the next.
const LOOK: Duration = Duration::from_micros(200);
/// `AT_ENTRY` (linux/auxvec.h): where a program begins, behind what the dynamic loader does.
const AT_ENTRY: u64 = 9;

/// Where a traced child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It has executed a program, and none of its instructions: what the kernel maps is there, its libraries are not.
    AtExec,
    /// Its program begins: its libraries are there.
    AtEntry,
    /// It has ended, or is about to, and is not reaped.
    Ended,
    /// It runs: the time was up.
    No,
}

/// A child that stops whenever it executes a program. Killed when dropped without being let go: whoever does that has failed before it began.
pub struct AtExec {
    pid: libc::pid_t,
    /// Whether it is still ours to let go.
    is_traced: bool,
    is_stopped: bool,
}

impl AtExec {
    /// Opens a child's gate such that it stops as soon as it has executed its program.
    ///
    /// # Errors
    /// Where it cannot be traced.
    pub fn release(child: &mut Child) -> Result<Self> {
        let pid = child.pid();
        ptrace(libc::PTRACE_SEIZE, pid, 0, libc::PTRACE_O_TRACEEXEC as usize).map_err(|source| match source.raw_os_error() {
            Some(libc::EPERM) => Error::Permission {
                what: "hold the command where it begins".into(),
                knob: "ptrace of our own child".into(),
                value: "refused".into(),
                needed: "allowed (kernel.yama.ptrace_scope below 3, and no filter of system calls around perftax)".into(),
                command: format!("start the program by itself, and watch it with {} PID", Setting::Process),
            },
            _ => Error::System { call: "ptrace(PTRACE_SEIZE)".into(), source },
        })?;
        let stops = Self { pid, is_traced: true, is_stopped: false };
        child.release()?;
        Ok(stops)
    }

    /// Lets it run on until it has executed a program (again), for so long at most.
    ///
    /// # Errors
    /// Where SIGINT or SIGTERM has come.
    pub fn wait_for_exec(&mut self, longest: Duration) -> Result<Stopped> {
        self.run_on();
        self.wait(longest, Stopped::AtExec)
    }

    /// Stopped at exec, lets its dynamic loader do its work: until the program's first instruction. One that does not get there in time must
    /// be killed: it would end there by itself.
    ///
    /// # Errors
    /// Where its memory cannot be written, SIGINT or SIGTERM has come, or this is no x86.
    pub fn wait_for_entry(&mut self, longest: Duration) -> Result<Stopped> {
        if !cfg!(target_arch = "x86_64") {
            return Err(Error::Unsupported {
                what: "hold a program where it begins".into(),
                why: "only x86's breakpoint instruction is known".into(),
                remedy: format!("start the program by itself, and join it with {} PID", Setting::Process),
            });
        }
        let entry = entry(self.pid)?;
        let failed = |call: &str| {
            let call = format!("ptrace({call})");
            move |source| Error::System { call, source }
        };
        let code = peek(self.pid, entry).map_err(failed("PTRACE_PEEKTEXT"))?;
        // INT3 in the lowest byte. The page is a copy of the process's own.
        ptrace(libc::PTRACE_POKETEXT, self.pid, entry, (code & !0xff | 0xcc) as usize).map_err(failed("PTRACE_POKETEXT"))?;
        self.run_on();
        let stopped = self.wait(longest, Stopped::AtEntry)?;
        if stopped == Stopped::AtEntry {
            ptrace(libc::PTRACE_POKETEXT, self.pid, entry, code as usize).map_err(failed("PTRACE_POKETEXT"))?;
            set_instruction_pointer(self.pid, entry).map_err(failed("PTRACE_POKEUSER"))?;
        }
        Ok(stopped)
    }

    /// Lets it go: it runs, and is traced no more.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn resume(mut self) -> Result<()> {
        self.detach().map_err(|source| Error::System { call: "ptrace(PTRACE_DETACH)".into(), source })
    }

    fn detach(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_traced) || !self.is_stopped {
            return Ok(());
        }
        match ptrace(libc::PTRACE_DETACH, self.pid, 0, 0) {
            // It was killed meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other,
        }
    }

    fn run_on(&mut self) {
        if std::mem::take(&mut self.is_stopped) {
            // Where it was killed meanwhile, the wait that follows says so.
            ptrace(libc::PTRACE_CONT, self.pid, 0, 0).ok();
        }
    }

    /// Waits for the stop that is wanted; signals for the child reach it.
    fn wait(&mut self, longest: Duration, wanted: Stopped) -> Result<Stopped> {
        let until = Instant::now() + longest;
        loop {
            match state(self.pid) {
                State::Ended => {
                    self.is_traced = false;
                    return Ok(Stopped::Ended);
                }
                State::Stopped { signal, event } => {
                    self.is_stopped = true;
                    match (event, signal) {
                        (libc::PTRACE_EVENT_EXEC, _) if wanted == Stopped::AtExec => return Ok(Stopped::AtExec),
                        (0, libc::SIGTRAP) if wanted == Stopped::AtEntry => return Ok(Stopped::AtEntry),
                        // A signal of the child's own, which it gets; stops of other kinds bring none.
                        (0, signal) => {
                            ptrace(libc::PTRACE_CONT, self.pid, 0, signal as usize).ok();
                        }
                        _ => {
                            ptrace(libc::PTRACE_CONT, self.pid, 0, 0).ok();
                        }
                    }
                    self.is_stopped = false;
                }
                State::Running if Instant::now() >= until => return Ok(Stopped::No),
                State::Running => {
                    check_interrupted()?;
                    std::thread::sleep(LOOK);
                }
            }
        }
    }
}

impl Drop for AtExec {
    fn drop(&mut self) {
        if self.is_traced {
            // SAFETY: the pid is our own unreaped child, so it cannot have been given to another process.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
    }
}

enum State {
    Running,
    Stopped { signal: i32, event: i32 },
    Ended,
}

/// What a traced child does; its end is left for whoever reaps it.
fn state(pid: libc::pid_t) -> State {
    let wait = |options: i32| {
        // SAFETY: an all-zero siginfo_t is valid; the kernel fills it.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` lives across the call; the pid is our own unreaped child.
        let outcome = unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, options | libc::WNOHANG | libc::__WALL) };
        // SAFETY: waitid has filled the part of the union that si_pid and si_status lie in, or left it 0.
        let (who, status) = unsafe { (info.si_pid(), info.si_status()) };
        (outcome == 0 && who == pid).then_some((info.si_code, status))
    };
    match wait(libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT) {
        None => State::Running,
        Some((libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED, _)) => State::Ended,
        Some(_) => match wait(libc::WSTOPPED) {
            Some((_, status)) => State::Stopped { signal: status & 0x7f, event: status >> 8 },
            None => State::Running,
        },
    }
}

fn ptrace(request: libc::c_uint, pid: libc::pid_t, address: u64, data: usize) -> io::Result<()> {
    // SAFETY: a request about a child of ours; address and data are numbers, or addresses in the child, and nothing of ours.
    let outcome = unsafe { libc::ptrace(request, pid, address as *mut libc::c_void, data as *mut libc::c_void) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A word of the child's memory.
fn peek(pid: libc::pid_t, address: u64) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let mut word = [0; 8];
    std::fs::File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut word, address)?;
    Ok(u64::from_ne_bytes(word))
}

#[cfg(target_arch = "x86_64")]
fn set_instruction_pointer(pid: libc::pid_t, address: u64) -> io::Result<()> {
    let at = std::mem::offset_of!(libc::user, regs) + std::mem::offset_of!(libc::user_regs_struct, rip);
    ptrace(libc::PTRACE_POKEUSER, pid, at as u64, address as usize)
}

#[cfg(not(target_arch = "x86_64"))]
fn set_instruction_pointer(_: libc::pid_t, _: u64) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Where the program of a process begins.
fn entry(pid: libc::pid_t) -> Result<u64> {
    let path = format!("/proc/{pid}/auxv");
    let bytes = std::fs::read(&path).map_err(Error::file(&path))?;
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    let pair = bytes.chunks_exact(16).find(|pair| word(pair) == AT_ENTRY);
    pair.map(|pair| word(&pair[8..])).ok_or_else(|| Error::Malformed {
        what: path,
        offset: 0,
        why: "it does not say where the program begins (AT_ENTRY)".into(),
    })
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::sys::{ChildSpec, Ended, Stdio};

    const LONG: Duration = Duration::from_secs(20);

    fn child(argv: &[&str]) -> Child {
        let argv = argv.iter().map(Into::into).collect();
        Child::spawn(&ChildSpec {
            argv,
            directory: None,
            stdin: None,
            output: Stdio::Discard,
            cpus: None,
            environment: Vec::new(),
            survives: false,
        })
        .unwrap()
    }

    fn maps(pid: i32) -> String {
        std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap()
    }

    #[test]
    fn libraries_are_there_at_the_entry_and_not_at_exec() {
        let mut child = child(&["sh", "-c", "exec env true && exit 3"]);
        let mut stops = AtExec::release(&mut child).unwrap();
        assert_eq!(stops.wait_for_exec(LONG).unwrap(), Stopped::AtExec);
        assert!(!maps(child.pid()).contains("libc.so"), "{}", maps(child.pid()));
        assert_eq!(stops.wait_for_entry(LONG).unwrap(), Stopped::AtEntry);
        assert!(maps(child.pid()).contains("libc.so"), "{}", maps(child.pid()));
        // What it executes in turn stops, too.
        assert_eq!(stops.wait_for_exec(LONG).unwrap(), Stopped::AtExec);
        assert!(maps(child.pid()).contains("/env"), "{}", maps(child.pid()));
        stops.resume().unwrap();
        assert_eq!(child.wait().unwrap().ended, Ended::Code(0));
    }

    #[test]
    fn the_end_is_told_and_left_to_be_reaped() {
        let mut missing = child(&["/no/such/program"]);
        let mut stops = AtExec::release(&mut missing).unwrap();
        assert_eq!(stops.wait_for_exec(LONG).unwrap(), Stopped::Ended);
        drop(stops);
        assert!(
            matches!(missing.wait().err().unwrap(), Error::Exec { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
        );
        let mut short = child(&["true"]);
        let mut stops = AtExec::release(&mut short).unwrap();
        assert_eq!(stops.wait_for_exec(LONG).unwrap(), Stopped::AtExec);
        assert_eq!(stops.wait_for_exec(LONG).unwrap(), Stopped::Ended);
        assert_eq!(short.wait().unwrap().ended, Ended::Code(0));
    }

    #[test]
    fn one_that_is_killed_while_it_is_held_has_ended() {
        let mut held = child(&["sleep", "100"]);
        let mut stops = AtExec::release(&mut held).unwrap();
        assert_eq!(stops.wait_for_exec(LONG).unwrap(), Stopped::AtExec);
        held.signal(libc::SIGKILL);
        assert_eq!(stops.wait_for_entry(LONG).unwrap_or(Stopped::Ended), Stopped::Ended);
        assert_eq!(held.wait().unwrap().ended, Ended::Signal(9));
    }
}
