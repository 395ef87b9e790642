//! `perf_event_open` and the ioctls on what it returns.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::{ioctls, perf_event_open};
use perftax_cost::Mechanism;

use super::clock::timer_resolution_ns;
use super::registry;
use super::stray_trap::outlive_stray_traps;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::machine::{Beyond, Privilege, Refusal, Root};
use crate::process;
use crate::sampler::Sampling;

/// Whom an event watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The calling thread, wherever it runs.
    ThisThread,
    /// A thread (with `inherit`: and what it creates), wherever it runs. Cannot be mapped together with `inherit`.
    Thread(i32),
    /// A thread (with `inherit`: and what it creates), while it runs on one CPU.
    ThreadOnCpu(i32, u32),
    /// Everything that runs on one CPU.
    Cpu(u32),
}

impl Target {
    /// The one CPU that is meant.
    pub fn cpu(self) -> Option<u32> {
        match self {
            Self::ThisThread | Self::Thread(_) => None,
            Self::ThreadOnCpu(_, cpu) | Self::Cpu(cpu) => Some(cpu),
        }
    }

    fn pid_and_cpu(self) -> (i32, i32) {
        match self {
            Self::ThisThread => (0, -1),
            Self::Thread(tid) => (tid, -1),
            Self::ThreadOnCpu(tid, cpu) => (tid, cpu as i32),
            Self::Cpu(cpu) => (-1, cpu as i32),
        }
    }
}

/// What a counter says when it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Events counted.
    pub value: u64,
    /// Nanoseconds for which the event was enabled.
    pub time_enabled_ns: u64,
    /// Nanoseconds for which it really counted: less than enabled where it was multiplexed.
    pub time_running_ns: u64,
    /// Samples lost for want of ring space (kernel 6.0 on, `PERF_FORMAT_LOST`); 0 on older kernels.
    pub lost: u64,
}

/// An open event: a counter, or the source of a ring's records.
#[derive(Debug)]
pub struct OpenEvent {
    fd: OwnedFd,
    has_lost: bool,
    /// Whether reading it gives the counts of its whole group.
    reads_group: bool,
}

/// A clock that is asked for more often than timers fire would give a sample a tick, and say nothing.
fn check_timer(event: &Event, sampling: &Sampling, resolution_ns: u64) -> Result<()> {
    match sampling.period {
        Some(period) if event.mechanism == Mechanism::CpuClock && period < resolution_ns => Err(Error::Unsupported {
            what: format!("sample {} every {:.3} ms", event.name, period as f64 / 1e6),
            why: format!(
                "this kernel's timers fire every {:.3} ms at most (clock_getres of CLOCK_MONOTONIC): high-resolution timers are off",
                resolution_ns as f64 / 1e6
            ),
            remedy:
                "boot without highres=off; a kernel that has just booted turns them on within seconds, once it trusts its clock"
                    .into(),
        }),
        _ => Ok(()),
    }
}

/// Most events of a group that is read as one.
const GROUP_MAX: usize = 64;

