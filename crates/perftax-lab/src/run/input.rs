//! What a program that is run again and again reads: the same each time.

use std::fs::File;
use std::io::{IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use perftax_doc::steps::Setting;
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::pipe::{PipeFlags, pipe_with};

/// Most that is kept of a standard input that comes once.
pub const MAX_KEPT_BYTES: u64 = 1 << 30;

/// For how long a pipe may say nothing before it is taken to be silent: one that whoever started us has left open.
const SILENCE: Duration = Duration::from_secs(2);

/// How often the stop flag is looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The standard input of each run.
#[derive(Clone, Debug)]
pub enum Input {
    /// `/dev/null`.
    Nothing,
    /// A file, from its beginning.
    File(PathBuf),
    /// What came through a pipe, or was left of a file: kept in a file without a name, as long as this is.
    Kept(Arc<File>),
    /// There is none that could be given to several runs. A program that asks for it cannot be measured so, and is found out.
    Absent(Arc<Asked>),
}

/// A pipe with one byte in it: whoever reads it has asked for input.
#[derive(Debug)]
pub struct Asked {
    reading: OwnedFd,
    /// What standard input is instead.
    what: &'static str,
}

impl Input {
    /// From our own standard input: a file as it is, a pipe's bytes kept, a terminal or a silent pipe [`Input::Absent`]. `said` is told what takes long
    /// or is unexpected.
    ///
    /// # Errors
    /// Where it cannot be read or kept, has more than [`MAX_KEPT_BYTES`], or is broken off.
    pub fn of_ours(said: impl FnMut(String)) -> Result<Self> {
        let ours = std::io::stdin();
        if ours.is_terminal() {
            return Self::absent("a terminal");
        }
        let ours = ours.as_fd().try_clone_to_owned().map(File::from).map_err(file("standard input"))?;
        Self::of(ours, said)
    }

    fn of(ours: File, said: impl FnMut(String)) -> Result<Self> {
        // A closed one, or a directory, gives nothing.
        let Ok(kind) = ours.metadata().map(|found| found.file_type()) else { return Ok(Self::Nothing) };
        if kind.is_file() {
            return Self::rest_of(ours);
        }
        if kind.is_fifo() || kind.is_socket() {
            return Self::kept(ours, said);
        }
        // A device is opened anew for each run, as a file is.
        Ok(if kind.is_char_device() || kind.is_block_device() { Self::Kept(Arc::new(ours)) } else { Self::Nothing })
    }

    /// What is left of a file that somebody may have begun to read, and goes on reading: our place in it is his.
    fn rest_of(mut ours: File) -> Result<Self> {
        let mut at = ours.stream_position().map_err(file("standard input"))?;
        let length = ours.metadata().map_err(file("standard input"))?.len();
        // Who may read it need not be who may open it: it can have been opened by somebody else.
        if at == 0 && File::open(own_path(&ours)).is_ok() {
            return Ok(Self::Kept(Arc::new(ours)));
        }
        check_size(length.saturating_sub(at))?;
        let mut kept = nameless()?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match ours.read_at(&mut buffer, at).map_err(file("standard input"))? {
                0 => break,
                read => {
                    kept.write_all(&buffer[..read]).map_err(file(std::env::temp_dir()))?;
                    at += read as u64;
                }
            }
        }
        Ok(Self::Kept(Arc::new(kept)))
    }

    fn kept(mut ours: File, mut said: impl FnMut(String)) -> Result<Self> {
        let mut kept = nameless()?;
        let (mut bytes, mut told) = (0_u64, 0);
        let mut buffer = vec![0; 1 << 16];
        let mut silent = Duration::ZERO;
        loop {
            check_interrupted()?;
            let ready = poll(&mut [PollFd::new(&ours, PollFlags::IN)], Some(&LOOK));
            match ready {
                Ok(0) => {
                    silent += Duration::from_millis(100);
                    if bytes == 0 && silent >= SILENCE {
                        let what = "a pipe in which nothing came";
                        said(format!("standard input is {what} for {} s: the program gets none of it", SILENCE.as_secs()));
                        return Self::absent(what);
                    }
                    if bytes > 0 && silent == SILENCE {
                        said(format!(
                            "waiting for the end of standard input, {bytes} bytes so far (< /dev/null, or {} FILE)",
                            Setting::Stdin
                        ));
                    }
                    continue;
                }
                Ok(_) => silent = Duration::ZERO,
                // The loop's head looks at what came.
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(file("standard input")(error.into())),
            }
            match ours.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    kept.write_all(&buffer[..read]).map_err(file(std::env::temp_dir()))?;
                    bytes += read as u64;
                    check_size(bytes)?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(file("standard input")(error)),
            }
            const EVERY_BYTES: u64 = 100 << 20;
            if bytes / EVERY_BYTES > told {
                told = bytes / EVERY_BYTES;
                said(format!("keeping standard input for each run: {} MiB so far", bytes >> 20));
            }
        }
        kept.seek(SeekFrom::Start(0)).map_err(file(std::env::temp_dir()))?;
        Ok(if bytes == 0 { Self::Nothing } else { Self::Kept(Arc::new(kept)) })
    }

    fn absent(what: &'static str) -> Result<Self> {
        let failed = |error: rustix::io::Errno| Error::System { call: "pipe2".into(), source: error.into() };
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
        // What comes from a terminal at the least: somebody has pressed Enter.
        File::from(writing).write_all(b"\n").map_err(file("a pipe"))?;
        Ok(Self::Absent(Arc::new(Asked { reading, what })))
    }

    /// The file that a run opens for it.
    pub fn path(&self) -> Option<PathBuf> {
        // Opened anew, by whoever starts the program, a file is read from its beginning.
        match self {
            Self::Nothing => None,
            Self::File(path) => Some(path.clone()),
            Self::Kept(kept) => Some(own_path(kept)),
            Self::Absent(asked) => Some(own_path(&asked.reading)),
        }
    }

    /// Whether a run has got what it asked for.
    ///
    /// # Errors
    /// [`Error::Argument`] where it has read from an input that is not there.
    pub fn check(&self) -> Result<()> {
        let Self::Absent(asked) = self else { return Ok(()) };
        if ioctl_fionread(&asked.reading).is_ok_and(|left| left == 0) {
            return Err(Error::Argument {
                argument: "standard input",
                value: asked.what.into(),
                needed: format!(
                    "a file: the program reads it, and runs several times (give it one by <FILE, or {} FILE)",
                    Setting::Stdin
                ),
            });
        }
        Ok(())
    }
}

