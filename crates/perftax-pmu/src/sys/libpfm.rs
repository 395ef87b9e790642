//! libpfm4, loaded at run time where it is installed: symbolic event names of any CPU.
//!
//! The C declarations are those of perfmon/pfmlib.h and perfmon/pfmlib_perf_event.h of libpfm 4.13; its ABI has been
//! stable since 4.0 (each struct carries its size).

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libloading::Library;
use perf_event_open_sys::bindings::perf_event_attr;

/// The library's file, as the dynamic loader finds it.
pub const LIBRARY: &str = "libpfm.so.4";

/// libpfm has global state and does no locking. One process has one libpfm, so one lock.
static LOCK: Mutex<()> = Mutex::new(());

/// Makes libpfm encode events of CPUs other than the one it runs on. Read once, by `pfm_initialize`.
const ENCODE_INACTIVE: &str = "LIBPFM_ENCODE_INACTIVE";

/// Makes libpfm believe in one processor. Read once, by `pfm_initialize`.
const FORCE_PMU: &str = "LIBPFM_FORCE_PMU";

const PFM_SUCCESS: c_int = 0;
const PFM_ERR_INVAL: c_int = -2;
const PFM_ERR_NOTFOUND: c_int = -4;
/// `PFM_OS_PERF_EVENT_EXT`: takes perf_events' own attributes (`precise=`, `period=`) as well.
const PFM_OS_PERF_EVENT_EXT: c_int = 2;
/// Kernel and user: what counts when the name says nothing.
const PFM_PLM0_PLM3: c_int = 0x01 | 0x08;
/// `PFM_ATTR_UMASK`.
const PFM_ATTR_UMASK: c_int = 1;
/// `PFM_PMU_TYPE_CORE`.
const PFM_PMU_TYPE_CORE: c_int = 1;
/// No libpfm has had nearly that many PMUs; a stop for a library that never answers "out of range".
const PMU_LIMIT: c_int = 4096;

#[repr(C)]
struct EncodeArgument {
    attr: *mut perf_event_attr,
    full_name: *mut *mut c_char,
    size: usize,
    index: c_int,
    cpu: c_int,
    flags: c_int,
    padding: c_int,
}

// PFM_PERF_ENCODE_ABI0: the library refuses any other size.
const _: () = assert!(size_of::<EncodeArgument>() == 40);

/// A `perf_event_attr` with room behind it, for a library built against newer headers than ours.
#[repr(C)]
struct RoomyAttr {
    attr: perf_event_attr,
    room: [u64; 32],
}

#[repr(C)]
struct RawPmu {
    name: *const c_char,
    description: *const c_char,
    size: usize,
    pmu: c_int,
    kind: c_int,
    events: c_int,
    first_event: c_int,
    max_encoding: c_int,
    counters: c_int,
    fixed_counters: c_int,
    flags: u32,
}

#[repr(C)]
struct RawEvent {
    name: *const c_char,
    description: *const c_char,
    equivalent: *const c_char,
    size: usize,
    code: u64,
    pmu: c_int,
    data_type: c_int,
    index: c_int,
    attributes: c_int,
    reserved: c_int,
    flags: u32,
}

#[repr(C)]
struct RawAttribute {
    name: *const c_char,
    description: *const c_char,
    equivalent: *const c_char,
    size: usize,
    code: u64,
    kind: c_int,
    index: c_int,
    control: c_int,
    flags: u32,
    default: u64,
}

// PFM_PMU_INFO_ABI0, PFM_EVENT_INFO_ABI0, PFM_ATTR_INFO_ABI0.
const _: () = assert!(size_of::<RawPmu>() == 56 && size_of::<RawEvent>() == 64 && size_of::<RawAttribute>() == 64);

/// A PMU that libpfm knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuInfo {
    /// Its prefix: `skx`.
    pub name: String,
    /// In words: `Intel Skylake X`.
    pub description: String,
    /// Whether this machine has it.
    pub is_present: bool,
    /// Whether it is a core's, not uncore or software.
    pub is_core: bool,
    /// How many events it has.
    pub event_count: usize,
    first_event: c_int,
}

