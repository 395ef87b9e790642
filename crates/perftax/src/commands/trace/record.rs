//! `perftax trace record`: a program's marks, samples of it, and what the kernel did meanwhile.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use perftax_doc::{Interrupts, KeptSlow, TraceEvent, TraceHost, TraceLock, TraceMeta};
use perftax_doc::{Mechanism, Warning};
use perftax_pmu::Error;
use perftax_pmu::event::Event;
use perftax_pmu::guard::raise_descriptor_limit;
use perftax_report::units;
use perftax_trace::mark_price::mark_ns;
use perftax_trace::record::{Counting, Recorded, Recording, Row, record};
use perftax_trace::store::{Background, Room, StoreWriter, Symbols, write_clocks, write_objects, write_windows};
use perftax_trace::{KeepSlow, Lock, Tag};
use tempfile::{Builder, TempDir};

use super::cost::{foreseen, sample_ns};
use super::pilot::Pilot;
use super::watched::{Prepared, Watched};
use super::{META, execution, tagged, weakened};
use crate::commands::plan::budget_share;
use crate::failure::{Outcome, code_of_end};
use crate::host::kernel_says;
use crate::output::{Noted, folder_of, partial_prefix};
use crate::progress;

/// Run a program, and record its messages into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  perftax trace record -o slow.trace -- ./server --port 80
  perftax trace record -o slow.trace --keep-slow p99.9 --budget 1% -p 4711
  perftax trace report slow.trace")]
pub struct Args {
    #[command(flatten)]
    watched: Watched,
    /// Keep only the messages slower than this quantile, with their neighbours, and of all others sums
    #[arg(long, value_name = "pQ", value_parser = quantile)]
    keep_slow: Option<f64>,
    /// The folder to make
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Spend at most this share of the program's CPU time: recording is on and off in turn, and what it costs is measured by it
    #[arg(long, value_name = "SHARE", value_parser = budget_share)]
    budget: Option<f64>,
    /// Do not check on the program what recording costs: for that nothing is recorded for a tenth of the time at most, later a fiftieth, from the third second on
    #[arg(long, conflicts_with = "budget")]
    no_price_check: bool,
    /// Count each message's instructions and cycles in user mode, by which more work is told from slower work: read in the program's marks (each thread opens two counters on itself),
    /// at probes, and, where CPUs may be watched, whenever a thread leaves its CPU
    #[arg(long)]
    counters: bool,
    /// Name functions that were inlined, too, by debug information: `inner (inlined in outer)`. Reading it takes seconds of a large program, at the end
    #[arg(long)]
    inlined: bool,
}

