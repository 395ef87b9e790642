//! QEMU, started: what it is told, and the lines by which the guest speaks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Gid, MemfdFlags, Mode, Uid, chownat, memfd_create, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use crate::archive::Archive;
use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::installation::Installation;

/// The user and the group `nobody`: what the emulator becomes once everything is open, where root started it.
const NOBODY: u32 = 65_534;

/// Memory in which a guest finds what it is to do: its first page says how many pages of an archive follow.
const ORDERS_BYTES: u64 = 512 << 20;
const PAGE: usize = 4096;

/// Told to every kernel; `--append` comes behind, and so may say otherwise. Code lies where it lay the last time, the kernel's and programs': QEMU has
/// it translated then. What the second line leaves out is work of the boot's alone, each a tenth of it or more: tests of ciphers, two searches for
/// writable code, pages that are cleared twice, the archive's that are given back.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet loglevel=4 nmi_watchdog=0 nokaslr norandmaps random.trust_cpu=on panic=-1 8250.nr_uarts=4 \
                                cryptomgr.notests=1 rodata=off init_on_alloc=0 retain_initrd";

/// Where instructions are the clock, the time stamp counter is exact, and its rate is known. Told so, the kernel trusts it from the start;
/// else it compares clocks for its first second and a half, and until then its timers fire with the tick, every 4 ms.
const EXACT_CLOCK: &str = "tsc=reliable tsc_early_khz=1000000";

/// Lines of the console that an error quotes.
const TAIL: usize = 8;

/// Serial lines behind the console's, in the order in which the guest has them: what the command says, its errors, what the guest says to us.
pub const LINES: [&str; 3] = ["output", "errors", "control"];

/// How a machine comes to be.
pub enum Start<'a> {
    /// It boots, with these files beside the base ones.
    Boot(&'a Archive),
    /// The same, and it stops to be saved; its memory is this file.
    BootToSave(&'a Archive, &'a OwnedFd),
    /// It was saved: its memory, which stays as it is, and the rest of its state.
    Load(&'a OwnedFd, &'a OwnedFd),
    /// The same, and it stops to be saved once more; this memory is its own.
    LoadToSave(&'a OwnedFd, &'a OwnedFd),
}

impl Start<'_> {
    fn is_to_save(&self) -> bool {
        matches!(self, Self::BootToSave(..) | Self::LoadToSave(..))
    }

    fn is_loaded(&self) -> bool {
        matches!(self, Self::Load(..) | Self::LoadToSave(..))
    }
}

/// One that runs. Killed when it is dropped, and when this process is.
pub struct Emulator {
    /// QEMU.
    pub child: Child,
    /// The machine had booted before.
    pub is_loaded: bool,
    guardian: Child,
    folder: tempfile::TempDir,
    /// The orders' memory, as long as QEMU has not mapped it.
    _orders: OwnedFd,
}

/// What the kernel is told when it boots.
pub fn kernel_arguments(guest: &Guest) -> String {
    let clock = if guest.fast { "" } else { EXACT_CLOCK };
    format!("{KERNEL_ARGUMENTS} {clock} {}", guest.append)
}

/// Memory that is nobody's file: gone with the last process that has it.
///
/// # Errors
/// Where the kernel has none left.
pub fn memory(name: &str, bytes: u64) -> Result<OwnedFd> {
    let named = |error: rustix::io::Errno| Error::file(format!("memory for {name}"))(error.into());
    let memory = memfd_create(name, MemfdFlags::CLOEXEC).map_err(named)?;
    rustix::fs::ftruncate(&memory, bytes).map_err(named)?;
    Ok(memory)
}

/// Where another process of this user's opens it.
pub fn path_of(memory: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd())
}

