//! A machine that has booted once, in which commands run one after another, each as if it had just booted.
//!
//! The booted machine is saved where it waits for its orders: its memory as a file without a name, the rest of its state beside it. A command
//! runs in a copy, which maps that memory and writes to pages of its own: so each finds the same clock, the same seed, the same files and the
//! same counters, and none sees what another left behind. What is not saved are the caches of `--caches`: they are empty at each command.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use perftax_doc::steps::Setting;
use rustix::fs::{Gid, Uid};

use crate::archive::Archive;
use crate::conversation::{Finished, Terminal, converse, listen};
use crate::emulator::{Emulator, LINES, Start, memory};
use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::installation::Installation;
use crate::kept::{Kept, copy_sparse};

/// A file whose presence has the guest wait to be saved once more (vm/guest/init).
const AGAIN: &str = "/run/again";

/// A saved machine: gone with the last process that has it.
#[derive(Debug)]
pub struct Resident {
    memory: OwnedFd,
    state: OwnedFd,
}

impl Resident {
    /// A machine as the guest's with `us` as its `perftax`, the guest's shared folder and programs, saved before any command.
    ///
    /// # Errors
    /// Where the machine cannot be started, panics, cannot be saved, is interrupted, or time runs out.
    pub fn boot(installation: &Installation, guest: &Guest, us: &Path, interrupted: fn() -> bool) -> Result<Self> {
        let booted = Self::booted(installation, guest, interrupted)?;
        let mut files = Archive::default();
        guest.bring_programs(&mut files, Some(us), &installation.programs)?;
        guest.enough_memory(&installation.base, &files)?;
        files.add(Path::new(AGAIN), b"", false);
        let ram = memory("guest", guest.memory_bytes())?;
        copy_sparse(&booted.memory, &ram).map_err(Error::file("the saved machine"))?;
        let mut emulator = Emulator::start(installation, guest, files, &Start::LoadToSave(&ram, &booted.state))?;
        let state = save(&mut emulator, guest.timeout, interrupted)?;
        Ok(Self { memory: ram, state })
    }

    /// A machine as the guest's that has booted and has nothing of the guest's yet: one that was kept, or one that boots now and is kept.
    ///
    /// # Errors
    /// As [`Self::boot`].
    pub(crate) fn booted(installation: &Installation, guest: &Guest, interrupted: fn() -> bool) -> Result<Self> {
        let kept = Kept::of(installation, guest);
        if let Some((memory, state)) = kept.open() {
            return Ok(Self { memory, state });
        }
        let ram = memory("guest", guest.memory_bytes())?;
        let bare = Guest { processor: guest.processor.as_booted(), ..guest.clone() };
        let how = Start::BootToSave(&Archive::default(), &ram);
        let mut emulator = Emulator::start(installation, &bare, Archive::default(), &how)?;
        let state = save(&mut emulator, guest.timeout, interrupted)?;
        // Where it cannot be kept (a full disk, a cache of somebody else's), the next one boots, too.
        kept.keep(&ram, &state).ok();
        Ok(Self { memory: ram, state })
    }

    /// From what [`Self::parts`] gave, here or in another process.
    pub fn of_parts([memory, state]: [OwnedFd; 2]) -> Self {
        Self { memory, state }
    }

    /// Its memory and the rest of its state.
    pub fn parts(&self) -> [BorrowedFd<'_>; 2] {
        [self.memory.as_fd(), self.state.as_fd()]
    }

    /// Runs a command in a copy of it. The guest's machine must be the one that was booted, but for what the manuals leave open
    /// (times, skid, which event is recorded); what the command needs comes along.
    ///
    /// # Errors
    /// As [`crate::run`].
    pub fn exec(&self, installation: &Installation, guest: &Guest, terminal: Terminal) -> Result<Finished> {
        let mut orders = Archive::default();
        guest.give_orders(&mut orders);
        guest.bring_programs(&mut orders, None, &installation.programs)?;
        guest.enough_memory(&installation.base, &orders)?;
        self.run(installation, guest, orders, terminal)
    }

    pub(crate) fn run(
        &self,
        installation: &Installation,
        guest: &Guest,
        orders: Archive,
        terminal: Terminal,
    ) -> Result<Finished> {
        let emulator = Emulator::start(installation, guest, orders, &Start::Load(&self.memory, &self.state))?;
        converse(emulator, guest, terminal)
    }

