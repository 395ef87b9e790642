// SPDX-License-Identifier: GPL-2.0-or-later
//! Everything outside of the program that differs from run to run and from machine to machine, made the same: what its system calls tell it of
//! time, chance and the machine is written over before it sees it, and its threads go on one after another.
//!
//! What stands in a register when a call returns (a process's number, the time of time(2)) cannot be written over; which such calls were made
//! is told.

mod clock;
mod machine;
mod memory;
mod random;
mod turns;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::lock::lock;
use crate::{api, fork};
use random::Random;
use turns::{Turns, Wait};

/// Passes of blocks that a turn lasts at most where others wait for it: for those that spin until another has done something.
pub const PASSES: i64 = 20_000_000;

/// One run's.
struct Fixed {
    random: Random,
    turns: Turns,
    /// Calls whose answer could not be fixed, by name.
    left: Mutex<BTreeMap<&'static str, u64>>,
    /// What is cleared, and whose waiters are woken, when a thread ends (CLONE_CHILD_CLEARTID), by the thread.
    cleared: Mutex<HashMap<u32, u64>>,
    /// Threads by QEMU's number of them.
    numbers: Mutex<HashMap<c_uint, u32>>,
}

impl Fixed {
    /// The number of the thread that calls.
    fn thread(&self, index: c_uint) -> u32 {
        NUMBER.get().unwrap_or_else(|| {
            let number = lock(&self.numbers).get(&index).copied().unwrap_or(index);
            NUMBER.set(Some(number));
            number
        })
    }
}

static FIXED: OnceLock<Fixed> = OnceLock::new();
/// The program has threads, or had.
static THREADS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// This thread's number, once it has asked for it.
    static NUMBER: Cell<Option<u32>> = const { Cell::new(None) };
    /// What this thread's call asked for, until it returns.
    static ASKED: Cell<Asked> = const { Cell::new(Asked::NOTHING) };
}

/// A call under way.
#[derive(Clone, Copy)]
struct Asked {
    /// Who asked; none where no call is under way.
    thread: Option<u32>,
    arguments: [u64; 6],
    /// A time that was moved to the host's clock, and where it stands.
    moved: Option<(u64, u64)>,
    /// Waiters that were woken, as far as turns know.
    woken: Option<u64>,
    /// What will be cleared when the thread that is created ends.
    cleared: u64,
}

impl Asked {
    const NOTHING: Self = Self { thread: None, arguments: [0; 6], moved: None, woken: None, cleared: 0 };
}

/// Calls that nothing can be done about, and what is said of them.
const LEFT: [(i64, &str); 8] = [
    (libc::SYS_time, "time(2)"),
    (libc::SYS_setitimer, "setitimer(2)"),
    (libc::SYS_alarm, "alarm(2)"),
    (libc::SYS_timer_create, "timer_create(2)"),
    (libc::SYS_timerfd_create, "timerfd_create(2)"),
    (libc::SYS_socket, "socket(2)"),
    (libc::SYS_inotify_init1, "inotify_init1(2)"),
    (libc::SYS_perf_event_open, "perf_event_open(2)"),
];
/// Operations of futex(2) (linux/futex.h), and what is masked off them: flags.
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAKE_BITSET: u64 = 10;
const FUTEX_OPERATION: u64 = 0x7f;
const FUTEX_CLOCK_REALTIME: u64 = 0x100;
/// Of clock_nanosleep(2): until, not for.
const TIMER_ABSTIME: u64 = 1;

/// Registers what sees the program's system calls.
pub fn register(id: api::Id, seed: u64) {
    let fixed = Fixed {
        random: Random::new(seed),
        turns: Turns::default(),
        left: Mutex::default(),
        cleared: Mutex::default(),
        numbers: Mutex::default(),
    };
    if FIXED.set(fixed).is_err() {
        return;
    }
    // SAFETY: the functions have the signatures that version 1 of the interface asks for.
    unsafe {
        api::qemu_plugin_register_vcpu_syscall_cb(id, on_system_call);
        api::qemu_plugin_register_vcpu_syscall_ret_cb(id, on_return);
    }
}