/// An event that libpfm knows, or one of its unit masks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEvent {
    /// Full name: `skx::UOPS_RETIRED:ALL`.
    pub name: String,
    /// What it counts.
    pub description: String,
}

/// What libpfm put into the attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// `type`.
    pub pmu_type: u32,
    /// `config`.
    pub config: u64,
    /// `config1`.
    pub config1: u64,
    /// `config2`.
    pub config2: u64,
    /// `exclude_user`.
    pub exclude_user: bool,
    /// `exclude_kernel`.
    pub exclude_kernel: bool,
    /// `exclude_hv`.
    pub exclude_hv: bool,
    /// `exclude_host`.
    pub exclude_host: bool,
    /// `exclude_guest`.
    pub exclude_guest: bool,
    /// `precise_ip`.
    pub precise: u8,
    /// `pinned`.
    pub pinned: bool,
    /// `exclusive`.
    pub exclusive: bool,
    /// `sample_period` or `sample_freq`; 0 where the name says nothing.
    pub rate: u64,
    /// Whether `rate` is a frequency.
    pub is_frequency: bool,
}

/// Why libpfm did not encode a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It knows no such event.
    NotFound,
    /// In its own words.
    Other(String),
}

/// The loaded library.
pub struct Libpfm {
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    get_version: unsafe extern "C" fn() -> c_int,
    get_pmu_info: unsafe extern "C" fn(c_int, *mut RawPmu) -> c_int,
    get_event_next: unsafe extern "C" fn(c_int) -> c_int,
    get_event_info: unsafe extern "C" fn(c_int, c_int, *mut RawEvent) -> c_int,
    get_event_attr_info: unsafe extern "C" fn(c_int, c_int, c_int, *mut RawAttribute) -> c_int,
    get_os_event_encoding: unsafe extern "C" fn(*const c_char, c_int, c_int, *mut c_void) -> c_int,
    /// Last: the functions above point into it.
    _library: Library,
}

impl fmt::Debug for Libpfm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version();
        write!(f, "Libpfm({major}.{minor})")
    }
}

impl Libpfm {
    /// Loads and initialises the library.
    ///
    /// # Errors
    /// The loader's or the library's words.
    pub fn load(file: &str) -> Result<Self, String> {
        let _guard = lock();
        // SAFETY: loading runs the library's initialisers; libpfm has none beyond the C runtime's.
        let library = unsafe { Library::new(file) }.map_err(words_of_loader)?;
        // SAFETY: the symbol has the type that pfmlib.h declares: pfm_err_t pfm_initialize(void).
        let initialize = unsafe { symbol::<unsafe extern "C" fn() -> c_int>(&library, c"pfm_initialize") }?;
        // SAFETY: each symbol below has the type that pfmlib.h declares for it.
        let this = unsafe {
            Self {
                strerror: symbol(&library, c"pfm_strerror")?,
                get_version: symbol(&library, c"pfm_get_version")?,
                get_pmu_info: symbol(&library, c"pfm_get_pmu_info")?,
                get_event_next: symbol(&library, c"pfm_get_event_next")?,
                get_event_info: symbol(&library, c"pfm_get_event_info")?,
                get_event_attr_info: symbol(&library, c"pfm_get_event_attr_info")?,
                get_os_event_encoding: symbol(&library, c"pfm_get_os_event_encoding")?,
                _library: library,
            }
        };
        let restore = Variable::set(ENCODE_INACTIVE, "1");
        // SAFETY: takes nothing; a second call in one process finds the work done. LOCK is held.
        let status = unsafe { initialize() };
        drop(restore);
        if status == PFM_SUCCESS { Ok(this) } else { Err(this.words(status)) }
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        // SAFETY: takes nothing, reads a constant.
        let version = unsafe { (self.get_version)() }.unsigned_abs();
        (version >> 16, version & 0xffff)
    }

