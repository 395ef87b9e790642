//! PAPI, loaded at run time where it is installed: the library that most programs measure themselves with, to compare with.
//!
//! The C declarations are those of papi.h, PAPI 5 to 7.

use std::ffi::{CStr, CString, c_char, c_int, c_longlong};
use std::fmt;
use std::sync::{Mutex, OnceLock};

use libloading::Library;

use super::libpfm::{self, Libpfm};

/// The library's files, as the dynamic loader finds them, newest first.
pub const LIBRARIES: [&str; 5] = ["libpapi.so.7.2", "libpapi.so.7.1", "libpapi.so.7.0", "libpapi.so.6.0", "libpapi.so.5.7"];

const PAPI_OK: c_int = 0;
/// An event set that is none yet.
const PAPI_NULL: c_int = -1;
/// Most events of a set that we ask for.
const EVENTS_MAX: usize = 64;

/// A processor that libpfm has events for, which need not be this one.
const SOME_PROCESSOR: &str = "skl";

/// The loaded library.
pub struct Papi {
    create: unsafe extern "C" fn(*mut c_int) -> c_int,
    add: unsafe extern "C" fn(c_int, *const c_char) -> c_int,
    start: unsafe extern "C" fn(c_int) -> c_int,
    stop: unsafe extern "C" fn(c_int, *mut c_longlong) -> c_int,
    read: unsafe extern "C" fn(c_int, *mut c_longlong) -> c_int,
    cleanup: unsafe extern "C" fn(c_int) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_int) -> c_int,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    version: (u32, u32),
    persuaded: bool,
    /// Last: the functions above point into it. Never unloaded, since PAPI registers handlers.
    _library: Library,
}

impl fmt::Debug for Papi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Papi({}.{})", self.version.0, self.version.1)
    }
}

impl Papi {
    /// The library, loaded and initialised once a process; event sets of all threads but the first that asks are its own business, so only one
    /// thread should use it.
    ///
    /// # Errors
    /// The loader's or the library's words.
    pub fn get() -> Result<&'static Self, String> {
        static PAPI: OnceLock<Result<Papi, String>> = OnceLock::new();
        static LOCK: Mutex<()> = Mutex::new(());
        let _one_at_a_time = LOCK.lock();
        PAPI.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, String> {
        // SAFETY: loading runs the library's initialisers; PAPI has none that matter.
        let loaded = LIBRARIES.iter().map(|file| unsafe { Library::new(*file) });
        let mut loaded = loaded;
        let library = loaded.find_map(Result::ok).ok_or_else(|| {
            format!("PAPI is not installed (none of {} is found): apt-get install libpapi-dev", LIBRARIES.join(", "))
        })?;
        // PAPI counts nothing, not even software events, where libpfm has no events for this processor: it is told of another one while it
        // starts, and libpfm of the truth afterwards.
        let persuading =
            Libpfm::load(libpfm::LIBRARY).is_ok_and(|pfm| !pfm.pmus().iter().any(|pmu| pmu.is_present && pmu.is_core));
        let forced = persuading.then(|| libpfm::forced(SOME_PROCESSOR)).transpose()?;
        // SAFETY: the symbol has the type that papi.h declares: int PAPI_library_init(int version).
        let init: unsafe extern "C" fn(c_int) -> c_int = unsafe { libpfm::symbol(&library, c"PAPI_library_init") }?;
        let versions = (5..=9u32).rev().flat_map(|major| (0..=9u32).rev().map(move |minor| (major, minor)));
        // SAFETY: a version that is not the library's is answered with PAPI_EINVAL and changes nothing (papi.c, PAPI_library_init).
        let version = versions.into_iter().find(|&version| unsafe { init(number(version)) } == number(version));
        drop(forced);
        let version = version.ok_or("PAPI_library_init accepts no version of 5.0 to 9.9")?;
        // SAFETY: each symbol below has the type that papi.h declares for it.
        unsafe {
            Ok(Self {
                create: libpfm::symbol(&library, c"PAPI_create_eventset")?,
                add: libpfm::symbol(&library, c"PAPI_add_named_event")?,
                start: libpfm::symbol(&library, c"PAPI_start")?,
                stop: libpfm::symbol(&library, c"PAPI_stop")?,
                read: libpfm::symbol(&library, c"PAPI_read")?,
                cleanup: libpfm::symbol(&library, c"PAPI_cleanup_eventset")?,
                destroy: libpfm::symbol(&library, c"PAPI_destroy_eventset")?,
                strerror: libpfm::symbol(&library, c"PAPI_strerror")?,
                version,
                persuaded: persuading,
                _library: library,
            })
        }
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Whether it was told of another processor while it started, because libpfm knows none of this one.
    pub fn is_persuaded(&self) -> bool {
        self.persuaded
    }

    /// A set of these events of the calling thread, by the names that PAPI gives them.
    ///
    /// # Errors
    /// PAPI's words, with the event that it refuses.
    pub fn set(&'static self, names: &[&str]) -> Result<PapiSet, String> {
        if names.len() > EVENTS_MAX {
            return Err(format!("{} events asked for, of which a set holds {EVENTS_MAX} here", names.len()));
        }
        let mut set = PapiSet { papi: self, number: PAPI_NULL, counts: vec![0; EVENTS_MAX] };
        // SAFETY: the kernel's side of the set is the calling thread's; the number lives across the call.
        self.check(unsafe { (self.create)(&raw mut set.number) }, "PAPI_create_eventset")?;
        for name in names {
            let text = CString::new(*name).map_err(|_| format!("'{name}' holds a NUL byte"))?;
            // SAFETY: the name is NUL-terminated; the set was made just now.
            self.check(unsafe { (self.add)(set.number, text.as_ptr()) }, &format!("PAPI_add_named_event({name})"))?;
        }
        Ok(set)
    }

    fn check(&self, status: c_int, call: &str) -> Result<(), String> {
        if status == PAPI_OK {
            return Ok(());
        }
        // SAFETY: any number is answered with a static string, or with none.
        let words = unsafe { (self.strerror)(status) };
        // SAFETY: not null; PAPI's strings are NUL-terminated and live as long as the library, which is never unloaded.
        let words = if words.is_null() { "unknown".into() } else { unsafe { CStr::from_ptr(words) }.to_string_lossy() };
        Err(format!("{call}: {words} ({status})"))
    }
}

/// Events that PAPI starts, stops and reads. What it is asked is not checked until [`PapiSet::check`]: programs that measure themselves in a
/// hurry look at the answer, but make no text of it.
pub struct PapiSet {
    papi: &'static Papi,
    number: c_int,
    counts: Vec<c_longlong>,
}

impl fmt::Debug for PapiSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PapiSet({:?}, {})", self.papi, self.number)
    }
}