/// Rows from one look at what can be let go to the next.
const ROWS_BETWEEN_FLUSHES: u64 = 10_000;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let folder = NewFolder::make(&args.output)?;
    let watched = &args.watched;
    if args.budget.is_some() && Tag::parse(&watched.tag)? != Tag::Marks {
        let needed = "marks, where --budget is given: it goes by what the program marks while nothing is recorded (without --budget any tag is taken)".into();
        return Err(Error::Argument { argument: "--tag", value: watched.tag.clone(), needed }.into());
    }
    let Prepared { here, mut origin, mechanism, guard, words, recording } = watched.prepare("trace", args.counters)?;
    let recording =
        Recording { budget: args.budget, checks_price: !args.no_price_check, names_inlined: args.inlined, ..recording };
    progress::announce(&foreseen(&here.id, &recording));
    raise_descriptor_limit();
    let mut store = StoreWriter::create(folder.path())?;
    if !recording.counted.is_empty() {
        store.count_events()?;
    }
    if recording.counters.is_some() {
        store.count_executed()?;
    }
    let mut keep = args.keep_slow.map(KeepSlow::new);
    let mut taken = 0u64;
    let before = tagged::interrupts(&recording)?;
    let mut pilot = match recording.tag {
        Tag::Marks => Pilot::new(mechanism, watched.period, sample_ns(&here.id, &recording.event.name)),
        _ => None,
    };
    let mut take = |row: &Row| match &mut keep {
        None => store.row(row),
        Some(keep) => {
            keep.take(row);
            taken += 1;
            if taken.is_multiple_of(ROWS_BETWEEN_FLUSHES) { keep.flush(&mut |row| store.row(row)) } else { Ok(()) }
        }
    };
    let recorded = record(&recording, &here.catalog, &mut |row| {
        if let Some(promise) = pilot.as_mut().and_then(|pilot| pilot.take(row)) {
            progress::announce(&promise);
            pilot = None;
        }
        take(row)
    })?;
    let interrupts = tagged::interrupts(&recording)?.saturating_sub(before);
    drop(guard);
    if let Some(keep) = &mut keep {
        keep.finish(&mut |row| store.row(row))?;
    }
    let room = store.finish(&recorded.symbols, &tagged::labels(&recorded))?;
    // The tables are whole: what they had reserved is free again.
    let kept = match &keep {
        Some(keep) => {
            let symbols = Symbols::new(recorded.symbols.clone());
            let background = Background { population: keep.judge.population.clone(), usual: keep.usual(&symbols) };
            background.write(folder.path(), &symbols, &recorded.objects)?;
            args.keep_slow.map(|from| kept(from, keep, &background))
        }
        None => None,
    };
    tagged::write_said(folder.path(), &recorded)?;
    write_clocks(folder.path(), &recorded.clocks)?;
    if !recording.counted.is_empty() {
        write_objects(folder.path(), &recorded.objects)?;
    }
    if let Some(windows) = &recorded.windows_ns {
        write_windows(folder.path(), windows)?;
    }
    let is_marked = recording.tag == Tag::Marks;
    // What marks nothing pays for none.
    let mark_ns = (is_marked && recorded.rings > 0).then(|| mark_ns(watched.ring_marks));
    let counted = counted_samples(&recording, &recorded);
    origin.warnings.extend(weakened::of(&recorded, is_marked, "--no-price-check"));
    origin.warnings.extend(warnings(&recorded, &counted, &room));
    let executed = execution::sight(&recording, &recorded);
    origin.warnings.extend(executed.iter().flat_map(execution::warnings));
    origin.warnings.extend(tagged::warnings(&recording, &recorded, interrupts));
    let code = code_of_end(recorded.exit.ended);
    let is_ours = recording.subject.running().is_empty();
    let rows = [room.marks, room.samples, room.kernel];
    let meta = TraceMeta {
        origin,
        program: words,
        host: Some(this_host()),
        code: is_ours.then_some(code),
        elapsed_s: recorded.exit.elapsed_s,
        cpu_s: recorded.exit.usage.user_s + recorded.exit.usage.system_s,
        sampling_gap_ns: (mechanism == Mechanism::CpuClock).then_some(watched.period),
        clock_of_cpus: recording.clock_is_of_cpus(),
        event: recording.event.name.clone(),
        period: watched.period,
        counted,
        executed,
        kernel_noise: recording.kernel_noise,
        tag: watched.tag.clone(),
        register: tagged::register(&recording, &recorded),
        probes: tagged::probes(&recorded),
        contexts: tagged::contexts(&recorded),
        sockets: tagged::sockets(&recording, &recorded),
        interrupts: (interrupts > 0).then_some(Interrupts { samples: room.samples, interrupts }),
        rings: recorded.rings,
        lost: recorded.lost,
        dropped: recorded.dropped,
        refused: room.refused,
        late: recorded.late,
        broken: recorded.broken,
        rows,
        recorded: recorded.rows,
        mark_ns,
        missing: recorded.missing,
        kept,
        spent: recorded.spent,
        checked: recorded.checked,
        own_cpu_s: Some(recorded.own_cpu_s),
        steal_s: recorded.steal_s,
        losses_ns: recorded.losses_ns,
        threads: recorded.names.threads.into_iter().collect(),
        irqs: recorded.names.irqs.into_iter().collect(),
        locks: recorded.names.locks.into_iter().map(|(number, lock)| described(number, lock)).collect(),
    };
    let file = folder.path().join(META);
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

/// Where it was recorded. What cannot be read is empty.
fn this_host() -> TraceHost {
    TraceHost { name: kernel_says("hostname"), boot_id: kernel_says("random/boot_id") }
}

/// What came of it.
fn counted_samples(recording: &Recording, recorded: &Recorded) -> Vec<TraceEvent> {
    let all = recording.counted.iter().zip(&recorded.counted);
    let one = |((event, period), counting): (&(Event, u64), &Counting)| TraceEvent {
        name: event.name.clone(),
        period: *period,
        samples: counting.samples,
        unplaced: counting.unplaced,
        counted_share: counting.share,
    };
    all.map(one).collect()
}

