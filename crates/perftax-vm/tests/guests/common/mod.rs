//! Booting the machine from a test.
#![allow(clippy::unwrap_used, dead_code)] // a helper of a test that cannot unwrap has failed; not every test needs all of them

pub mod module;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use perftax_vm::{Finished, Generation, Guest, Installation, Resident, Sources, Terminal, run};

/// Guests run on processors that nobody else wants (scripts/test), and so may wait for long.
const LONGEST: Duration = Duration::from_secs(1800);

/// What a guest says.
#[derive(Clone, Default)]
pub struct Said(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Said {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// A program's source.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/programs").join(name)
}

/// A folder with a C program compiled into it.
pub fn compiled(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-static", "-o"]).arg(folder.path().join(name.trim_end_matches(".c"))).arg(source(name));
    assert!(gcc.status().unwrap().success());
    folder
}

/// Assembles a program without a library into a folder; `options` are gcc's.
pub fn assemble(folder: &Path, name: &str, options: &[&str]) {
    let mut gcc = Command::new("gcc");
    gcc.args(["-nostdlib", "-static", "-no-pie"]).args(options).arg("-o").arg(folder.join(name));
    assert!(gcc.status().unwrap().success(), "{name} {options:?}");
}

/// Runs a command; its output, its errors, and how it ended.
pub fn boot(argv: &[String], change: impl FnOnce(&mut Guest)) -> (String, String, Finished) {
    boot_with(argv, &perftax(), change)
}

/// The same, with this program as the guest's `perftax`.
pub fn boot_with(argv: &[String], perftax: &Path, change: impl FnOnce(&mut Guest)) -> (String, String, Finished) {
    boot_kernel(None, argv, perftax, change)
}

/// The same, under another kernel than the distribution's.
pub fn boot_kernel(
    kernel: Option<&Path>,
    argv: &[String],
    perftax: &Path,
    change: impl FnOnce(&mut Guest),
) -> (String, String, Finished) {
    let guest = changed(argv, change);
    let installation = Sources::find().unwrap().installation(kernel).unwrap();
    let machine = resident(kernel, &installation, perftax, &guest);
    said(|terminal| machine.exec(&installation, &guest, terminal).unwrap())
}

/// The same in a machine that boots for it: copies of one with several processors count alike, but their clocks may differ (docs/guide/vm.md).
pub fn boot_anew(argv: &[String], perftax: &Path, change: impl FnOnce(&mut Guest)) -> (String, String, Finished) {
    let guest = Guest { boots: true, ..changed(argv, change) };
    let installation = Sources::find().unwrap().installation(None).unwrap();
    said(|terminal| run(&installation, &guest, perftax, terminal).unwrap())
}

fn changed(argv: &[String], change: impl FnOnce(&mut Guest)) -> Guest {
    let mut guest = Guest::new(argv.to_vec());
    // What our module needs; so that most tests have the same machine, which boots once.
    guest.append = "nopti".into();
    guest.timeout = LONGEST;
    change(&mut guest);
    guest
}

fn said(command: impl FnOnce(Terminal) -> Finished) -> (String, String, Finished) {
    let (output, errors) = (Said::default(), Said::default());
    let terminal = Terminal { output: Box::new(output.clone()), errors: Box::new(errors.clone()), interrupted: || false };
    let finished = command(terminal);
    (output.text(), errors.text(), finished)
}

/// A machine of this kind that has booted once for all tests of this program; it goes with the program.
pub fn resident(kernel: Option<&Path>, installation: &Installation, perftax: &Path, guest: &Guest) -> Arc<Resident> {
    type Machines = BTreeMap<String, Arc<OnceLock<Arc<Resident>>>>;
    static MACHINES: Mutex<Machines> = Mutex::new(BTreeMap::new());
    let machine = Guest { with: Vec::new(), share: None, outputs: Vec::new(), environment: Vec::new(), ..guest.clone() };
    let machine = Guest { processor: machine.processor.as_booted(), timeout: LONGEST, ..machine };
    let machine = Guest { argv: vec!["true".into()], root: None, input: Vec::new(), ..machine };
    let key = format!("{kernel:?} {perftax:?} {machine:?}");
    // A test that failed while it booted one is not this one's failure.
    let place = Arc::clone(MACHINES.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
    Arc::clone(place.get_or_init(|| Arc::new(Resident::boot(installation, &machine, perftax, || false).unwrap())))
}

/// The last few of several that show the same; all of them where `PERFTAX_ALL` is set, as by `scripts/acceptance long-tests`.
pub fn last_of<T: Copy>(few: usize, all: &[T]) -> Vec<T> {
    let is_all = std::env::var_os("PERFTAX_ALL").is_some();
    all[if is_all { 0 } else { all.len() - few }..].to_vec()
}

/// Before a script that uses perf: it then reads no kernel symbols (it would copy and search them at each recording), no BPF programs, and of all tables of
/// processors' events the first one, which is short; no test asks perf for any of these. A short recording takes a tenth of the instructions.
pub const SHORT_PERF: &str = "\
: >/tmp/no-symbols; mount -o bind /tmp/no-symbols /proc/kallsyms
export PERF_CPUID=GenuineIntel-6-97-1
perf=$(command -v perf); mkdir -p /tmp/short; export PATH=/tmp/short:$PATH
cat >/tmp/short/perf <<END
#!/bin/sh
case \\$1 in record) shift; exec $perf record --no-bpf-event \"\\$@\" ;; esac
exec $perf \"\\$@\"
END
chmod +x /tmp/short/perf
";

/// Calibrates before all others; once more where the A/A control refuses it, which has one honest calibration in a hundred refused.
pub const CALIBRATE: &str = "\
calibrate() {
    chrt -f 1 perftax calibrate \"$@\" >/dev/null || chrt -f 1 perftax calibrate --seed 2 \"$@\" >/dev/null
}
";

