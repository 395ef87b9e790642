//! `perftax phase`: two events over a program's run.

use anyhow::Result;
use perftax_cost::stretches::{ratio, stretches};
use perftax_doc::Phase;
use perftax_doc::Warning;
use perftax_lab::phase::{Curve, Curves, in_perfs_words};
use perftax_pmu::Error;
use perftax_pmu::event::{Event, parse};

use crate::failure::Outcome;
use crate::folder::FolderChoice;
use crate::host::Host;
use crate::output::Output;
use crate::progress::announce;
use crate::target::Target;
use crate::wait::Wait;

/// Show two events over a run, at fixed intervals of instructions
///
/// The program runs once, under a group of three events that count at the same time: every INSTRUCTIONS the kernel takes a sample that
/// holds the counts of all. Their ratio over the run, and the stretches in which it does not change, tell one program's phases from
/// another's, and whether two events mean what their names say. Its first thread alone is watched.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax phase -e taken-branches:u,branches:u -- bzip2 -kc FILE
  perftax phase -e taken-branches:u,branches:u -i 100000 --html phase.html -- gzip -kc FILE
  perftax phase -e page-faults,context-switches --every cpu-clock:1000000 -- make   (every ms, without a PMU)
  perftax report one.json other.json --html both.html   (two programs' curves side by side)")]
pub struct Args {
    /// Two events, in perf's words, or taken-branches (the vendor's own event for them)
    #[arg(short, long, value_name = "A,B")]
    events: String,
    /// User-mode instructions of an interval
    #[arg(short, long, value_name = "INSTRUCTIONS", default_value_t = 1_000_000, conflicts_with = "every",
          value_parser = clap::value_parser!(u64).range(MIN_PERIOD..))]
    interval: u64,
    /// Another event to end an interval, and after how many of it (ns of cpu-clock and task-clock)
    #[arg(long, value_name = "EVENT:PERIOD")]
    every: Option<String>,
    #[command(flatten)]
    folder: FolderChoice,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    output: Output,
}

/// The shortest interval of instructions: each ends in an interrupt of a thousand instructions and more of the kernel's.
const MIN_PERIOD: u64 = 1000;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    let here = Host::read_waiting(args.wait)?;
    let mut origin = here.origin("phase");
    let curve = args.curve(&here)?;
    let events = [&[curve.every.clone()][..], &curve.events].concat();
    let command = args.folder.place(args.target.command()?, &events, 1)?;
    let _guard = here.throttle_guard(&mut origin)?;
    announce(&format!("one run of {}, a look every {} {}", command.name, curve.period, curve.every.name));
    let Curves { intervals, counted, delivered } = curve.of(&command)?;
    let [a, b] = curve.events.map(|event| event.name);
    let period = curve.period;
    let passed = counted.values.first().copied().unwrap_or(0);
    let mut document = Phase {
        origin,
        program: command.words(),
        is_time: curve.every.mechanism.is_time_driven(),
        interval_event: curve.every.name,
        period,
        events: [a, b],
        counted: std::array::from_fn(|i| counted.values.get(i).copied().unwrap_or(0)),
        expected_samples: passed / period,
        samples: delivered.samples(),
        lost: delivered.lost,
        throttled: delivered.throttled,
        running: counted.time_running_ns as f64 / counted.time_enabled_ns.max(1) as f64,
        unwatched: delivered.forks,
        ratio: ratio(&intervals),
        stretches: stretches(&intervals),
        intervals,
    };
    let weaknesses = weaknesses(&document);
    document.origin.warnings.extend(weaknesses);
    args.output.emit(&document)?;
    Ok(Outcome::Done)
}

