//! `perftax trace report`: the messages of a trace, and what the slow ones' extra time went to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use perftax_cost::document::{Latencies, SlowMessage, TailBlame, TraceMeta, TraceReport};
use perftax_pmu::Error;
use perftax_report::text;
use perftax_trace::{Cause, Messages, Shares, Span, Trace, account, activities, blame, foremost, usual};

use super::META;
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
    /// Write the result as JSON to FILE, or to stdout with -
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the text to FILE instead of the terminal, or to stdout with -
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Quantiles from which on messages are blamed.
const TAILS: [f64; 2] = [0.99, 0.999];
/// Slowest messages that are shown.
const SLOWEST: usize = 20;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let output = Output { json: args.json.clone(), output: args.output.clone(), ..Output::default() };
    output.check_writable()?;
    let path = args.folder.join(META);
    let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
    let malformed = |e: serde_json::Error| Error::Malformed {
        what: path.display().to_string(),
        offset: e.column() as u64,
        why: e.to_string(),
    };
    let meta: TraceMeta = serde_json::from_str(&text).map_err(malformed)?;
    let document = report(meta, Trace::read(&args.folder)?);
    output.write_json(&document)?;
    output.write_text(&text::trace(&document))?;
    Ok(Outcome::Done)
}

fn report(meta: TraceMeta, trace: Trace) -> TraceReport {
    let messages = Messages::of(trace.marks);
    let shares = account(&messages, &activities(trace.kernel));
    let ended: Vec<(usize, u64)> =
        messages.all.iter().enumerate().filter_map(|(i, message)| Some((i, message.latency_ns()?))).collect();
    let latencies: Vec<u64> = ended.iter().map(|(_, latency)| *latency).collect();
    let of_ended: Vec<Shares> = ended.iter().map(|(i, _)| shares[*i]).collect();
    let times: Vec<(u32, u64)> = trace.samples.iter().map(|sample| (sample.tid, sample.time_ns)).collect();
    let trouble = [
        ("never ended", messages.trouble.never_ended),
        ("ended without having begun", messages.trouble.ended_without_begin),
        ("began while one of the same id was under way", messages.trouble.reused),
        ("switched to without having begun", messages.trouble.switched_to_unknown),
    ];
    TraceReport {
        meta,
        messages: messages.all.len() as u64,
        trouble: trouble.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.into(), n)).collect(),
        latency: quantiles(&latencies),
        samples: within(&times, &messages.spans),
        blames: TAILS.into_iter().filter_map(|from| tail(&latencies, &of_ended, from)).collect(),
        slowest: slowest(&messages, &ended, &shares, &usual(&of_ended)),
    }
}

/// By nearest rank: each is some message's.
fn quantiles(latencies: &[u64]) -> Option<Latencies> {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let at = |q: f64| sorted.get(((q * n as f64).ceil() as usize).clamp(1, n.max(1)) - 1).copied();
    Some(Latencies { messages: n as u64, p50_ns: at(0.5)?, p99_ns: at(0.99)?, p999_ns: at(0.999)?, max_ns: *sorted.last()? })
}

fn tail(latencies: &[u64], shares: &[Shares], from: f64) -> Option<TailBlame> {
    let blame = blame(latencies, shares, from)?;
    Some(TailBlame {
        from,
        messages: blame.messages as u64,
        extra_ns: blame.extra_ns,
        causes: blame.causes.into_iter().map(|(cause, ns)| (cause.name().into(), ns)).collect(),
    })
}

/// Samples that fell into a span of their thread.
fn within(samples: &[(u32, u64)], spans: &[Span]) -> u64 {
    let mut sorted: Vec<(u32, u64, u64)> = spans.iter().map(|span| (span.tid, span.from_ns, span.to_ns)).collect();
    sorted.sort_unstable();
    let is_within = |(tid, time): &&(u32, u64)| {
        let after = sorted.partition_point(|span| (span.0, span.1) <= (*tid, *time));
        after.checked_sub(1).is_some_and(|i| sorted[i].0 == *tid && *time < sorted[i].2)
    };
    samples.iter().filter(is_within).count() as u64
}

fn slowest(messages: &Messages, ended: &[(usize, u64)], shares: &[Shares], usual: &[u64; Cause::ALL.len()]) -> Vec<SlowMessage> {
    let mut order = ended.to_vec();
    order.sort_by_key(|(_, latency)| std::cmp::Reverse(*latency));
    let first_ns = messages.all.first().map_or(0, |message| message.begin_ns);
    let of = |&(i, latency_ns): &(usize, u64)| {
        let (cause, beyond_ns) = foremost(&shares[i], usual);
        let by_cause = Cause::ALL.into_iter().map(|cause| (cause.name().to_string(), shares[i].of(cause)));
        SlowMessage {
            id: messages.all[i].id,
            begin_s: (messages.all[i].begin_ns - first_ns) as f64 * 1e-9,
            latency_ns,
            cause: cause.name().into(),
            beyond_ns,
            shares_ns: by_cause.filter(|(_, ns)| *ns > 0).collect::<BTreeMap<_, _>>(),
        }
    };
    order.iter().take(SLOWEST).map(of).collect()
}