/// `calls` and programs of `programs/NAME.S`, whose loops take so many turns.
pub fn programs(names: &[&str], turns: u64) -> tempfile::TempDir {
    let folder = compiled("calls.c");
    for name in names {
        assemble(folder.path(), name, &[&format!("-DN={turns}"), source(&format!("{name}.S")).to_str().unwrap()]);
    }
    folder
}

/// The suite whose kernel a guest has; `None`: the distribution's.
pub type Suite = Option<&'static str>;

/// Runs a script of the shell on a processor, in a folder's copy; what it says, and its errors.
pub fn run_script(
    suite: Suite,
    folder: &Path,
    script: &str,
    generation: Generation,
    change: impl FnOnce(&mut Guest),
) -> (String, String) {
    std::fs::write(folder.join("script"), format!("{SHORT_PERF}{script}")).unwrap();
    let (output, errors, finished) =
        boot_kernel(suite.map(Path::new), &["sh", "script"].map(String::from), &perftax(), |guest| {
            guest.share = Some(folder.into());
            guest.processor.generation = generation;
            change(guest);
        });
    assert_eq!(finished.code, 0, "{output}{errors}");
    (output, errors)
}

/// The lines behind `== name`, up to the next such.
pub fn section<'a>(output: &'a str, name: &str) -> Vec<&'a str> {
    output.lines().skip_while(|line| *line != format!("== {name}")).skip(1).take_while(|line| !line.starts_with("== ")).collect()
}

/// Compiles a kernel module of `tests/guests/modules` into a folder, for the machine's own kernel (its headers come with `make kmod`).
pub fn compile_module(folder: &Path, name: &str) {
    let installation = Sources::find().unwrap().installation(None).unwrap();
    let release = std::fs::read_to_string(installation.kernel.with_file_name("kernel")).unwrap();
    let headers = PathBuf::from(format!("/usr/src/linux-headers-{}", release.trim()));
    assert!(headers.is_dir(), "{} is not there: make kmod", headers.display());
    let build = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/modules").join(format!("{name}.c"));
    std::fs::copy(source, build.path().join(format!("{name}.c"))).unwrap();
    std::fs::write(build.path().join("Kbuild"), format!("obj-m := {name}.o\n")).unwrap();
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(&headers).arg(format!("M={}", build.path().display())).args(["W=1", "modules"]);
    let output = make.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("warning:"), "{said}");
    std::fs::copy(build.path().join(format!("{name}.ko")), folder.join(format!("{name}.ko"))).unwrap();
}

/// This build of perftax, for the guest.
pub fn perftax() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let perftax = tests.parent().and_then(Path::parent).unwrap().join("perftax");
    assert!(perftax.is_file(), "{} is not there: cargo build --workspace --bins", perftax.display());
    perftax
}
