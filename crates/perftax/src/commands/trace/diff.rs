//! `perftax trace diff`: what the messages of one trace spend more time on than those of another.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use perftax_cost::bootstrap::normal_quantile;
use perftax_doc::Estimate;
use perftax_doc::{CONFIDENCE, Warning};
use perftax_doc::{Change, LatencyChange, TraceDiff};
use perftax_pmu::Error;
use perftax_report::text;
use perftax_trace::{Latencies, MeanTime, Profile, Question, analyse};

use super::reading::Reading;
use crate::failure::Outcome;
use crate::host::Host;
use crate::output::Output;

/// Say what messages spend more, or less, time on than in another trace
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  perftax trace diff before.trace after.trace")]
pub struct Args {
    /// The trace to compare with
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The trace that is compared
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Write the result as JSON to FILE, or to stdout with -
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the text to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Quantiles that are compared.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let output = Output { json: args.json.clone(), output: args.output.clone(), ..Output::default() };
    output.check_writable()?;
    let (before, after) = (Side::read(&args.before)?, Side::read(&args.after)?);
    let mut origin = Host::read()?.origin("trace-diff");
    for (side, path) in [(&before, &args.before), (&after, &args.after)] {
        if side.reading.meta.lost + side.reading.meta.dropped > 0 {
            let message = format!("{} lacks records that were lost", path.display());
            origin.warnings.push(Warning::Other { message, remedy: "record it again with less (-c, --ring-marks)".into() });
        }
    }
    if before.reading.meta.origin.machine.fingerprint != after.reading.meta.origin.machine.fingerprint {
        let message = "the two traces are of different machines".into();
        origin.warnings.push(Warning::Other { message, remedy: "record both on one machine, in turn".into() });
    }
    if before.reading.meta.period != after.reading.meta.period || before.reading.meta.event != after.reading.meta.event {
        let message = "the two traces are sampled differently, which costs differently".into();
        origin.warnings.push(Warning::Other { message, remedy: "record both with the same -e and -c".into() });
    }
    let document = TraceDiff {
        origin,
        latency: QUANTILES
            .into_iter()
            .map(|quantile| LatencyChange { quantile, before_ns: before.quantile(quantile), after_ns: after.quantile(quantile) })
            .collect(),
        changes: changes(&before.means, &after.means),
        before: before.reading.meta,
        after: after.reading.meta,
    };
    output.write_json(&document)?;
    output.write_text(&text::trace_diff(&document))?;
    Ok(Outcome::Done)
}

/// One of the two traces.
struct Side {
    reading: Reading,
    latencies: Latencies,
    means: Vec<MeanTime>,
}

impl Side {
    fn read(folder: &std::path::Path) -> Result<Self> {
        let reading = Reading::open(folder)?;
        let refuse = |needed: &str| Error::Argument {
            argument: "BEFORE or AFTER",
            value: folder.display().to_string(),
            needed: needed.into(),
        };
        if reading.store.background.is_some() {
            return Err(refuse("a trace of all messages: this one was recorded with --keep-slow").into());
        }
        let latencies = Latencies::of(&reading.store)?;
        let mut profile = Profile::default();
        analyse(&reading.store, &latencies, &Question { slow_from: 1.0, whole: 0, window_ns: None }, |message| {
            profile.add(message)
        })?;
        let means = profile.means(&reading.names, &reading.store.symbols);
        let means = means.ok_or_else(|| refuse("a trace of at least 128 messages that ended"))?;
        Ok(Self { reading, latencies, means })
    }

    /// A quantile, with the interval that the binomial distribution gives its rank: messages are taken as independent.
    fn quantile(&self, q: f64) -> Estimate {
        let spread = normal_quantile(CONFIDENCE) * (q * (1.0 - q) / self.latencies.len().max(1) as f64).sqrt();
        let at = |q: f64| self.latencies.quantile_ns(q.clamp(0.0, 1.0)) as f64;
        Estimate::new(at(q), at(q - spread), at(q + spread))
    }
}

/// What is in either of them; all of the latency first, then the largest change of all kinds.
fn changes(before: &[MeanTime], after: &[MeanTime]) -> Vec<Change> {
    type Pair = (Option<Estimate>, Option<Estimate>);
    let mut pairs: BTreeMap<_, Pair> = BTreeMap::new();
    let key = |mean: &MeanTime| (mean.cause, mean.is_sampled, mean.detail.clone());
    before.iter().for_each(|mean| pairs.entry(key(mean)).or_default().0 = Some(mean.mean_ns));
    after.iter().for_each(|mean| pairs.entry(key(mean)).or_default().1 = Some(mean.mean_ns));
    let none = Estimate::exact(0.0);
    let change =
        |((cause, is_sampled, detail), (before, after)): ((Option<perftax_trace::Cause>, bool, Option<String>), Pair)| {
            let (before_ns, after_ns) = (before.unwrap_or(none), after.unwrap_or(none));
            let more_ns = after_ns.plus(&before_ns.scaled(-1.0));
            Change { cause: cause.map(|cause| cause.name().into()), detail, is_sampled, before_ns, after_ns, more_ns }
        };
    let mut changes: Vec<Change> = pairs.into_iter().map(change).collect();
    changes.sort_by(|a, b| {
        let size = |change: &Change| (change.cause.is_some(), -change.more_ns.estimate.abs());
        size(a).partial_cmp(&size(b)).unwrap_or(std::cmp::Ordering::Equal)
    });
    changes
}
