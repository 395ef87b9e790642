//! Who keeps a saved machine, and lends it to whoever runs a command in it: a process of the user's, found by a name, that ends when it is
//! told to, when the process that it was started for ends, or when nobody has used it for a while.

use std::io::{IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use perftax_doc::steps::Operation;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};

use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::installation::Installation;
use crate::resident::Resident;

/// When a keeper ends by itself.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    /// After so long without a user.
    pub idle: Duration,
    /// With this process.
    pub with: Option<u32>,
}

/// What is lent: the machine that was saved, what it is, and where its parts are.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Lent {
    /// What it was booted as; its command is whatever was there.
    pub guest: Guest,
    /// QEMU and the kernel.
    pub installation: Installation,
}

/// A machine that was lent. It counts as used as long as this lives.
pub struct Loan {
    /// The saved machine.
    pub resident: Resident,
    /// What it is.
    pub lent: Lent,
    _user: UnixStream,
}

/// What a user says who wants the machine, and who wants it gone.
const LEND: &[u8] = b"lend\n";
/// The same, but looking is not using.
const SHOW: &[u8] = b"show\n";
const DOWN: &[u8] = b"down\n";
/// Longest description that is taken, bytes.
const MAX_DESCRIPTION: usize = 1 << 16;

/// The folder of the sockets: this user's alone.
///
/// # Errors
/// Where it cannot be made, or is somebody else's.
fn folder() -> Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute() && path.is_dir());
    let own = std::env::temp_dir().join(format!("perftax-{}", geteuid().as_raw()));
    let folder = runtime.map_or(own, |runtime| runtime.join("perftax")).join("vm");
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&folder).map_err(Error::file(&folder))?;
    for part in [folder.as_path()].into_iter().chain(folder.parent()) {
        if !perftax_folders::is_ours_alone(part).map_err(Error::file(part))? {
            let source =
                std::io::Error::other("it must be a folder of yours that nobody else may write to: set XDG_RUNTIME_DIR to one");
            return Err(Error::File { path: part.into(), source });
        }
    }
    Ok(folder)
}

/// The socket of a name.
///
/// # Errors
/// Where that cannot be a name.
fn socket(name: &str) -> Result<PathBuf> {
    let fits = !name.is_empty() && name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !fits || name.starts_with('.') {
        let source = std::io::Error::other("a machine's name has 1 to 64 letters, digits, '-', '_' and '.', and no '.' first");
        return Err(Error::File { path: name.into(), source });
    }
    Ok(folder()?.join(name))
}

/// Names of the machines that are up.
///
/// # Errors
/// Where the folder cannot be read.
pub fn names() -> Result<Vec<String>> {
    let folder = folder()?;
    let entries = std::fs::read_dir(&folder).map_err(Error::file(&folder))?;
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| connect(name).is_ok());
    names.sort();
    Ok(names)
}

fn connect(name: &str) -> Result<UnixStream> {
    let path = socket(name)?;
    UnixStream::connect(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            // One that was killed leaves its socket behind.
            std::fs::remove_file(&path).ok();
            Error::Missing {
                what: format!("the machine '{name}'"),
                why: "no such machine is up".into(),
                remedy: Operation::StartMachine(name.into()).to_string(),
            }
        }
        _ => Error::file(&path)(error),
    })
}

/// Borrows the machine of a name.
///
/// # Errors
/// [`Error::Missing`] where none is up.
pub fn borrow(name: &str) -> Result<Loan> {
    receive_loan(name, LEND)
}

/// Looks at the machine of a name: that keeps it no longer.
///
/// # Errors
/// [`Error::Missing`] where none is up.
pub fn look_at(name: &str) -> Result<Loan> {
    receive_loan(name, SHOW)
}

fn receive_loan(name: &str, wish: &[u8]) -> Result<Loan> {
    let mut user = connect(name)?;
    let path = socket(name)?;
    user.write_all(wish).map_err(Error::file(&path))?;
    let (description, parts) = receive(&user).map_err(Error::file(&path))?;
    let lent = serde_json::from_slice(&description).map_err(|error| Error::file(&path)(error.into()))?;
    Ok(Loan { resident: Resident::of_parts(parts), lent, _user: user })
}

/// Has the machine of a name go; commands that run in it go on to their end.
///
/// # Errors
/// [`Error::Missing`] where none is up.
pub fn take_down(name: &str) -> Result<()> {
    let mut user = connect(name)?;
    let path = socket(name)?;
    user.write_all(DOWN).map_err(Error::file(&path))?;
    // It closes the line when it is gone.
    user.set_read_timeout(Some(Duration::from_secs(5))).map_err(Error::file(&path))?;
    std::io::Read::read(&mut user, &mut [0]).map_err(Error::file(&path))?;
    Ok(())
}

