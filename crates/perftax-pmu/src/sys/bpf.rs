//! Programs that the kernel runs when an event overflows (bpf(2)), and where they write to.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use perf_event_open_sys::ioctls;

use super::OpenEvent;
use crate::error::{Error, Result};

/// Commands (linux/bpf.h, enum bpf_cmd).
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
/// `BPF_MAP_TYPE_PERF_EVENT_ARRAY`, `BPF_PROG_TYPE_PERF_EVENT`.
const PERF_EVENT_ARRAY: u32 = 4;
const OF_PERF_EVENT: u32 = 7;
/// What helpers that read the user's memory ask for.
const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";

/// The part of `union bpf_attr` that a command reads; what lies behind it counts as zeros.
#[repr(C)]
#[derive(Default)]
struct CreateMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
#[derive(Default)]
struct UpdateElement {
    map: u32,
    _gap: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct LoadProgram {
    kind: u32,
    instructions: u32,
    first: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
}

/// Events by CPU that programs write records into (`BPF_MAP_TYPE_PERF_EVENT_ARRAY`).
#[derive(Debug)]
pub struct OutputMap(OwnedFd);

impl OutputMap {
    /// For CPUs with numbers below this one.
    ///
    /// # Errors
    /// Where the caller may not (CAP_BPF), or the kernel has no BPF.
    pub fn new(cpus: u32) -> Result<Self> {
        let wanted = CreateMap { kind: PERF_EVENT_ARRAY, key_bytes: 4, value_bytes: 4, entries: cpus };
        bpf(MAP_CREATE, &wanted).map_err(|error| explain(error, "bpf(BPF_MAP_CREATE)")).map(Self)
    }

    /// What programs write on that CPU goes to this event: one of what BPF programs write (`bpf-output`), of that CPU.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set(&self, cpu: u32, event: &OpenEvent) -> Result<()> {
        let value = event.as_fd().as_raw_fd() as u32;
        let wanted = UpdateElement {
            map: self.0.as_raw_fd() as u32,
            key: std::ptr::from_ref(&cpu) as u64,
            value: std::ptr::from_ref(&value) as u64,
            ..UpdateElement::default()
        };
        call(MAP_UPDATE_ELEM, &wanted).map_err(|source| Error::System { call: "bpf(BPF_MAP_UPDATE_ELEM)".into(), source })?;
        Ok(())
    }

    /// As instructions name it.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A program for the overflow of an event (`BPF_PROG_TYPE_PERF_EVENT`).
#[derive(Debug)]
pub struct OverflowProgram(OwnedFd);

impl OverflowProgram {
    /// Has the kernel check and take it.
    ///
    /// # Errors
    /// Where the caller may not (CAP_BPF and CAP_PERFMON), or the kernel finds something wrong with it.
    pub fn load(instructions: &[u64]) -> Result<Self> {
        let mut wanted = LoadProgram {
            kind: OF_PERF_EVENT,
            instructions: instructions.len() as u32,
            first: instructions.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            ..LoadProgram::default()
        };
        let error = match bpf(PROG_LOAD, &wanted) {
            Ok(program) => return Ok(Self(program)),
            Err(error) => error,
        };
        if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) {
            return Err(explain(error, "bpf(BPF_PROG_LOAD)"));
        }
        // Once more, with what is wrong with it.
        let mut log = vec![0u8; 1 << 16];
        (wanted.log_level, wanted.log_bytes, wanted.log) = (1, log.len() as u32, log.as_mut_ptr() as u64);
        bpf(PROG_LOAD, &wanted).map(Self).map_err(|source| {
            let text = String::from_utf8_lossy(&log);
            let last = text.trim_end_matches('\0').lines().rev().find(|line| !line.starts_with("processed")).unwrap_or_default();
            Error::System { call: format!("bpf(BPF_PROG_LOAD): {last}"), source }
        })
    }
}

impl OpenEvent {
    /// Runs a program at each overflow, instead of recording a sample (`PERF_EVENT_IOC_SET_BPF`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn run(&self, program: &OverflowProgram) -> Result<()> {
        // SAFETY: both descriptors are ours and open; the argument is a plain number.
        let outcome = unsafe { ioctls::SET_BPF(self.as_fd().as_raw_fd(), program.0.as_raw_fd() as u32) };
        match outcome {
            0.. => Ok(()),
            _ => Err(Error::System { call: "ioctl PERF_EVENT_IOC_SET_BPF".into(), source: io::Error::last_os_error() }),
        }
    }
}

/// A command that makes something: its descriptor, closed on exec (all of BPF's are).
fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // SAFETY: the call succeeded, so it is a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call<T>(command: libc::c_long, attributes: &T) -> io::Result<RawFd> {
    // SAFETY: the attributes, and what they point to, are alive across the call, of the size that is said, and laid out as the command has them.
    let outcome = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome as RawFd) }
}

fn explain(source: io::Error, call: &str) -> Error {
    match source.raw_os_error() {
        Some(libc::EPERM) => Error::Permission {
            what: "have the kernel read a program's memory where an event overflows (BPF)".into(),
            knob: "CAP_BPF and CAP_PERFMON".into(),
            value: "missing".into(),
            needed: "root, or both of them".into(),
            command: "sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep /path/to/perftax".into(),
        },
        Some(libc::ENOSYS) => Error::Unsupported {
            what: "have the kernel read a program's memory where an event overflows".into(),
            why: "this kernel has no BPF".into(),
            remedy: "a kernel with CONFIG_BPF_SYSCALL".into(),
        },
        _ => Error::System { call: call.into(), source },
    }
}
