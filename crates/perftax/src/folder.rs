//! Where a program that is run again and again runs, and what it leaves there.

use anyhow::Result;
use perftax_doc::Warning;
use perftax_lab::run::{Command, Left, Scratch, sweep};
use perftax_pmu::Error;
use perftax_pmu::event::Event;

use crate::progress::announce;

/// The choice.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct FolderChoice {
    /// Each run in a fresh copy of the current folder, with a TMPDIR of its own: it finds the same files as the run before, and leaves none.
    /// At most 1 GiB, unless the file system lets copies share their blocks
    #[arg(long, conflicts_with = "workload")]
    pub scratch: bool,
}

impl FolderChoice {
    /// The command to run there, so many times at once. `events` are to be opened on it.
    pub fn place(self, command: Command, events: &[Event], copies: u64) -> Result<Command> {
        sweep();
        if !self.scratch {
            // A shipped workload writes over what it has written.
            return Ok(if command.spec.directory.is_some() { command } else { command.watching_what_is_left(tell) });
        }
        let (scratch, size) = Scratch::of_current(copies)?;
        let probed = events.iter().filter_map(|event| event.uprobe.as_ref()).map(|probe| &probe.path);
        let is_inside =
            |path: &&std::path::PathBuf| std::path::absolute(path).is_ok_and(|path| path.starts_with(scratch.original()));
        if let Some(path) = { probed }.find(is_inside) {
            return Err(Error::Argument {
                argument: "--scratch",
                value: format!("given, with a probe on {}", path.display()),
                needed:
                    "a probe on a file outside of the current folder: each run executes a copy of its own, which nobody probes"
                        .into(),
            }
            .into());
        }
        let copied = match size.bytes - size.shared_bytes {
            0 if size.bytes > 0 => "which share its blocks".into(),
            bytes => format!("{} KiB copied for each", bytes.div_ceil(1024)),
        };
        let files = if size.files == 1 { "file" } else { "files" };
        announce(&format!("each run in a copy of {} ({} {files}, {copied})", scratch.original().display(), size.files));
        Ok(command.in_copies(scratch))
    }
}

fn tell(left: &Left) {
    announce(&format!(
        "each run {} (--scratch runs it in a copy of this folder, which goes with what is left there)",
        left.text()
    ));
}

/// What stands beside a result whose runs have left something.
pub fn warning(command: &Command) -> Option<Warning> {
    let left = command.left()?;
    Some(Warning::Other {
        message: format!("each run {}: a run may not be like the one before", left.text()),
        remedy: "--scratch, for a fresh copy of this folder in each run; what is there now is yours to remove".into(),
    })
}
