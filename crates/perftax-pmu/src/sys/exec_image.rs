//! What execvp(3) does, in two halves: PATH is looked up and every string is made before a fork, and only execve(2) is called after it.
//! execvp itself reads the environment and uses the stack as it likes, and is not async-signal-safe (signal-safety(7)).

use std::ffi::{CString, OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt;

use super::child::c_string;
use crate::error::Result;

/// Where programs are looked for without a PATH (glibc's confstr(3), `_CS_PATH`).
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// What a script without a first line `#!` is given to (execvp(3)).
const SHELL: &std::ffi::CStr = c"/bin/sh";

/// A program's possible places and its arguments, ready to be executed without an allocation.
pub(super) struct ExecImage {
    /// Where the program may be, in the order of PATH. A relative place is looked for in the folder that is current when it is executed.
    places: Vec<CString>,
    /// The arguments' owner.
    _argv: Vec<CString>,
    /// A place for the shell's script argument, the program's name, its arguments, a null pointer. The program itself gets all but the
    /// first; the shell gets its own name and the script in the places of the first two.
    pointers: Vec<*const c_char>,
    /// The program's name.
    name: *const c_char,
}

impl ExecImage {
    /// For a program, by a path or a name to be found in our PATH, and its arguments.
    ///
    /// # Errors
    /// Where a word has a NUL byte.
    pub(super) fn of(argv: &[OsString]) -> Result<Self> {
        Self::in_path(argv, std::env::var_os("PATH").as_deref())
    }

    /// Likewise, in another PATH; none where there is no such variable.
    pub(super) fn in_path(argv: &[OsString], path: Option<&OsStr>) -> Result<Self> {
        let name = argv.first().map_or(&b""[..], |name| name.as_bytes());
        let places = places(name, path.unwrap_or(DEFAULT_PATH.as_ref()).as_bytes());
        let places = places.iter().map(|place| c_string(place)).collect::<Result<Vec<_>>>()?;
        let argv = argv.iter().map(|word| c_string(word.as_bytes())).collect::<Result<Vec<_>>>()?;
        let mut pointers = vec![SHELL.as_ptr()];
        pointers.extend(argv.iter().map(|word| word.as_ptr()));
        pointers.push(std::ptr::null());
        let name = argv.first().map_or(std::ptr::null(), |word| word.as_ptr());
        Ok(Self { places, _argv: argv, pointers, name })
    }

    /// Executes the first place that can be, with this environment, which ends with a null pointer. Returns only where none can be: with
    /// the `errno` that execvp(3) would leave. Only async-signal-safe calls.
    ///
    /// # Safety
    /// The environment's pointers are valid strings but for the last one, which is null. In a forked child, or where all threads may go.
    pub(super) unsafe fn execute(&mut self, environment: &[*const c_char]) -> i32 {
        // A name of nothing has no place.
        let (mut errno, mut is_refused) = (libc::ENOENT, false);
        for place in &self.places {
            // SAFETY: the place, the arguments (owned by this image) and the environment (by the caller) are valid strings in arrays that end
            // with a null pointer; errno is this thread's own.
            unsafe {
                libc::execve(place.as_ptr(), self.pointers[1..].as_ptr(), environment.as_ptr());
                errno = *libc::__errno_location();
            }
            if errno == libc::ENOEXEC {
                self.pointers[1] = place.as_ptr();
                // SAFETY: as above.
                unsafe {
                    libc::execve(SHELL.as_ptr(), self.pointers.as_ptr(), environment.as_ptr());
                    errno = *libc::__errno_location();
                }
                self.pointers[1] = self.name;
            }
            match errno {
                libc::EACCES => is_refused = true,
                // Not there, or not to be reached: the next one may be.
                libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                _ => return errno,
            }
        }
        if is_refused { libc::EACCES } else { errno }
    }
}

/// Where a program may be: a name with a slash is a path as it is, another is looked for in each element of PATH; an empty one is the
/// current folder.
fn places(name: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.contains(&b'/') {
        return vec![name.to_vec()];
    }
    let in_folder = |folder: &[u8]| match folder {
        [] => name.to_vec(),
        folder => [folder, b"/", name].concat(),
    };
    path.split(|byte| *byte == b':').map(in_folder).collect()
}
