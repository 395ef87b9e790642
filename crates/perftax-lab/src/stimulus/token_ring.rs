//! Processes that pass a token around: the ring of pipes by which lmbench measures a context switch (lat_ctx; McVoy and Staelin, lmbench,
//! USENIX 1996, section 6.6).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use perftax_pmu::sys::Tsc;
use perftax_pmu::{Error, Result};
use rustix::pipe::{PipeFlags, pipe_with};

/// A ring of processes on the CPUs of the calling thread. Each waits for the token, reads its memory, and passes the token on; all end with
/// this value.
pub struct TokenRing {
    children: Vec<libc::pid_t>,
    /// To the first child, and from the last one; to ourselves with a single process.
    to_next: OwnedFd,
    from_last: OwnedFd,
    memory: Vec<u64>,
}

/// A measured number of passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// Passes from one process to the next.
    pub passes: u64,
    /// Ticks of the time stamp counter.
    pub ticks: u64,
}

impl TokenRing {
    /// A ring of `processes`, the calling one among them; each reads `bytes` of memory of its own before it passes the token on. With one process
    /// the token goes through a pipe without a switch: lat_ctx's overhead.
    ///
    /// # Errors
    /// Where a pipe or a process cannot be made.
    pub fn spawn(processes: usize, bytes: usize) -> Result<Self> {
        let pipes: Vec<(OwnedFd, OwnedFd)> = (0..processes.max(1)).map(|_| pipe()).collect::<Result<_>>()?;
        // Everything that allocates happens before the fork: the child touches its copy, which makes it its own.
        let mut memory = vec![1u64; bytes / size_of::<u64>()];
        let all: Vec<RawFd> = pipes.iter().flat_map(|(read, write)| [read.as_raw_fd(), write.as_raw_fd()]).collect();
        let parent = rustix::process::getpid().as_raw_nonzero().get();
        let mut children = Vec::new();
        for at in 1..pipes.len() {
            let (from, to) = (pipes[at - 1].0.as_raw_fd(), pipes[at].1.as_raw_fd());
            // SAFETY: the child branch calls only async-signal-safe functions, on data prepared above, and ends in _exit.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: see above: plain system calls, and memory that is the child's own copy.
                unsafe { pass_on(parent, &all, from, to, &mut memory) }
            }
            if pid < 0 {
                let source = io::Error::last_os_error();
                reap(&children);
                return Err(Error::System { call: "fork for a ring of processes".into(), source });
            }
            children.push(pid);
        }
        let mut ends = pipes.into_iter();
        let (first, last) = (ends.next(), ends.next_back());
        let (to_next, from_last) = match (first, last) {
            (Some((_, to_first)), Some((from_last, _))) => (to_first, from_last),
            (Some((from_us, to_us)), None) => (to_us, from_us),
            (None, _) => return Err(Error::System { call: "pipe2".into(), source: io::Error::other("no pipe") }),
        };
        Ok(Self { children, to_next, from_last, memory })
    }

    /// The other processes.
    pub fn children(&self) -> &[i32] {
        &self.children
    }

    /// Has the token go around, so many times.
    ///
    /// # Errors
    /// Where a process has ended.
    pub fn go_around(&mut self, rounds: u64) -> Result<Passes> {
        let failed = |source: io::Error| Error::System { call: "a pass through a pipe".into(), source };
        let token = [0u8];
        let begin = Tsc::ordered();
        for _ in 0..rounds {
            let mut back = [0u8];
            rustix::io::write(&self.to_next, &token).map_err(|e| failed(e.into()))?;
            let got = rustix::io::read(&self.from_last, &mut back[..]).map_err(|e| failed(e.into()))?;
            if got == 0 {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
            std::hint::black_box(sum(&self.memory));
        }
        Ok(Passes { passes: rounds * (1 + self.children.len() as u64), ticks: Tsc::ordered() - begin })
    }
}

impl Drop for TokenRing {
    fn drop(&mut self) {
        reap(&self.children);
    }
}

/// What a child does, until its pipe ends or its parent does.
///
/// # Safety
/// Right after fork, in the child, with descriptors that are open.
unsafe fn pass_on(parent: libc::pid_t, all: &[RawFd], from: RawFd, to: RawFd, memory: &mut [u64]) -> ! {
    // SAFETY: plain system calls on descriptors that were open at the fork; the memory is this process's copy.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The parent may have ended before this was asked for.
        if libc::getppid() != parent {
            libc::_exit(0);
        }
        for &other in all.iter().filter(|&&other| other != from && other != to) {
            libc::close(other);
        }
        memory.iter_mut().for_each(|word| (&raw mut *word).write_volatile(2));
        let mut token = 0u8;
        loop {
            match libc::read(from, (&raw mut token).cast(), 1) {
                1 => {}
                -1 if *libc::__errno_location() == libc::EINTR => continue,
                _ => libc::_exit(0),
            }
            std::hint::black_box(sum(memory));
            if libc::write(to, (&raw const token).cast(), 1) != 1 {
                libc::_exit(0);
            }
        }
    }
}

/// lat_ctx's work: each word is read.
fn sum(memory: &[u64]) -> u64 {
    memory.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

fn reap(children: &[libc::pid_t]) {
    for &child in children {
        // SAFETY: our own unreaped child, which nobody else waits for; the status is not wanted.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|e| Error::System { call: "pipe2".into(), source: e.into() })
}

impl std::fmt::Debug for TokenRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenRing({} processes, {:?})", 1 + self.children.len(), self.to_next.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_around() {
        for (processes, bytes) in [(1, 0), (2, 0), (8, 16 << 10)] {
            let mut ring = TokenRing::spawn(processes, bytes).unwrap();
            assert_eq!(ring.children().len(), processes - 1);
            let passes = ring.go_around(50).unwrap();
            assert!(passes.passes == 50 * processes as u64 && passes.ticks > 0, "{passes:?}");
        }
    }

    #[test]
    fn a_process_that_has_ended_is_an_error_and_all_are_reaped() {
        let mut ring = TokenRing::spawn(3, 0).unwrap();
        let children = ring.children().to_vec();
        // SAFETY: our own unreaped child.
        unsafe { libc::kill(children[1], libc::SIGKILL) };
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(ring.go_around(3).is_err());
        drop(ring);
        for child in children {
            // SAFETY: signal 0 only asks; the children were waited for, so nobody has their number (it is not reused that soon).
            assert_eq!(unsafe { libc::kill(child, 0) }, -1, "{child} is still there");
        }
    }
}
