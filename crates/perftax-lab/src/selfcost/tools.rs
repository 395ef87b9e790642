//! What programs that measure take: `perf stat` around a program that does nothing, and perf's own figure for a pass through pipes.

use std::path::Path;
use std::process::{Command, Stdio};

use perftax_doc::{Price, PriceSection};
use perftax_pmu::{Error, Result};

use super::book::{Book, Entry};
use super::{Bench, timed};

/// Runs of each in a round.
const RUNS: usize = 4;
/// Passes to and fro of `perf bench sched pipe` in a run; each is two switches.
const PASSES: u32 = 2000;

/// The bench.
pub struct Tools {
    alone: Entry,
    /// Where perf is installed.
    perf: Option<(Entry, Entry)>,
    ticks_per_s: f64,
}

impl Tools {
    /// With perf, where it is installed.
    pub fn new(book: &mut Book) -> Self {
        let alone = book.open(Price::new(PriceSection::Tool, "run true", "by itself", "", 0));
        let stat = Price::new(PriceSection::Tool, "run true", "under perf stat", "software", 1);
        let pipe = Price { per_run: 2 * PASSES, ..Price::new(PriceSection::Tool, "perf bench sched pipe", "a switch", "", 0) };
        let perf = match tried() {
            Err(why) => {
                book.missing(stat, &why);
                book.missing(pipe, &why);
                None
            }
            Ok(()) => {
                let (stat, pipe) = (book.open(stat), book.open(pipe));
                book.remark(pipe, "as perf says it, on one CPU, with the way through the pipe");
                book.compare(stat, alone, None);
                Some((stat, pipe))
            }
        };
        let ticks_per_s = 1e9 * super::Scale::measured(false).ticks_per_unit;
        Self { alone, perf, ticks_per_s }
    }
}

/// Whether perf can do what is asked of it.
fn tried() -> Result<(), String> {
    let there =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("perf").is_file()));
    if !there {
        return Err("perf is not installed: apt-get install linux-perf".into());
    }
    ended(&STAT).and_then(|_| pipe_s().map(|_| ())).map_err(|error| error.headline())
}

const STAT: [&str; 5] = ["perf", "stat", "-e", "page-faults:u", "true"];

/// Runs a program that says nothing.
fn ended(argv: &[&str]) -> Result<()> {
    let outcome =
        Command::new(argv[0]).args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = outcome.map_err(|source| Error::Exec { program: Path::new(argv[0]).into(), source })?;
    if status.success() {
        return Ok(());
    }
    Err(Error::CommandFailed { command: argv.join(" "), how: status.to_string() })
}

/// Seconds that perf says a pass to and fro took.
fn pipe_s() -> Result<f64> {
    let passes = PASSES.to_string();
    let argv = ["perf", "bench", "sched", "pipe", "-l", &passes];
    let output = Command::new(argv[0]).args(&argv[1..]).stdin(Stdio::null()).output();
    let output = output.map_err(|source| Error::Exec { program: Path::new(argv[0]).into(), source })?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find_map(|line| line.trim().strip_suffix("usecs/op"));
    let us: Option<f64> = line.and_then(|number| number.trim().parse().ok());
    let how = || format!("says nothing of usecs/op, but '{}'", said.trim());
    us.map(|us| 1e-6 * us).ok_or_else(|| Error::CommandFailed { command: argv.join(" "), how: how() })
}

impl Bench for Tools {
    fn round(&mut self, book: &mut Book) -> Result<()> {
        for nth in 0..=RUNS {
            let (ticks, done) = timed(|| ended(&["true"]));
            done?;
            book.nth(self.alone, nth, ticks);
            if let Some((stat, _)) = self.perf {
                let (ticks, done) = timed(|| ended(&STAT));
                done?;
                book.nth(stat, nth, ticks);
            }
        }
        if let Some((_, pipe)) = self.perf {
            book.run(pipe, (pipe_s()? * f64::from(PASSES) * self.ticks_per_s) as u64);
            book.take_off(pipe, 0);
        }
        Ok(())
    }
}
