//! `perftax record`: sampling that stays within its budget, written as an ordinary recording.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use perftax_cost::governor::{Pricing, Tariff};
use perftax_cost::period::Rule;
use perftax_cost::prediction::Watched;
use perftax_cost::stoker::resolved_share;
use perftax_doc::{Origin, PayloadTerm, Recorded, Warning};
use perftax_pmu::Error;
use perftax_pmu::event::Event;
use perftax_pmu::guard::online_cpus;
use perftax_pmu::machine::Right;
use perftax_pmu::sampler::{Payload, ring_pages_within_rights};
use perftax_pmu::sys::Ended;
use perftax_record::{Outcome as Came, Recorder, Recording, Subject, record};
use perftax_report::units;

use crate::commands::plan::percent;
use crate::failure::Outcome;
use crate::host::Host;
use crate::output::{Output, Partial, check_file};
use crate::{measured, progress, target};

/// Record samples of a program within a budget of its CPU time
///
/// Writes an ordinary recording (perf report, perf script, perf annotate and perftax bill read it). The rate follows what the program does: the upper end of
/// what sampling costs stays within the budget over every second and longer, and each sample carries the weight that it stands for. The program keeps stdin,
/// stdout and its exit code.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax record --budget 1% -o perf.data -- make -j4
  perftax record -g -p 4711 --for 60s
  perf report -i perf.data")]
pub struct Args {
    /// Take at most this share of the program's CPU time, whatever it does
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    budget: f64,
    /// The event to sample: the best that works here without it
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// The shortest period to sample at, however much the budget leaves
    #[arg(short = 'c', long = "count", value_name = "R", value_parser = clap::value_parser!(u64).range(1..=1 << 48))]
    period: Option<u64>,
    /// The same as samples a second of CPU time
    #[arg(short = 'F', long = "freq", value_name = "HZ", conflicts_with = "period", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    frequency: Option<u64>,
    /// Record callers, by frame pointers
    #[arg(short = 'g')]
    call_graph: bool,
    /// Pages of each CPU's ring; a power of two (usual: 128, or as many as may be locked)
    #[arg(short = 'm', long, value_name = "PAGES")]
    mmap_pages: Option<usize>,
    /// The recording. One that is there already is kept as FILE.old
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    output: PathBuf,
    /// Record a process that runs already, and what it will start, until it ends, ^C or --for
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// Record for so long, as 90, 60s, 5m or 2h; a command goes on by itself
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    at_most: Option<Duration>,
    /// Price with this machine profile (or the --json of calibrate) instead of this machine's own
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Write what it cost as JSON to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Write what it cost as one offline HTML page to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    /// The program, after --
    #[arg(last = true, required_unless_present = "pid", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Pages of each CPU's ring: 512 KiB, as perf has them.
const RING_PAGES: usize = 128;
/// Periods to choose from: each is an event that every thread inherits.
const RATES: u32 = 2;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let output = Output { json: args.json.clone(), html: args.html.clone(), ..Output::default() };
    output.check_writable()?;
    check_file(&args.output)?;
    if let Some(pages) = args.mmap_pages.filter(|pages| !pages.is_power_of_two() || !(1..=1 << 18).contains(pages)) {
        let needed = "a power of two from 1 to 262144".into();
        return Err(Error::Argument { argument: "-m", value: pages.to_string(), needed }.into());
    }
    let here = Host::read()?;
    let (event, mechanism) = here.choose(args.event.as_deref(), None)?;
    let event = event.with_context(|| format!("{mechanism} names no event"))?;
    let mut origin = here.origin("record");
    if args.event.is_none() && event.modifiers.exclude_kernel {
        here.may(Right::OwnKernelMode, "samples are of the program's own mode alone", &mut origin);
    }
    let carried: &[PayloadTerm] = if args.call_graph { &[PayloadTerm::Callchain] } else { &[] };
    let priced = measured::price(&here, Some(&event), mechanism, carried, args.profile.as_ref(), &mut origin)?;
    // Wherever its threads go, whatever CPUs we are held to.
    let cpus = online_cpus()?;
    let is_clock = mechanism.is_time_driven();
    let by_frequency = args.frequency.map(|frequency| 1_000_000_000 / frequency);
    if let Some(frequency) = args.frequency.filter(|_| !is_clock) {
        let needed = format!("a clock: how often {} comes nobody knows before; -c bounds it", event.name);
        return Err(Error::Argument { argument: "-F", value: frequency.to_string(), needed }.into());
    }
    let pricing = Pricing {
        cost: priced.cost,
        mechanism,
        payload: carried.iter().map(|term| term.name().to_string()).collect(),
        left_out: event.left_out(),
        watched: Watched::Program { events: RATES, cpus: cpus.len() as u32 },
        rule: Rule::of(mechanism, None),
        budget: args.budget,
        shortest: by_frequency.or(args.period).unwrap_or(1),
        rates: RATES,
    };
    let tariff = pricing
        .tariff()
        .with_context(|| format!("no period of {} fits a budget of {}", event.name, units::share(args.budget)))?;
    for less in &origin.warnings {
        progress::announce(&format!("{less}\n  {}", less.remedy()));
    }
    progress::announce(&promise(args.budget, &event, &tariff));
    // A process that ends takes its words with it.
    let words = target::program(args.pid, &args.command);
    let payload = if args.call_graph { Payload::BASIC.with_callchain() } else { Payload::BASIC };
    let recording = Recording {
        subject: match args.pid {
            Some(pid) => Subject::Process(pid),
            None => Subject::Command(args.command.clone()),
        },
        event,
        payload,
        pricing,
        ring_pages: args.mmap_pages.unwrap_or_else(|| ring_pages_within_rights(RING_PAGES, cpus.len())),
        cpus,
        own_cpus: here.cpus.clone(),
        at_most: args.at_most,
    };
    let recorder = Recorder { name: format!("perftax {}", env!("CARGO_PKG_VERSION")), command: origin.command.clone() };
    let partial = Partial::create(&args.output)?;
    let came = record(&recording, partial.file()?, &recorder)?;
    keep_old(&args.output)?;
    partial.finish()?;
    let bytes = came.file.metadata().map_or(0, |it| it.len());
    let failure = came.failure.as_ref().map(|failure| (failure.to_string(), came.unwritten));
    let document = document(origin, args, &recording, words, &came, bytes);
    output.emit_beside_child(&document)?;
    if let Some((why, unwritten)) = failure {
        anyhow::bail!("cannot write {}: {why}; {unwritten} samples are missing, those before are there", args.output.display());
    }
    Ok(match came.exit.ended {
        Ended::Code(0) => Outcome::Done,
        Ended::Code(code) => Outcome::Passed(u8::try_from(code).unwrap_or(1)),
        Ended::Signal(signal) => Outcome::Passed(u8::try_from(128 + signal).unwrap_or(255)),
    })
}

