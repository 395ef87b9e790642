//! `perftax trace record`: a program's marks, samples of it, and what the kernel did meanwhile.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use perftax_cost::document::{Interrupts, TraceMeta};
use perftax_cost::{Mechanism, Warning};
use perftax_pmu::Error;
use perftax_pmu::sys::Ended;
use perftax_trace::Tag;
use perftax_trace::record::{Recorded, Recording, Row, record};
use perftax_trace::store::{Room, StoreWriter};

use super::{META, tagged};
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
    /// What tells messages apart: marks (perftax_tag.h), reg:r13 (perftax_tag_register.h), or the program's own static probes,
    /// usdt:[/PATH/TO/BINARY:]PROVIDER:START[@N],DONE, where argument N of START is the address of the message's text
    #[arg(long, value_name = "TAG", default_value = "marks")]
    tag: String,
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
    let tag = Tag::parse(&args.tag)?;
    let here = Here::read()?;
    let (event, mechanism) = here.choose(Some(&args.event), None)?;
    crate::commands::calibrate::check_period(Some(args.period), mechanism)?;
    let mut origin = here.origin("trace");
    // Whoever samples below the kernel's limits leaves them alone, and may do so beside others.
    let guard = if is_throttled(mechanism, args.period) { Some(here.throttle_guard(&mut origin)?) } else { None };
    let recording = Recording {
        argv: args.command.clone(),
        event: event.with_context(|| format!("{} names no event", args.event))?,
        period: args.period,
        kernel_noise: !args.no_kernel_noise,
        ring_marks: args.ring_marks,
        tag,
        cpus: here.cpus.clone(),
    };
    let mut store = StoreWriter::create(&folder.partial)?;
    let before = tagged::interrupts(&recording)?;
    let recorded = record(&recording, &here.catalog, &mut |row| match row {
        Row::Mark(mark) => store.mark(mark),
        Row::Sample(sample) => store.sample(sample),
        Row::Kernel(event) => store.kernel(event),
    })?;
    let interrupts = tagged::interrupts(&recording)?.saturating_sub(before);
    drop(guard);
    let room = store.finish(&recorded.symbols, &tagged::labels(&recorded))?;
    origin.warnings.extend(warnings(&recorded, &room, recording.tag == Tag::Marks));
    origin.warnings.extend(tagged::warnings(&recording, &recorded, interrupts));
    let code = match recorded.exit.ended {
        Ended::Code(code) => u8::try_from(code).unwrap_or(1),
        Ended::Signal(signal) => u8::try_from(128 + signal).unwrap_or(255),
    };
    let rows = [room.marks, room.samples, room.kernel];
    let meta = TraceMeta {
        origin,
        program: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        code,
        elapsed_s: recorded.exit.elapsed_s,
        sampling_gap_ns: (mechanism == Mechanism::CpuClock).then_some(args.period),
        event: recording.event.name.clone(),
        period: args.period,
        kernel_noise: recording.kernel_noise,
        tag: args.tag.clone(),
        register: tagged::register(&recording, &recorded),
        probes: tagged::probes(&recorded),
        interrupts: (interrupts > 0).then_some(Interrupts { samples: room.samples, interrupts }),
        rings: recorded.rings,
        lost: recorded.lost,
        dropped: recorded.dropped,
        refused: room.refused,
        late: recorded.late,
        broken: recorded.broken,
        rows,
        missing: recorded.missing,
        steal_s: recorded.steal_s,
        losses_ns: recorded.losses_ns,
        threads: recorded.names.threads.into_iter().collect(),
        irqs: recorded.names.irqs.into_iter().collect(),
    };
    let file = folder.partial.join(META);
    std::fs::write(&file, serde_json::to_string_pretty(&meta)?).map_err(Error::file(&file))?;
    folder.keep()?;
    progress::announce(&format!(
        "{} marks{}, {} samples, {} records of the kernel's in {}: perftax trace report {}",
        rows[0],
        if recording.tag == Tag::Marks { format!(" of {} threads", meta.rings) } else { String::new() },
        rows[1],
        rows[2],
        args.output.display(),
        args.output.display()
    ));
    Ok(if code == 0 { Outcome::Done } else { Outcome::Passed(code) })
}

/// Whether the kernel may throttle such sampling. It does so by tick: half of its limit is safe.
fn is_throttled(mechanism: Mechanism, period: u64) -> bool {
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    let limit: u64 = limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    mechanism != Mechanism::CpuClock || 2_000_000_000 / period.max(1) > limit
}

/// What weakens the trace, each with a remedy.
fn warnings(recorded: &Recorded, room: &Room, is_marked: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |message: String, remedy: &str| warnings.push(Warning::Other { message, remedy: remedy.into() });
    if recorded.dropped > 0 {
        let message = format!("{} marks found no room: messages are missing, or have no end", recorded.dropped);
        warn(message, "--ring-marks with a larger power of two");
    }
    if room.refused > 0 {
        let message = format!("the disk was full: {} rows are missing", room.refused);
        warn(message, "-o on a disk with more room, or a longer period with -c");
    }
    if recorded.late > 0 {
        let message = format!("{} rows came late, and count as of when they came", recorded.late);
        warn(message, "fewer other programs on this machine, or a real-time priority for perftax (chrt -f 1)");
    }
    for why in &recorded.broken {
        warn(format!("the marks of a thread are missing: {why}"), "one version of perftax_tag.h in all of the program");
    }
    if recorded.rings == 0 && is_marked {
        let remedy = "build it with perftax_tag.h or the crate perftax-tag: perftax_begin(id), perftax_end(id)";
        warn("the program marked nothing".into(), remedy);
    }
    if recorded.missing.iter().any(|name| name == "sched:sched_stat_runtime") {
        let message = "this kernel has no sched:sched_stat_runtime: what a hypervisor takes counts as on CPU".into();
        warn(message, "a kernel with CONFIG_SCHEDSTATS");
    }
    if recorded.lost > 0 {
        warnings.push(Warning::LostRecords { lost: recorded.lost });
    }
    warnings
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
