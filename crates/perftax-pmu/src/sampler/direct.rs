//! PEBS by our own kernel module: any buffer size, records counted and thrown away. What is left is what the hardware takes.

use std::io;
use std::path::{Path, PathBuf};

use perftax_doc::steps::{Emulation, Operation, Setting};

use crate::error::{Error, Result};
use crate::event::{Event, Selector};
use crate::sys::direct::{self, DirectDevice, DirectEvent, DirectReading, Start};

/// The pages that a buffer is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// As large as can be had.
    #[default]
    Any,
    /// 4 KiB.
    Small,
    /// 2 MiB or more, or an error.
    Huge,
}

/// A session of one sampled event, on every CPU, ready to be started again and again.
#[derive(Debug)]
pub struct DirectSampler {
    device: DirectDevice,
    path: PathBuf,
    start: Start,
    cpu: u32,
}

impl DirectSampler {
    /// Where the module's device stands.
    pub const DEVICE: &str = "/dev/perftax";

    /// Whether the module is there and can have buffers of its own.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::Permission`] with what to do.
    pub fn check(path: &Path) -> Result<()> {
        Self::open_device(path).map(|_| ())
    }

    /// Prepares sampling of `event` every `period` events into buffers of `buffer_bytes`; what `cpu` does is what is read.
    ///
    /// # Errors
    /// As [`DirectSampler::check`].
    pub fn open(path: &Path, event: &Selector, period: u64, buffer_bytes: u64, pages: Pages, cpu: u32) -> Result<Self> {
        let device = Self::open_device(path)?;
        let mode = if event.user { direct::EVENT_USER } else { 0 } | if event.kernel { direct::EVENT_KERNEL } else { 0 };
        let pages = match pages {
            Pages::Any => 0,
            Pages::Small => direct::START_SMALL,
            Pages::Huge => direct::START_HUGE,
        };
        let sampled = DirectEvent::new(event.select, period, mode | direct::EVENT_PEBS);
        Ok(Self { device, path: path.into(), start: Start::of(&[sampled], buffer_bytes, pages), cpu })
    }

    /// Starts on all CPUs.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where perf, or another session, holds the counters.
    pub fn enable(&self) -> Result<()> {
        self.device.start(&self.start).map_err(|error| self.refused(error))
    }

    /// Stops, and says what the CPU has done.
    ///
    /// # Errors
    /// [`Error::Discarded`] where the session had ended before.
    pub fn disable(&self) -> Result<DirectReading> {
        let system = |call: &str| {
            let call = format!("{call} of {}", self.path.display());
            move |source| Error::System { call, source }
        };
        self.device.stop().map_err(system("STOP"))?;
        let reading = self.device.read(self.cpu).map_err(system("READ"))?;
        if reading.flags == 0 {
            return Ok(reading);
        }
        let why = "its CPU went offline, or the machine was suspended".into();
        Err(Error::Discarded { why, remedy: "measure again while neither happens".into() })
    }

    fn open_device(path: &Path) -> Result<DirectDevice> {
        let device = DirectDevice::open(path).map_err(|error| not_open(path, error))?;
        let info = device.info().map_err(|source| Error::System { call: format!("INFO of {}", path.display()), source })?;
        if info.version != direct::VERSION {
            let why = format!("perftax.ko speaks version {}, this perftax version {}", info.version, direct::VERSION);
            return Err(unsupported(why, "build and load the module that belongs to it: make kmod"));
        }
        match info.own_buffer {
            0 => Ok(device),
            direct::OWN_PTI => Err(unsupported(
                "page-table isolation is on, and user mode does not map the module's buffer".into(),
                &format!(
                    "boot with nopti on the kernel's command line ({})",
                    Operation::Emulate(Emulation { kernel_parameter: Some("nopti"), ..Emulation::default() })
                ),
            )),
            other => Err(unsupported(format!("perftax.ko gives reason {other}, which is unknown here"), "make kmod")),
        }
    }

    fn refused(&self, error: io::Error) -> Error {
        match error.raw_os_error() {
            Some(libc::EBUSY) => unsupported(
                "the counters are taken, by perf or by another session of perftax.ko".into(),
                "sudo sysctl kernel.nmi_watchdog=0, and end every perf",
            ),
            Some(libc::ENOMEM) => Error::Argument {
                argument: Setting::Buffer.name(),
                value: format!("{} bytes a CPU", self.start.buffer_bytes),
                needed: format!("as much as the kernel can give with such pages: less, or without {} huge", Setting::Pages),
            },
            _ => Error::System { call: format!("START of {}", self.path.display()), source: error },
        }
    }
}

fn unsupported(why: String, remedy: &str) -> Error {
    Error::Unsupported { what: "sample by pebs-direct".into(), why, remedy: remedy.into() }
}

fn not_open(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => unsupported(
            format!("{} is missing: perftax.ko is not loaded", path.display()),
            "make kmod, then sudo insmod perftax.ko",
        ),
        io::ErrorKind::PermissionDenied => Error::Permission {
            what: format!("open {}", path.display()),
            knob: "the capability CAP_PERFMON".into(),
            value: "missing".into(),
            needed: "to be granted".into(),
            command: "run as root".into(),
        },
        _ => Error::File { path: path.into(), source: error },
    }
}

/// The module's work in the kernel, whose locked operations are known; it needs no counter, and takes no session.
#[derive(Debug)]
pub struct KernelWork {
    device: DirectDevice,
    path: PathBuf,
}

impl KernelWork {
    /// Opens the module's device.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the module is not loaded, [`Error::Permission`].
    pub fn open(path: &Path) -> Result<Self> {
        let device = DirectDevice::open(path).map_err(|error| match not_open(path, error) {
            Error::Unsupported { why, remedy, .. } => {
                Error::Unsupported { what: "have the kernel do locked operations".into(), why, remedy }
            }
            error => error,
        })?;
        Ok(Self { device, path: path.into() })
    }

    /// Does so many locked operations in kernel mode.
    ///
    /// # Errors
    /// Where the module refuses, or a signal ended it early.
    pub fn run(&self, operations: u64) -> Result<()> {
        let system = |source| Error::System { call: format!("WORK of {}", self.path.display()), source };
        match self.device.work(operations).map_err(system)? {
            done if done == operations => Ok(()),
            done => Err(Error::Discarded {
                why: format!("a signal ended the kernel's work after {done} of {operations} operations"),
                remedy: "again, without the signal".into(),
            }),
        }
    }
}

impl Event {
    /// Checks that a session of the module can sample the event, and says how its counter is programmed.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where it is no event of a core's counters.
    pub fn direct(&self, catalog: &crate::event::Catalog) -> Result<Selector> {
        self.selector(catalog).ok_or_else(|| {
            unsupported(
                format!("{} is no event of a core's general counters", self.name),
                &format!("{0} instructions:u, or {0} rUUEE:u", Setting::Event),
            )
        })
    }
}
