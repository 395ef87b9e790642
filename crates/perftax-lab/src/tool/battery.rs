//! The known work that tools are tried out on: this program once more, started by the tool.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use perftax_doc::TrialStage;
use perftax_pmu::guard::{allowed_cpus, pin_this_thread};
use perftax_pmu::sys::monotonic_ns;
use perftax_pmu::{Error, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::stimulus::{
    PageFaults, PointerChase, Spin, Stimulus, Syscalls, TokenRing, WideCode, call_entries, come_and_go, second_level_bytes,
};

/// What this program is started with: its first argument. The second one is the file that it writes, the third the CPU that it does the work on ([`ANY_CPU`]: its
/// parent's), the others how much there is to do of each stage.
pub(super) const NAME: &str = "perftax-battery";

/// Functions of wide code between two calls that are spread: some 30 µs of work, as far apart as a compiler's calls are.
const BETWEEN_CALLS: u64 = 1200;

/// No CPU in particular.
const ANY_CPU: &str = "-";

/// How much there is to do.
pub(super) type Amounts = BTreeMap<TrialStage, u64>;

/// Does the work where this process was started for it, and says so: the program ends then. To be called before anything else by every program that tries tools
/// out. Where it fails there is no file, which whoever waits for it says.
pub fn served_as_battery() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(NAME)) {
        return false;
    }
    let file = arguments.next();
    let cpu = arguments.next().and_then(|cpu| cpu.into_string().ok()).unwrap_or_default();
    let amounts: Vec<u64> = arguments.filter_map(|amount| amount.to_str()?.parse().ok()).collect();
    if let Some(file) = file.filter(|_| amounts.len() == TrialStage::ALL.len()) {
        let amounts = TrialStage::ALL.into_iter().zip(amounts).collect();
        let pinned = match cpu.as_str() {
            ANY_CPU => Ok(()),
            // Whoever started it has this one among its CPUs; a tool between them may be on another.
            cpu => cpu.parse().map_err(|_| unreadable(cpu)).and_then(|cpu| run_on(&[cpu])),
        };
        let written = pinned
            .and_then(|()| all(&amounts, Path::new(&file).parent().unwrap_or(Path::new("/"))))
            .and_then(|took_ns| write(Path::new(&file), &took_ns));
        if let Err(error) = written {
            eprintln!("perftax: {error}");
        }
    }
    true
}

fn unreadable(cpu: &str) -> Error {
    Error::Argument { argument: NAME, value: cpu.into(), needed: format!("a CPU's number, or {ANY_CPU}") }
}

/// What it was started as, for amounts, on a CPU or where its parent is.
pub(super) fn words(program: &Path, file: &Path, cpu: Option<u32>, amounts: &Amounts) -> Vec<String> {
    let cpu = cpu.map_or(ANY_CPU.into(), |cpu| cpu.to_string());
    let mut words = vec![program.to_string_lossy().into_owned(), NAME.into(), file.to_string_lossy().into_owned(), cpu];
    words.extend(TrialStage::ALL.iter().map(|stage| amounts.get(stage).copied().unwrap_or(0).to_string()));
    words
}

fn write(file: &Path, took_ns: &Amounts) -> Result<()> {
    let text = serde_json::to_vec(took_ns).unwrap_or_default();
    std::fs::write(file, text).map_err(Error::file(file))
}

/// Every stage once, ns each; files stand in the folder.
fn all(amounts: &Amounts, folder: &Path) -> Result<Amounts> {
    let mut took_ns = Amounts::new();
    for (&stage, &amount) in amounts {
        took_ns.insert(stage, once(stage, amount, folder)?);
    }
    Ok(took_ns)
}

fn once(stage: TrialStage, amount: u64, folder: &Path) -> Result<u64> {
    match stage {
        TrialStage::Computing => {
            let mut spin = Spin::of(amount);
            // What it touches for the first time is not what is asked for.
            Spin::of(amount / 64).run();
            Ok(timed(|| spin.run()))
        }
        TrialStage::Calls => Ok(timed(|| Syscalls::new(amount).run())),
        TrialStage::Paths => {
            let paths = Paths::of(folder);
            Ok(timed(|| {
                for path in paths.cycle().take(amount as usize) {
                    std::hint::black_box(rustix::fs::lstat(&path).ok());
                }
            }))
        }
        TrialStage::Reads => {
            let zeros = File::open("/dev/zero").map_err(Error::file("/dev/zero"))?;
            let mut buffer = [0u8; 512];
            Ok(timed(|| {
                for _ in 0..amount {
                    std::hint::black_box(rustix::io::read(&zeros, &mut buffer[..]).ok());
                }
            }))
        }
        TrialStage::Faults => {
            let mut faults = PageFaults::new(amount as usize)?;
            Ok(timed(|| faults.run()))
        }
        TrialStage::Switches => on_one_cpu(|| {
            let mut ring = TokenRing::spawn(2, 0)?;
            // One round is two passes. The first ones find out where everybody is.
            ring.go_around(10)?;
            let began_ns = monotonic_ns();
            ring.go_around(amount / 2)?;
            Ok(monotonic_ns() - began_ns)
        }),
        TrialStage::Tasks => on_one_cpu(|| {
            let began_ns = monotonic_ns();
            for _ in 0..amount {
                come_and_go()?;
            }
            Ok(monotonic_ns() - began_ns)
        }),
        TrialStage::Probed => Ok(timed(|| call_entries(amount))),
        TrialStage::CachedWork => Ok(after_a_little(amount, cached_work)),
        TrialStage::WideCode => Ok(after_a_little(amount, WideCode::of)),
        TrialStage::SpreadCalls => {
            let mut between = WideCode::of(BETWEEN_CALLS);
            Ok(timed(|| {
                for _ in 0..amount {
                    Syscalls::new(1).run();
                    between.run();
                }
            }))
        }
    }
}

