//! `perftax trace report`: the messages of a trace, and what the slow ones' extra time went to.

use std::path::PathBuf;

use anyhow::Result;
use perftax_doc::{
    BlamedCause, BlamedDetail, Latencies as Quantiles, SampledFunction, SlowMessage, TailBlame, TraceMeta, TraceReport,
};
use perftax_report::text;
use perftax_trace::register::between_ns as latency_between_ns;
use perftax_trace::{
    Answer, Blamed, Brief, Cause, Detail, Latencies, Message, Names, Piece, Question, Symbols, analyse, blame, blame_execution,
};

use super::bounds::Bounds;
use super::cost::cost;
use super::describe::{between_ns, is_doubtful, shares, stretches, woken_by, worked_on};
use super::events;
use super::execution;
use super::labels::ByLabel;
use super::reading::Reading;
use crate::failure::Outcome;
use crate::output::Output;

/// Say how long messages took, and why the slow ones were slow
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax trace report slow.trace --json slow.json
  perftax trace report slow.trace --html slow.html")]
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
    /// Write pictures of it as one offline HTML page to FILE, or to stdout with -
    #[cfg(feature = "html")]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the text to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Quantiles from which on messages are blamed; the first one has all that the others have.
const TAILS: [f64; 2] = [0.99, 0.999];
/// Slowest messages that are shown.
const SLOWEST: usize = 20;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    #[allow(unused_mut)] // without pages
    let mut output = Output { json: args.json.clone(), output: args.output.clone(), ..Output::default() };
    #[cfg(feature = "html")]
    output.html.clone_from(&args.html);
    output.check_writable()?;
    let reading = Reading::open(&args.folder)?;
    let latencies = Latencies::of(&reading.store)?;
    let question = Question { slow_from: tails(&reading.meta)[0], whole: args.slowest, window_ns: None };
    let slow_ns = latencies.quantile_ns(question.slow_from);
    let mut by_label = ByLabel::new(&reading.store.labels, slow_ns);
    let mut bounds = reading.meta.register.as_ref().map(Bounds::new);
    let mut each = |message: &Message| {
        by_label.add(message);
        bounds.iter_mut().for_each(|bounds| bounds.add(message));
    };
    #[cfg(feature = "html")]
    let mut drawing = args.html.as_ref().map(|_| super::picture::Drawing::new(&latencies, slow_ns));
    #[cfg(not(feature = "html"))]
    let mut drawing: Option<std::convert::Infallible> = None;
    let answer = match &mut drawing {
        #[cfg(feature = "html")]
        Some(drawing) => drawing.analyse(&reading, &latencies, &question, &mut each)?,
        #[cfg(not(feature = "html"))]
        Some(never) => match *never {},
        None => analyse(&reading.store, &latencies, &question, each)?,
    };
    let mut document = report(&reading, &latencies, &answer);
    (document.labels, document.labels_left_out) = by_label.finish();
    document.latency_between = bounds.and_then(Bounds::finish);
    #[cfg(feature = "html")]
    if let Some(drawing) = drawing {
        let picture = drawing.finish(&reading, &latencies, &answer, document.clone(), &args.folder);
        output.write_html(|| Ok(perftax_report::html::trace(&picture)))?;
    }
    output.write_json(&document)?;
    output.write_text(&text::trace(&document))?;
    Ok(Outcome::Done)
}

fn report(reading: &Reading, latencies: &Latencies, answer: &Answer) -> TraceReport {
    // Of messages that were not kept whole the tables tell nothing.
    let of_all = reading.meta.kept.as_ref().and_then(|kept| kept.trouble.clone());
    let tails = tails(&reading.meta);
    let blames = tails.iter().filter_map(|from| tail(reading, answer, *from, latencies.quantile_ns(*from)));
    TraceReport {
        meta: reading.meta.clone(),
        messages: answer.messages,
        trouble: of_all.unwrap_or_else(|| answer.trouble.counts()),
        latency: quantiles(latencies),
        latency_between: None,
        watched: answer.population.watched,
        samples: answer.samples,
        cost: cost(reading, &answer.threads),
        blames: blames.collect(),
        slowest: answer.slowest.iter().filter_map(|message| slow(reading, answer, message)).collect(),
        labels: Vec::new(),
        labels_left_out: 0,
    }
}

/// The quantiles from which on messages are blamed: of those that were kept.
fn tails(meta: &TraceMeta) -> Vec<f64> {
    let asked = meta.kept.as_ref().map(|kept| kept.from);
    let mut tails: Vec<f64> = TAILS.into_iter().filter(|tail| asked.is_none_or(|asked| *tail > asked)).collect();
    tails.splice(0..0, asked);
    tails
}

/// By nearest rank: each is some message's.
pub(super) fn quantiles(latencies: &Latencies) -> Option<Quantiles> {
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
        causes: blame.causes.iter().map(|blamed| blamed_cause(&reading.names, &reading.store.symbols, blamed)).collect(),
        events: events::blamed(reading, &slow, &answer.usual),
        executed: blame_execution(&slow, &answer.usual),
    })
}

pub(super) fn blamed_cause(names: &Names, symbols: &Symbols, blamed: &Blamed) -> BlamedCause {
    let details = |is_one: fn(&Detail) -> bool| {
        let own = blamed.details.iter().filter(move |(detail, _)| is_one(detail));
        own.filter_map(|(detail, extra_ns)| {
            let name = names.detail(blamed.cause, *detail, symbols)?;
            Some(BlamedDetail { name, extra_ns: *extra_ns })
        })
        .collect()
    };
    BlamedCause {
        cause: blamed.cause.name().into(),
        extra_ns: blamed.extra_ns,
        which: details(|detail| matches!(detail, Detail::Which(_))),
        by_whom: details(|detail| matches!(detail, Detail::Ended { .. } | Detail::Meanwhile(_))),
        functions: details(|detail| matches!(detail, Detail::Function(_))),
    }
}

/// The longest stretch of a cause.
fn longest(message: &Message, cause: Cause) -> Option<&Piece> {
    message.instants().iter().filter(|piece| piece.cause == cause).max_by_key(|piece| piece.to_ns - piece.from_ns)
}

fn slow(reading: &Reading, answer: &Answer, message: &Message) -> Option<SlowMessage> {
    let brief = Brief::of(message)?;
    let foremost = brief.foremost(&answer.usual.shares);
    let name = |detail: Detail| reading.names.detail(foremost.cause, detail, &reading.store.symbols);
    let longest = longest(message, foremost.cause);
    let function = foremost.function.and_then(|(detail, samples)| {
        let between = |gap_ns: u64| between_ns(samples, stretches(reading, message), gap_ns, message.shares.of(foremost.cause));
        Some(SampledFunction { name: name(detail)?, samples, between_ns: reading.meta.sampling_gap_ns.map(between) })
    });
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
        woken_by: longest.and_then(|piece| message.woken(piece)).map(|waker| woken_by(reading, waker)),
        meanwhile: longest.and_then(|piece| message.meanwhile(piece)).map(|meanwhile| worked_on(reading, meanwhile)),
        function,
        events: events::of_message(reading, &brief, &answer.usual),
        executed: execution::of_message(&brief, &answer.usual),
        shares_ns: shares(&message.shares),
        faults: message.faults,
        migrations: message.migrations,
        is_doubtful: is_doubtful(&reading.meta, (message.begin_ns, message.end_ns.unwrap_or(u64::MAX))),
    })
}