/// What the curves do not show.
fn weaknesses(phase: &Phase) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut warn = |message: String, remedy: &str| all.push(Warning::Other { message, remedy: remedy.into() });
    if phase.samples < 2 {
        warn(
            format!("the program had {} {} in all: fewer than two intervals", phase.counted[0], phase.interval_event),
            "a shorter interval (-i, --every), or a longer run",
        );
    }
    if phase.lost > 0 {
        warn(
            format!("{} samples were lost: as many intervals are in their neighbours", phase.lost),
            "a longer interval (-i, --every): the reader did not keep up",
        );
    }
    if phase.throttled > 0 {
        warn(
            format!("the kernel throttled {} times: intervals there are longer", phase.throttled),
            "sysctl kernel.perf_cpu_time_max_percent=0, or a longer interval (-i, --every)",
        );
    }
    if phase.missing() > 0 && phase.throttled == 0 && !phase.is_time {
        warn(
            format!("{} samples of {} did not come, and nothing says why", phase.missing(), phase.expected_samples),
            "a longer interval (-i, --every)",
        );
    }
    if phase.running < 1.0 {
        warn(
            format!(
                "the events shared counters with others and counted for {:.1} % of the time: the rest is not in the curves",
                100.0 * phase.running
            ),
            "close other profilers; sysctl kernel.nmi_watchdog=0 frees one counter",
        );
    }
    if phase.unwatched > 0 {
        warn(
            format!("{} threads and processes that the program created are not in the curves", phase.unwatched),
            "one that does its work in its first thread; sh -c 'exec PROGRAM' creates none",
        );
    }
    all
}

impl Args {
    fn curve(&self, here: &Host) -> Result<Curve> {
        let (every, period) = self.every(here)?;
        let text = in_perfs_words(&self.events, &here.catalog)?;
        let events = parse(&text, &here.catalog)?;
        let events: [Event; 2] = events.try_into().map_err(|events: Vec<Event>| Error::Argument {
            argument: "-e",
            value: format!("{} ({} events)", self.events, events.len()),
            needed: "two events: -e A,B".into(),
        })?;
        for event in &events {
            event.check_supported(&here.catalog).map_err(|error| or_emulated(error, "count"))?;
            if event.rate.is_some() {
                let needed = "events without period= or freq=: the interval is set by -i or --every".into();
                return Err(Error::Argument { argument: "-e", value: event.name.clone(), needed }.into());
            }
        }
        Ok(Curve { every, period, events })
    }

    /// The event that ends an interval, and after how many.
    fn every(&self, here: &Host) -> Result<(Event, u64)> {
        let Some(text) = &self.every else {
            let event = here.event("instructions:u")?;
            event.check_supported(&here.catalog).map_err(|error| or_emulated(error, "end intervals by"))?;
            return Ok((event, self.interval));
        };
        let wrong = || Error::Argument {
            argument: "--every",
            value: text.clone(),
            needed: "EVENT:PERIOD, such as cpu-clock:1000000 (ns) or page-faults:u:100".into(),
        };
        let (name, period) = text.rsplit_once(':').ok_or_else(wrong)?;
        let period = period.parse::<u64>().ok().filter(|period| *period > 0).ok_or_else(wrong)?;
        let event = here.event(name)?;
        event.check_supported(&here.catalog).map_err(|error| or_emulated(error, "end intervals by"))?;
        let shortest = if event.mechanism.is_time_driven() { perftax_cost::period::CPU_CLOCK_PERIOD_MIN_NS } else { 1 };
        if period < shortest {
            let needed = format!("at least {shortest} ns of a clock: the kernel takes no shorter period");
            return Err(Error::Argument { argument: "--every", value: text.clone(), needed }.into());
        }
        Ok((event, period))
    }
}

/// Where an event is missing: what does the same here.
fn or_emulated(error: Error, verb: &str) -> Error {
    match error {
        Error::Unsupported { what, why, .. } => Error::Unsupported {
            what: what.replacen("sample", verb, 1),
            why,
            remedy: "perftax phase -e page-faults,context-switches --every cpu-clock:1000000 -- COMMAND needs no PMU; \
                     perftax vm run -- perftax phase … has an emulated one"
                .into(),
        },
        other => other,
    }
}
