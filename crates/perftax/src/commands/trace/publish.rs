//! `perftax trace publish`: a trace's messages into the data set of a fleet.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Result;
use perftax_dataset::rows::{CauseRow, HistogramRow, HopRow, MessageRow, ProfileRow, RecordingRow};
use perftax_dataset::{Histogram, Place, Publisher, Text, hex, sha256};
use perftax_doc::{Origin, PublishedTrace, TracePublish};
use perftax_pmu::Error;
use perftax_pmu::sys::HostClock;
use perftax_report::text;
use perftax_trace::services::{Account, OwnTime};
use perftax_trace::store::{read_clocks, realtime_ns};
use perftax_trace::{Cause, Detail, Latencies, Message, Question, Relation, Shares, TraceIdentity, analyse};
use sha2::{Digest as _, Sha256};

use super::reading::Reading;
use super::top::service;
use crate::commands::publish::{Of, Written, host, is_new, place, publication};
use crate::failure::Outcome;
use crate::host::Host;
use crate::output::Output;

/// Add traces to the data set of a fleet
///
/// Slow messages go into it whole, with what their time went to, and those that their trace ids choose; of all others histograms and sums by minute. Publishing a trace twice
/// counts once. Labels of messages, names of functions and of the host are part of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax trace publish front.trace --to /srv/fleet --service front
  perftax trace publish *.trace --to s3://bucket/fleet --revision 1.4.2")]
pub struct Args {
    /// Folders that `trace record` made
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// The data set: a folder, or an object store such as s3://bucket/prefix (AWS_ACCESS_KEY_ID, AWS_ENDPOINT and so on say how)
    #[arg(long, value_name = "DATASET")]
    to: String,
    /// The service; OTEL_SERVICE_NAME, or the program's file, if not said
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// The version of the service, to compare before and after a rollout
    #[arg(long, value_name = "TEXT")]
    revision: Option<String>,
    /// The quantile from which on messages are slow
    #[arg(long, value_name = "Q", default_value_t = 0.99, value_parser = super::join::quantile)]
    slow_from: f64,
    /// Write the result as JSON to FILE, or to stdout with -
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Of so many trace ids one is chosen, whatever its messages took: the same one by all services.
const SAMPLED: u64 = 64;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let output = Output { json: args.json.clone(), ..Output::default() };
    output.check_writable()?;
    let place = place("--to", &args.to)?;
    let origin = Host::read()?.origin("trace-publish");
    let mut traces = Vec::new();
    for folder in &args.folders {
        traces.push(trace(args, &place, folder)?);
    }
    let document = TracePublish { origin, dataset: args.to.clone(), traces };
    output.write_json(&document)?;
    output.write_text(&text::trace_publish(&document))?;
    Ok(Outcome::Done)
}

/// What a trace is called: by its files, and by what is said of it.
fn id_of(folder: &Path, args: &Args, service: &str) -> Result<String> {
    let entries = fs::read_dir(folder).map_err(Error::file(folder))?;
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry.map_err(Error::file(folder))?.path());
    }
    files.sort();
    let mut all = Sha256::new();
    for path in files.iter().filter(|path| path.is_file()) {
        all.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        all.update([0]);
        all.update(digest(path).map_err(Error::file(path))?);
    }
    all.update(format!("{service}\0{:?}\0{}", args.revision, args.slow_from));
    Ok(hex(&all.finalize())[..32].to_string())
}

/// Of a file, piece by piece: tables may be larger than memory.
fn digest(path: &Path) -> io::Result<impl AsRef<[u8]>> {
    let (mut file, mut all, mut piece) = (File::open(path)?, Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(all.finalize()),
            read => all.update(&piece[..read]),
        }
    }
}

