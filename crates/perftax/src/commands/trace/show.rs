//! `perftax trace show`: one message, piece by piece.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use perftax_doc::{AmongParts, BetweenHops, LastPart, MessageHop, Neighbour, PathStep, Place, RelatedMessage, TraceMessage};
use perftax_pmu::Error;
use perftax_report::text;
use perftax_trace::store::Relations;
use perftax_trace::{
    Answer, Around, Brief, Cause, Found, Hop, Latencies, Message, Occurrence, Parts, Question, Stretch, Timeline, TraceIdentity,
    analyse, critical_path, step_sampled,
};

use super::describe::{Sampled, named_functions, shares, thread, waterfall};
use super::reading::Reading;
use crate::failure::Outcome;
use crate::output::Output;

/// Show what one message's time went to, piece by piece, and what was around it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax trace show slow.trace 8317
  perftax trace show slow.trace 8317 --occurrence 2 --json message.json")]
pub struct Args {
    /// The folder that `trace record` made
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The message's id; or what a tracing system calls it, TRACE or TRACE-SPAN (32 and 16 hexadecimal digits)
    #[arg(value_name = "ID")]
    id: Asked,
    /// Of several messages with this id the Nth one, from 1 on, instead of the slowest
    #[arg(long, value_name = "N")]
    occurrence: Option<usize>,
    /// Pieces of its time that have a line of their own: the longest ones
    #[arg(long, value_name = "N", default_value_t = PIECES)]
    pieces: usize,
    /// Write the result as JSON, with all pieces, to FILE, or to stdout with -
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the text to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Pieces that fit on a screen or two.
const PIECES: usize = 60;

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let output = Output { json: args.json.clone(), output: args.output.clone(), ..Output::default() };
    output.check_writable()?;
    let reading = Reading::open(&args.folder)?;
    let id = args.id.resolve(&reading.store.relations)?;
    let found = Found::of(&reading.store, id)?;
    let (at, occurrence) = chosen(args, id, &found)?;
    let latencies = Latencies::of(&reading.store)?;
    let mut around = Around::new(id, occurrence.clone());
    let mut message: Option<Message> = None;
    // What is received was sent before.
    let sent_ns = reading.store.relations.hops(id).map(|hop| hop.time_ns).find(|_| reading.meta.sockets.is_some());
    let from_ns = sent_ns.map_or(occurrence.begin_ns, |sent_ns| sent_ns.min(occurrence.begin_ns));
    let window_ns = occurrence.latency_ns.map(|ns| (from_ns, occurrence.begin_ns + ns));
    let question = Question { slow_from: 0.99, whole: 0, window_ns };
    let relation = reading.store.relations.of(id);
    let parts = reading.store.relations.parts(id);
    let siblings = if relation.parent == 0 { &[] } else { reading.store.relations.parts(relation.parent) };
    let its_own_ns = until_its_end(occurrence);
    // Of several with the parent's number it is part of the one that was under way.
    let parents = if relation.parent == 0 { None } else { Found::of(&reading.store, relation.parent).ok() };
    let was_under_way = |parent: &&Occurrence| {
        let (from_ns, to_ns) = until_its_end(parent);
        (from_ns..=to_ns).contains(&occurrence.begin_ns)
    };
    let parent_ns = parents.iter().flat_map(|found| &found.all).rfind(was_under_way).map_or((0, u64::MAX), until_its_end);
    let (mut own, mut beside) = (Parts::of(parts, its_own_ns, TraceMessage::MAX_PARTS), Parts::of(siblings, parent_ns, 0));
    let mut parent: Option<Message> = None;
    let answer = analyse(&reading.store, &latencies, &question, |other| {
        around.take(other);
        own.take(other);
        beside.take(other);
        // Of several with one number the last one counts.
        if other.id == relation.parent {
            parent = Some(other.clone());
        }
        if occurrence.is(id, other) {
            message = Some(other.clone());
        }
    })?;
    // It is among them: the marks are the same.
    let message = message.ok_or_else(|| unknown(args, id, &found))?;
    let related = |id: u64, message: Option<&Message>| related(&reading, &answer, id, message);
    let document = TraceMessage {
        occurrences: found.all.len(),
        occurrence: at + 1,
        messages: latencies.len() as u64,
        faster_share: message.latency_ns().map_or(1.0, |ns| latencies.share_below(ns)),
        median_ns: answer.usual.latency_ns,
        median_shares_ns: shares(&answer.usual.shares),
        waterfall: waterfall(&reading, &message, answer.from_ns, &answer.usual),
        identity: Some(relation.identity)
            .filter(|identity| *identity != TraceIdentity::default())
            .map(|identity| identity.to_string()),
        parent: Some(relation.parent).filter(|parent| *parent != 0).map(|id| related(id, parent.as_ref())),
        among_parts: among_parts(&message, &beside),
        parts: own.slowest().iter().map(|part| related(part.id, Some(part))).collect(),
        parts_left_out: own.ended - own.slowest().len() as u64,
        last_part: own.last().map(|(part, alone_ns)| LastPart { part: related(part.id, Some(part)), alone_ns }),
        hops: hops(&reading, &message, answer.timeline.as_ref()),
        path: answer.timeline.as_ref().map_or_else(|| Ok(Vec::new()), |timeline| path(&reading, &message, timeline))?,
        neighbours: neighbours(&reading, &answer, &message, around),
        meta: reading.meta,
    };
    output.write_json(&document)?;
    output.write_text(&text::trace_message(&document, args.pieces))?;
    Ok(Outcome::Done)
}

