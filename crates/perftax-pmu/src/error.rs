//! Errors that name the file, knob or argument, its value, the value needed, and the command that sets it.

use std::path::PathBuf;

use perftax_doc::steps::Operation;

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A measurement that the user broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted: nothing was written, every knob was put back")]
pub struct Interrupted;

/// Why the kernel's side could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No event of that name.
    #[error("unknown event '{name}'{}", nearest_text(nearest))]
    UnknownEvent {
        /// As the user wrote it.
        name: String,
        /// Nearest names, best first.
        nearest: Vec<String>,
    },
    /// The event's text cannot be parsed.
    #[error("cannot read event '{text}': {why}")]
    EventSyntax {
        /// As the user wrote it.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// An argument out of its range.
    #[error("{argument} is {value}, needs {needed}")]
    Argument {
        /// Which argument.
        argument: &'static str,
        /// Its value.
        value: String,
        /// What it needs to be.
        needed: String,
    },
    /// This machine cannot do it.
    #[error("this machine cannot {what}: {why}\n  {remedy}")]
    Unsupported {
        /// What was asked for, as a verb phrase: "sample cycles:ppp".
        what: String,
        /// The fact that forbids it, with the file or CPUID leaf it was read from.
        why: String,
        /// What to do instead: a command where there is one.
        remedy: String,
    },
    /// The kernel's settings forbid it.
    #[error("no permission to {what}: {knob} is {value}, needs {needed}\n  {command}")]
    Permission {
        /// What was asked for, as a verb phrase.
        what: String,
        /// The knob: a file or a capability.
        knob: String,
        /// Its value.
        value: String,
        /// The value needed.
        needed: String,
        /// The command that sets it.
        command: String,
    },
    /// Another perftax is measuring, and was not waited for long enough.
    #[error("another perftax is measuring ({} is locked){}, and the two would disturb each other\n  {remedy}", lock.display(), waited_text(*waited_s))]
    Busy {
        /// The lock.
        lock: PathBuf,
        /// For how long it was waited.
        waited_s: u64,
        /// What to do instead.
        remedy: String,
    },
    /// A run that was discarded (throttled, lost, stolen) and cannot be used.
    #[error("the measurement was discarded: {why}\n  {remedy}")]
    Discarded {
        /// What happened.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// Bytes that are not what they should be.
    #[error("{what} is malformed at byte {offset}: {why}")]
    Malformed {
        /// Which file or record.
        what: String,
        /// Where.
        offset: u64,
        /// What is wrong.
        why: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The command could not be executed.
    #[error("cannot run {program}: {source}{}", exec_hint(source))]
    Exec {
        /// The program as the user named it.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The measured command ran and failed.
    #[error("the command '{command}' {how}\n  run it by itself first: it must succeed to be measured")]
    CommandFailed {
        /// The command.
        command: String,
        /// `exited with code 3`, `was killed by signal 9`.
        how: String,
    },
    /// SIGINT or SIGTERM came.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A program or library could not be read.
    #[error(transparent)]
    Program(#[from] perftax_symbols::Error),
    /// A system call failed in a way that has no better name.
    #[error("{call} failed: {source}")]
    System {
        /// The call and what it was for.
        call: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether the kernel refused to open an event, and neither a right nor a counter was missing.
    pub fn is_kernels_refusal(&self) -> bool {
        matches!(self, Self::Unsupported { why, .. } if why.starts_with(KERNEL_SAYS))
    }

    /// What is wrong, without its remedy: the first line.
    pub fn headline(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_string()
    }

    /// What to do about it: the lines after the first, where there are any.
    pub fn remedy(&self) -> Option<String> {
        let text = self.to_string();
        let (_, rest) = text.split_once('\n')?;
        Some(rest.lines().map(str::trim).collect::<Vec<_>>().join("; "))
    }

    /// What to do about it as it stands behind the first line, for another error or a list: commands first, each in a line of its own.
    pub fn advice(&self) -> String {
        let text = self.to_string();
        text.split_once('\n').map(|(_, rest)| rest.trim().to_string()).unwrap_or_default()
    }

    /// All of it in one line, for a cell of a table.
    pub fn in_one_line(&self) -> String {
        self.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ")
    }

    /// A failed file operation.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

/// How the reason of a refusal by the kernel begins.
pub(crate) const KERNEL_SAYS: &str = "perf_event_open says";

fn waited_text(waited_s: u64) -> String {
    if waited_s == 0 { String::new() } else { format!(", waited {waited_s} s") }
}

fn exec_hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::NotFound => "\n  it must be a path or stand in PATH",
        std::io::ErrorKind::PermissionDenied => "\n  chmod +x makes a file executable",
        _ => "",
    }
}

fn nearest_text(nearest: &[String]) -> String {
    if nearest.is_empty() {
        format!("\n  {} shows the events of this machine", Operation::ListEvents)
    } else {
        format!("; nearest: {}\n  {} shows all events of this machine", nearest.join(", "), Operation::ListEvents)
    }
}