impl OpenEvent {
    /// Opens an event. `group` makes it a member of that leader's group.
    pub fn open(event: &Event, sampling: &Sampling, target: Target, group: Option<&Self>) -> Result<Self> {
        // The path must outlive the call: the kernel copies it during perf_event_open.
        let path = match &event.uprobe {
            Some(uprobe) => Some(
                CString::new(uprobe.path.as_os_str().as_bytes())
                    .map_err(|_| Error::EventSyntax { text: event.name.clone(), why: "the path holds a NUL byte".into() })?,
            ),
            None => None,
        };
        if event.breakpoint_type != 0 {
            outlive_stray_traps();
        }
        check_timer(event, sampling, timer_resolution_ns())?;
        let mut attr = attribute(event, sampling, path.as_deref());
        let with_lost = u64::from(abi::PERF_FORMAT_LOST);
        let reads_group = attr.read_format & u64::from(abi::PERF_FORMAT_GROUP) != 0;
        attr.read_format |= with_lost;
        match open_raw(&mut attr, target, group) {
            Ok(fd) => Self { fd, has_lost: true, reads_group }.entered(),
            // PERF_FORMAT_LOST came with Linux 6.0: older kernels say EINVAL to it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                attr.read_format &= !with_lost;
                let fd = open_raw(&mut attr, target, group).map_err(|e| explain(e, event, target))?;
                Self { fd, has_lost: false, reads_group }.entered()
            }
            Err(error) => Err(explain(error, event, target)),
        }
    }

    fn entered(self) -> Result<Self> {
        registry::check_on()?;
        registry::enter(self.fd.as_raw_fd());
        Ok(self)
    }

    /// Whether what it is read by holds the samples lost (`PERF_FORMAT_LOST`).
    pub fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// Starts counting or sampling.
    pub fn enable(&self) -> Result<()> {
        registry::check_on()?;
        // SAFETY: the descriptor is ours and open; the argument is a plain number.
        check("ioctl PERF_EVENT_IOC_ENABLE", unsafe { ioctls::ENABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Stops it.
    pub fn disable(&self) -> Result<()> {
        // SAFETY: as in `enable`.
        check("ioctl PERF_EVENT_IOC_DISABLE", unsafe { ioctls::DISABLE(self.fd.as_raw_fd(), 0) })
    }

    /// The event's identity, as it stands in samples of type ID.
    pub fn id(&self) -> Result<u64> {
        let mut id = 0u64;
        // SAFETY: the kernel writes one u64 to `id`.
        check("ioctl PERF_EVENT_IOC_ID", unsafe { ioctls::ID(self.fd.as_raw_fd(), &mut id) })?;
        Ok(id)
    }

    /// Aims an open breakpoint at another place, and switches it on or off: for every thread that inherited it, too (`PERF_EVENT_IOC_MODIFY_ATTRIBUTES`,
    /// Linux 4.17 on). Event and sampling are those that it was opened with, but for the place.
    ///
    /// # Errors
    /// Where the kernel refuses the place.
    pub fn aim(&self, event: &Event, sampling: &Sampling, is_on: bool) -> Result<()> {
        let mut attr = attribute(event, sampling, None);
        if self.has_lost {
            attr.read_format |= u64::from(abi::PERF_FORMAT_LOST);
        }
        attr.set_disabled(u64::from(!is_on));
        // SAFETY: the descriptor is ours and open; `attr` is a valid attribute of the size that it states, alive across the call.
        let outcome = unsafe { ioctls::MODIFY_ATTRIBUTES(self.fd.as_raw_fd(), &mut attr) };
        check(&format!("ioctl PERF_EVENT_IOC_MODIFY_ATTRIBUTES for {}", event.name), outcome)
    }

    /// Sends the records of this event into the ring of another.
    pub fn redirect_to(&self, owner: &Self) -> Result<()> {
        // SAFETY: both descriptors are ours and open.
        check("ioctl PERF_EVENT_IOC_SET_OUTPUT", unsafe { ioctls::SET_OUTPUT(self.fd.as_raw_fd(), owner.fd.as_raw_fd()) })
    }

    /// Reads the counter; of a group that is read as one, the leader's.
    pub fn read(&self) -> Result<Reading> {
        // struct read_format: the value and two times; with GROUP the number of events, the two times, then the value, the identity and, where it is
        // told, the loss of each, the leader first.
        let mut bytes = [0u8; 8 * (3 + 3 * GROUP_MAX)];
        let (value, enabled, running, lost) = if self.reads_group { (3, 1, 2, 5) } else { (0, 1, 2, 3) };
        let wanted = 8 * (1 + if self.has_lost { lost } else { running.max(value) });
        let got = rustix::io::read(&self.fd, &mut bytes[..])
            .map_err(|e| Error::System { call: "read of a counter".into(), source: e.into() })?;
        if got == 0 {
            return Err(Error::Spoiled {
                why: "a pinned event could not be scheduled and went into the error state".into(),
                remedy: "open fewer events at once".into(),
            });
        }
        if got < wanted {
            return Err(Error::Malformed { what: "counter".into(), offset: got as u64, why: format!("{wanted} bytes expected") });
        }
        let word = |i: usize| u64::from_ne_bytes(std::array::from_fn(|b| bytes[i * 8 + b]));
        Ok(Reading {
            value: word(value),
            time_enabled_ns: word(enabled),
            time_running_ns: word(running),
            lost: if self.has_lost { word(lost) } else { 0 },
        })
    }

    /// Has every wakeup delivered as a signal to the calling thread: what the PES study calls signal delivery. A handler that
    /// does nothing is installed for it, since the default action of most signals is to end the process.
    pub fn deliver_signal(&self, signal: i32) -> Result<()> {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: an all-zero sigaction with a handler that touches nothing is valid; interrupted calls are restarted.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            check("sigaction", libc::sigaction(signal, &action, std::ptr::null_mut()))?;
        }
        self.signal_thread(rustix::thread::gettid().as_raw_nonzero().get(), signal)
    }

    /// Has every wakeup delivered as a signal to a thread, which must have a handler for it, or ignore it.
    pub fn signal_thread(&self, tid: i32, signal: i32) -> Result<()> {
        let fd = self.fd.as_raw_fd();
        #[repr(C)]
        struct OwnerEx {
            kind: libc::c_int,
            pid: libc::pid_t,
        }
        const F_SETSIG: libc::c_int = 10;
        const F_SETOWN_EX: libc::c_int = 15;
        const F_OWNER_TID: libc::c_int = 0;
        let owner = OwnerEx { kind: F_OWNER_TID, pid: tid };
        // SAFETY: plain fcntl calls on a descriptor of ours; `owner` lives across the call.
        unsafe {
            check("fcntl F_SETOWN_EX", libc::fcntl(fd, F_SETOWN_EX, &owner))?;
            check("fcntl F_SETSIG", libc::fcntl(fd, F_SETSIG, signal))?;
            let flags = libc::fcntl(fd, libc::F_GETFL);
            check("fcntl O_ASYNC", libc::fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC))
        }
    }
}

