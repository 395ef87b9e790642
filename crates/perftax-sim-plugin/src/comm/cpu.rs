// SPDX-License-Identifier: GPL-2.0-or-later
//! All threads on one CPU: only one goes on at a time, and handing over to a thread on the same CPU takes a fraction of what it takes to wake another
//! CPU (in a virtual machine, an interrupt between processors: 4 to 20 times as long as the turn itself).

use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// CPUs that the program may use, and the one that it is put on.
struct Cpus {
    allowed: libc::cpu_set_t,
    one: libc::cpu_set_t,
}

static CPUS: OnceLock<Cpus> = OnceLock::new();

/// Puts the calling thread, and all that it will create, on the CPU that it runs on.
pub fn keep_to_one() {
    let Some(allowed) = current() else { return };
    // SAFETY: sched_getcpu(3) takes nothing; a set of CPUs is plain bits, all zero where it is empty; the number is checked by CPU_SET.
    let one = unsafe {
        let mut one: libc::cpu_set_t = MaybeUninit::zeroed().assume_init();
        let Ok(cpu) = usize::try_from(libc::sched_getcpu()) else { return };
        libc::CPU_SET(cpu, &mut one);
        one
    };
    if CPUS.set(Cpus { allowed, one }).is_ok() && put_on(&one) {
        // SAFETY: a handler that makes one system call, which a child may do at once.
        unsafe { libc::pthread_atfork(None, None, Some(on_fork)) };
    }
}

/// Before a system call that shows or hands on where the thread may run: it is put back where it was allowed, unless it chose a place itself.
pub fn before(number: i64) {
    if is_telling(number)
        && let Some(cpus) = CPUS.get()
        && current().is_some_and(|current| is_same(&current, &cpus.one))
    {
        put_on(&cpus.allowed);
    }
}

/// After it.
pub fn after(number: i64) {
    if is_telling(number)
        && let Some(cpus) = CPUS.get()
        && current().is_some_and(|current| is_same(&current, &cpus.allowed))
    {
        put_on(&cpus.one);
    }
}

/// How many threads a program starts may depend on the CPUs that it may use; another program has nothing to do with turns.
fn is_telling(number: i64) -> bool {
    [libc::SYS_sched_getaffinity, libc::SYS_execve, libc::SYS_execveat].contains(&number)
}

fn current() -> Option<libc::cpu_set_t> {
    // SAFETY: a set of CPUs is plain bits, all zero where it is empty, and as long as is said; 0 is the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = MaybeUninit::zeroed().assume_init();
        (libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0).then_some(set)
    }
}

fn is_same(a: &libc::cpu_set_t, b: &libc::cpu_set_t) -> bool {
    // SAFETY: both are sets of CPUs.
    unsafe { libc::CPU_EQUAL(a, b) }
}

fn put_on(set: &libc::cpu_set_t) -> bool {
    // SAFETY: a set of CPUs, as long as is said; 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(set), set) == 0 }
}

unsafe extern "C" fn on_fork() {
    if let Some(cpus) = CPUS.get() {
        put_on(&cpus.allowed);
    }
}
