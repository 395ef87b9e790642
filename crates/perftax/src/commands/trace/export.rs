//! `perftax trace export`: messages for other tools.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use perftax_trace::export::{Context, Csv, Export, Firefox, Perfetto, Pprof, Selection};
use perftax_trace::{Latencies, Question, analyse};

use super::reading::Reading;
use crate::failure::Outcome;
use crate::output::{Output, Partial};
use crate::progress;

/// Write messages in another tool's format
///
/// All of them, or, where there are more than 100,000, the slow ones (1 %) with the messages before and after each on its thread.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax trace export slow.trace --format perfetto -o slow.pftrace     for ui.perfetto.dev
  perftax trace export slow.trace --format firefox -o slow.json         for profiler.firefox.com
  perftax trace export slow.trace --format pprof -o slow.pb.gz          for go tool pprof
  perftax trace export slow.trace --format csv --all -o slow.csv        one row a message")]
pub struct Args {
    /// The folder that `trace record` made
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The format
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Format,
    /// All messages, however many there are
    #[arg(long)]
    all: bool,
    /// The file to write, or - for stdout
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A trace of threads and messages (protobuf), for ui.perfetto.dev
    Perfetto,
    /// Samples and markers (JSON), for profiler.firefox.com
    Firefox,
    /// Samples by function, message and cause (protobuf, gzip), for pprof
    Pprof,
    /// One row a message: times by cause, samples, faults, migrations
    Csv,
}

/// More messages than these are not exported unless asked for: viewers become slow.
const MAX: usize = 100_000;
/// The quantile from which on messages are slow.
const SLOW_FROM: f64 = 0.99;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    Output { output: Some(args.output.clone()), ..Output::default() }.check_writable()?;
    let reading = Reading::open(&args.folder)?;
    let latencies = Latencies::of(&reading.store)?;
    let slow_ns = latencies.quantile_ns(SLOW_FROM);
    let is_whole = args.all || latencies.len() <= MAX;
    let mut selection = if is_whole { Selection::All } else { Selection::slow(slow_ns) };
    let mut target = Target::open(&args.output)?;
    let pids = pids(&reading)?;
    let program = reading.meta.program.first().map_or("", String::as_str);
    let context = Context {
        program: Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program),
        names: &reading.names,
        symbols: &reading.store.symbols,
        labels: &reading.store.labels,
        relations: &reading.store.relations,
        pids: &pids,
        event: &reading.meta.event,
        period: reading.meta.period,
        sampling_gap_ns: reading.meta.sampling_gap_ns,
        taken_at_s: reading.meta.origin.taken_at_s,
    };
    let failed = || format!("cannot write {}", args.output.display());
    let mut export: Box<dyn Export> = match args.format {
        Format::Perfetto => Box::new(Perfetto::new(context)),
        Format::Firefox => Box::new(Firefox::new(context)),
        Format::Pprof => Box::new(Pprof::new(context)),
        Format::Csv => Box::new(Csv::new(context)),
    };
    let (mut exported, mut broken) = (0u64, None);
    let question = Question { slow_from: SLOW_FROM, whole: 0, window_ns: None };
    let answer = analyse(&reading.store, &latencies, &question, |message| {
        let mut take = |message: &perftax_trace::Message| {
            exported += 1;
            export.take(message, &mut target)
        };
        if broken.is_none() {
            broken = selection.take(message, &mut take).err();
        }
    })?;
    let finished = match broken {
        Some(error) => Err(error),
        None => export.finish(&mut target).and_then(|()| target.flush()),
    };
    match finished {
        // Whoever reads our stdout may have seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Outcome::Done),
        finished => finished.with_context(failed)?,
    }
    target.finish().with_context(failed)?;
    let note = match is_whole {
        true => String::new(),
        false => format!(
            ": the slow ones (from {} on) and their neighbours; --all exports every one",
            perftax_report::units::time_ns(slow_ns as f64)
        ),
    };
    let count = perftax_report::units::count;
    progress::announce(&format!("{} of {} messages{note}", count(exported), count(answer.messages)));
    Ok(Outcome::Done)
}

/// The process of each thread, as samples have it.
fn pids(reading: &Reading) -> Result<BTreeMap<u32, u32>> {
    let mut pids = BTreeMap::new();
    reading.store.samples(|sample| {
        pids.insert(sample.tid, sample.pid);
    })?;
    Ok(pids)
}

/// A file that appears when it is complete, or stdout, or a device.
enum Target {
    File(BufWriter<Partial>),
    Stream(BufWriter<Box<dyn Write>>),
}

impl Target {
    fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::Stream(BufWriter::new(Box::new(std::io::stdout()))));
        }
        // Renaming over a device or a pipe would replace it.
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            let file = File::options().write(true).open(path).with_context(|| format!("cannot write {}", path.display()))?;
            return Ok(Self::Stream(BufWriter::new(Box::new(file))));
        }
        Ok(Self::File(BufWriter::new(Partial::create(path)?)))
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::File(file) => file.into_inner().map_err(std::io::IntoInnerError::into_error)?.finish(),
            Self::Stream(mut stream) => Ok(stream.flush()?),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stream(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stream(stream) => stream.flush(),
        }
    }
}
