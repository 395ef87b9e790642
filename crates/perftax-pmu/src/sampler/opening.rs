//! Opening events: what they ask the kernel for, and what its terse answers mean.

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use perftax_doc::Mechanism;
use perftax_doc::steps::Operation;

use super::Sampling;
use super::attributes::attributes;
use crate::error::{Error, KERNEL_SAYS, Result};
use crate::event::{Event, pmu_types};
use crate::machine::{Beyond, Privilege, Refusal, Root};
use crate::process;
use crate::sys::{Attributes, OpenEvent, SelfMonitor, Target, self_monitor, timer_resolution_ns};

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
        check_timer(event, sampling, timer_resolution_ns())?;
        let mut attributes = attributes(event, sampling, path.as_deref());
        Self::by(&mut attributes, target, group).map_err(|error| explain(error, event, target))?
    }

    /// Aims an open breakpoint at another place, and switches it on or off: for every thread that inherited it, too (`PERF_EVENT_IOC_MODIFY_ATTRIBUTES`,
    /// Linux 4.17 on). Event and sampling are those that it was opened with, but for the place.
    ///
    /// # Errors
    /// Where the kernel refuses the place.
    pub fn aim(&self, event: &Event, sampling: &Sampling, is_on: bool) -> Result<()> {
        let mut attributes = attributes(event, sampling, None);
        attributes.0.set_disabled(u64::from(!is_on));
        self.modify(&mut attributes).map_err(|source| Error::System {
            call: format!("ioctl PERF_EVENT_IOC_MODIFY_ATTRIBUTES for {}", event.name),
            source,
        })
    }
}

impl SelfMonitor {
    /// Events that are started and stopped together, by their leader, and read by one call. At least one, at most
    /// [`self_monitor::EVENTS_MAX`].
    ///
    /// # Errors
    /// Where an event cannot be opened, or the hardware has no room for the group (EINVAL).
    pub fn group(events: &[Event]) -> Result<Self> {
        Self::of(events, true)
    }

    /// Events each by itself.
    ///
    /// # Errors
    /// Where one cannot be opened.
    pub fn singles(events: &[Event]) -> Result<Self> {
        Self::of(events, false)
    }

    fn of(events: &[Event], is_group: bool) -> Result<Self> {
        if events.len() > self_monitor::EVENTS_MAX {
            let needed = format!("at most {} in one monitor", self_monitor::EVENTS_MAX);
            return Err(Error::Argument { argument: "events", value: events.len().to_string(), needed });
        }
        let mut monitor = Self::without_events(is_group);
        for event in events {
            monitor.add(counting(event)).map_err(|error| explain(error, event, Target::ThisThread))?;
        }
        Ok(monitor)
    }
}

/// Has an open breakpoint that only counts watch what `event` says (`PERF_EVENT_IOC_MODIFY_ATTRIBUTES`). Other events refuse it (EOPNOTSUPP).
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn modify(fd: BorrowedFd<'_>, event: &Event) -> io::Result<()> {
    self_monitor::modify(fd, &mut counting(event))
}

/// The attributes of an event that is only counted.
fn counting(event: &Event) -> Attributes {
    attributes(event, &Sampling::COUNTING, None)
}

/// What an event needs beyond its program's user mode.
fn beyond(event: &Event, target: Target) -> Beyond {
    if event.pmu_type == pmu_types::TRACEPOINT {
        Beyond::Tracepoint
    } else if event.uprobe.is_some() {
        Beyond::Uprobe
    } else if matches!(target, Target::Cpu(_) | Target::GroupOnCpu(..)) {
        Beyond::WholeCpu
    } else if !event.modifiers.exclude_kernel {
        Beyond::KernelMode
    } else {
        Beyond::Nothing
    }
}

/// Translates the kernel's terse answer into what the user can do about it.
fn explain(error: io::Error, event: &Event, target: Target) -> Error {
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
            why: format!("{KERNEL_SAYS} {error}; PMU type {} config {:#x}", event.pmu_type, event.config),
            remedy: format!("{} shows which mechanisms this machine has", Operation::Diagnose),
        },
        Some(libc::EBUSY | libc::ENOSPC) if event.breakpoint_type != 0 => Error::Unsupported {
            what,
            why: format!("its debug registers are taken ({error})"),
            remedy: format!("end the debugger or profiler that has them, or take fewer ({})", Operation::WatchWithTwo),
        },
        Some(libc::EBUSY | libc::ENOSPC) => Error::Unsupported {
            what,
            why: format!("its counters or debug registers are taken ({error})"),
            remedy: "close other profilers; sysctl kernel.nmi_watchdog=0 frees one counter".into(),
        },
        Some(libc::EMFILE) => Error::System { call: "perf_event_open (too many open files: ulimit -n)".into(), source: error },
        Some(libc::EINVAL) => Error::Unsupported {
            what,
            why: format!("{KERNEL_SAYS} EINVAL to PMU type {} config {:#x} with these attributes", event.pmu_type, event.config),
            remedy: format!("{} shows which attributes this machine accepts", Operation::DiagnoseEvent("EVENT".into())),
        },
        Some(libc::ESRCH) => Error::System { call: "perf_event_open (the thread is gone)".into(), source: error },
        _ => Error::System { call: format!("perf_event_open for {}", event.name), source: error },
    }
}
