//! Debug exceptions that come without a reason.
//!
//! Some hypervisors lose DR6 when an exit falls into the delivery of a breakpoint's #DB (seen under KVM on AMD: one in 10^5 to 10^6 traps while
//! the CPUs are shared). Linux takes a #DB whose DR6 says nothing for the instruction INT1, and sends SIGTRAP with TRAP_BRKPT
//! (arch/x86/kernel/traps.c, `exc_debug_user`), of which a program dies. The breakpoint's event does not see that hit.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static STRAY_TRAPS: AtomicU64 = AtomicU64::new(0);
static OUTLIVED: Once = Once::new();

/// SIGTRAP's code for a #DB without a reason, and for one of a debug register that no event owns (include/uapi/asm-generic/siginfo.h).
const TRAP_BRKPT: libc::c_int = 1;
const TRAP_HWBKPT: libc::c_int = 4;

/// How many such exceptions this process has met since it first opened a breakpoint: as many hits were missed.
pub fn stray_traps() -> u64 {
    STRAY_TRAPS.load(Ordering::Relaxed)
}

/// Makes this process count them from now on, where they would kill it. Leaves a handler alone that somebody has installed.
pub(super) fn outlive_stray_traps() {
    OUTLIVED.call_once(|| {
        // SAFETY: all-zero sigactions are valid; the handler touches an atomic alone, and sigaction and raise, which are safe in handlers.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGTRAP, std::ptr::null(), &mut before);
            if before.sa_sigaction == libc::SIG_DFL {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = counted as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut());
            }
        }
    });
}

/// Counts a stray trap. Any other (a breakpoint instruction, `kill`) has its usual effect.
extern "C" fn counted(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    if code == TRAP_BRKPT || code == TRAP_HWBKPT {
        STRAY_TRAPS.fetch_add(1, Ordering::Relaxed);
        return;
    }
    // SAFETY: both calls are safe in handlers (signal-safety(7)); the signal is blocked until the handler returns, and kills then.
    unsafe {
        libc::signal(libc::SIGTRAP, libc::SIG_DFL);
        libc::raise(libc::SIGTRAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signal that Linux makes of a #DB with an empty DR6, sent to ourselves. INT1 (F1h) would raise the exception itself, but some hypervisors
    /// come back to the instruction instead of going on behind it, for ever.
    #[test]
    fn a_trap_without_a_reason_is_counted_and_outlived() {
        outlive_stray_traps();
        let before = stray_traps();
        // SAFETY: an all-zero siginfo is valid; the call reads it, and a process may send itself any code (rt_tgsigqueueinfo(2)).
        let sent = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            (info.si_signo, info.si_code) = (libc::SIGTRAP, TRAP_BRKPT);
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), libc::SIGTRAP, &info)
        };
        assert_eq!(sent, 0);
        assert!(stray_traps() > before);
    }
}