/// Files that are looked up: as many as a folder of sources has, since one and the same would be found in the nearest cache each time.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    folder: PathBuf,
    next: usize,
}

impl Paths {
    const FOLDERS: usize = 20;
    const FILES: usize = 30;

    /// Those in a folder.
    pub(super) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), next: 0 }
    }

    /// Creates them.
    pub(super) fn create(&self) -> Result<()> {
        for path in self.clone() {
            let parent = path.parent().unwrap_or(&self.folder);
            std::fs::create_dir_all(parent).map_err(Error::file(parent))?;
            File::create(&path).map_err(Error::file(&path))?;
        }
        Ok(())
    }
}

impl Iterator for Paths {
    type Item = PathBuf;

    /// Written anew each time, as programs do.
    fn next(&mut self) -> Option<PathBuf> {
        let (at, of) = (self.next, Self::FOLDERS);
        self.next += 1;
        (at < of * Self::FILES).then(|| self.folder.join(format!("folder-{}/file-{}", at % of, at / of)))
    }
}

/// Steps of the work that lives off its caches, on whichever CPU this is.
pub(super) fn cached_work(steps: u64) -> PointerChase {
    PointerChase::of(steps, second_level_bytes(0) / 2)
}

/// Steps of it that take so long.
pub(super) fn cached_lasting(duration: Duration) -> u64 {
    PointerChase::lasting(duration, second_level_bytes(0) / 2).steps()
}

/// The work alone, once a little of it has gone before: what it touches for the first time is not what is asked for. Nothing takes no time.
fn after_a_little<S: Stimulus>(amount: u64, of: impl Fn(u64) -> S) -> u64 {
    if amount == 0 {
        return 0;
    }
    let mut work = of(amount);
    of(amount / 16).run();
    timed(|| work.run())
}

fn timed(work: impl FnOnce()) -> u64 {
    let began_ns = monotonic_ns();
    work();
    monotonic_ns() - began_ns
}

/// With this thread, and what it creates, on one CPU: a token that goes to another one wakes that up.
fn on_one_cpu<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let cpus = allowed_cpus()?;
    pin_this_thread(cpus.last().copied().unwrap_or(0))?;
    let done = work();
    run_on(&cpus)?;
    done
}

fn run_on(cpus: &[u32]) -> Result<()> {
    let mut all = CpuSet::new();
    cpus.iter().filter(|cpu| (**cpu as usize) < CpuSet::MAX_CPU).for_each(|cpu| all.set(*cpu as usize));
    sched_setaffinity(None, &all).map_err(|e| Error::System { call: "sched_setaffinity".into(), source: e.into() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn every_stage_takes_time() {
        let amounts: Amounts = TrialStage::ALL.into_iter().map(|stage| (stage, 20)).collect();
        let folder = tempfile::tempdir().unwrap();
        Paths::of(folder.path()).create().unwrap();
        let took_ns = all(&amounts, folder.path()).unwrap();
        assert_eq!(took_ns.len(), TrialStage::ALL.len());
        assert!(took_ns.iter().all(|(stage, ns)| *ns > 0 || *stage == TrialStage::Computing), "{took_ns:?}");
    }

    #[test]
    fn what_is_asked_for_is_said_in_words() {
        let amounts: Amounts = TrialStage::ALL.into_iter().zip(1..).collect();
        let words = |cpu| words(Path::new("/p"), Path::new("/f/out"), cpu, &amounts).join(" ");
        assert_eq!(words(None), "/p perftax-battery /f/out - 1 2 3 4 5 6 7 8 9 10 11");
        assert_eq!(words(Some(3)), "/p perftax-battery /f/out 3 1 2 3 4 5 6 7 8 9 10 11");
    }
}