/// Where this process opens what it has open once more.
fn own_path(open: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", open.as_raw_fd()).into()
}

fn check_size(bytes: u64) -> Result<()> {
    if bytes <= MAX_KEPT_BYTES {
        return Ok(());
    }
    Err(Error::Argument {
        argument: "standard input",
        value: format!("{} MiB and more", bytes >> 20),
        needed: format!("at most {} MiB, which are kept for each run, or a file: {} FILE", MAX_KEPT_BYTES >> 20, Setting::Stdin),
    })
}

fn nameless() -> Result<File> {
    tempfile::tempfile().map_err(file(std::env::temp_dir()))
}

fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| Error::File { path, source }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn read(input: &Input) -> String {
        std::fs::read_to_string(input.path().unwrap()).unwrap()
    }

    fn pipe() -> (File, File) {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        (reading.into(), writing.into())
    }

    #[test]
    fn each_run_reads_the_same() {
        let (reading, mut writing) = pipe();
        // More than a pipe holds, and in pieces that come late.
        let writer = std::thread::spawn(move || {
            for piece in 0..30 {
                writing.write_all("abcdefgh".repeat(1000).as_bytes()).unwrap();
                if piece == 3 {
                    std::thread::sleep(Duration::from_millis(300));
                }
            }
        });
        let input = Input::of(reading, |said| panic!("{said}")).unwrap();
        writer.join().unwrap();
        let wanted = "abcdefgh".repeat(30_000);
        for _ in 0..2 {
            assert_eq!(read(&input), wanted);
            input.check().unwrap();
        }
    }

    /// `while read line; do perftax …; done <list`: the loop goes on with its next line.
    #[test]
    fn what_is_left_of_a_file_is_given_and_stays_where_it_was() {
        let mut list = tempfile::tempfile().unwrap();
        list.write_all(b"one\ntwo\nthree\n").unwrap();
        list.seek(SeekFrom::Start(4)).unwrap();
        let input = Input::of(list.try_clone().unwrap(), |said| panic!("{said}")).unwrap();
        assert_eq!((read(&input), read(&input)), ("two\nthree\n".into(), "two\nthree\n".into()));
        assert_eq!(list.stream_position().unwrap(), 4);
        list.seek(SeekFrom::Start(0)).unwrap();
        let whole = Input::of(list.try_clone().unwrap(), |said| panic!("{said}")).unwrap();
        assert_eq!((read(&whole), read(&whole)), ("one\ntwo\nthree\n".into(), "one\ntwo\nthree\n".into()));
    }

    #[test]
    fn nobody_waits_for_a_pipe_that_says_nothing_and_who_asks_for_it_is_told() {
        let (reading, writing) = pipe();
        let mut said = Vec::new();
        let input = Input::of(reading, |words| said.push(words)).unwrap();
        drop(writing);
        assert!(said.len() == 1 && said[0].contains("nothing came"), "{said:?}");
        input.check().unwrap();
        assert_eq!(read(&input), "\n");
        let error = input.check().unwrap_err().to_string();
        assert!(error.contains("nothing came") && error.contains("'standard input' FILE"), "{error}");
    }

    #[test]
    fn nothing_is_nothing() {
        let (reading, writing) = pipe();
        drop(writing);
        assert!(matches!(Input::of(reading, |_| ()).unwrap(), Input::Nothing));
        assert_eq!(read(&Input::of(File::open("/dev/null").unwrap(), |_| ()).unwrap()), "");
        let zeros = Input::of(File::open("/dev/zero").unwrap(), |_| ()).unwrap();
        let mut some = [1; 4];
        File::open(zeros.path().unwrap()).unwrap().read_exact(&mut some).unwrap();
        assert_eq!(some, [0; 4]);
    }
}