/// Whether it is on.
pub fn is_on() -> bool {
    FIXED.get().is_some()
}

/// What could not be fixed: calls by name with how often they were made, and how often threads did what another run need not do alike.
pub fn left() -> (BTreeMap<&'static str, u64>, u64) {
    FIXED.get().map_or_else(Default::default, |fixed| (lock(&fixed.left).clone(), fixed.turns.strays()))
}

/// A thread is created: its creator is told, inside clone(2), before it runs. The first one has none.
pub fn on_start(index: c_uint, thread: u32) {
    let Some(fixed) = FIXED.get() else { return };
    lock(&fixed.numbers).insert(index, thread);
    let asked = ASKED.get();
    if let Some(creator) = asked.thread {
        THREADS.store(true, Ordering::Relaxed);
        lock(&fixed.cleared).insert(thread, asked.cleared);
        fixed.turns.created(creator, thread);
    }
}

/// A thread has ended: what is cleared then is cleared, and QEMU has woken whoever waits for it.
pub fn on_end(thread: u32) {
    if let Some(fixed) = FIXED.get().filter(|_| THREADS.load(Ordering::Relaxed)) {
        let cleared = lock(&fixed.cleared).remove(&thread).unwrap_or(0);
        fixed.turns.end(thread, cleared);
    }
}

/// Who has had its turn for long lets others go on.
pub fn on_long_turn(thread: u32) {
    if let Some(fixed) = FIXED.get() {
        fixed.turns.end_long_turn(thread);
    }
}

extern "C" fn on_system_call(
    _: api::Id,
    index: c_uint,
    number: i64,
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
    fifth: u64,
    sixth: u64,
    _: u64,
    _: u64,
) {
    let Some(fixed) = FIXED.get().filter(|_| !fork::is_child()) else { return };
    let arguments = [first, second, third, fourth, fifth, sixth];
    let thread = fixed.thread(index);
    let mut asked = Asked { thread: Some(thread), arguments, ..Asked::NOTHING };
    let has_threads = THREADS.load(Ordering::Relaxed);
    match number {
        // Of clone(2): flags, stack, where its number goes, what is cleared when it ends.
        libc::SYS_clone if first & libc::CLONE_CHILD_CLEARTID as u64 != 0 => asked.cleared = fourth,
        libc::SYS_set_tid_address => drop(lock(&fixed.cleared).insert(thread, first)),
        libc::SYS_sched_yield if has_threads => fixed.turns.yield_to_others(thread),
        libc::SYS_futex => match second & FUTEX_OPERATION {
            FUTEX_WAKE => asked.woken = Some(fixed.turns.wake(first, u32::MAX, third)),
            FUTEX_WAKE_BITSET => asked.woken = Some(fixed.turns.wake(first, sixth as u32, third)),
            FUTEX_WAIT | FUTEX_WAIT_BITSET => {
                let is_bitset = second & FUTEX_OPERATION == FUTEX_WAIT_BITSET;
                let clock = if second & FUTEX_CLOCK_REALTIME != 0 { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC } as u64;
                let until = deadline(fourth, clock, is_bitset);
                let sleeps = memory::read(first).is_some_and(|value| u32::from_le_bytes(value) == third as u32);
                if is_bitset {
                    asked.moved = moved(fourth, clock);
                }
                if has_threads && sleeps {
                    let bits = if is_bitset { sixth as u32 } else { u32::MAX };
                    fixed.turns.wait(thread, Wait { futex: Some((first, bits)), until });
                }
            }
            _ => {}
        },
        libc::SYS_clock_nanosleep => {
            let until = deadline(third, first, second & TIMER_ABSTIME != 0);
            if second & TIMER_ABSTIME != 0 {
                asked.moved = moved(third, first);
            }
            sleep(fixed, thread, has_threads, until);
        }
        _ => {
            if let Some(until) = waits_until(number, &arguments) {
                sleep(fixed, thread, has_threads, until);
            }
        }
    }
    if let Some((_, name)) = LEFT.iter().find(|(left, _)| *left == number) {
        *lock(&fixed.left).entry(name).or_default() += 1;
    }
    ASKED.set(asked);
}