/// What is said before anything runs.
fn promise(budget: f64, event: &Event, tariff: &Tariff) -> String {
    let sample = format!(
        "at most {} of the program's CPU time: a sample of {} takes {}",
        units::share(budget),
        event.name,
        units::estimate_ns(&tariff.sample_ns[0])
    );
    match (tariff.is_clock, &tariff.periods[..]) {
        (true, [finest, .., coarsest]) => format!(
            "{sample}, so one every {} at most, every {} where other things take their part",
            units::period(event.mechanism, *finest),
            units::period(event.mechanism, *coarsest)
        ),
        _ => format!("{sample}; the period follows how often it comes"),
    }
}

fn document(origin: Origin, args: &Args, recording: &Recording, program: Vec<String>, came: &Came, bytes: u64) -> Recorded {
    let (governor, ledger) = (&came.governor, came.governor.ledger());
    let mut document = Recorded {
        origin,
        program,
        code: match (args.pid, came.exit.ended) {
            (Some(_), _) => None,
            (None, Ended::Code(code)) => Some(u8::try_from(code).unwrap_or(1)),
            (None, Ended::Signal(signal)) => Some(u8::try_from(128 + signal).unwrap_or(255)),
        },
        event: recording.event.name.clone(),
        mechanism: recording.event.mechanism,
        recording: args.output.display().to_string(),
        recording_bytes: bytes,
        budget: args.budget,
        burst_s: governor.burst_s(),
        elapsed_s: ledger.elapsed_ns as f64 * 1e-9,
        program_cpu_s: ledger.program_ns as f64 * 1e-9,
        spent_s: ledger.spent_s(),
        spent_share: ledger.share(),
        expenses: ledger.expenses(),
        most_overdrawn_s: governor.most_overdrawn_s(),
        recorder_cpu_s: came.recorder_cpu_s,
        samples: ledger.samples().saturating_sub(came.lost + came.unwritten),
        lost: came.lost,
        throttled: came.throttled,
        filtered: ledger.filtered(),
        resolves_share: resolved_share(ledger.samples() as f64),
        represented: (came.counted > 0).then(|| came.weight as f64 / came.counted as f64),
        rates: ledger.rates(),
        course: governor.course().to_vec(),
    };
    let warnings = warnings(&document);
    document.origin.warnings.extend(warnings);
    document
}

/// What weakens the recording, each with a remedy.
fn warnings(doc: &Recorded) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |message: String, remedy: &str| warnings.push(Warning::Other { message, remedy: remedy.into() });
    let unpriced = doc.expenses.iter().filter(|expense| expense.cost_s.is_none()).count();
    if unpriced > 0 {
        let message = "something that sampling takes time for has no price in this machine's profile: what was spent is at least what is said".into();
        warn(message, &format!("perftax calibrate -e {}", doc.event));
    }
    if doc.throttled > 0 {
        let message = format!("the kernel throttled the event {} times: samples are missing", doc.throttled);
        warn(message, "sysctl kernel.perf_event_max_sample_rate with a higher rate, or a smaller --budget");
    }
    if doc.lost > 0 {
        warnings.push(Warning::LostRecords { lost: doc.lost });
    }
    warnings
}

/// A recording that is there already is kept, as perf keeps it.
fn keep_old(path: &Path) -> Result<()> {
    if std::fs::symlink_metadata(path).is_ok_and(|it| it.is_file() && it.len() > 0) {
        let mut old = path.as_os_str().to_os_string();
        old.push(".old");
        std::fs::rename(path, &old).map_err(Error::file(path))?;
    }
    Ok(())
}

/// A share that a recording can keep to.
fn share(text: &str) -> Result<f64, String> {
    let is_share = |share: &f64| (0.0001..=0.5).contains(share);
    percent(text).ok().filter(is_share).ok_or_else(|| "needs 0.01% to 50%".into())
}

/// `90`, `60s`, `5m`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unit {unit}: it is ms, s, m or h")),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * factor).filter(|seconds| *seconds > 0.0);
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| "needs a time above 0, as 60s".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "0", "-1", "s", "5d", "nan", "1e999"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
