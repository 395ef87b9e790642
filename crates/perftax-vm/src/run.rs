//! Boots the machine, and tells what became of the command.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Uid, chownat, mknodat};

use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::installation::Installation;

/// Where what the command says goes.
pub struct Terminal {
    /// Its standard output, byte by byte.
    pub output: Box<dyn Write + Send>,
    /// Its standard error.
    pub errors: Box<dyn Write + Send>,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Exit code, or 128 + the signal.
    pub code: i32,
    /// Outputs that were wanted and could not be had.
    pub missing: Vec<String>,
}

/// The user and the group `nobody`: what the emulator becomes once everything is open, where root started it.
const NOBODY: u32 = 65_534;

/// Lines of the console that an error quotes.
const TAIL: usize = 8;

/// Firmware and boot code, as Debian's seabios and qemu-system-data install them.
const FIRMWARE: [&str; 2] = ["/usr/share/seabios", "/usr/share/qemu"];

/// Runs the guest's command, or a shell on this terminal; `us` is our own program, which the guest finds as `perftax`.
///
/// # Errors
/// Where the machine cannot be started, the guest panics, or time runs out.
pub fn run(installation: &Installation, guest: &Guest, us: &Path, terminal: Terminal) -> Result<Finished> {
    let folder = tempfile::tempdir().map_err(Error::file(std::env::temp_dir()))?;
    let at = |name: &str| folder.path().join(name);
    let mut initrd = fs::read(&installation.base).map_err(Error::file(&installation.base))?;
    initrd.resize(initrd.len().next_multiple_of(4), 0);
    initrd.extend(guest.files(us, &installation.programs)?.finish());
    fs::write(at("initrd"), initrd).map_err(Error::file(at("initrd")))?;
    fs::create_dir(at("out")).map_err(Error::file(at("out")))?;
    // A root that may not give the folder away (a container's) cannot become somebody else either.
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    let gives_up_root =
        rustix::process::geteuid().is_root() && chownat(CWD, at("out"), Some(user), Some(group), AtFlags::empty()).is_ok();
    for name in ["output", "errors", "control"] {
        mknodat(CWD, at(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(|e| Error::file(at(name))(e.into()))?;
    }
    let shell = guest.argv.is_empty();
    let mut child = start(installation, guest, folder.path(), gives_up_root)?;
    let output = copy(at("output"), terminal.output);
    let errors = copy(at("errors"), terminal.errors);
    let said = listen(at("control"));
    let ended = wait(&mut child, &said, guest.timeout, shell);
    // Whoever still waits for a line to be opened is let go.
    for name in ["output", "errors", "control"] {
        File::options().write(true).read(true).open(at(name)).ok();
    }
    let console = lines(&at("console"));
    let (code, mut missing) = ended.map_err(|how| {
        let panic = console.iter().find_map(|line| line.find("Kernel panic").map(|at| line[at..].to_string()));
        let how = panic.map_or(how, |panic| format!("panicked: {panic}"));
        Error::Guest { how, console_tail: console[console.len().saturating_sub(TAIL)..].to_vec() }
    })?;
    for thread in [output, errors] {
        thread.join().ok();
    }
    missing.extend(bring_out(&at("out"), guest)?);
    Ok(Finished { code, missing })
}

fn start(installation: &Installation, guest: &Guest, folder: &Path, gives_up_root: bool) -> Result<Child> {
    let shell = guest.argv.is_empty();
    let mut command = Command::new(&installation.qemu);
    for firmware in FIRMWARE {
        if !Path::new(firmware).is_dir() {
            return Err(Error::Missing {
                what: "QEMU's firmware".into(),
                why: format!("there is no {firmware}"),
                remedy: "apt-get install seabios qemu-system-data".into(),
            });
        }
        command.args(["-L", firmware]);
    }
    let at = |name: &str| folder.join(name).display().to_string();
    if gives_up_root {
        command.args(["-runas", &format!("{NOBODY}:{NOBODY}")]);
    }
    // No network, no disk, no clock of the host's: nothing but these lines goes in or out while the command runs.
    command.args(["-M", "pc", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-monitor", "none"]);
    command.args(["-m", &guest.memory_mib.to_string(), "-smp", &guest.processor.count.to_string()]);
    command.args(["-cpu", &guest.processor.option(), "-seed", &guest.seed.to_string()]);
    if guest.fast {
        command.args(["-accel", "tcg,thread=multi"]);
    } else {
        command.args(["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]);
        command.args(["-rtc", "base=2026-01-01T00:00:00,clock=vm"]);
    }
    if shell {
        command.args(["-serial", "stdio"]);
    } else {
        command.args(["-serial", &format!("file:{}", at("console"))]);
    }
    for name in ["output", "errors", "control"] {
        command.args(["-serial", &format!("file:{}", at(name))]);
    }
    if !guest.outputs.is_empty() {
        command.args(["-fsdev", &format!("local,id=out,path={},security_model=none", at("out"))]);
        command.args(["-device", "virtio-9p-pci,fsdev=out,mount_tag=out"]);
    }
    command.args(["-kernel", &installation.kernel.display().to_string(), "-initrd", &at("initrd")]);
    let quiet = "console=ttyS0 quiet loglevel=4 nmi_watchdog=0 nokaslr random.trust_cpu=on panic=-1 8250.nr_uarts=4";
    command.args(["-append", &format!("{quiet} {}", guest.append)]);
    command.stdin(if shell { Stdio::inherit() } else { Stdio::null() }).stdout(if shell {
        Stdio::inherit()
    } else {
        Stdio::null()
    });
    command.stderr(File::create(folder.join("qemu")).map_err(Error::file(folder.join("qemu")))?);
    command.spawn().map_err(Error::file(&installation.qemu))
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
fn listen(from: PathBuf) -> Receiver<String> {
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

/// Waits for the end: the exit code and the outputs that are missing, or what went wrong.
fn wait(child: &mut Child, said: &Receiver<String>, timeout: Duration, shell: bool) -> Result<(i32, Vec<String>), String> {
    let started = Instant::now();
    let (mut code, mut missing, mut ready) = (None, Vec::new(), false);
    let status = loop {
        match said.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => match line.trim().split_once(' ') {
                Some(("exit", number)) => code = number.parse().ok(),
                Some(("missing" | "lost", what)) => missing.push(what.to_string()),
                _ => ready |= line.trim() == "ready",
            },
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                if let Some(status) = child.try_wait().map_err(|error| format!("cannot be waited for: {error}"))? {
                    break status;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        if started.elapsed() > timeout && !shell {
            child.kill().ok();
            child.wait().ok();
            let doing = if ready { "running the command" } else { "booting" };
            return Err(format!("was still {doing} after {} s: give it more with --timeout", timeout.as_secs()));
        }
    };
    while let Ok(line) = said.try_recv() {
        if let Some(("exit", number)) = line.trim().split_once(' ') {
            code = number.parse().ok();
        }
    }
    match code {
        Some(code) => Ok((code, missing)),
        None if shell && status.success() => Ok((0, missing)),
        None if ready => Err("ended in the middle of the command: its kernel may have panicked".into()),
        None => Err(format!("did not boot (QEMU: {status})")),
    }
}

/// The lines of the console, and QEMU's own complaints.
fn lines(console: &Path) -> Vec<String> {
    let read = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let text = read(console) + &read(&console.with_file_name("qemu"));
    let printable = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
    text.lines().map(printable).filter(|line| !line.trim().is_empty()).collect()
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
                let partial = to.with_file_name(format!("{}.partial-{}", name.to_string_lossy(), std::process::id()));
                copy_file(&from, &partial).and_then(|()| fs::rename(&partial, &to)).map_err(Error::file(&to))?;
            }
            Ok(found) if found.is_dir() => copy_tree(&from, &to, &mut refused)?,
            Ok(_) => refused.push(format!("{}: it is neither a file nor a folder", output.display())),
            // The guest has said that it is missing.
            Err(_) => {}
        }
    }
    Ok(refused)
}

/// A file's bytes and plain permissions: never, not even while it is being written, the bits that would let it run as somebody else.
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    const PLAIN: u32 = 0o777;
    let mut source = File::open(from)?;
    let mode = source.metadata()?.permissions().mode() & PLAIN;
    let mut copy = File::options().write(true).create(true).truncate(true).mode(mode).open(to)?;
    let copied = std::io::copy(&mut source, &mut copy).and_then(|_| fs::set_permissions(to, fs::Permissions::from_mode(mode)));
    copied.inspect_err(|_| drop(fs::remove_file(to)))
}

fn copy_tree(from: &Path, to: &Path, refused: &mut Vec<String>) -> Result<()> {
    fs::create_dir_all(to).map_err(Error::file(to))?;
    for entry in fs::read_dir(from).map_err(Error::file(from))? {
        let entry = entry.map_err(Error::file(from))?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(Error::file(&path))?;
        if kind.is_dir() {
            copy_tree(&path, &to, refused)?;
        } else if kind.is_file() {
            copy_file(&path, &to).map_err(Error::file(&to))?;
        } else {
            refused.push(format!("{}: it is neither a file nor a folder", path.display()));
        }
    }
    Ok(())
}