/// What PAPI answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PapiStatus(c_int);

impl PapiSet {
    /// `PAPI_start`.
    #[inline]
    pub fn start(&self) -> PapiStatus {
        // SAFETY: the set is ours.
        PapiStatus(unsafe { (self.papi.start)(self.number) })
    }

    /// `PAPI_read`.
    #[inline]
    pub fn read(&mut self) -> PapiStatus {
        // SAFETY: the set is ours, and has no more events than there is room for.
        PapiStatus(unsafe { (self.papi.read)(self.number, self.counts.as_mut_ptr()) })
    }

    /// `PAPI_stop`, which reads, too.
    #[inline]
    pub fn stop(&mut self) -> PapiStatus {
        // SAFETY: as in `read`.
        PapiStatus(unsafe { (self.papi.stop)(self.number, self.counts.as_mut_ptr()) })
    }

    /// Whether a call worked.
    ///
    /// # Errors
    /// PAPI's words.
    pub fn check(&self, status: PapiStatus, call: &str) -> Result<(), String> {
        self.papi.check(status.0, call)
    }

    /// What was read last: the counts in the order of the events, and zeros behind.
    pub fn counts(&self) -> &[c_longlong] {
        &self.counts
    }
}

impl Drop for PapiSet {
    fn drop(&mut self) {
        // SAFETY: the set is ours; a set that runs is stopped first, and one that does not says so.
        unsafe {
            (self.papi.stop)(self.number, self.counts.as_mut_ptr());
            (self.papi.cleanup)(self.number);
            (self.papi.destroy)(&raw mut self.number);
        }
    }
}

/// `PAPI_VER_CURRENT` of a version (papi.h).
fn number((major, minor): (u32, u32)) -> c_int {
    (major << 24 | minor << 16) as c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs libpapi, which scripts/setup installs.
    #[test]
    fn it_counts_page_faults() {
        let papi = Papi::get().unwrap();
        let mut set = papi.set(&["perf::PAGE-FAULTS"]).or_else(|_| papi.set(&["PAGE-FAULTS"])).unwrap();
        set.check(set.start(), "PAPI_start").unwrap();
        let mut area = crate::sys::FaultArea::new(50).unwrap();
        area.touch();
        let status = set.read();
        set.check(status, "PAPI_read").unwrap();
        assert!((50..100).contains(&set.counts()[0]), "{:?}", set.counts());
        // Libpfm is as it was, whatever PAPI was told: it encodes events of other processors.
        let pfm = Libpfm::load(libpfm::LIBRARY).unwrap();
        assert_eq!(pfm.encode("skx::UOPS_RETIRED:ALL").unwrap().config & 0xffff, 0x1c2);
        let refused = papi.set(&["no such event"]).unwrap_err();
        assert!(refused.contains("no such event") && refused.contains("(-"), "{refused}");
        let stopped = set.stop();
        set.check(stopped, "PAPI_stop").unwrap();
        assert!(set.check(set.start(), "").is_ok() && set.check(set.start(), "PAPI_start").is_err(), "it runs already");
    }
}
