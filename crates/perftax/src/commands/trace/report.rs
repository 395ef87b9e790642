//! `perftax trace report`: the messages of a trace, and what the slow ones' extra time went to.

use std::path::PathBuf;

use anyhow::Result;
use perftax_cost::document::{
    BlamedCause, BlamedDetail, Latencies as Quantiles, SampledFunction, SlowMessage, TailBlame, TraceMeta, TraceReport,
};
use perftax_report::text;
use perftax_trace::register::between_ns as latency_between_ns;
use perftax_trace::{Answer, Blamed, Brief, Cause, Detail, Latencies, Message, Question, analyse, blame};

use super::bounds::Bounds;
use super::labels::ByLabel;
use super::reading::Reading;
use crate::failure::Outcome;
use crate::output::Output;

/// Say how long messages took, and why the slow ones were slow
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  perftax trace report slow.trace --json slow.json")]
pub struct Args {
    /// The folder that `trace record` made
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// How many of the slowest messages are listed
    #[arg(long, value_name = "N", default_value_t = SLOWEST)]
    slowest: usize,
    /// Write the result as JSON to FILE, or to stdout with -
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the text to FILE instead of the terminal, or to stdout with -
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Quantiles from which on messages are blamed; the first one has all that the others have.
const TAILS: [f64; 2] = [0.99, 0.999];
/// Slowest messages that are shown.
const SLOWEST: usize = 20;
/// A record of a loss is written when there is room again: at the next look at the ring, ns.
const LOSS_NS: u64 = 20_000_000;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let output = Output { json: args.json.clone(), output: args.output.clone(), ..Output::default() };
    output.check_writable()?;
    let reading = Reading::open(&args.folder)?;
    let latencies = Latencies::of(&reading.store)?;
    let question = Question { slow_from: TAILS[0], whole: args.slowest };
    let mut by_label = ByLabel::new(&reading.store.labels, latencies.quantile_ns(TAILS[0]));
    let mut bounds = reading.meta.register.as_ref().map(Bounds::new);
    let answer = analyse(&reading.store, &latencies, &question, |message| {
        by_label.add(message);
        bounds.iter_mut().for_each(|bounds| bounds.add(message));
    })?;
    let mut document = report(&reading, &latencies, &answer);
    (document.labels, document.labels_left_out) = by_label.finish();
    document.latency_between = bounds.and_then(Bounds::finish);
    output.write_json(&document)?;
    output.write_text(&text::trace(&document))?;
    Ok(Outcome::Done)
}

fn report(reading: &Reading, latencies: &Latencies, answer: &Answer) -> TraceReport {
    let trouble = [
        ("never ended", answer.trouble.never_ended),
        ("ended without having begun", answer.trouble.ended_without_begin),
        ("began while one of the same id was under way", answer.trouble.reused),
        ("switched to without having begun", answer.trouble.switched_to_unknown),
        ("records out of order", answer.trouble.late),
    ];
    TraceReport {
        meta: reading.meta.clone(),
        messages: answer.messages,
        trouble: trouble.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.into(), n)).collect(),
        latency: quantiles(latencies),
        latency_between: None,
        samples: answer.samples,
        blames: TAILS.into_iter().filter_map(|from| tail(reading, answer, from, latencies.quantile_ns(from))).collect(),
        slowest: answer.slowest.iter().filter_map(|message| slow(reading, answer, message)).collect(),
        labels: Vec::new(),
        labels_left_out: 0,
    }
}

/// By nearest rank: each is some message's.
fn quantiles(latencies: &Latencies) -> Option<Quantiles> {
    let at = |q| latencies.quantile_ns(q);
    (!latencies.is_empty()).then(|| Quantiles {
        messages: latencies.len() as u64,
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: at(1.0),
    })
}

fn tail(reading: &Reading, answer: &Answer, from: f64, from_ns: u64) -> Option<TailBlame> {
    let slow: Vec<&Brief> = answer.slow.iter().filter(|brief| brief.latency_ns >= from_ns).collect();
    let blame = blame(&slow, &answer.usual)?;
    Some(TailBlame {
        from,
        messages: blame.messages as u64,
        extra_ns: blame.extra_ns,
        causes: blame.causes.iter().map(|blamed| cause(reading, blamed)).collect(),
    })
}

fn cause(reading: &Reading, blamed: &Blamed) -> BlamedCause {
    let details = |is_function: bool| {
        let own = blamed.details.iter().filter(move |(detail, _)| matches!(detail, Detail::Function(_)) == is_function);
        own.filter_map(|(detail, extra_ns)| {
            let name = reading.names.detail(blamed.cause, *detail, &reading.store.symbols)?;
            Some(BlamedDetail { name, extra_ns: *extra_ns })
        })
        .collect()
    };
    BlamedCause { cause: blamed.cause.name().into(), extra_ns: blamed.extra_ns, which: details(false), functions: details(true) }
}

fn slow(reading: &Reading, answer: &Answer, message: &Message) -> Option<SlowMessage> {
    let brief = Brief::of(message)?;
    let foremost = brief.foremost(&answer.usual.shares);
    let name = |detail: Detail| reading.names.detail(foremost.cause, detail, &reading.store.symbols);
    let function = foremost.function.and_then(|(detail, samples)| {
        let between = |gap_ns: u64| between_ns(samples, gap_ns, message.shares.of(foremost.cause));
        Some(SampledFunction { name: name(detail)?, samples, between_ns: reading.meta.sampling_gap_ns.map(between) })
    });
    let by_cause = Cause::ALL.into_iter().map(|cause| (cause.name().to_string(), message.shares.of(cause)));
    Some(SlowMessage {
        id: message.id,
        label: reading.store.labels.get(&message.id).cloned(),
        begin_s: message.begin_ns.saturating_sub(answer.from_ns) as f64 * 1e-9,
        latency_ns: brief.latency_ns,
        latency_between_ns: reading
            .meta
            .register
            .as_ref()
            .and_then(|register| latency_between_ns(message, register.unseen_p99_ns)),
        cause: foremost.cause.name().into(),
        beyond_ns: foremost.beyond_ns,
        which: foremost.which.and_then(|(detail, _)| name(detail)),
        function,
        shares_ns: by_cause.filter(|(_, ns)| *ns > 0).collect(),
        faults: message.faults,
        migrations: message.migrations,
        is_doubtful: is_doubtful(&reading.meta, message),
    })
}

/// At least the gaps between its samples, at most another gap at each end; never more than there was.
fn between_ns(samples: u64, gap_ns: u64, all_ns: u64) -> (u64, u64) {
    let at_most = samples.saturating_add(1).saturating_mul(gap_ns).min(all_ns);
    (samples.saturating_sub(1).saturating_mul(gap_ns).min(at_most), at_most)
}

fn is_doubtful(meta: &TraceMeta, message: &Message) -> bool {
    let end_ns = message.end_ns.unwrap_or(u64::MAX).saturating_add(LOSS_NS);
    let first = meta.losses_ns.partition_point(|loss| *loss < message.begin_ns);
    meta.losses_ns.get(first).is_some_and(|loss| *loss <= end_ns)
}
