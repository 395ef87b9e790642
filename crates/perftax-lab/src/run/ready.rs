//! How a program shows that it is ready to serve.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use perftax_doc::steps::Setting;
use perftax_pmu::sys::Child;
use perftax_pmu::{Error, Result};
use regex_lite::Regex;

use super::lifetime::cpu_ticks;

/// What is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// It has done nothing for a while.
    #[default]
    Idle,
    /// Somebody listens on this TCP port of this machine.
    Port(u16),
    /// This file (a socket, a file that holds a process's number) is there.
    File(PathBuf),
    /// It has said something like this, on standard output or standard error.
    Says(Pattern),
}

/// A regular expression.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// From its text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        Regex::new(text).map(Self).map_err(|error| error.to_string())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

/// A program that has had no tick of CPU time for so long is idle.
const IDLE: Duration = Duration::from_millis(250);
/// How long a port may take to answer.
const ANSWERS: Duration = Duration::from_millis(100);
/// How long a program may take to be ready.
pub(super) const STARTING: Duration = Duration::from_secs(60);

/// What makes a file another one of the same name: a socket that is bound anew is a new file, a file that is written anew has a new time.
type Identity = (u64, u64, i64, i64);

fn identity(path: &Path) -> Option<Identity> {
    let of = std::fs::metadata(path).ok()?;
    Some((of.dev(), of.ino(), of.mtime(), of.mtime_nsec()))
}

/// What a run before, or somebody else, has left under the name of the file that says so: it says nothing of this run.
#[derive(Clone, Debug, Default)]
pub(super) struct Stale {
    file: PathBuf,
    identity: Option<Identity>,
}

impl Ready {
    /// Whether a run may begin: where somebody listens already on the port, that says nothing of it.
    pub(super) fn check_free(&self) -> Result<()> {
        match self {
            Self::Port(port) if listens(*port) => Err(Error::Argument {
                argument: Setting::Ready.name(),
                value: port.to_string(),
                needed: "a TCP port on which nobody listens before the program does: somebody has answered".into(),
            }),
            _ => Ok(()),
        }
    }

    /// What is there before a run in this folder was not made by it.
    pub(super) fn stale(&self, directory: Option<&Path>) -> Stale {
        let Self::File(path) = self else { return Stale::default() };
        // A copy of the current folder has what is said of the original.
        let here = std::env::current_dir().unwrap_or_default();
        let whole = match (path.parent().and_then(|parent| parent.canonicalize().ok()), path.file_name()) {
            (Some(parent), Some(name)) if path.is_absolute() => parent.join(name),
            _ => path.clone(),
        };
        let below = whole.strip_prefix(&here).unwrap_or(&whole);
        let file = directory.map_or_else(|| path.clone(), |directory| directory.join(below));
        Stale { identity: identity(&file), file }
    }

    pub(super) fn never(&self, heard: &Heard) -> Error {
        let (value, needed) = match self {
            Self::Idle => (
                "missing".to_string(),
                "a port, a file or a regular expression that says when the program is ready: it has been busy".to_string(),
            ),
            Self::Port(port) => (port.to_string(), "a TCP port of this machine on which the program listens: nobody has".into()),
            Self::File(path) => (path.display().to_string(), "a file that the program makes: it was not there".into()),
            Self::Says(pattern) => {
                let text = pattern.0.as_str();
                let said = match heard.last_line() {
                    Some(line) => format!("its last line was '{line}'"),
                    None => "it said nothing (many programs keep what they write to a pipe until there is a block of it)".into(),
                };
                let hint = if text.contains('/') { " (a file begins with / or ./)" } else { "" };
                (text.into(), format!("a regular expression that a line of the program's matches{hint}: {said}, waited"))
            }
        };
        Error::Argument { argument: Setting::Ready.name(), value, needed: format!("{needed} for {} s", STARTING.as_secs()) }
    }
}

/// Waits for it.
pub(super) struct Waiting<'a> {
    ready: &'a Ready,
    stale: Stale,
    ticks: u64,
    since: Instant,
}

fn listens(port: u16) -> bool {
    let answers = |address: SocketAddr| TcpStream::connect_timeout(&address, ANSWERS).is_ok();
    answers((Ipv4Addr::LOCALHOST, port).into()) || answers((Ipv6Addr::LOCALHOST, port).into())
}