impl Drop for OpenEvent {
    fn drop(&mut self) {
        registry::leave(self.fd.as_raw_fd());
    }
}

impl AsFd for OpenEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn open_raw(attr: &mut abi::perf_event_attr, target: Target, group: Option<&OpenEvent>) -> io::Result<OwnedFd> {
    open_beside(attr, target, group.map(AsFd::as_fd))
}

/// perf_event_open(2), as a member of `leader`'s group where there is one.
pub(super) fn open_beside(
    attr: &mut abi::perf_event_attr,
    target: Target,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let (pid, cpu) = target.pid_and_cpu();
    let group_fd = leader.map_or(-1, |leader| leader.as_raw_fd());
    // SAFETY: `attr` is a valid attribute of the size that it states, alive across the call.
    let fd = unsafe { perf_event_open(attr, pid, cpu, group_fd, u64::from(abi::PERF_FLAG_FD_CLOEXEC) as _) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so `fd` is a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn attribute(event: &Event, sampling: &Sampling, uprobe_path: Option<&std::ffi::CStr>) -> abi::perf_event_attr {
    let mut attr = abi::perf_event_attr { size: size_of::<abi::perf_event_attr>() as u32, ..Default::default() };
    attr.type_ = event.pmu_type;
    attr.config = event.config;
    attr.__bindgen_anon_3.config1 = uprobe_path.map_or(event.config1, |p| p.as_ptr() as u64);
    attr.__bindgen_anon_4.config2 = event.uprobe.as_ref().map_or(event.config2, |u| u.offset);
    attr.config3 = event.config3;
    attr.bp_type = event.breakpoint_type;
    attr.read_format = u64::from(abi::PERF_FORMAT_TOTAL_TIME_ENABLED) | u64::from(abi::PERF_FORMAT_TOTAL_TIME_RUNNING);
    attr.set_disabled(1);
    attr.set_inherit(sampling.inherit.into());
    attr.set_inherit_stat(sampling.task_counts.into());
    attr.set_enable_on_exec(sampling.enable_on_exec.into());

    let modifiers = &event.modifiers;
    attr.set_exclude_user(modifiers.exclude_user.into());
    attr.set_exclude_kernel(modifiers.exclude_kernel.into());
    attr.set_exclude_hv(modifiers.exclude_hv.into());
    attr.set_exclude_host(modifiers.exclude_host.into());
    attr.set_exclude_guest(modifiers.exclude_guest.into());
    attr.set_pinned(modifiers.pinned.into());
    attr.set_exclusive(modifiers.exclusive.into());

    if let Some(period) = sampling.period {
        attr.__bindgen_anon_1.sample_period = period;
        // A counter that takes no samples must not ask for precision: EINVAL (arch/x86/events/core.c, x86_pmu_hw_config).
        attr.set_precise_ip(modifiers.precise.into());
        let payload = &sampling.payload;
        attr.sample_type = payload.sample_type;
        attr.sample_regs_user = payload.regs_user;
        attr.sample_regs_intr = payload.regs_intr;
        attr.sample_stack_user = payload.stack_user_bytes;
        attr.branch_sample_type = payload.branch_sample_type;
        if payload.group_read {
            // A counter with `inherit` cannot be read as a group into samples; callers keep the two apart.
            attr.read_format |= u64::from(abi::PERF_FORMAT_GROUP) | u64::from(abi::PERF_FORMAT_ID);
        }
        attr.set_sample_id_all(1);
        if sampling.clock == crate::sampler::Clock::MonotonicRaw {
            attr.set_use_clockid(1);
            attr.clockid = libc::CLOCK_MONOTONIC_RAW;
        }
        if sampling.task_records {
            attr.set_comm(1);
            attr.set_task(1);
        }
        if sampling.mapping_records {
            attr.set_mmap(1);
            attr.set_mmap2(1);
            attr.set_mmap_data(sampling.data_mapping_records.into());
        }
        match sampling.wakeup {
            crate::sampler::Wakeup::EverySample => attr.__bindgen_anon_2.wakeup_events = 1,
            crate::sampler::Wakeup::Bytes(bytes) => {
                attr.set_watermark(1);
                attr.__bindgen_anon_2.wakeup_watermark = bytes;
            }
        }
    }
    attr
}

fn check(call: &str, outcome: i32) -> Result<()> {
    if outcome < 0 { Err(Error::System { call: call.into(), source: io::Error::last_os_error() }) } else { Ok(()) }
}

/// What an event needs beyond its program's user mode.
fn beyond(event: &Event, target: Target) -> Beyond {
    if event.pmu_type == crate::event::pmu_types::TRACEPOINT {
        Beyond::Tracepoint
    } else if event.uprobe.is_some() {
        Beyond::Uprobe
    } else if matches!(target, Target::Cpu(_)) {
        Beyond::WholeCpu
    } else if !event.modifiers.exclude_kernel {
        Beyond::KernelMode
    } else {
        Beyond::Nothing
    }
}

/// Translates the kernel's terse answer into what the user can do about it.
pub(super) fn explain(error: io::Error, event: &Event, target: Target) -> Error {
    let what = format!("sample {}", event.name);
    match error.raw_os_error() {
        Some(errno @ (libc::EACCES | libc::EPERM | libc::ENOSYS)) => {
            // Somebody else's thread is closed whatever else is allowed.
            if let Target::Thread(tid) | Target::ThreadOnCpu(tid, _) = target
                && let Some(refusal) = process::refusal(tid as u32)
            {
                return refusal;
            }
            let privilege = Privilege::read(&Root::here());
            Refusal { what, beyond: beyond(event, target), errno, privilege: &privilege }.error()
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO) => Error::Unsupported {
            what,
            why: format!("perf_event_open says {error}; PMU type {} config {:#x}", event.pmu_type, event.config),
            remedy: "perftax doctor shows which mechanisms this machine has".into(),
        },
        Some(libc::EBUSY | libc::ENOSPC) if event.breakpoint_type != 0 => Error::Unsupported {
            what,
            why: format!("its debug registers are taken ({error})"),
            remedy: "end the debugger or profiler that has them, or take fewer (perftax comm --watchpoints 2)".into(),
        },
        Some(libc::EBUSY | libc::ENOSPC) => Error::Unsupported {
            what,
            why: format!("its counters or debug registers are taken ({error})"),
            remedy: "close other profilers; sysctl kernel.nmi_watchdog=0 frees one counter".into(),
        },
        Some(libc::EMFILE) => Error::System { call: "perf_event_open (too many open files: ulimit -n)".into(), source: error },
        Some(libc::EINVAL) => Error::Unsupported {
            what,
            why: format!(
                "perf_event_open says EINVAL to PMU type {} config {:#x} with these attributes",
                event.pmu_type, event.config
            ),
            remedy: "perftax doctor -e EVENT shows which attributes this machine accepts".into(),
        },
        Some(libc::ESRCH) => Error::System { call: "perf_event_open (the thread is gone)".into(), source: error },
        _ => Error::System { call: format!("perf_event_open for {}", event.name), source: error },
    }
}