impl Emulator {
    /// Starts it; `orders` is what the guest unpacks before its command.
    ///
    /// # Errors
    /// Where something that it needs is missing, or is too large.
    pub fn start(installation: &Installation, guest: &Guest, orders: Archive, how: &Start<'_>) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(Error::file(std::env::temp_dir()))?;
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("out")).map_err(Error::file(at("out")))?;
        // A root that may not give the folder away (a container's) cannot become somebody else either.
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        let gives_up_root =
            rustix::process::geteuid().is_root() && chownat(CWD, at("out"), Some(user), Some(group), AtFlags::empty()).is_ok();
        if gives_up_root {
            // Passed through, not listed: the state is written by who gave up being root.
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).map_err(Error::file(folder.path()))?;
        }
        for name in LINES {
            mknodat(CWD, at(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(|e| Error::file(at(name))(e.into()))?;
        }
        let orders = written(orders)?;
        let mut command = installation.emulator();
        for firmware in &installation.firmware {
            if !firmware.is_dir() {
                return Err(Error::Missing {
                    what: "QEMU's firmware".into(),
                    why: format!("there is no {}", firmware.display()),
                    remedy: "apt-get install seabios qemu-system-data".into(),
                });
            }
            command.arg("-L").arg(firmware);
        }
        if gives_up_root {
            command.args(["-run-with", &format!("user={NOBODY}:{NOBODY}")]);
        }
        machine(&mut command, guest, folder.path(), &orders, how);
        if let Start::Boot(files) | Start::BootToSave(files, _) = how {
            let mut initrd = fs::read(&installation.base).map_err(Error::file(&installation.base))?;
            initrd.resize(initrd.len().next_multiple_of(4), 0);
            initrd.extend((*files).clone().finish());
            fs::write(at("initrd"), initrd).map_err(Error::file(at("initrd")))?;
            command.args(["-kernel", &installation.kernel.display().to_string(), "-initrd", &at("initrd").display().to_string()]);
            command.args(["-append", &kernel_arguments(guest)]);
        }
        match how {
            _ if how.is_to_save() => command.stdin(Stdio::piped()).stdout(Stdio::piped()),
            _ if is_shell(guest, how) => command.stdin(Stdio::inherit()).stdout(Stdio::inherit()),
            _ => command.stdin(Stdio::null()).stdout(Stdio::null()),
        };
        command.stderr(File::create(at("qemu")).map_err(Error::file(at("qemu")))?);
        let mut child = command.spawn().map_err(Error::file(&installation.qemu))?;
        match guardian(&child) {
            Ok(guardian) => Ok(Self { child, is_loaded: how.is_loaded(), guardian, folder, _orders: orders }),
            Err(error) => {
                child.kill().ok();
                child.wait().ok();
                Err(error)
            }
        }
    }

    /// A file of the run's: a line of the guest's, `out`.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Switches it off, and lets go of whoever still waits for a line to be opened.
    pub fn switch_off(&mut self) {
        // First: once QEMU is waited for, its number may be another process's.
        self.guardian.kill().ok();
        self.guardian.wait().ok();
        self.child.kill().ok();
        self.child.wait().ok();
        self.let_go_of_lines();
    }

    /// Asks it to end, and hears what it says then: events that counters were set to and that are not modelled, and how often. One that does not end
    /// soon is left to [`Self::switch_off`].
    pub fn end(&mut self) -> Vec<(u64, u64)> {
        const SOON: Duration = Duration::from_secs(2);
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).ok();
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(1));
        }
        let said = fs::read_to_string(self.at("qemu")).unwrap_or_default();
        let unmodelled = said.lines().filter_map(|line| {
            let (which, times) = line.strip_prefix("perftax-unmodelled: 0x")?.split_once(' ')?;
            Some((u64::from_str_radix(which, 16).ok()?, times.parse().ok()?))
        });
        // Each processor tells of its own.
        let mut all = BTreeMap::new();
        unmodelled.for_each(|(which, times): (u64, u64)| *all.entry(which).or_default() += times);
        all.into_iter().collect()
    }

    /// The signal that ended it, where it was asked to end by one.
    pub fn ended_by(&self) -> Option<String> {
        let said = fs::read_to_string(self.at("qemu")).unwrap_or_default();
        let (_, behind) = said.split_once("terminating on signal ")?;
        Some(behind.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default().to_string())
    }

    /// Lets whoever still waits for a line to be opened see its end, once QEMU is gone.
    pub fn let_go_of_lines(&self) {
        for name in LINES {
            File::options().write(true).read(true).open(self.at(name)).ok();
        }
    }

    /// A process that stands for QEMU.
    #[cfg(test)]
    pub(crate) fn of(child: Child) -> Self {
        let guardian = guardian(&child).unwrap();
        Self { child, is_loaded: false, guardian, folder: tempfile::tempdir().unwrap(), _orders: memory("none", 4096).unwrap() }
    }

    /// An error about the guest, with what its console said last.
    pub fn complaint(&self, how: String) -> Error {
        let console = lines(&self.at("console"), &self.at("qemu"));
        let panic = console.iter().find_map(|line| line.find("Kernel panic").map(|at| line[at..].to_string()));
        let how = panic.map_or(how, |panic| format!("panicked: {panic}"));
        Error::Guest { how, console_tail: console[console.len().saturating_sub(TAIL)..].to_vec() }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.switch_off();
    }
}

