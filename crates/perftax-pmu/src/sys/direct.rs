//! The commands of `/dev/perftax` (kmod/perftax_ioctl.h), the module that gives PEBS a buffer of its own.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Version of the structures below; the module refuses every other one (EPROTO).
pub const VERSION: u32 = 2;
/// Events of a session at most.
pub const EVENTS_MAX: usize = 8;

/// `PERFTAX_EVENT_USER`.
pub const EVENT_USER: u32 = 1 << 0;
/// `PERFTAX_EVENT_KERNEL`.
pub const EVENT_KERNEL: u32 = 1 << 1;
/// `PERFTAX_EVENT_PEBS`.
pub const EVENT_PEBS: u32 = 1 << 2;
/// `PERFTAX_START_SMALL`.
pub const START_SMALL: u32 = 1 << 1;
/// `PERFTAX_START_HUGE`.
pub const START_HUGE: u32 = 1 << 2;
/// `PERFTAX_OWN_PTI`.
pub const OWN_PTI: u32 = 1;

/// `struct perftax_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Of the module.
    pub version: u32,
    /// Why there can be no buffer of one's own; 0 where there can.
    pub own_buffer: u32,
    /// Counters of general purpose.
    pub counters: u32,
    /// Their width.
    pub counter_bits: u32,
    /// IA32_PERF_CAPABILITIES[11:8].
    pub record_format: u32,
    /// Bytes of a record without groups.
    pub record_bytes: u32,
    /// Whether records have groups.
    pub adaptive: u32,
    /// The first of the counters, which PEBS can sample.
    pub sampling: u32,
}

/// `struct perftax_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectEvent {
    /// As in IA32_PERFEVTSELx.
    pub select: u64,
    /// Events to a record; 0 only counts.
    pub period: u64,
    /// `EVENT_…`.
    pub flags: u32,
    reserved: u32,
}

impl DirectEvent {
    /// An event with its flags.
    pub fn new(select: u64, period: u64, flags: u32) -> Self {
        Self { select, period, flags, reserved: 0 }
    }
}

/// `struct perftax_start`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    version: u32,
    events: u32,
    /// Of each CPU.
    pub buffer_bytes: u64,
    /// Records to an interrupt; 0: as many as the buffer holds.
    pub threshold: u64,
    groups: u64,
    ring_bytes: u64,
    /// `START_…`.
    pub flags: u32,
    reserved: u32,
    event: [DirectEvent; EVENTS_MAX],
}

impl Start {
    /// A session of these events (at most [`EVENTS_MAX`] are taken).
    pub fn of(events: &[DirectEvent], buffer_bytes: u64, flags: u32) -> Self {
        let mut start = Self { version: VERSION, buffer_bytes, flags, ..Self::default() };
        for (place, event) in start.event.iter_mut().zip(events) {
            *place = *event;
            start.events += 1;
        }
        start
    }
}

/// `struct perftax_read`: what one CPU has done.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectReading {
    version: u32,
    cpu: u32,
    /// Why it ended early, 0 where it did not.
    pub flags: u32,
    /// Bytes of a record.
    pub record_bytes: u32,
    /// Records written, those of the tail included.
    pub records: u64,
    /// Interrupts that found records.
    pub interrupts: u64,
    /// Interrupts without a reason.
    pub spurious: u64,
    /// Buffers that were full before the interrupt was served.
    pub overruns: u64,
    /// Records that did not fit into a ring.
    pub lost: u64,
    /// Times that perf's threshold was lowered.
    pub lowered: u64,
    /// Cycles of the time stamp counter in the handler.
    pub handler_tsc: u64,
    /// Records to an interrupt.
    pub capacity: u64,
    /// Bytes of the smallest page that maps the buffer.
    pub page_bytes: u64,
    /// Counts of events that only count.
    pub count: [u64; EVENTS_MAX],
}

/// `struct perftax_work`: locked operations in the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Work {
    version: u32,
    reserved: u32,
    operations: u64,
    elapsed_ns: u64,
}

/// The open device: one session at most, which ends with it.
#[derive(Debug)]
pub struct DirectDevice(File);

/// The letter of its commands.
const MAGIC: u32 = 0xb7;
/// Directions of a command's data (asm-generic/ioctl.h).
const WRITE: u32 = 1;
const READ: u32 = 2;

/// `_IOC` of asm-generic/ioctl.h: direction, size, letter, number.
const fn command(direction: u32, number: u32, bytes: usize) -> libc::c_ulong {
    (direction << 30 | (bytes as u32) << 16 | MAGIC << 8 | number) as libc::c_ulong
}

impl DirectDevice {
    /// Opens it.
    pub fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(path).map(Self)
    }

    /// What the module is and can do.
    pub fn info(&self) -> io::Result<Info> {
        let mut info = Info::default();
        self.call(command(READ, 4, size_of::<Info>()), &mut info)?;
        Ok(info)
    }

    /// Starts on all CPUs.
    pub fn start(&self, start: &Start) -> io::Result<()> {
        self.call(command(WRITE, 1, size_of::<Start>()), &mut start.clone())
    }

    /// Stops on all CPUs.
    pub fn stop(&self) -> io::Result<()> {
        self.call(command(0, 2, 0), &mut ())
    }

    /// What a CPU has done since the start.
    pub fn read(&self, cpu: u32) -> io::Result<DirectReading> {
        let mut reading = DirectReading { version: VERSION, cpu, ..DirectReading::default() };
        self.call(command(WRITE | READ, 3, size_of::<DirectReading>()), &mut reading)?;
        Ok(reading)
    }

    /// Has the kernel do so many locked operations; how many it did (fewer after a signal).
    pub fn work(&self, operations: u64) -> io::Result<u64> {
        let mut work = Work { version: VERSION, operations, ..Work::default() };
        self.call(command(WRITE | READ, 5, size_of::<Work>()), &mut work)?;
        Ok(work.operations)
    }

    fn call<T>(&self, command: libc::c_ulong, argument: &mut T) -> io::Result<()> {
        // SAFETY: the command's size field is T's, a #[repr(C)] mirror of the module's structure that outlives the call.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), command as _, argument as *mut T) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_and_commands_are_the_headers() {
        assert_eq!((size_of::<Info>(), size_of::<DirectEvent>(), size_of::<Start>()), (32, 24, 48 + 8 * 24));
        assert_eq!(size_of::<DirectReading>(), 16 + 9 * 8 + 8 * 8);
        // As a C compiler expands them from kmod/perftax_ioctl.h.
        assert_eq!(command(WRITE, 1, size_of::<Start>()), 0x40f0_b701);
        assert_eq!(command(0, 2, 0), 0xb702);
        assert_eq!(command(WRITE | READ, 3, size_of::<DirectReading>()), 0xc098_b703);
        assert_eq!(command(READ, 4, size_of::<Info>()), 0x8020_b704);
    }
}