fn trace(args: &Args, place: &Place, folder: &Path) -> Result<PublishedTrace> {
    let reading = Reading::open(folder)?;
    let clocks = read_clocks(folder)?;
    if clocks.is_empty() {
        let needed =
            "a trace with clocks.parquet, which traces of before 2026-11-29 have not: when its messages were is not known".into();
        return Err(Error::Argument { argument: "DIR", value: folder.display().to_string(), needed }.into());
    }
    let service = args.service.clone().unwrap_or_else(|| service(&reading.meta.program));
    let id = id_of(folder, args, &service)?;
    let mut origin: Origin = reading.meta.origin.clone();
    // Of the recording, not of whoever publishes it.
    origin.taken_at_s = clocks[0].realtime_ns as f64 * 1e-9;
    let mut of = Of::new(&origin, &id);
    of.host = reading.meta.host.as_ref().map_or(of.host, |host| host.name.clone());
    let mut rows = Rows {
        reading: &reading,
        clocks: &clocks,
        of: &of,
        revision: args.revision.as_deref().map(Text::from),
        publisher: Publisher::of(Some(&service)),
        usual: BTreeMap::new(),
        profile: BTreeMap::new(),
        whole: 0,
        hops: BTreeMap::new(),
    };
    for hop in reading.store.relations.all_hops() {
        rows.hops.entry(hop.id).or_default().push((hop.time_ns, hop.is_sent));
    }
    let latencies = Latencies::of(&reading.store)?;
    // Where slow messages alone were kept, all of them from there on are there, and none before.
    let slow_from = reading.meta.kept.as_ref().map_or(args.slow_from, |kept| kept.from.max(args.slow_from));
    let slow_ns = latencies.quantile_ns(slow_from);
    let question = Question { slow_from, whole: 0, window_ns: None };
    let answer = analyse(&reading.store, &latencies, &question, |message| rows.message(message, slow_ns))?;
    rows.histograms()?;
    rows.others();
    rows.profiles();
    rows.recording((answer.from_ns, answer.to_ns), latencies.len() as u64, slow_ns);
    host(&mut rows.publisher, &of);
    let (whole, publisher) = (rows.whole, rows.publisher);
    let (outcome, publication) = publisher.publish(place, publication(&of, id.clone()))?;
    let Written { files, rows, bytes } = Written::of(outcome, &publication);
    Ok(PublishedTrace {
        folder: folder.display().to_string(),
        id,
        was_there: !is_new(outcome),
        service,
        messages: latencies.len() as u64,
        whole,
        files,
        rows,
        bytes,
    })
}

/// A trace's rows in the making.
struct Rows<'a> {
    reading: &'a Reading,
    clocks: &'a [HostClock],
    of: &'a Of<'a>,
    revision: Option<Text>,
    publisher: Publisher,
    /// Messages that are not slow by minute: how many, and their time by cause.
    usual: BTreeMap<i64, (i64, Shares)>,
    /// Samples by minute, whether of slow messages, cause and function.
    profile: BTreeMap<(i64, bool, Cause, u32), i64>,
    whole: u64,
    /// When each message was sent (true) or came.
    hops: BTreeMap<u64, Vec<(u64, bool)>>,
}

