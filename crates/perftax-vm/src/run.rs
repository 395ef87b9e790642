//! Runs a command in a machine that boots for it, or has booted before.

use std::path::Path;

use perftax_doc::steps::Setting;

use crate::archive::Archive;
use crate::conversation::{Finished, Terminal, converse};
use crate::emulator::{Emulator, Start, fits};
use crate::error::{Error, Result};
use crate::guest::{Guest, memory_for};
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
    enough_memory(installation, guest, &files)?;
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

/// Fails where what is brought along does not fit into the guest's memory: its kernel would panic.
///
/// # Errors
/// Where it does not.
pub(crate) fn enough_memory(installation: &Installation, guest: &Guest, files: &Archive) -> Result<()> {
    let base = std::fs::metadata(&installation.base).map_or(0, |base| base.len() as usize);
    let needed = memory_for(base + files.bytes());
    if needed <= guest.memory_mib {
        return Ok(());
    }
    Err(Error::Missing {
        what: "memory of the machine".into(),
        why: format!(
            "{} MiB of files come along, which need {needed} MiB of it, and it has {}",
            files.bytes() >> 20,
            guest.memory_mib
        ),
        remedy: format!("{} {}", Setting::Memory, needed.next_multiple_of(256)),
    })
}
