//! What is heard of a machine from its start to its command's end: output, errors, what is copied out, and how it ended.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use perftax_doc::steps::{Operation, Setting};

use crate::emulator::Emulator;
use crate::error::{Error, Result};
use crate::guest::Guest;

/// Where what the command says goes.
pub struct Terminal {
    /// Its standard output, byte by byte.
    pub output: Box<dyn Write + Send>,
    /// Its standard error.
    pub errors: Box<dyn Write + Send>,
    /// Whether the user has broken it off.
    pub interrupted: fn() -> bool,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Exit code, or 128 + the signal.
    pub code: i32,
    /// Outputs that were wanted and could not be had.
    pub missing: Vec<String>,
    /// Events that counters were set to and that are not modelled: code and unit mask as a selector has them, and how often.
    pub unmodelled: Vec<(u64, u64)>,
    /// What the command took of the guest's time; `None` where it did not say.
    pub guest_time: Option<Duration>,
    /// And of ours, with the machine's start.
    pub real_time: Duration,
}

/// From the machine's start to the command's end.
pub(crate) fn converse(mut emulator: Emulator, guest: &Guest, terminal: Terminal) -> Result<Finished> {
    let began = Instant::now();
    let output = copy(emulator.at("output"), terminal.output);
    let errors = copy(emulator.at("errors"), terminal.errors);
    let said = listen(emulator.at("control"));
    let ended = wait(&mut emulator, &said, guest, terminal.interrupted);
    // It has nothing more to do: the guest's files are written, and its lines are drained before it says its code.
    let unmodelled = if ended.is_ok() { emulator.end() } else { Vec::new() };
    emulator.switch_off();
    let Said { code, mut missing, guest_time } = ended.map_err(|how| match how {
        Ended::Interrupted => Error::Interrupted,
        Ended::Badly(how) => emulator.complaint(how),
    })?;
    for thread in [output, errors] {
        thread.join().ok();
    }
    missing.extend(bring_out(&emulator.at("out"), guest)?);
    Ok(Finished { code, missing, unmodelled, guest_time, real_time: began.elapsed() })
}

/// Copies a line of the guest's to where it goes, as it comes.
fn copy(from: PathBuf, mut to: Box<dyn Write + Send>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let Ok(mut from) = File::open(from) else { return };
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            // Whoever does not listen any more does not stop the guest.
            to.write_all(&buffer[..read]).and_then(|()| to.flush()).ok();
        }
    })
}

/// What the guest's first process says.
pub(crate) fn listen(from: PathBuf) -> Receiver<String> {
    let (say, said) = channel();
    std::thread::spawn(move || {
        let Ok(from) = File::open(from) else { return };
        for line in BufReader::new(from).lines().map_while(std::result::Result::ok) {
            if say.send(line).is_err() {
                return;
            }
        }
    });
    said
}

/// What the guest's first process has said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    code: i32,
    missing: Vec<String>,
    guest_time: Option<Duration>,
}

/// Why there is no exit code.
enum Ended {
    Interrupted,
    Badly(String),
}

impl From<String> for Ended {
    fn from(how: String) -> Self {
        Self::Badly(how)
    }
}