    /// Encodes a name, with unit masks and libpfm's own modifiers behind colons.
    ///
    /// # Errors
    /// Why the library refuses it.
    pub fn encode(&self, name: &str) -> Result<Encoded, Refusal> {
        let name = CString::new(name).map_err(|_| Refusal::NotFound)?;
        let mut roomy = RoomyAttr { attr: perf_event_attr::default(), room: [0; 32] };
        roomy.attr.size = u32::try_from(size_of::<perf_event_attr>()).unwrap_or_default();
        let mut argument = EncodeArgument {
            attr: (&raw mut roomy).cast(),
            full_name: std::ptr::null_mut(),
            size: size_of::<EncodeArgument>(),
            index: 0,
            cpu: 0,
            flags: 0,
            padding: 0,
        };
        let _guard = lock();
        // SAFETY: the name is NUL-terminated; the argument is the struct that PFM_OS_PERF_EVENT_EXT asks for, with its
        // size, and its attr points to a live perf_event_attr that has room behind it. No string is asked for.
        let status = unsafe {
            (self.get_os_event_encoding)(name.as_ptr(), PFM_PLM0_PLM3, PFM_OS_PERF_EVENT_EXT, (&raw mut argument).cast())
        };
        match status {
            PFM_SUCCESS => Ok(decode(&roomy.attr)),
            PFM_ERR_NOTFOUND => Err(Refusal::NotFound),
            other => Err(Refusal::Other(self.words(other))),
        }
    }

    /// Every PMU that the library supports.
    pub fn pmus(&self) -> Vec<PmuInfo> {
        let _guard = lock();
        let mut found = Vec::new();
        for id in 0..PMU_LIMIT {
            // SAFETY: all-zero is a valid RawPmu: null pointers and numbers.
            let mut raw: RawPmu = unsafe { std::mem::zeroed() };
            raw.size = size_of::<RawPmu>();
            // SAFETY: the struct is live and carries its size; any id is answered, out of range with an error.
            match unsafe { (self.get_pmu_info)(id, &raw mut raw) } {
                PFM_SUCCESS => found.push(PmuInfo {
                    name: text(raw.name),
                    description: text(raw.description),
                    is_present: raw.flags & 1 != 0,
                    is_core: raw.kind == PFM_PMU_TYPE_CORE,
                    event_count: usize::try_from(raw.events).unwrap_or(0),
                    first_event: raw.first_event,
                }),
                PFM_ERR_INVAL => break,
                _ => {}
            }
        }
        found
    }

    /// The events of a PMU, those with unit masks once per mask.
    pub fn events(&self, pmu: &PmuInfo) -> Vec<NamedEvent> {
        let _guard = lock();
        let mut found = Vec::new();
        let mut index = pmu.first_event;
        for _ in 0..pmu.event_count {
            if index < 0 {
                break;
            }
            self.add_event(pmu, index, &mut found);
            // SAFETY: takes a number; an index that does not exist is answered with -1.
            index = unsafe { (self.get_event_next)(index) };
        }
        found
    }

    fn add_event(&self, pmu: &PmuInfo, index: c_int, found: &mut Vec<NamedEvent>) {
        // SAFETY: all-zero is a valid RawEvent: null pointers and numbers.
        let mut raw: RawEvent = unsafe { std::mem::zeroed() };
        raw.size = size_of::<RawEvent>();
        // SAFETY: the struct is live and carries its size.
        if unsafe { (self.get_event_info)(index, PFM_OS_PERF_EVENT_EXT, &raw mut raw) } != PFM_SUCCESS {
            return;
        }
        let (name, description) = (format!("{}::{}", pmu.name, text(raw.name)), text(raw.description));
        let before = found.len();
        for attribute in 0..raw.attributes {
            // SAFETY: all-zero is a valid RawAttribute: null pointers and numbers.
            let mut mask: RawAttribute = unsafe { std::mem::zeroed() };
            mask.size = size_of::<RawAttribute>();
            // SAFETY: the struct is live and carries its size.
            let status = unsafe { (self.get_event_attr_info)(index, attribute, PFM_OS_PERF_EVENT_EXT, &raw mut mask) };
            if status == PFM_SUCCESS && mask.kind == PFM_ATTR_UMASK {
                let description = format!("{description}: {}", text(mask.description));
                found.push(NamedEvent { name: format!("{name}:{}", text(mask.name)), description });
            }
        }
        if found.len() == before {
            found.push(NamedEvent { name, description });
        }
    }

    fn words(&self, status: c_int) -> String {
        // SAFETY: any number is answered with a static string.
        text(unsafe { (self.strerror)(status) })
    }
}

