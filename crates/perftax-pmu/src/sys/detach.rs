//! How processes end, and outlive others: a guardian its parent by a moment, a program that we started us not at all.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Leaves session, signals and descriptors of the parent behind: what interrupts or hangs up the parent's terminal does not reach this process,
/// and no pipe, file or event of the parent's stays open by it. Standard input, output and error are kept.
pub fn detach_from_parent() {
    // SAFETY: plain system calls. Nothing in this process owns a descriptor beyond the first three: it has only just begun.
    unsafe {
        // A process that leads a group already stays in it, which does as well.
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // Linux 5.9 on; before, what was not marked close-on-exec stays open.
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32);
    }
}

/// Closes standard output and error, so that whoever reads them sees their end.
pub fn close_output() {
    // SAFETY: nothing is printed by this process from here on.
    unsafe {
        libc::close(1);
        libc::close(2);
    }
}

/// Ends the process at once: no thread is waited for, nothing is flushed.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process; nothing of it is used afterwards.
    unsafe { libc::_exit(code) }
}

/// Has a command killed where the thread that starts it ends first, as it does when this process is killed. It says nothing of what the command
/// starts in turn.
pub fn die_with_us(command: &mut Command) -> &mut Command {
    let parent = rustix::process::getpid().as_raw_nonzero().get();
    let ask = move || {
        // SAFETY: plain system calls, which are async-signal-safe.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // The parent may have ended before this was asked for.
            if libc::getppid() != parent {
                libc::_exit(127);
            }
        }
        Ok(())
    };
    // SAFETY: `ask` makes async-signal-safe calls alone, and allocates nothing.
    unsafe { command.pre_exec(ask) }
}
