//! Fetching a bundle from elsewhere, by what a system has for that.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use perftax_doc::steps::Operation;

use super::install::NOTHING;
use crate::closure::find;
use crate::error::{Error, Result};

/// How often it is looked whether the user wants no more of it.
const EACH: Duration = Duration::from_millis(50);
/// apt's own, which is in no PATH.
const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

/// Whether a bundle is to be fetched.
pub fn is_url(from: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| from.starts_with(scheme))
}

/// Fetches an address into a file, by curl, wget or apt: how far it is goes to stderr. Nobody vouches for what comes: compare its sum.
///
/// # Errors
/// [`Error::Missing`] where there is none of them; [`Error::Bundle`] where it fails.
pub fn download(url: &str, to: &Path, interrupted: fn() -> bool) -> Result<()> {
    let with = |program: &str, options: &[&str]| {
        find(program).map(|found| {
            let mut command = Command::new(found);
            command.args(options);
            command
        })
    };
    let file = to.display().to_string();
    let curl =
        || with("curl", &["--fail", "--location", "--proto", "=http,https", "--progress-bar", "--output", &file, "--", url]);
    let wget = || with("wget", &["--quiet", "--show-progress", "--output-document", &file, "--", url]);
    let apt = || with(APT_HELPER, &["download-file", url, &file]);
    let mut command = curl().or_else(wget).or_else(apt).ok_or_else(|| Error::Missing {
        what: "a program that fetches files".into(),
        why: format!("there is no curl, no wget and no {APT_HELPER}"),
        remedy: format!("fetch it in some other way, then: {}", Operation::InstallMachineOfSum),
    })?;
    let program = command.get_program().to_os_string();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(Error::file(program))?;
    let status = wait(&mut child, interrupted)?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Bundle { file: url.into(), why: format!("it cannot be fetched: {status}, see above") })
    }
}

fn wait(child: &mut Child, interrupted: fn() -> bool) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().map_err(Error::file("the download"))? {
            return Ok(status);
        }
        if interrupted() {
            child.kill().ok();
            child.wait().ok();
            return Err(Error::Stopped { left: NOTHING.into() });
        }
        std::thread::sleep(EACH);
    }
}
