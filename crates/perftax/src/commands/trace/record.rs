//! `perftax trace record`: a program's marks, samples of it, and what the kernel did meanwhile.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use perftax_cost::Warning;
use perftax_cost::document::TraceMeta;
use perftax_pmu::Error;
use perftax_pmu::sys::Ended;
use perftax_trace::{Recorded, Recording, record};

use super::META;
use crate::failure::Outcome;
use crate::here::Here;
use crate::progress;

/// Run a program, and record its messages into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  perftax trace record -o slow.trace -- ./server --port 80
  perftax trace report slow.trace")]
pub struct Args {
    /// The event to sample
    #[arg(short, long, value_name = "EVENT", default_value = "cpu-clock")]
    event: String,
    /// Its period, in events (nanoseconds for clocks)
    #[arg(short = 'c', long = "count", value_name = "R", default_value_t = USUAL_PERIOD)]
    period: u64,
    /// Leave out what the kernel does (switches, interrupts, system calls): what needs the right to watch CPUs
    #[arg(long)]
    no_kernel_noise: bool,
    /// Marks that a thread may be ahead of perftax; a power of two from 64 to 2^26
    #[arg(long, value_name = "N", default_value_t = 1 << 18)]
    ring_marks: u64,
    /// The folder to make
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// The program, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A prime near a millisecond.
const USUAL_PERIOD: u64 = 1_000_003;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let folder = NewFolder::make(&args.output)?;
    if !args.ring_marks.is_power_of_two() || !(64..=1 << 26).contains(&args.ring_marks) {
        let needed = "a power of two from 64 to 67108864".into();
        return Err(Error::Argument { argument: "--ring-marks", value: args.ring_marks.to_string(), needed }.into());
    }
    let here = Here::read()?;
    let (event, mechanism) = here.choose(Some(&args.event), None)?;
    crate::commands::calibrate::check_period(Some(args.period), mechanism)?;
    let mut origin = here.origin("trace");
    let guard = here.throttle_guard(&mut origin)?;
    let recording = Recording {
        argv: args.command.clone(),
        event: event.with_context(|| format!("{} names no event", args.event))?,
        period: args.period,
        kernel_noise: !args.no_kernel_noise,
        ring_marks: args.ring_marks,
        cpus: here.cpus.clone(),
    };
    let Recorded { trace, exit, lost, dropped, broken, rings } = record(&recording, &here.catalog)?;
    drop(guard);
    if lost > 0 {
        origin.warnings.push(Warning::LostRecords { lost });
    }
    if dropped > 0 {
        let message = format!("{dropped} marks found no room: messages are missing, or have no end");
        origin.warnings.push(Warning::Other { message, remedy: "--ring-marks with a larger power of two".into() });
    }
    for why in &broken {
        let message = format!("the marks of a thread are missing: {why}");
        origin.warnings.push(Warning::Other { message, remedy: "one version of perftax_tag.h in all of the program".into() });
    }
    if rings == 0 {
        let message = "the program marked nothing".to_string();
        let remedy = "build it with perftax_tag.h or the crate perftax-tag: perftax_begin(id), perftax_end(id)".into();
        origin.warnings.push(Warning::Other { message, remedy });
    }
    let code = match exit.ended {
        Ended::Code(code) => u8::try_from(code).unwrap_or(1),
        Ended::Signal(signal) => u8::try_from(128 + signal).unwrap_or(255),
    };
    let meta = TraceMeta {
        origin,
        program: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        code,
        elapsed_s: exit.elapsed_s,
        event: recording.event.name.clone(),
        period: args.period,
        kernel_noise: recording.kernel_noise,
        rings,
        lost,
        dropped,
        broken,
    };
    trace.write(&folder.partial)?;
    let file = folder.partial.join(META);
    std::fs::write(&file, serde_json::to_string_pretty(&meta)?).map_err(Error::file(&file))?;
    folder.keep()?;
    progress::announce(&format!(
        "{} marks of {rings} threads, {} samples, {} records of the kernel's in {}: perftax trace report {}",
        trace.marks.len(),
        trace.samples.len(),
        trace.kernel.len(),
        args.output.display(),
        args.output.display()
    ));
    Ok(if code == 0 { Outcome::Done } else { Outcome::Passed(code) })
}

/// A folder that appears whole or not at all.
struct NewFolder {
    wanted: PathBuf,
    partial: PathBuf,
}

impl NewFolder {
    fn make(wanted: &Path) -> Result<Self> {
        if wanted.exists() {
            let value = wanted.display().to_string();
            return Err(Error::Argument { argument: "-o", value, needed: "a folder that is not there yet".into() }.into());
        }
        let mut name = wanted.file_name().with_context(|| format!("{} names no folder", wanted.display()))?.to_os_string();
        name.push(format!(".{}.partial", std::process::id()));
        let partial = wanted.with_file_name(name);
        std::fs::create_dir(&partial).map_err(Error::file(&partial))?;
        Ok(Self { wanted: wanted.into(), partial })
    }

    fn keep(self) -> Result<()> {
        std::fs::rename(&self.partial, &self.wanted).map_err(Error::file(&self.wanted))?;
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // Gone already where it was kept.
        std::fs::remove_dir_all(&self.partial).ok();
    }
}