/// Waits for the end: the exit code and the outputs that are missing, or what went wrong.
fn wait(emulator: &mut Emulator, said: &Receiver<String>, guest: &Guest, interrupted: fn() -> bool) -> Result<Said, Ended> {
    let (started, shell) = (Instant::now(), guest.argv.is_empty());
    let (mut heard, mut ready) = (Said::default(), emulator.is_loaded);
    loop {
        match said.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => match line.trim().split_once(' ') {
                Some(("exit", number)) if !shell => {
                    heard.code = number.parse().map_err(|_| format!("said '{line}' for its exit code"))?;
                    return Ok(heard);
                }
                Some(("missing" | "lost", what)) => heard.missing.push(what.to_string()),
                Some(("took", times)) => heard.guest_time = took(times),
                _ => ready |= line.trim() == "ready",
            },
            Err(quiet) => {
                let status = emulator.child.try_wait().map_err(|error| format!("cannot be waited for: {error}"))?;
                match (status, status.and_then(|_| emulator.ended_by())) {
                    // Its last line may be on its way still: it is over when the line is.
                    (Some(_), _) if quiet == RecvTimeoutError::Timeout => emulator.let_go_of_lines(),
                    (Some(status), _) if shell && status.success() => return Ok(heard),
                    (Some(status), _) if emulator.is_loaded && !status.success() => {
                        return Err(format!(
                            "did not go on from where it was saved (QEMU: {status}): {} does without, {} makes all anew",
                            Operation::RunBooting,
                            Operation::RebuildMachine
                        )
                        .into());
                    }
                    // Whoever ends us with a signal may end it, too, and before.
                    (Some(_), Some(signal)) => {
                        return Err(match interrupted() && !shell {
                            true => Ended::Interrupted,
                            false => format!("was ended from outside, by signal {signal}").into(),
                        });
                    }
                    (Some(_), None) if ready => {
                        return Err("ended in the middle of the command: its kernel may have panicked".to_string().into());
                    }
                    (Some(status), None) => return Err(format!("did not boot (QEMU: {status})").into()),
                    (None, _) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }
        if started.elapsed() > guest.timeout && !shell {
            let doing = if ready { "running the command" } else { "booting" };
            return Err(
                format!("was still {doing} after {} s: give it more with {}", guest.timeout.as_secs(), Setting::Timeout).into()
            );
        }
        if interrupted() && !shell {
            return Err(Ended::Interrupted);
        }
    }
}

/// From two lines of /proc/uptime, seconds with two digits behind the point.
fn took(times: &str) -> Option<Duration> {
    let (from, to) = times.split_once(' ')?;
    let [from, to] = [from, to].map(|text| text.parse::<f64>().ok());
    Duration::try_from_secs_f64(to? - from?).ok()
}

/// Moves the outputs to where they are wanted; those that are neither files nor folders are named, not moved: a guest may write what it
/// likes, but only what was asked for leaves its folder.
fn bring_out(out: &Path, guest: &Guest) -> Result<Vec<String>> {
    let mut refused = Vec::new();
    for output in &guest.outputs {
        let Some(name) = output.file_name() else { continue };
        let (from, to) = (out.join(name), guest.output_folder.join(name));
        match fs::symlink_metadata(&from) {
            Ok(found) if found.is_file() => {
                copy_file(&from, &guest.output_folder, name).map_err(Error::file(&to))?;
            }
            Ok(found) if found.is_dir() => copy_tree(&from, &to, &mut refused)?,
            Ok(_) => refused.push(format!("{}: it is neither a file nor a folder", output.display())),
            // The guest has said that it is missing.
            Err(_) => {}
        }
    }
    Ok(refused)
}

/// A file's bytes and plain permissions, under its name when it is whole: never, not even while it is being written, the bits that would let it run as
/// somebody else.
fn copy_file(from: &Path, folder: &Path, name: &OsStr) -> std::io::Result<()> {
    const PLAIN: u32 = 0o777;
    let mut source = File::open(from)?;
    let mode = source.metadata()?.permissions().mode() & PLAIN;
    let open = |partial: &Path| File::options().write(true).create_new(true).mode(mode).open(partial);
    // After a SIGKILL it is seen whose it was.
    let mut prefix = name.to_os_string();
    prefix.push(".partial-");
    let mut copy = tempfile::Builder::new().prefix(&prefix).make_in(folder, open)?;
    std::io::copy(&mut source, copy.as_file_mut())?;
    copy.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    copy.persist(folder.join(name)).map(drop).map_err(|failed| failed.error)
}

fn copy_tree(from: &Path, to: &Path, refused: &mut Vec<String>) -> Result<()> {
    fs::create_dir_all(to).map_err(Error::file(to))?;
    for entry in fs::read_dir(from).map_err(Error::file(from))? {
        let entry = entry.map_err(Error::file(from))?;
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().map_err(Error::file(&path))?;
        if kind.is_dir() {
            copy_tree(&path, &to.join(name), refused)?;
        } else if kind.is_file() {
            copy_file(&path, to, &name).map_err(Error::file(to.join(&name)))?;
        } else {
            refused.push(format!("{}: it is neither a file nor a folder", path.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn ended(said: &'static [&'static str], guest: &[&str]) -> Result<Said, Ended> {
        let mut emulator = Emulator::of(Command::new("true").spawn().unwrap());
        emulator.child.wait().unwrap();
        let (say, heard) = channel();
        // A listener that did not come to run for as long as others had the processors.
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            for line in said {
                say.send((*line).to_string()).unwrap();
            }
        });
        let guest = Guest::new(guest.iter().map(ToString::to_string).collect());
        wait(&mut emulator, &heard, &guest, || false)
    }

    #[test]
    fn what_was_said_before_the_end_is_heard_after_it() {
        let said = ["ready", "missing a.json", "took 3.10 5.35", "exit 3"];
        let Ok(said) = ended(Box::leak(Box::new(said)), &["true"]) else { panic!("its code was said") };
        assert_eq!((said.code, said.missing), (3, vec!["a.json".to_string()]));
        assert_eq!(said.guest_time.map(|time| time.as_millis()), Some(2250));
        let Ok(said) = ended(&["ready", "lost b"], &[]) else { panic!("a shell has no code") };
        assert_eq!((said.code, said.missing, said.guest_time), (0, vec!["b".to_string()], None));
        let Err(Ended::Badly(how)) = ended(&["ready"], &["true"]) else { panic!("it said no code") };
        assert!(how.contains("in the middle of the command"), "{how}");
        let Err(Ended::Badly(how)) = ended(&[], &["true"]) else { panic!("it said nothing") };
        assert!(how.contains("did not boot"), "{how}");
    }
}