/// `p99.9` as 0.999.
pub(super) fn quantile(text: &str) -> Result<f64, String> {
    let percent = text.strip_prefix('p').unwrap_or(text).parse::<f64>().ok();
    let is_tail = |percent: &f64| (50.0..100.0).contains(percent);
    percent.filter(is_tail).map(|percent| percent / 100.0).ok_or_else(|| "needs p50 to p99.999…, as in p99.9".into())
}

/// What `--keep-slow` did.
fn kept(from: f64, keep: &KeepSlow, background: &Background) -> KeptSlow {
    KeptSlow {
        from,
        kept_from_ns: keep.judge.kept_from_ns,
        kept: keep.kept,
        not_whole: keep.not_whole,
        messages: background.population.latency.len(),
        usual_messages: background.usual.messages,
        watched: background.population.watched,
        trouble: Some(keep.trouble().counts()),
    }
}

fn described(number: u32, lock: Lock) -> TraceLock {
    TraceLock { number, pid: lock.pid, address: lock.address, name: lock.name }
}

/// What has runtimes write what the code is called that they make.
const GENERATED_REMEDY: &str = "what tells its names: Java 17: jcmd PID Compiler.perfmap before the recording ends, or -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit; \
     Node: --perf-basic-prof; .NET: DOTNET_PerfMapEnabled=1; Python 3.12: -X perf";

/// What weakens the trace beyond what weakens any recording, each with a remedy.
fn warnings(recorded: &Recorded, counted: &[TraceEvent], room: &Room) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |message: String, remedy: &str| warnings.push(Warning::Other { message, remedy: remedy.into() });
    if room.refused > 0 {
        let message = format!("the disk was full: {} rows are missing", room.refused);
        warn(message, "-o on a disk with more room, or a longer period with -c");
    }
    if !recorded.unread.is_empty() {
        let paths: Vec<String> = recorded.unread.iter().map(|path| path.display().to_string()).collect();
        let files = perftax_doc::words::named(&paths);
        let message = format!("functions of {files} have no names: what was mapped is not to be had any more");
        warn(message, "leave programs and libraries where they are until they were recorded");
    }
    for (program, addresses) in &recorded.unnamed_code {
        let message = format!("{program} ran code that its runtime made, at {addresses} addresses whose functions have no names");
        warn(message, GENERATED_REMEDY);
    }
    for event in counted.iter().filter(|event| event.samples == 0) {
        let message = format!(
            "{} has not one sample: there were fewer than {} of it, or this machine does not count it",
            event.name, event.period
        );
        warn(
            message,
            "a shorter period (--also-period, period=); perftax audit --only generic,misses says what this machine counts",
        );
    }
    for event in counted {
        let Some(share) = event.in_turns().map(units::share) else { continue };
        let message = format!(
            "{} was counted for {share} of the time, in turn with other events: there were more of it than is said",
            event.name
        );
        warn(message, "fewer --also at once");
    }
    if recorded.windows_ns.is_some() && recorded.spent.is_none() {
        let message = "what it cost is not known: too few messages ended while it was on and off in turn".into();
        warn(message, "a longer recording, or a program that handles more messages");
    }
    warnings
}

/// A folder that appears whole or not at all.
struct NewFolder {
    wanted: PathBuf,
    // Dropped in this order: it is noted until it is gone.
    made: TempDir,
    _noted: Noted,
}

impl NewFolder {
    fn make(wanted: &Path) -> Result<Self> {
        if wanted.exists() {
            let value = wanted.display().to_string();
            return Err(Error::Argument { argument: "-o", value, needed: "a folder that is not there yet".into() }.into());
        }
        wanted.file_name().with_context(|| format!("{} names no folder", wanted.display()))?;
        let made = Builder::new().prefix(&partial_prefix(wanted)).tempdir_in(folder_of(wanted));
        // tempfile's own message names the temporary folder.
        let made = made.map_err(|error| Error::file(wanted)(error.kind().into()))?;
        Ok(Self { wanted: wanted.into(), _noted: Noted::new(made.path()), made })
    }

    /// Where it is meanwhile.
    fn path(&self) -> &Path {
        self.made.path()
    }

    fn keep(self) -> Result<()> {
        std::fs::rename(self.path(), &self.wanted).map_err(Error::file(&self.wanted))?;
        let _renamed = self.made.keep();
        Ok(())
    }
}