/// A call that may wait: until when, by the program's clock; for ever. None: it does not.
fn waits_until(number: i64, arguments: &[u64; 6]) -> Option<Option<u64>> {
    let milliseconds = |argument: u64| match argument as i32 {
        0 => None,
        ms if ms < 0 => Some(None),
        ms => Some(Some(clock::now() + ms as u64 * 1_000_000)),
    };
    match number {
        libc::SYS_nanosleep => Some(deadline(arguments[0], libc::CLOCK_MONOTONIC as u64, false)),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => milliseconds(arguments[3]),
        libc::SYS_poll => milliseconds(arguments[2]),
        libc::SYS_ppoll => Some(deadline(arguments[2], libc::CLOCK_MONOTONIC as u64, false)),
        libc::SYS_pselect6 => Some(deadline(arguments[4], libc::CLOCK_MONOTONIC as u64, false)),
        libc::SYS_select | libc::SYS_pause | libc::SYS_rt_sigsuspend | libc::SYS_rt_sigtimedwait => Some(None),
        libc::SYS_wait4 | libc::SYS_waitid => Some(None),
        _ => None,
    }
}

/// A wait that nobody's futex ends.
fn sleep(fixed: &Fixed, thread: u32, has_threads: bool, until: Option<u64>) {
    if has_threads {
        fixed.turns.wait(thread, Wait { futex: None, until });
    } else if let Some(until) = until {
        clock::advance_to(until);
    }
}

/// When a struct timespec is over, by the program's clock.
fn deadline(address: u64, clock: u64, is_absolute: bool) -> Option<u64> {
    let ns = memory::timespec_ns(address)?;
    Some(if is_absolute { ns.saturating_sub(clock::base(clock)) } else { clock::now().saturating_add(ns) })
}

/// Moves a time to the host's clock, which the kernel goes by; where it stands and what stood there.
fn moved(address: u64, clock: u64) -> Option<(u64, u64)> {
    let ns = memory::timespec_ns(address)?;
    memory::write_time(address, ns.wrapping_add(clock::host_ahead(clock)), 1);
    Some((address, ns))
}

extern "C" fn on_return(_: api::Id, index: c_uint, number: i64, result: i64) {
    let Some(fixed) = FIXED.get().filter(|_| !fork::is_child()) else { return };
    let asked = ASKED.replace(Asked::NOTHING);
    if let Some((address, ns)) = asked.moved {
        memory::write_time(address, ns, 1);
    }
    if asked.woken.is_some_and(|woken| woken as i64 != result) {
        fixed.turns.stray();
    }
    if THREADS.load(Ordering::Relaxed) {
        fixed.turns.back(fixed.thread(index));
    }
    if result >= 0 {
        overwrite(fixed, number, asked.arguments, result as u64);
    }
}

/// What a call that went well has put into the program's memory, made the same everywhere.
fn overwrite(fixed: &Fixed, number: i64, arguments: [u64; 6], result: u64) {
    let [first, second, third, fourth, ..] = arguments;
    match number {
        libc::SYS_getrandom => fixed.random.fill(first, result),
        libc::SYS_open | libc::SYS_openat => fixed.random.opened(result),
        libc::SYS_read => fixed.random.was_read(first, second, result),
        libc::SYS_clock_gettime => memory::write_time(second, clock::look(first), 1),
        libc::SYS_gettimeofday => memory::write_time(first, clock::look(libc::CLOCK_REALTIME as u64), 1000),
        libc::SYS_sched_getaffinity => machine::one_cpu(third, result),
        libc::SYS_uname => machine::name(first),
        libc::SYS_sysinfo => machine::memory(first),
        libc::SYS_getrlimit => machine::limit(first, second),
        libc::SYS_prlimit64 => machine::limit(second, fourth),
        libc::SYS_getrusage => machine::nothing(second, size_of::<libc::rusage>()),
        libc::SYS_times => machine::nothing(first, size_of::<libc::tms>()),
        _ => {}
    }
}