/// A message that has to do with it.
fn related(reading: &Reading, answer: &Answer, id: u64, message: Option<&Message>) -> RelatedMessage {
    let foremost = message.and_then(Brief::of).map(|brief| brief.foremost(&answer.usual.shares));
    let which = foremost.and_then(|foremost| reading.names.detail(foremost.cause, foremost.which?.0, &reading.store.symbols));
    RelatedMessage {
        id,
        label: reading.store.labels.get(&id).cloned(),
        thread: message.and_then(|message| message.threads.first()).map(|tid| thread(reading, *tid)),
        latency_ns: message.and_then(Message::latency_ns),
        cause: foremost.map(|foremost| foremost.cause.name().into()),
        which,
    }
}

/// From its beginning to its end; of one that never ended to the end of the trace, ns.
fn until_its_end(occurrence: &Occurrence) -> (u64, u64) {
    (occurrence.begin_ns, occurrence.latency_ns.map_or(u64::MAX, |ns| occurrence.begin_ns + ns))
}

/// How it stands among the parts of what it is part of; none where it is the only one, or has not ended.
fn among_parts(message: &Message, parts: &Parts) -> Option<AmongParts> {
    let (last, alone_ns) = parts.last().filter(|_| parts.ended > 1)?;
    let before_last_ns = last.end_ns?.saturating_sub(message.end_ns?);
    Some(AmongParts { parts: parts.ended, alone_ns: (last.id == message.id).then_some(alone_ns), before_last_ns })
}

/// Where it went: hops of another message with its number are not its own.
fn hops(reading: &Reading, message: &Message, timeline: Option<&Timeline>) -> Vec<MessageHop> {
    let end_ns = message.end_ns.unwrap_or(u64::MAX);
    // Numbers of connections' messages are given once, and what was read was sent before.
    let from_ns = if reading.meta.sockets.is_some() { 0 } else { message.begin_ns };
    let own = reading.store.relations.hops(message.id).filter(|hop| (from_ns..=end_ns).contains(&hop.time_ns));
    let mut sent: Option<&Hop> = None;
    let mut described = Vec::new();
    for hop in own {
        let before = if hop.is_sent { sent.replace(hop).and(None) } else { sent.take() };
        described.push(MessageHop {
            from_ns: hop.time_ns as i64 - message.begin_ns as i64,
            tid: hop.tid,
            thread: thread(reading, hop.tid),
            is_sent: hop.is_sent,
            between: before.zip(timeline).map(|(before, timeline)| between(timeline, before.time_ns, hop, message.id)),
        });
    }
    described
}

/// What its receiver was at between sending a message and receiving it.
fn between(timeline: &Timeline, sent_ns: u64, received: &Hop, id: u64) -> BetweenHops {
    let ns = received.time_ns.saturating_sub(sent_ns);
    let (mut kernel_ns, mut queue_ns) = (0, 0);
    for stretch in timeline.between(received.tid, sent_ns, received.time_ns) {
        let took_ns = stretch.to_ns - stretch.from_ns;
        match stretch.cause {
            Cause::Blocked => kernel_ns += took_ns,
            // It reads it: the kernel hands it over.
            Cause::Syscall if stretch.id.is_none_or(|other| other == id) => kernel_ns += took_ns,
            _ => queue_ns += took_ns,
        }
    }
    BetweenHops { ns, kernel_ns, queue_ns, unseen_ns: ns.saturating_sub(kernel_ns + queue_ns) }
}

/// Which message was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Number(u64),
    Trace { text: String, trace: u128, span: Option<u64> },
}

impl std::str::FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A trace may have no letter in it.
        if let Some(number) = text.parse().ok().filter(|_| text.len() < 32) {
            return Ok(Self::Number(number));
        }
        let (trace, span) = text.split_once('-').map_or((text, None), |(trace, span)| (trace, Some(span)));
        let of_digits = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !of_digits(trace, 32) || !span.is_none_or(|span| of_digits(span, 16)) {
            return Err("needs a message's number, or TRACE or TRACE-SPAN in 32 and 16 hexadecimal digits".into());
        }
        let span = span.map(|span| u64::from_str_radix(span, 16)).transpose().map_err(|error| error.to_string())?;
        let trace = u128::from_str_radix(trace, 16).map_err(|error| error.to_string())?;
        Ok(Self::Trace { text: text.into(), trace, span })
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Trace { text, .. } => f.write_str(text),
        }
    }
}

