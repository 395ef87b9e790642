//! `perftax trace top`: the messages of now, while they are recorded.

mod screen;
mod spans;
mod view;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use perftax_doc::{TraceTop, Warning};
use perftax_pmu::Error;
use perftax_pmu::guard::raise_descriptor_limit;
use perftax_pmu::sys::monotonic_raw_ns;
use perftax_report::text;
use perftax_trace::record::Recording;
use perftax_trace::{Following, Live, record_live};

use super::cost::foreseen;
use super::record::quantile;
use super::watched::{Prepared, Watched};
use super::{tagged, weakened};
use crate::commands::plan::budget_share;
use crate::endpoint::{self, Endpoint};
use crate::failure::{Outcome, code_of_end};
use crate::output::Output;
use crate::progress;
use screen::{Screen, Shown};
pub use spans::service;
use spans::{Receiver, Spans};
use view::About;

/// Follow a program: which of its messages are slow now, and what for
///
/// Nothing is kept but the last minute. Messages that took long are blamed as `trace report` blames them; what the program may lose for it has a budget, and recording rests where
/// it would be exceeded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax trace top -p 4711                                a program that marks its messages (perftax_tag.h, bindings)
  perftax trace top --tag socket:6379 -p 4711              a server, by its connections
  perftax trace top -p 4711 --metrics 9464                 the same for a scraper of metrics (OpenMetrics)
  perftax trace top -p 4711 --otlp localhost:4318          slow messages as spans, with their causes, to a collector")]
pub struct Args {
    #[command(flatten)]
    watched: Watched,
    /// From one look at the last minute to the next
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    interval: f64,
    /// How long ago is now
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    window: f64,
    /// The quantile from which on a message is slow
    #[arg(long, value_name = "pQ", value_parser = quantile, default_value = "p99")]
    slow: f64,
    /// How many of the slowest messages are listed
    #[arg(long, value_name = "N", default_value_t = 5)]
    slowest: usize,
    /// Spend at most this share of the program's CPU time: what recording costs is checked on the program, and recording rests where that is more
    #[arg(long, value_name = "SHARE", value_parser = budget_share, default_value = "5%")]
    budget: f64,
    /// Answer at this address what there is now, as OpenMetrics (HTTP): a port alone is of this machine
    #[arg(long, value_name = "ADDRESS", value_parser = endpoint::address)]
    metrics: Option<SocketAddr>,
    /// Send slow messages as spans to a receiver of OpenTelemetry's protocol (OTLP, by HTTP without encryption)
    #[arg(long, value_name = "HOST:PORT[/PATH]")]
    otlp: Option<String>,
    /// Write what there was at the end as JSON to FILE, or to stdout with -
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write what there was at the end to FILE, instead of showing what there is to stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Windows and looks that can be had, s: each look costs us something, and each slice of the window memory.
const INTERVALS_S: std::ops::RangeInclusive<f64> = 0.5..=60.0;
const MAX_SLICES: f64 = 120.0;
const MAX_WINDOW_S: f64 = 3600.0;

impl Args {
    fn following(&self) -> Result<Following> {
        let wrong = |argument, value: f64, needed: String| Error::Argument { argument, value: value.to_string(), needed };
        if !INTERVALS_S.contains(&self.interval) {
            let needed = format!("seconds, {} to {}", INTERVALS_S.start(), INTERVALS_S.end());
            return Err(wrong("--interval", self.interval, needed).into());
        }
        let longest = (MAX_SLICES * self.interval).min(MAX_WINDOW_S);
        if !(self.interval..=longest).contains(&self.window) {
            let needed = format!("seconds, {} to {longest} with --interval {}", self.interval, self.interval);
            return Err(wrong("--window", self.window, needed).into());
        }
        let ns = |s: f64| (s * 1e9) as u64;
        Ok(Following { slice_ns: ns(self.interval), window_ns: ns(self.window), slow_from: self.slow })
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let following = args.following()?;
    let output = Output { json: args.json.clone(), output: args.output.clone(), ..Output::default() };
    output.check_writable()?;
    if let Some(event) = args.watched.also.first() {
        let needed = "no --also with trace top, which does not show what is counted: perftax trace record --also does".into();
        return Err(Error::Argument { argument: "--also", value: event.clone(), needed }.into());
    }
    let receiver = args.otlp.as_deref().map(Receiver::parse).transpose()?;
    let endpoint = args.metrics.map(Endpoint::listen).transpose()?;
    let Prepared { here, origin, guard, words, recording, .. } = args.watched.prepare("trace-top", false)?;
    let recording = Recording { rests_above: Some(args.budget), is_live: true, ..recording };
    progress::announce(&foreseen(&here.id, &recording));
    raise_descriptor_limit();
    let service = spans::service(&words);
    let about = About {
        origin,
        program: words,
        tag: args.watched.tag.clone(),
        event: recording.event.name.clone(),
        period: recording.period,
        sampling_gap_ns: (recording.event.mechanism == perftax_doc::Mechanism::CpuClock).then_some(recording.period),
        budget: args.budget,
        slowest: args.slowest,
        began_ns: monotonic_raw_ns(),
        is_command: recording.subject.running().is_empty(),
    };
    let shown = match () {
        () if args.output.is_some() || args.json.as_deref().is_some_and(crate::output::is_stdout) => Shown::AtTheEnd,
        () if std::io::IsTerminal::is_terminal(&std::io::stdout()) => Shown::InPlace,
        () => Shown::OneBelowTheOther,
    };
    if let Some(endpoint) = &endpoint {
        progress::announce(&format!("metrics at {}/metrics", endpoint.address()));
    }
    let spans = receiver.map(|receiver| Spans::to(receiver, &service)).transpose()?;
    let live = Live::new(following, monotonic_raw_ns());
    let mut screen = Screen::new(live, about, shown, endpoint, spans);
    let recorded = record_live(&recording, &here.catalog, &mut screen)?;
    drop(guard);
    let mut document: TraceTop = screen.finish();
    (document.dropped, document.lost) = (recorded.dropped, Some(recorded.lost));
    document.checked = recorded.checked.clone().or(document.checked);
    document.origin.warnings.extend(tagged::warnings(&recording, &recorded, 0));
    document.origin.warnings.extend(weakened::of(&recorded, args.watched.tag == "marks", "a new perftax trace top"));
    document.origin.warnings.extend(unchecked(&document));
    output.write_json(&document)?;
    match shown {
        Shown::AtTheEnd if args.output.is_none() => {}
        _ => output.write_text(&text::trace_top(&document))?,
    }
    let code = code_of_end(recorded.exit.ended);
    Ok(if code == 0 { Outcome::Done } else { Outcome::Passed(code) })
}

/// What it costs could not be found.
fn unchecked(document: &TraceTop) -> Option<Warning> {
    let is_unchecked = document.latency.is_some() && document.checked.is_none() && document.elapsed_s > LONG_S;
    let message = "what recording costs could not be checked on the program: its budget is not kept to".to_string();
    let remedy = "a program that marks messages, or receives by TCP, some hundred of them a second";
    is_unchecked.then(|| Warning::Other { message, remedy: remedy.into() })
}

/// By then the price was checked, if it can be.
const LONG_S: f64 = 60.0;

/// At the end what is on its way has so long to arrive.
const LAST: Duration = Duration::from_secs(5);