/// Ends QEMU once this process is gone, however it went: its end of a pipe is closed then. (A signal on the parent's death is not an option: the
/// kernel forgets the wish where QEMU gives up being root.)
fn guardian(child: &Child) -> Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", r#"trap "" HUP INT TERM; read _; kill -9 "$0""#, &child.id().to_string()]);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    shell.spawn().map_err(Error::file("/bin/sh"))
}

/// Whether the console is a shell on this terminal.
fn is_shell(guest: &Guest, how: &Start<'_>) -> bool {
    guest.argv.is_empty() && matches!(how, Start::Boot(_))
}

/// What makes up the machine: the same for one that is saved and those that load it.
fn machine(command: &mut Command, guest: &Guest, folder: &Path, orders: &OwnedFd, how: &Start<'_>) {
    let at = |name: &str| folder.join(name).display().to_string();
    // No network, no disk, no clock of the host's: nothing but these lines goes in or out while the command runs.
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-monitor", "none"]);
    command.args(["-m", &guest.memory_mib.to_string(), "-smp", &guest.processor.count.to_string()]);
    let ram = |file: &OwnedFd, share: &str| {
        format!("memory-backend-file,id=ram,size={}M,mem-path={},share={share}", guest.memory_mib, path_of(file))
    };
    let mut processor = guest.processor.option();
    match how {
        Start::Boot(_) => drop(command.args(["-M", "pc"])),
        Start::BootToSave(_, memory) | Start::LoadToSave(memory, _) => {
            command.args(["-M", "pc,memory-backend=ram", "-object", &ram(memory, "on")]);
        }
        Start::Load(memory, _) => drop(command.args(["-M", "pc,memory-backend=ram", "-object", &ram(memory, "off")])),
    }
    if let Start::Load(_, state) | Start::LoadToSave(_, state) = how {
        command.args(["-incoming", &format!("exec:cat {}", path_of(state))]);
    }
    if how.is_to_save() {
        processor.push_str(",pmu-pauses=on");
        command.args(["-qmp", "stdio"]);
    }
    // Of memory that is shared the file is the state; who loads it runs at once.
    command.args(["-global", "migration.x-ignore-shared=on", "-global", "migration.store-global-state=off"]);
    command.args(["-cpu", &processor, "-seed", &guest.seed.to_string()]);
    if guest.fast {
        command.args(["-accel", "tcg,thread=multi"]);
    } else {
        command.args(["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]);
        command.args(["-rtc", "base=2026-01-01T00:00:00,clock=vm"]);
    }
    if is_shell(guest, how) {
        command.args(["-serial", "stdio"]);
    } else {
        command.args(["-serial", &format!("file:{}", at("console"))]);
    }
    for name in LINES {
        command.args(["-serial", &format!("file:{}", at(name))]);
    }
    let shared = format!("memory-backend-file,id=orders,size={ORDERS_BYTES},mem-path={},share=on", path_of(orders));
    command.args(["-object", &shared, "-device", "ivshmem-plain,memdev=orders,master=on"]);
    command.args(["-fsdev", &format!("local,id=out,path={},security_model=none", at("out"))]);
    command.args(["-device", "virtio-9p-pci,fsdev=out,mount_tag=out"]);
}

/// Whether a guest can be told so much.
pub fn fits(orders: &Archive) -> bool {
    orders.bytes() + 2 * PAGE < ORDERS_BYTES as usize
}

/// Orders as the guest finds them.
fn written(orders: Archive) -> Result<OwnedFd> {
    let fits = fits(&orders);
    let bytes = orders.finish();
    let pages = bytes.len().div_ceil(PAGE);
    if !fits {
        let source = std::io::Error::other(format!(
            "the command, what it needs and the shared folder have {} MiB, and {} fit",
            bytes.len() >> 20,
            ORDERS_BYTES >> 20
        ));
        return Err(Error::File { path: "orders".into(), source });
    }
    let memory = memory("orders", ORDERS_BYTES)?;
    let mut file = File::from(memory.as_fd().try_clone_to_owned().map_err(Error::file("orders"))?);
    let mut first = format!("{pages}\n").into_bytes();
    first.resize(PAGE, 0);
    file.write_all(&first).and_then(|()| file.write_all(&bytes)).map_err(Error::file("orders"))?;
    Ok(memory)
}

/// The lines of the console, and QEMU's own complaints.
fn lines(console: &Path, qemu: &Path) -> Vec<String> {
    let read = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let text = read(console) + &read(qemu);
    let printable = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
    text.lines().map(printable).filter(|line| !line.trim().is_empty()).collect()
}