/// What was asked of a machine that was up just before; none where it has gone meanwhile, as one does that nobody uses.
///
/// # Errors
/// What was answered, of one that is up yet.
pub fn unless_gone<T>(name: &str, answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(_) if connect(name).is_err() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Leaves the terminal's group of processes: what interrupts those does not end this one.
///
/// # Errors
/// Where this process leads a group.
pub fn detach() -> std::io::Result<()> {
    Ok(rustix::process::setsid().map(drop)?)
}

/// Whoever has connected.
struct User {
    line: UnixStream,
    /// Has been lent the machine.
    borrows: bool,
}

/// A name that is this process's to keep.
pub struct Keeper {
    listener: UnixListener,
    path: PathBuf,
}

impl Keeper {
    /// Takes the name.
    ///
    /// # Errors
    /// Where a machine of that name is up.
    pub fn of(name: &str) -> Result<Self> {
        let path = socket(name)?;
        if connect(name).is_ok() {
            let source = std::io::Error::other(format!(
                "a machine of that name is up; take it down with: {}",
                Operation::StopMachine(name.into())
            ));
            return Err(Error::File { path: name.into(), source });
        }
        let listener = UnixListener::bind(&path).map_err(Error::file(&path))?;
        Ok(Self { listener, path })
    }

    /// Lends it until its lifetime is over.
    ///
    /// # Errors
    /// Where waiting fails.
    pub fn keep(self, resident: &Resident, lent: &Lent, lifetime: Lifetime) -> Result<()> {
        let mut users = Vec::new();
        let kept = self.lend(&mut users, resident, lent, lifetime);
        // Whoever waits for it to be gone hears so when the name is free, and not before.
        drop(self);
        drop(users);
        kept
    }

    fn lend(&self, users: &mut Vec<User>, resident: &Resident, lent: &Lent, lifetime: Lifetime) -> Result<()> {
        let description = serde_json::to_vec(lent).map_err(|error| Error::file(&self.path)(error.into()))?;
        let waiting = |error: rustix::io::Errno| Error::file(&self.path)(error.into());
        let with = match lifetime.with.and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            // One that has ended already takes it along.
            Some(pid) => match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(process) => Some(process),
                Err(_) => return Ok(()),
            },
            None => None,
        };
        let mut idle_since = Instant::now();
        loop {
            if users.iter().any(|user| user.borrows) {
                idle_since = Instant::now();
            }
            let left = lifetime.idle.saturating_sub(idle_since.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            let ready = {
                let first = [PollFd::new(&self.listener, PollFlags::IN)];
                let mut all: Vec<PollFd<'_>> =
                    first.into_iter().chain(users.iter().map(|user| PollFd::new(&user.line, PollFlags::IN))).collect();
                all.extend(with.as_ref().map(|process| PollFd::new(process, PollFlags::IN)));
                let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 60, tv_nsec: 0 });
                match poll(&mut all, Some(&timeout)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(waiting(error)),
                }
                all.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<bool>>()
            };
            if with.is_some() && ready.last() == Some(&true) {
                return Ok(());
            }
            let mut place = 0;
            let mut wanted_gone = false;
            let borrowed = users.iter().any(|user| user.borrows);
            users.retain_mut(|user| {
                place += 1;
                if !ready[place] {
                    return true;
                }
                let mut said = [0; 5];
                match std::io::Read::read(&mut user.line, &mut said) {
                    Ok(5) if said == LEND || said == SHOW => {
                        user.borrows |= said == LEND;
                        send(&user.line, &description, resident).is_ok()
                    }
                    Ok(5) if said == DOWN => {
                        wanted_gone = true;
                        true
                    }
                    _ => false,
                }
            });
            if wanted_gone {
                return Ok(());
            }
            if ready[0]
                && let Ok((line, _)) = self.listener.accept()
            {
                // Whoever says nothing holds nobody up.
                line.set_read_timeout(Some(Duration::from_secs(1))).ok();
                users.push(User { line, borrows: false });
            }
            if borrowed {
                idle_since = Instant::now();
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
    }
}

fn send(user: &UnixStream, description: &[u8], resident: &Resident) -> std::io::Result<()> {
    let parts = resident.parts();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&parts));
    let sent = sendmsg(user, &[IoSlice::new(description)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == description.len() { Ok(()) } else { Err(std::io::Error::other("the description does not fit")) }
}

fn receive(user: &UnixStream) -> std::io::Result<(Vec<u8>, [OwnedFd; 2])> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; MAX_DESCRIPTION];
    let received = recvmsg(user.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    bytes.truncate(received.bytes);
    let mut parts = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            parts.extend(files);
        }
    }
    let parts = parts.try_into().map_err(|_| std::io::Error::other("its keeper lends nothing: it is going down"))?;
    Ok((bytes, parts))
}
