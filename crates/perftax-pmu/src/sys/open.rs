//! `perf_event_open` and the ioctls on what it returns.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::{ioctls, perf_event_open};

use super::registry;
use super::stray_trap::outlive_stray_traps;
use crate::error::{Error, Result};

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
    /// What a control group runs on one CPU: by a descriptor of its folder, which must be open while the event is opened.
    GroupOnCpu(i32, u32),
}

impl Target {
    /// The one CPU that is meant.
    pub fn cpu(self) -> Option<u32> {
        match self {
            Self::ThisThread | Self::Thread(_) => None,
            Self::ThreadOnCpu(_, cpu) | Self::Cpu(cpu) | Self::GroupOnCpu(_, cpu) => Some(cpu),
        }
    }

    fn pid_and_cpu(self) -> (i32, i32) {
        match self {
            Self::ThisThread => (0, -1),
            Self::Thread(tid) => (tid, -1),
            Self::ThreadOnCpu(tid, cpu) => (tid, cpu as i32),
            Self::Cpu(cpu) => (-1, cpu as i32),
            Self::GroupOnCpu(folder, cpu) => (folder, cpu as i32),
        }
    }

    fn flags(self) -> u64 {
        let of_group = if matches!(self, Self::GroupOnCpu(..)) { abi::PERF_FLAG_PID_CGROUP } else { 0 };
        u64::from(abi::PERF_FLAG_FD_CLOEXEC | of_group)
    }
}

/// What perf_event_open(2) is asked for. Whatever a path in it points to must be alive when it is used.
pub(crate) struct Attributes(pub(crate) abi::perf_event_attr);

impl Attributes {
    /// Nothing but their size.
    pub(crate) fn new() -> Self {
        Self(abi::perf_event_attr { size: size_of::<abi::perf_event_attr>() as u32, ..Default::default() })
    }

    /// All of their bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let begin = std::ptr::from_ref(&self.0).cast::<u8>();
        // SAFETY: the kernel's structure has no padding, and every byte of it was set when it was made.
        unsafe { std::slice::from_raw_parts(begin, size_of::<abi::perf_event_attr>()) }.to_vec()
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

/// Most events of a group that is read as one.
const GROUP_MAX: usize = 256;

impl OpenEvent {
    /// Opens an event by its attributes, as a member of `group`'s group where there is one. Readings tell of losses where the kernel can.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn by(attributes: &mut Attributes, target: Target, group: Option<&Self>) -> io::Result<Result<Self>> {
        let attr = &mut attributes.0;
        if attr.bp_type != 0 {
            outlive_stray_traps();
        }
        let with_lost = u64::from(abi::PERF_FORMAT_LOST);
        let reads_group = attr.read_format & u64::from(abi::PERF_FORMAT_GROUP) != 0;
        attr.read_format |= with_lost;
        let leader = group.map(AsFd::as_fd);
        let (fd, has_lost) = match open_beside(attr, target, leader) {
            // PERF_FORMAT_LOST came with Linux 6.0: older kernels say EINVAL to it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                attr.read_format &= !with_lost;
                (open_beside(attr, target, leader)?, false)
            }
            opened => (opened?, true),
        };
        Ok(Self { fd, has_lost, reads_group }.entered())
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

    /// Gives an open breakpoint other attributes, and every one that threads inherited of it (`PERF_EVENT_IOC_MODIFY_ATTRIBUTES`, Linux 4.17 on).
    ///
    /// # Errors
    /// Where the kernel refuses them.
    pub(crate) fn modify(&self, attributes: &mut Attributes) -> io::Result<()> {
        let attr = &mut attributes.0;
        if self.has_lost {
            attr.read_format |= u64::from(abi::PERF_FORMAT_LOST);
        }
        // SAFETY: the descriptor is ours and open; `attr` is a valid attribute of the size that it states, alive across the call.
        let outcome = unsafe { ioctls::MODIFY_ATTRIBUTES(self.fd.as_raw_fd(), attr) };
        if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
            return Err(Error::Discarded {
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

    /// Samples lost for want of ring space by all events of its group, where it is read as one (`PERF_FORMAT_LOST`); 0 on kernels before 6.0.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn lost_by_group(&self) -> Result<u64> {
        let mut bytes = [0u8; 8 * (3 + 3 * GROUP_MAX)];
        let got = rustix::io::read(&self.fd, &mut bytes[..])
            .map_err(|e| Error::System { call: "read of a group of counters".into(), source: e.into() })?;
        let word = |i: usize| u64::from_ne_bytes(std::array::from_fn(|b| bytes[i * 8 + b]));
        // The number of events, two times, then the value, the identity and the loss of each.
        let events = if self.has_lost && self.reads_group { got.saturating_sub(24) / 24 } else { 0 };
        Ok((0..events).map(|event| word(5 + 3 * event)).sum())
    }

    /// Whether reading it gives the counts of its whole group.
    pub fn reads_group(&self) -> bool {
        self.reads_group
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

/// perf_event_open(2), as a member of `leader`'s group where there is one.
pub(super) fn open_beside(
    attr: &mut abi::perf_event_attr,
    target: Target,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let (pid, cpu) = target.pid_and_cpu();
    let group_fd = leader.map_or(-1, |leader| leader.as_raw_fd());
    // SAFETY: `attr` is a valid attribute of the size that it states, alive across the call.
    let fd = unsafe { perf_event_open(attr, pid, cpu, group_fd, target.flags() as _) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so `fd` is a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(call: &str, outcome: i32) -> Result<()> {
    if outcome < 0 { Err(Error::System { call: call.into(), source: io::Error::last_os_error() }) } else { Ok(()) }
}
