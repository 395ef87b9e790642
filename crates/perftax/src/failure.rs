//! From a command's outcome to the documented exit code.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::Result;
use perftax_pmu::sys::Ended;
use signal_hook::consts::{SIGINT, SIGTERM};

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, exit 0.
    Done,
    /// A negative verdict, exit 4: the prediction did not hold, an audit row failed, no period fits the budget, a recording cannot be
    /// trusted, a count is not its baseline's.
    Negative,
    /// A program was passed through and ended with this code, which is ours then.
    Passed(u8),
}

/// The code of a program that was passed through, as shells report it: 128 and its number where a signal ended it.
pub fn code_of_end(ended: Ended) -> u8 {
    match ended {
        Ended::Code(code) => u8::try_from(code).unwrap_or(1),
        Ended::Signal(signal) => u8::try_from(128 + signal).unwrap_or(255),
    }
}

/// Prints an error and gives the exit code: 2 usage, 3 this machine cannot do it, 1 anything else.
pub fn exit_code(outcome: Result<Outcome>) -> ExitCode {
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Negative) => ExitCode::from(4),
        Ok(Outcome::Passed(code)) => ExitCode::from(code),
        Err(error) => {
            anstream::eprintln!("perftax: {}", printable(&message(&error)));
            ExitCode::from(code_of(&error))
        }
    }
}

/// What files and arguments are called must not steer a terminal.
fn printable(message: &str) -> String {
    message.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// The error and its causes, each said once: messages that hold their cause already are not followed by it.
fn message(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |message, cause| match cause.to_string() {
        first if message.is_empty() => first,
        known if message.contains(&known) => message,
        further => format!("{message}: {further}"),
    })
}

/// Has SIGINT and SIGTERM noticed between observations, so that knobs are put back and no file is left half written; where a command does not
/// notice them within some two seconds, it is ended all the same.
pub fn notice_signals() {
    let flag = perftax_pmu::guard::on_signal_restore();
    for signal in [SIGINT, SIGTERM] {
        // Registering fails only for signals that cannot be caught.
        signal_hook::flag::register(signal, std::sync::Arc::clone(&flag)).ok();
    }
    // Without a pipe, signals are noticed by the flag alone.
    let Ok((noticed, notice)) = std::io::pipe() else { return };
    for signal in [SIGINT, SIGTERM] {
        notice.try_clone().and_then(|notice| signal_hook::low_level::pipe::register(signal, notice)).ok();
    }
    perftax_pmu::guard::watch_interrupts_by(noticed.into());
    perftax_pmu::guard::end_on_interrupt(|| {
        crate::output::remove_partials();
        // Not by the stream, whose lock another thread may hold.
        let stderr = std::io::stderr().as_fd().try_clone_to_owned().map(File::from);
        stderr.and_then(|mut stderr| stderr.write_all(ENDED.as_bytes())).ok();
    });
}

/// Said where perftax had to be ended.
const ENDED: &str = "perftax: interrupted: it was ended in the middle of what it did; every knob was put back\n";

/// The documented exit code: that of the first cause which has one, 1 for anything else.
fn code_of(error: &anyhow::Error) -> u8 {
    let of_cause = |cause: &(dyn std::error::Error + 'static)| {
        let measuring = || cause.downcast_ref().and_then(code_of_measuring);
        measuring().or_else(|| cause.downcast_ref().and_then(code_of_machine))
    };
    error.chain().find_map(of_cause).unwrap_or(1)
}

/// 2 usage, 3 this machine cannot do it, 126 cannot be executed and 127 not found, 130 interrupted (128 + SIGINT), as shells report them.
fn code_of_measuring(error: &perftax_pmu::Error) -> Option<u8> {
    use perftax_pmu::Error;
    match error {
        Error::EventSyntax { .. } | Error::Argument { .. } => Some(2),
        Error::UnknownEvent { .. } | Error::Unsupported { .. } | Error::Permission { .. } | Error::Busy { .. } => Some(3),
        Error::Exec { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Some(127),
        Error::Exec { .. } => Some(126),
        Error::Interrupted(_) => Some(130),
        _ => None,
    }
}

/// Likewise, of the emulated machine.
fn code_of_machine(error: &perftax_vm::Error) -> Option<u8> {
    use perftax_vm::Error;
    match error {
        Error::Missing { .. } => Some(3),
        Error::NoProgram { .. } => Some(127),
        Error::Interrupted | Error::Stopped { .. } => Some(130),
        _ => None,
    }
}
