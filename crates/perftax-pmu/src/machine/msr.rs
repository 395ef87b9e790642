//! Model-specific registers, through `/dev/cpu/0/msr` where the driver is loaded and we may read it.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use perftax_doc::steps::Operation;

use super::Root;

/// IA32_PERF_CAPABILITIES (SDM vol. 4, table 2-2).
pub const PERF_CAPABILITIES: u64 = 0x345;
/// IA32_MISC_ENABLE (SDM vol. 4, table 2-2).
pub const MISC_ENABLE: u64 = 0x1a0;

/// Why a register could not be read, and the command that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The reason, with the file.
    pub why: String,
    /// A command, or empty.
    pub fix: String,
}

/// Reads a register of the first CPU.
///
/// # Errors
/// [`Unreadable`] where the driver is not loaded, we are not root, or the CPU (or its hypervisor) has no such register.
pub fn read(root: &Root, register: u64) -> Result<u64, Unreadable> {
    let path = root.dev.join("cpu/0/msr");
    let no = |why: String, fix: &str| Unreadable { why, fix: fix.into() };
    let file = File::open(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => no(format!("{} is missing", path.display()), "sudo modprobe msr"),
        ErrorKind::PermissionDenied => no(format!("{} is for root only", path.display()), &Operation::DiagnoseAsRoot.to_string()),
        _ => no(format!("{}: {error}", path.display()), "sudo modprobe msr"),
    })?;
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, register) {
        Ok(()) => Ok(u64::from_le_bytes(bytes)),
        Err(error) => Err(no(format!("register {register:#x} cannot be read here ({error})"), "")),
    }
}