impl Rows<'_> {
    /// A time of the raw clock by the host's CLOCK_REALTIME, ns since 1970: of the reading nearest to it.
    fn unix_ns(&self, raw_ns: u64) -> i64 {
        realtime_ns(self.clocks, raw_ns).and_then(|unix_ns| i64::try_from(unix_ns).ok()).unwrap_or(i64::MAX)
    }

    /// The host, and the recording.
    fn head(&self) -> (Text, Text) {
        (self.of.host.as_str().into(), self.of.recording.into())
    }

    fn message(&mut self, message: &Message, slow_ns: u64) {
        let Some(latency_ns) = message.latency_ns() else { return };
        let begin_ns = self.unix_ns(message.begin_ns);
        let minute_ns = minute_of(begin_ns);
        let Relation { identity, .. } = self.reading.store.relations.of(message.id);
        let is_known = identity != TraceIdentity::default();
        let is_slow = latency_ns >= slow_ns;
        let is_sampled = is_known && (identity.trace as u64).is_multiple_of(SAMPLED);
        for hit in &message.hits {
            *self.profile.entry((minute_ns, is_slow, hit.cause, hit.function)).or_default() += 1;
        }
        // Of a trace of slow messages alone the others are known as it counted them.
        if !is_slow && self.reading.store.background.is_none() {
            let (messages, shares) = self.usual.entry(minute_ns).or_default();
            *messages += 1;
            Cause::ALL.into_iter().for_each(|cause| shares.add(cause, message.shares.of(cause)));
        }
        if is_slow || is_sampled {
            self.whole(message, (minute_ns, begin_ns, latency_ns), (is_slow, is_sampled), identity);
        }
    }

    fn whole(
        &mut self,
        message: &Message,
        (minute_ns, begin_ns, latency_ns): (i64, i64, u64),
        (is_slow, is_sampled): (bool, bool),
        identity: TraceIdentity,
    ) {
        self.whole += 1;
        let boot = self.reading.meta.host.as_ref().map_or("", |host| &host.boot_id);
        let name = Text::from(&sha256(format!("{boot} {} {}", message.begin_ns, message.id).as_bytes())[..32]);
        let is_known = identity != TraceIdentity::default();
        let trace = is_known.then(|| Text::from(format!("{:032x}", identity.trace)));
        let span = is_known.then(|| Text::from(format!("{:016x}", identity.span)));
        let (host, recording) = self.head();
        self.publisher.push(MessageRow {
            host: host.clone(),
            recording: recording.clone(),
            message: name.clone(),
            minute_ns,
            begin_ns,
            latency_ns: latency_ns as i64,
            number: format!("{:016x}", message.id).into(),
            label: self.reading.store.labels.get(&message.id).map(Text::from),
            trace: trace.clone(),
            span: span.clone(),
            is_slow: is_slow.into(),
            is_sampled: is_sampled.into(),
            revision: self.revision.clone(),
        });
        let end_ns = message.begin_ns + latency_ns;
        let account = Account::of(message, &[(message.begin_ns, end_ns)], &[], true);
        let mut by_name: BTreeMap<(Cause, Option<String>), i64> = BTreeMap::new();
        for (OwnTime { cause, detail }, ns) in account.own_ns {
            let detail = detail.and_then(|detail| self.reading.names.detail(cause, detail, &self.reading.store.symbols));
            *by_name.entry((cause, detail)).or_default() += ns as i64;
        }
        for ((cause, detail), ns) in by_name {
            self.publisher.push(CauseRow {
                host: host.clone(),
                recording: recording.clone(),
                minute_ns,
                message: Some(name.clone()),
                cause: cause.name().into(),
                detail: detail.map(Text::from),
                ns,
                messages: 1,
                revision: self.revision.clone(),
            });
        }
        let (Some(trace), Some(span)) = (trace, span) else { return };
        let hops = self.hops.get(&message.id).cloned().unwrap_or_default();
        for (time_ns, is_sent) in hops {
            self.publisher.push(HopRow {
                host: host.clone(),
                recording: recording.clone(),
                message: name.clone(),
                time_ns: self.unix_ns(time_ns),
                trace: trace.clone(),
                span: span.clone(),
                way: if is_sent { "sent" } else { "received" }.into(),
            });
        }
    }

    /// Of all messages, by their marks; of a trace that holds slow ones alone, as it counted them: in the minute in which it began.
    fn histograms(&mut self) -> Result<()> {
        let mut by_minute: BTreeMap<i64, Histogram> = BTreeMap::new();
        if let Some(background) = &self.reading.store.background {
            let minute_ns = minute_of(self.of.time_ns);
            let all = by_minute.entry(minute_ns).or_default();
            background.population.latency.buckets().for_each(|(ns, messages)| all.add(ns, messages));
        } else {
            self.reading.store.spans(|_, (begin_ns, end_ns)| {
                by_minute.entry(minute_of(self.unix_ns(begin_ns))).or_default().add(end_ns - begin_ns, 1);
            })?;
        }
        for (minute_ns, histogram) in by_minute {
            for (low_ns, high_ns, messages) in histogram.buckets() {
                let (host, recording) = self.head();
                self.publisher.push(HistogramRow {
                    host,
                    recording,
                    minute_ns,
                    revision: self.revision.clone(),
                    low_ns: low_ns as i64,
                    high_ns: high_ns as i64,
                    messages: messages as i64,
                });
            }
        }
        Ok(())
    }

    /// Time of those that are not slow, by minute.
    fn others(&mut self) {
        if let Some(background) = &self.reading.store.background {
            let minute_ns = minute_of(self.of.time_ns);
            self.usual.insert(minute_ns, (background.usual.messages as i64, background.usual.totals));
        }
        for (minute_ns, (messages, shares)) in std::mem::take(&mut self.usual) {
            for cause in Cause::ALL.into_iter().filter(|cause| shares.of(*cause) > 0) {
                let (host, recording) = self.head();
                self.publisher.push(CauseRow {
                    host,
                    recording,
                    minute_ns,
                    message: None,
                    cause: cause.name().into(),
                    detail: None,
                    ns: shares.of(cause) as i64,
                    messages,
                    revision: self.revision.clone(),
                });
            }
        }
    }

    fn profiles(&mut self) {
        let mut by_name: BTreeMap<(i64, bool, Cause, String), i64> = BTreeMap::new();
        for ((minute_ns, is_slow, cause, function), samples) in std::mem::take(&mut self.profile) {
            let name = self.reading.names.detail(cause, Detail::Function(function), &self.reading.store.symbols);
            *by_name.entry((minute_ns, is_slow, cause, name.unwrap_or_default())).or_default() += samples;
        }
        let gap_ns = self.reading.meta.sampling_gap_ns;
        for ((minute_ns, is_slow, cause, function), samples) in by_name {
            let (host, recording) = self.head();
            self.publisher.push(ProfileRow {
                host,
                recording,
                minute_ns,
                revision: self.revision.clone(),
                is_slow: is_slow.into(),
                cause: cause.name().into(),
                function: function.into(),
                samples,
                ns: gap_ns.map(|gap_ns| samples.saturating_mul(gap_ns as i64)),
            });
        }
    }

    fn recording(&mut self, (from_ns, to_ns): (u64, u64), messages: u64, slow_ns: u64) {
        let meta = &self.reading.meta;
        let mut weakened: Vec<String> = meta.origin.warnings.iter().map(ToString::to_string).collect();
        if meta.kept.is_some() {
            weakened.push("slow messages alone were kept: the others count in the minute in which recording began".into());
        }
        let kept_right = self.clocks.iter().filter_map(|clock| clock.discipline).filter(|of| !of.is_unsynchronised);
        let error_ns = kept_right.map(|of| of.max_error_ns).filter(|error_ns| *error_ns > 0).max();
        let overhead = meta.spent.as_ref().map(|spent| spent.in_all).or(meta.checked.as_ref().map(|checked| checked.extra));
        let (host, recording) = self.head();
        self.publisher.push(RecordingRow {
            host,
            recording,
            revision: self.revision.clone(),
            boot: meta.host.as_ref().map_or("", |host| &host.boot_id).into(),
            fingerprint: meta.origin.machine.fingerprint.as_str().into(),
            from_ns: self.unix_ns(from_ns),
            to_ns: self.unix_ns(to_ns),
            messages: messages as i64,
            slow_ns: slow_ns as i64,
            lost: (meta.lost + meta.dropped + meta.refused) as i64,
            weakened: (!weakened.is_empty()).then(|| weakened.join("; ").into()),
            clock_error_ns: error_ns.map(|error_ns| i64::try_from(error_ns).unwrap_or(i64::MAX)),
            overhead_low: overhead.map(|overhead| overhead.low),
            overhead_high: overhead.map(|overhead| overhead.high),
            perftax: meta.origin.perftax.as_str().into(),
        });
    }
}

/// A minute, ns.
const MINUTE_NS: i64 = 60_000_000_000;

/// The beginning of the minute of a time, ns since 1970.
fn minute_of(time_ns: i64) -> i64 {
    time_ns.div_euclid(MINUTE_NS) * MINUTE_NS
}