/// libpfm as if the processor were the one of this name, until the value is dropped; then as it is again. For libraries that find no PMU of this
/// processor and then refuse software events, too.
///
/// # Errors
/// The loader's or the library's words.
pub(super) fn forced(processor: &str) -> Result<Forced, String> {
    let guard = lock();
    // SAFETY: loading runs the library's initialisers; libpfm has none beyond the C runtime's.
    let library = unsafe { Library::new(LIBRARY) }.map_err(words_of_loader)?;
    // SAFETY: the symbols have the types that pfmlib.h declares: void pfm_terminate(void), pfm_err_t pfm_initialize(void).
    let forced = unsafe {
        Forced {
            terminate: symbol(&library, c"pfm_terminate")?,
            initialize: symbol(&library, c"pfm_initialize")?,
            variable: Some(Variable::set(FORCE_PMU, processor)),
            _library: library,
        }
    };
    forced.begin_anew();
    drop(guard);
    Ok(forced)
}

/// See [`forced`].
pub(super) struct Forced {
    terminate: unsafe extern "C" fn(),
    initialize: unsafe extern "C" fn() -> c_int,
    variable: Option<Variable>,
    _library: Library,
}

impl Forced {
    fn begin_anew(&self) {
        // As `load` has it: what was loaded before goes on encoding events of other CPUs.
        let _inactive = Variable::set(ENCODE_INACTIVE, "1");
        // SAFETY: both take nothing; libpfm then looks at the processor and its variables again. No event is being encoded: LOCK is held.
        unsafe {
            (self.terminate)();
            (self.initialize)();
        }
    }
}

impl Drop for Forced {
    fn drop(&mut self) {
        let _guard = lock();
        self.variable = None;
        self.begin_anew();
    }
}

/// libloading keeps the loader's own words, which name the file, in the source of its error.
fn words_of_loader(error: libloading::Error) -> String {
    std::error::Error::source(&error).map_or_else(|| error.to_string(), |source| source.to_string())
}

/// # Safety
/// `T` must be the type of the symbol's function.
pub(super) unsafe fn symbol<T: Copy>(library: &Library, name: &CStr) -> Result<T, String> {
    // SAFETY: the caller vouches for the type.
    unsafe { library.get::<T>(name) }.map(|symbol| *symbol).map_err(|error| error.to_string())
}

fn lock() -> MutexGuard<'static, ()> {
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: not null; libpfm's strings are NUL-terminated and live as long as the library.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

fn decode(attr: &perf_event_attr) -> Encoded {
    // SAFETY: every member of these unions is an integer of 64 bits, and every pattern of bits is one.
    let (config1, config2, rate) =
        unsafe { (attr.__bindgen_anon_3.config1, attr.__bindgen_anon_4.config2, attr.__bindgen_anon_1.sample_period) };
    Encoded {
        pmu_type: attr.type_,
        config: attr.config,
        config1,
        config2,
        exclude_user: attr.exclude_user() != 0,
        exclude_kernel: attr.exclude_kernel() != 0,
        exclude_hv: attr.exclude_hv() != 0,
        exclude_host: attr.exclude_host() != 0,
        exclude_guest: attr.exclude_guest() != 0,
        precise: u8::try_from(attr.precise_ip()).unwrap_or(0),
        pinned: attr.pinned() != 0,
        exclusive: attr.exclusive() != 0,
        rate,
        is_frequency: attr.freq() != 0,
    }
}

/// An environment variable that is set for a moment and put back, so that no child inherits it.
struct Variable {
    name: &'static str,
    before: Option<OsString>,
}

impl Variable {
    fn set(name: &'static str, value: &str) -> Self {
        let before = std::env::var_os(name);
        // SAFETY: Rust's own accesses to the environment are locked against this one. C code in another thread that
        // reads it at this moment would race: events are parsed before perftax starts any thread that calls into C.
        unsafe { std::env::set_var(name, value) };
        Self { name, before }
    }
}

impl Drop for Variable {
    fn drop(&mut self) {
        match &self.before {
            // SAFETY: as in `set`.
            Some(before) => unsafe { std::env::set_var(self.name, before) },
            // SAFETY: as in `set`.
            None => unsafe { std::env::remove_var(self.name) },
        }
    }
}