impl<'a> Waiting<'a> {
    pub(super) fn new(ready: &'a Ready, stale: Stale) -> Self {
        Self { ready, stale, ticks: 0, since: Instant::now() }
    }

    pub(super) fn is_over(&mut self, child: &Child, heard: &Heard) -> bool {
        match self.ready {
            Ready::Idle => {
                let now = cpu_ticks(child.pid());
                if now != self.ticks {
                    (self.ticks, self.since) = (now, Instant::now());
                }
                self.since.elapsed() >= IDLE
            }
            Ready::Port(port) => listens(*port),
            Ready::File(_) => identity(&self.stale.file).is_some_and(|now| Some(now) != self.stale.identity),
            Ready::Says(_) => heard.has_matched,
        }
    }
}

/// What a program says, line by line.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The line that is not whole yet.
    line: Vec<u8>,
    /// The last one that says something.
    last: Vec<u8>,
    has_matched: bool,
}

/// Letters of a line that are kept; what is matched is its beginning.
const KEPT_BYTES: usize = 16 << 10;
/// Letters of a line that are shown.
const SHOWN: usize = 200;
/// Read in one look at most: who writes faster waits.
const MAX_BYTES: usize = 4 << 20;

impl Heard {
    /// Takes what has come, and looks for what is waited for.
    pub(super) fn listen(&mut self, child: &Child, ready: Option<&Ready>) {
        let taken = child.read_output(MAX_BYTES, |bytes| self.take(bytes, ready));
        // A prompt has no end of line.
        if taken == 0 && !self.line.is_empty() && !self.has_matched {
            self.has_matched = is_match(&self.line, ready);
        }
    }

    fn take(&mut self, bytes: &[u8], ready: Option<&Ready>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = KEPT_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                // What comes from then on is only read, so that nobody waits for us.
                self.has_matched = self.has_matched || is_match(&self.line, ready);
                if !self.line.trim_ascii().is_empty() {
                    std::mem::swap(&mut self.last, &mut self.line);
                }
                self.line.clear();
            }
        }
    }

    /// The last line that says something.
    pub(super) fn last_line(&self) -> Option<String> {
        let line = if self.line.trim_ascii().is_empty() { &self.last } else { &self.line };
        (!line.is_empty()).then(|| shown(line))
    }
}

fn is_match(line: &[u8], ready: Option<&Ready>) -> bool {
    let Some(Ready::Says(pattern)) = ready else { return false };
    pattern.0.is_match(String::from_utf8_lossy(line).trim_end_matches(['\r', '\n']))
}

fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim().chars().filter(|letter| !letter.is_control()).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn lines_are_matched_whole_however_they_come() {
        let ready = Ready::Says(Pattern::new("^listening on [0-9]+$").unwrap());
        let heard = |pieces: &[&str]| {
            let mut heard = Heard::default();
            pieces.iter().for_each(|piece| heard.take(piece.as_bytes(), Some(&ready)));
            heard
        };
        assert!(heard(&["starting\nlist", "ening on ", "80\r\nserving\n"]).has_matched);
        assert!(!heard(&["listening on 8", "0x\n"]).has_matched && !heard(&["not listening on 80\n"]).has_matched);
        // However much comes behind it.
        assert!(heard(&["listening on 80\n", &"chatter\n".repeat(100_000)]).has_matched);
        let long = heard(&["first\n", &"x".repeat(1 << 20), "\n \n"]);
        assert!(long.last_line().is_some_and(|line| line == "x".repeat(SHOWN)), "{long:?}");
        assert_eq!(heard(&["done\n\n", "half"]).last_line().as_deref(), Some("half"));
    }

    /// What is below the folder that is copied is looked for in the copy.
    #[test]
    fn files_are_looked_for_where_the_run_is() {
        let here = std::env::current_dir().unwrap();
        let of = |file: PathBuf| Ready::File(file).stale(Some(Path::new("/copy"))).file;
        assert_eq!(of("./a".into()), Path::new("/copy/./a"));
        assert_eq!((of(here.join("src/c")), of("/run/x".into())), ("/copy/src/c".into(), "/run/x".into()));
        assert_eq!(of(here.join("src/../tests/c")), Path::new("/copy/tests/c"));
    }
}
