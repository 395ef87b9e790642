//! Programs and libraries as files: what stands in them (ELF, DWARF), what their addresses are called, and who called whom by a copy of a stack.
//!
//! ```text
//! Mapping        a line of /proc/PID/maps: which part of which file (FileId) lies where; AddressSpaces: those of many processes, by descent
//! elf            Elf: functions, variables, segments, build id of a file
//! probed         where a uprobe can stand at a function; static_probe: where a program offers one
//! naming         Names: code by function and source line, data by variable; Functions: by function alone; `functions_of_*`: many at once
//! generated      GeneratedCode: functions of code that a runtime makes and writes about (perf-PID.map, jitdump)
//! unwind         return addresses, from a copy of a stack
//! ```
//!
//! Nothing here knows of events or samples.

mod address_spaces;
mod demangle;
pub mod elf;
mod error;
pub mod generated;
mod mapping;
pub mod naming;
mod probed;
mod static_probe;
mod unwind;

pub use address_spaces::AddressSpaces;
pub use demangle::{demangled, without_parameters};
pub use error::{Error, Result};
pub use mapping::{FileId, FileKey, Mapping};
pub use probed::{ProbedFunction, ProbedFunctions, WaysOut};
pub use static_probe::{StaticProbe, static_probes};
pub use unwind::{Frame, MAX_CALLERS, Unwinder, Walk};