    /// Memory that it holds now, bytes: of what the guest has, what it has written to.
    pub fn bytes(&self) -> u64 {
        let held = |part: BorrowedFd<'_>| rustix::fs::fstat(part).map_or(0, |stat| stat.st_blocks.cast_unsigned() * 512);
        self.parts().into_iter().map(held).sum()
    }
}

/// Waits until the guest stops for it, and saves all but the memory.
fn save(emulator: &mut Emulator, timeout: Duration, interrupted: fn() -> bool) -> Result<OwnedFd> {
    // QEMU opens no line that nobody listens to.
    let _said = LINES.map(|line| listen(emulator.at(line)));
    let path = emulator.at("state");
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).map_err(Error::file(&path))?;
    if let Ok(out) = std::fs::metadata(emulator.at("out")) {
        // Who writes it is who may write there.
        rustix::fs::fchown(&file, Some(Uid::from_raw(out.uid())), Some(Gid::from_raw(out.gid()))).ok();
    }
    let until = Until { deadline: Instant::now() + timeout, timeout, interrupted };
    let saved = Monitor::of(emulator).ok_or_else(|| "has no monitor".to_string()).and_then(|mut monitor| {
        monitor.ask(r#"{"execute": "qmp_capabilities"}"#)?;
        // Nobody is told of what came before.
        monitor.ask(r#"{"execute": "query-status"}"#)?;
        monitor.wait_for_either(["\"STOP\"", "\"status\": \"paused\""], &until)?;
        monitor.ask(&format!(r#"{{"execute": "migrate", "arguments": {{"uri": "exec:cat >'{}'"}}}}"#, path.display()))?;
        loop {
            monitor.ask(r#"{"execute": "query-migrate"}"#)?;
            let said = monitor.wait_for("\"return\": {\"", &until)?;
            match said {
                said if said.contains("\"completed\"") => return Ok(()),
                said if said.contains("\"failed\"") || said.contains("\"cancelled\"") => {
                    return Err(format!("cannot be saved: {said}"));
                }
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    });
    saved.map_err(|how| if interrupted() { Error::Interrupted } else { emulator.complaint(how) })?;
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(Error::file(&path))?;
    let state = memory("state", bytes.len() as u64)?;
    let mut file = File::from(state.try_clone().map_err(Error::file("state"))?);
    file.write_all(&bytes).map_err(Error::file("state"))?;
    Ok(state)
}

/// QEMU's monitor (docs/interop/qmp-spec.txt), a line of JSON for each question, answer and event.
struct Monitor {
    questions: ChildStdin,
    answers: Receiver<String>,
}

impl Monitor {
    fn of(emulator: &mut Emulator) -> Option<Self> {
        let (questions, answers) = (emulator.child.stdin.take()?, emulator.child.stdout.take()?);
        Some(Self { questions, answers: lines_of(answers) })
    }

    fn ask(&mut self, question: &str) -> Result<(), String> {
        writeln!(self.questions, "{question}").map_err(|error| format!("does not listen: {error}"))
    }

    /// The first line that has this in it.
    fn wait_for(&mut self, what: &str, until: &Until) -> Result<String, String> {
        self.wait_for_either([what, what], until)
    }

    fn wait_for_either(&mut self, what: [&str; 2], until: &Until) -> Result<String, String> {
        loop {
            match self.answers.recv_timeout(Duration::from_millis(20)) {
                Ok(line) if line.contains("\"error\"") => return Err(format!("refuses to be saved: {line}")),
                Ok(line) if what.iter().any(|what| line.contains(what)) => return Ok(line),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if (until.interrupted)() => return Err("was interrupted".into()),
                Err(RecvTimeoutError::Timeout) if Instant::now() < until.deadline => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!(
                        "was still booting after {} s: give it more with {}",
                        until.timeout.as_secs(),
                        Setting::Timeout
                    ));
                }
                Err(RecvTimeoutError::Disconnected) => return Err("did not boot".into()),
            }
        }
    }
}

/// For how long something is waited for.
struct Until {
    deadline: Instant,
    timeout: Duration,
    interrupted: fn() -> bool,
}

fn lines_of(answers: ChildStdout) -> Receiver<String> {
    let (say, said) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(answers).lines().map_while(std::io::Result::ok) {
            if say.send(line).is_err() {
                return;
            }
        }
    });
    said
}
