//! Clocks: monotonic time, a thread's CPU time, and the time stamp counter.

use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};

fn clock_ns(id: ClockId) -> u64 {
    let t = clock_gettime(id);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// CLOCK_MONOTONIC_RAW in nanoseconds, as the kernel stamps records with it: without what a time namespace adds for whoever is in it
/// (time_namespaces(7)). Of one whose children are to be in another it is not known.
pub fn monotonic_raw_ns() -> u64 {
    static ADDED_NS: OnceLock<i64> = OnceLock::new();
    let added_ns = *ADDED_NS.get_or_init(|| {
        let own = |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}")).ok();
        // The file tells of the namespace that children are to be in.
        let is_own = own("time") == own("time_for_children");
        let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        if is_own { added_in(&offsets).unwrap_or(0) } else { 0 }
    });
    clock_ns(ClockId::MonotonicRaw).wrapping_add_signed(added_ns.wrapping_neg())
}

/// What `/proc/PID/timens_offsets` says is added to the monotonic clocks, ns: seconds and nanoseconds behind the clock's name.
fn added_in(offsets: &str) -> Option<i64> {
    let mut words =
        offsets.lines().map(str::split_whitespace).find_map(|mut words| (words.next()? == "monotonic").then_some(words))?;
    let mut number = || words.next()?.parse::<i64>().ok();
    Some(number()?.wrapping_mul(1_000_000_000).wrapping_add(number()?))
}

/// How often this kernel's timers fire at most, ns: 1 with high-resolution timers, else a tick (kernel/time/hrtimer.c, hrtimer_resolution, which
/// clock_getres(2) tells). They are off with `highres=off`, and until a kernel that has just booted trusts its clock.
pub fn timer_resolution_ns() -> u64 {
    let resolution = rustix::time::clock_getres(ClockId::Monotonic);
    resolution.tv_sec as u64 * 1_000_000_000 + resolution.tv_nsec as u64
}

/// CPU time of the calling thread in nanoseconds, user and system.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of a process so far, those that have ended included, ns; none where it is gone.
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    cpu_clock_ns(pid, CPUCLOCK_SCHED)
}

/// CPU time of a thread of this process so far, ns; none where it is gone.
pub fn own_thread_cpu_ns(tid: i32) -> Option<u64> {
    cpu_clock_ns(tid as u32, CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD)
}

/// CPU time as the scheduler counts it, and of a thread instead of its process (include/linux/posix-timers_types.h).
const CPUCLOCK_SCHED: i32 = 2;
const CPUCLOCK_PERTHREAD: i32 = 4;

/// One of the clocks of CPU time that a process or thread has; none where it is gone.
fn cpu_clock_ns(id: u32, kind: i32) -> Option<u64> {
    let clock = (!(id as i32)) << 3 | kind;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives across the call; a clock that does not exist is an error.
    let outcome = unsafe { libc::clock_gettime(clock, &mut time) };
    (outcome == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CPU time of all threads of this process so far, those that have ended included, ns.
pub fn own_cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// CPU time of this process so far, ns: of all its threads, and of its children that have been waited for.
pub fn own_and_children_cpu_ns() -> u64 {
    // SAFETY: an all-zero rusage is valid; the kernel fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` lives across the call.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    own_cpu_ns() + ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// Context switches of the calling thread by preemption, since it started (getrusage(2), RUSAGE_THREAD).
pub fn thread_involuntary_switches() -> u64 {
    // SAFETY: an all-zero rusage is valid; the kernel fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` lives across the call.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    usage.ru_nivcsw as u64
}

/// The time stamp counter (AArch64: the virtual counter) with its rate, for gaps of tens of nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Tsc {
    ticks_per_ns: f64,
}

impl Tsc {
    /// Measures the counter's rate against CLOCK_MONOTONIC over about 20 ms.
    pub fn calibrated() -> Self {
        let (t0, c0) = (monotonic_ns(), Self::now());
        while monotonic_ns() - t0 < 20_000_000 {
            std::hint::spin_loop();
        }
        let (t1, c1) = (monotonic_ns(), Self::now());
        Self { ticks_per_ns: c1.wrapping_sub(c0) as f64 / (t1 - t0) as f64 }
    }

    /// The counter now.
    #[inline(always)]
    pub fn now() -> u64 {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: rdtsc has no preconditions in user mode on Linux (CR4.TSD is clear).
            unsafe { core::arch::x86_64::_rdtsc() }
        }
        #[cfg(target_arch = "aarch64")]
        {
            let counter: u64;
            // SAFETY: reads the virtual counter, which Linux lets user mode do (CNTKCTL_EL1.EL0VCTEN).
            unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) counter, options(nomem, nostack)) };
            counter
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        monotonic_ns()
    }

    /// The counter now, once everything before it is done, and before anything behind it begins: RDTSCP waits for what is before, LFENCE holds
    /// back what is behind (SDM volume 2, RDTSCP).
    #[inline(always)]
    pub fn ordered() -> u64 {
        #[cfg(target_arch = "x86_64")]
        {
            let mut processor = 0;
            // SAFETY: as in `now`; RDTSCP is there since 2008, LFENCE with SSE2; `processor` lives across the call.
            unsafe {
                let ticks = core::arch::x86_64::__rdtscp(&mut processor);
                core::arch::x86_64::_mm_lfence();
                ticks
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            let counter: u64;
            // SAFETY: as in `now`, between two barriers.
            unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) counter, options(nostack)) };
            counter
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        monotonic_ns()
    }

    /// Ticks to a nanosecond.
    pub fn ticks_per_ns(self) -> f64 {
        self.ticks_per_ns
    }

    /// Nanoseconds for a number of ticks.
    pub fn ns(self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_time_namespace_adds_is_read() {
        assert_eq!(added_in("monotonic        1000         5\nboottime            7         0\n"), Some(1_000_000_000_005));
        assert_eq!(added_in("monotonic          -2 500000000\n"), Some(-1_500_000_000));
        assert_eq!((added_in("boottime 0 0\n"), added_in("")), (None, None));
        // Where nothing is added the clock is the one that everybody reads.
        let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        if added_in(&offsets).unwrap_or(0) == 0 {
            let (before, now, after) = (clock_ns(ClockId::MonotonicRaw), monotonic_raw_ns(), clock_ns(ClockId::MonotonicRaw));
            assert!(before <= now && now <= after, "{before} {now} {after}");
        }
    }
}
