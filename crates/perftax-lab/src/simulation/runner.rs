//! One run of a program under the model.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use perftax_model::run::{Outcome, Request};
use perftax_pmu::sys::{die_with_us, kill_with_descendants, wait_for_end};
use perftax_pmu::{Error, Result};
use serde::de::DeserializeOwned;

use super::Installation;

/// A program to be simulated.
#[derive(Clone, Debug, Default)]
pub struct Guest {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Where it runs; none: here.
    pub directory: Option<PathBuf>,
    /// Its standard input; none: ours.
    pub stdin: Option<PathBuf>,
    /// Whether its output is thrown away.
    pub silent: bool,
    /// Variables added to its environment, which is otherwise fixed so that runs repeat exactly.
    pub environment: Vec<(OsString, OsString)>,
    /// What it finds as its own name; none: what it was started by.
    pub called: Option<OsString>,
    /// Further options of QEMU's.
    pub options: Vec<OsString>,
    /// Whether it writes into pipes, whatever our own output is: C libraries ask, and do other work for a terminal or a device.
    pub piped: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// What the model saw; none where the program ended so that it could not report, see [`Simulated::without`].
    pub outcome: Option<Outcome>,
    /// How the program ended: its exit code, or 128 + the signal that killed it.
    pub code: i32,
    /// It forked; what the children did was not simulated.
    pub forked: bool,
}

/// What every simulated program finds in its environment.
pub(super) const ENVIRONMENT: [(&str, &str); 3] = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/"), ("LC_ALL", "C")];
/// The guest's stack, bytes: fixed, since its size decides where other mappings go.
const STACK_BYTES: &str = "8388608";

/// Runs the program.
///
/// # Errors
/// Where the program cannot be executed, or ended so that nothing came back.
pub fn simulate(installation: &Installation, guest: &Guest, request: &Request) -> Result<Simulated> {
    let (outcome, code, forked) = run_with_plugin(installation, guest, request.seed, "request", |outcome| {
        serde_json::to_vec(&Request { outcome, ..request.clone() })
    })?;
    Ok(Simulated { outcome, code, forked })
}

/// Runs the program with the plugin, which is given a request of some kind; what came back, the program's code, and whether it forked.
pub(super) fn run_with_plugin<T: DeserializeOwned>(
    installation: &Installation,
    guest: &Guest,
    seed: u64,
    kind: &str,
    request: impl FnOnce(String) -> serde_json::Result<Vec<u8>>,
) -> Result<(Option<T>, i32, bool)> {
    let program = guest.argv.first().ok_or_else(|| Error::Argument {
        argument: "CMD",
        value: "missing".into(),
        needed: "the program to be simulated".into(),
    })?;
    let resolved = resolve(program)?;
    let folder = tempfile::tempdir().map_err(Error::file(std::env::temp_dir()))?;
    let (asked, came) = (folder.path().join("request.json"), folder.path().join("outcome.json"));
    let text = request(came.to_string_lossy().into_owned())
        .map_err(|e| Error::System { call: "writing JSON".into(), source: e.into() })?;
    std::fs::write(&asked, text).map_err(Error::file(&asked))?;

    let mut command = Command::new(&installation.qemu[0]);
    command.args(&installation.qemu[1..]);
    let plugin = format!("{},{kind}={}", installation.plugin.display(), asked.display());
    command.args(["-seed", &seed.to_string(), "-s", STACK_BYTES, "-plugin", &plugin]);
    command.args(&guest.options);
    command.arg("-0").arg(guest.called.as_ref().unwrap_or(program)).arg(&resolved).args(&guest.argv[1..]);
    command.env_clear().envs(ENVIRONMENT).envs(guest.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &guest.directory {
        command.current_dir(directory);
    }
    if let Some(stdin) = &guest.stdin {
        command.stdin(std::fs::File::open(stdin).map_err(Error::file(stdin))?);
    }
    if guest.piped {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    } else if guest.silent {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    // The program's own name is qemu's first argument, too: nothing of it reaches the guest.
    command.arg0("qemu-x86_64");
    let emulator = Path::new(installation.qemu.last().unwrap_or(&installation.qemu[0]));
    let status = status_of(&mut command, emulator, guest.silent)?;
    let outcome = match std::fs::read(&came) {
        Ok(text) => Some(serde_json::from_slice(&text).map_err(|e| Error::Malformed {
            what: "the plugin's outcome".into(),
            offset: e.column() as u64,
            why: e.to_string(),
        })?),
        Err(_) => None,
    };
    let forked = came.with_file_name("outcome.json.forked").exists();
    Ok((outcome, code_of(status), forked))
}

/// Runs a command to its end, or kills it, and what it has started, once SIGINT or SIGTERM has come.
fn status_of(command: &mut Command, program: &Path, is_silent: bool) -> Result<ExitStatus> {
    let mut child = die_with_us(command).spawn().map_err(|source| Error::Exec { program: program.into(), source })?;
    let pipes = [
        child.stdout.take().map(|pipe| passed_on(pipe, is_silent, std::io::stdout())),
        child.stderr.take().map(|pipe| passed_on(pipe, is_silent, std::io::stderr())),
    ];
    let waited = wait_for_end(child.id() as i32);
    if waited.is_err() {
        kill_with_descendants(child.id() as i32, &|_| false);
    }
    let status = child.wait().map_err(|source| Error::System { call: "wait for the simulation".into(), source });
    if waited.is_ok() {
        pipes.into_iter().flatten().for_each(|pipe| drop(pipe.join()));
    }
    waited.and(status)
}

/// Copies what comes through a pipe to where it goes, as it comes; whoever does not listen any more does not stop the program.
fn passed_on(mut from: impl Read + Send + 'static, is_silent: bool, mut to: impl Write + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if !is_silent {
                to.write_all(&buffer[..read]).and_then(|()| to.flush()).ok();
            }
        }
    })
}

/// Exit code, or 128 + signal, as shells report it.
fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

impl Simulated {
    /// Why there is no outcome.
    pub fn without(&self, program: &str) -> Error {
        no_outcome(self.code, program)
    }
}

/// Why a program that ended so left no outcome.
pub(super) fn no_outcome(code: i32, program: &str) -> Error {
    let how = match code {
        code @ 129.. => format!("was killed by signal {} before the model could report", code - 128),
        code => format!("ended with code {code} and no report: it replaced itself by exec, which qemu-user does not follow"),
    };
    Error::CommandFailed { command: program.into(), how }
}

/// The program's file, looked for as a shell would.
pub(super) fn resolve(program: &OsString) -> Result<PathBuf> {
    let path = PathBuf::from(program);
    let missing = |source| Error::Exec { program: path.clone(), source };
    let found = if program.to_string_lossy().contains('/') {
        path.exists().then(|| path.clone())
    } else {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).map(|folder| folder.join(&path)).find(|file| file.is_file())
    };
    let found = found.ok_or_else(|| missing(std::io::ErrorKind::NotFound.into()))?;
    let head = std::fs::File::open(&found).and_then(|mut file| {
        let mut head = [0; 20];
        std::io::Read::read_exact(&mut file, &mut head)?;
        Ok(head)
    });
    match head {
        // ELF, 64 bits, little endian, machine 62: x86-64.
        Ok(head) if head.starts_with(b"\x7fELF\x02\x01") && head[18] == 62 => Ok(found),
        Ok(_) => Err(missing(std::io::Error::other("it is no x86-64 ELF program: for a script, name its interpreter"))),
        Err(source) => Err(missing(source)),
    }
}