impl Asked {
    /// The message's number.
    fn resolve(&self, relations: &Relations) -> Result<u64> {
        let (text, trace, span) = match self {
            Self::Number(number) => return Ok(*number),
            Self::Trace { text, trace, span } => (text, *trace, *span),
        };
        let found: BTreeSet<u64> = relations.of_trace(trace, span).into_iter().collect();
        // One that is part of another one of them is meant where that is not there.
        let top: Vec<u64> = found.iter().copied().filter(|id| !found.contains(&relations.of(*id).parent)).collect();
        let top = if top.is_empty() { found.iter().copied().collect() } else { top };
        match top.as_slice() {
            [one] => Ok(*one),
            [] => {
                let needed = "a trace that some message belongs to: none of this recording does".into();
                Err(Error::Argument { argument: "ID", value: text.clone(), needed }.into())
            }
            several => {
                let first: Vec<String> =
                    several.iter().take(SEVERAL).map(|id| format!("{id} ({})", relations.of(*id).identity)).collect();
                let needed = format!("one message, and {} belong to it: {}", several.len(), first.join(", "));
                Err(Error::Argument { argument: "ID", value: text.clone(), needed }.into())
            }
        }
    }
}

/// Messages that are named where several are meant.
const SEVERAL: usize = 8;

fn chosen<'a>(args: &Args, id: u64, found: &'a Found) -> Result<(usize, &'a Occurrence)> {
    let slowest = found.slowest().ok_or_else(|| unknown(args, id, found))?;
    let at = match args.occurrence {
        None => slowest,
        Some(n) if (1..=found.all.len()).contains(&n) => n - 1,
        Some(n) => {
            let needed = format!("1 to {}: so many messages have the id {id}", found.all.len());
            return Err(Error::Argument { argument: "--occurrence", value: n.to_string(), needed }.into());
        }
    };
    Ok((at, &found.all[at]))
}

/// No message has the id.
fn unknown(args: &Args, id: u64, found: &Found) -> Error {
    let needed = match found.range {
        None => format!("a message of the trace, and {} has none: the program marked nothing", args.folder.display()),
        Some((low, high)) => {
            let near: Vec<String> = [found.below, found.above].into_iter().flatten().map(|id| id.to_string()).collect();
            format!("a message of the trace: ids from {low} to {high}, nearest: {}", near.join(", "))
        }
    };
    Error::Argument { argument: "ID", value: id.to_string(), needed }
}

/// Its time along who ended its waiting; nothing where it waited for nobody who is known.
fn path(reading: &Reading, message: &Message, timeline: &Timeline) -> Result<Vec<PathStep>> {
    // Of a trace of slow messages alone not all is known of other threads, and of one with too many pieces not of all.
    if reading.meta.kept.is_some() || message.left_out + timeline.left_out > 0 {
        return Ok(Vec::new());
    }
    let steps = critical_path(message, timeline);
    if steps.iter().all(|step| step.depth == 0) {
        return Ok(Vec::new());
    }
    // Whoever is waited for may be at no message: its samples are told of here alone.
    let mut sampled: Vec<Sampled> = vec![Sampled::new(); steps.len()];
    reading.store.samples(|sample| {
        let Some(at) = step_sampled(&steps, sample.tid, sample.time_ns) else { return };
        let function = reading.store.symbols.function(sample.pid, sample.ip);
        *sampled[at].entry((function, steps[at].stretch.cause)).or_default() += 1;
    })?;
    let described = steps.iter().zip(sampled).map(|(step, sampled)| {
        let Stretch { from_ns, to_ns, id, cause, which } = step.stretch;
        PathStep {
            from_ns: from_ns.saturating_sub(message.begin_ns),
            ns: to_ns - from_ns,
            tid: step.tid,
            thread: thread(reading, step.tid),
            message: id,
            label: id.and_then(|id| reading.store.labels.get(&id).cloned()),
            cause: cause.name().into(),
            which: reading.names.which(cause, which, &reading.store.symbols),
            depth: step.depth,
            functions: named_functions(reading, sampled, 1, to_ns - from_ns),
        }
    });
    Ok(described.collect())
}

fn neighbours(reading: &Reading, answer: &Answer, message: &Message, around: Around) -> Vec<Neighbour> {
    let places = [Place::Before, Place::During, Place::After];
    let described = places.into_iter().zip(around.finish()).flat_map(|(place, others)| {
        others.into_iter().filter_map(move |(tid, other)| {
            let apart_ns = match place {
                Place::Before => message.begin_ns - other.end_ns?,
                Place::During => 0,
                Place::After => other.begin_ns - message.end_ns?,
            };
            Some(Neighbour {
                thread: reading.names.thread(tid),
                place,
                id: other.id,
                label: reading.store.labels.get(&other.id).cloned(),
                apart_ns,
                latency_ns: other.latency_ns()?,
                cause: Brief::of(&other)?.foremost(&answer.usual.shares).cause.name().into(),
            })
        })
    });
    // One that several of its threads worked on is told of once.
    let mut all: Vec<Neighbour> = Vec::new();
    for other in described {
        match all.iter_mut().find(|known| (known.place, known.id, known.apart_ns) == (other.place, other.id, other.apart_ns)) {
            Some(known) => known.thread = format!("{}, {}", known.thread, other.thread),
            None => all.push(other),
        }
    }
    all
}
