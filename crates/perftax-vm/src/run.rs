//! Runs a command in a machine that boots for it, or has booted before.

use std::path::Path;

use crate::archive::Archive;
use crate::conversation::{Finished, Terminal, converse};
use crate::emulator::{Emulator, Start, fits};
use crate::error::Result;
use crate::guest::Guest;
use crate::installation::Installation;
use crate::resident::Resident;

/// Runs the guest's command in its machine, or a shell on this terminal; `us` is our own program, which the guest finds as `perftax`. The machine is
/// one that has booted before (the first run of a kind boots it) where that makes no difference but to time: it has one processor, its clock is its
/// instructions, and nobody wants to see it boot.
///
/// # Errors
/// Where the machine cannot be started, the guest panics, or time runs out.
pub fn run(installation: &Installation, guest: &Guest, us: &Path, terminal: Terminal) -> Result<Finished> {
    let mut files = Archive::default();
    guest.bring_programs(&mut files, Some(us), &installation.programs)?;
    guest.enough_memory(&installation.base, &files)?;
    let boots = guest.boots || guest.fast || guest.argv.is_empty() || guest.processor.count > 1 || !fits(&files);
    if boots {
        let mut orders = Archive::default();
        guest.give_orders(&mut orders);
        return converse(Emulator::start(installation, guest, orders, &Start::Boot(&files))?, guest, terminal);
    }
    let booted = Resident::booted(installation, guest, terminal.interrupted)?;
    guest.give_orders(&mut files);
    booted.run(installation, guest, files, terminal)
}
