//! Perfetto: a track per thread with the messages that it worked on and, beneath, what their time went to; and a track of messages from
//! begin to end (perfetto.dev, protos/perfetto/trace/trace_packet.proto and track_event/*.proto).

use std::collections::BTreeMap;
use std::io::{Result, Write};

use super::{Context, Export};
use crate::cause::{Cause, Shares};
use crate::message::Message;
use schema::{
    DebugAnnotation, EventCategory, EventName, InternedData, ProcessDescriptor, ThreadDescriptor, TracePacket, TrackDescriptor,
    TrackEvent,
};

/// The messages of trace_packet.proto and track_event.proto that are written; fields as numbered there. They are proto2: what is repeated is
/// not packed, and Perfetto's own reader takes it no other way.
#[allow(missing_docs)] // as published
pub mod schema {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Trace {
        #[prost(message, repeated, tag = "1")]
        pub packet: Vec<TracePacket>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct TracePacket {
        #[prost(uint64, optional, tag = "8")]
        pub timestamp: Option<u64>,
        #[prost(uint32, optional, tag = "10")]
        pub trusted_packet_sequence_id: Option<u32>,
        #[prost(message, optional, tag = "11")]
        pub track_event: Option<TrackEvent>,
        #[prost(message, optional, tag = "12")]
        pub interned_data: Option<InternedData>,
        #[prost(uint32, optional, tag = "13")]
        pub sequence_flags: Option<u32>,
        #[prost(message, optional, tag = "60")]
        pub track_descriptor: Option<TrackDescriptor>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct TrackEvent {
        #[prost(uint64, repeated, packed = "false", tag = "3")]
        pub category_iids: Vec<u64>,
        #[prost(message, repeated, tag = "4")]
        pub debug_annotations: Vec<DebugAnnotation>,
        #[prost(int32, optional, tag = "9")]
        pub r#type: Option<i32>,
        #[prost(uint64, optional, tag = "10")]
        pub name_iid: Option<u64>,
        #[prost(uint64, optional, tag = "11")]
        pub track_uuid: Option<u64>,
        #[prost(string, optional, tag = "23")]
        pub name: Option<String>,
        #[prost(fixed64, repeated, packed = "false", tag = "47")]
        pub flow_ids: Vec<u64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct DebugAnnotation {
        #[prost(uint64, optional, tag = "3")]
        pub uint_value: Option<u64>,
        #[prost(string, optional, tag = "6")]
        pub string_value: Option<String>,
        #[prost(string, optional, tag = "10")]
        pub name: Option<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct InternedData {
        #[prost(message, repeated, tag = "1")]
        pub event_categories: Vec<EventCategory>,
        #[prost(message, repeated, tag = "2")]
        pub event_names: Vec<EventName>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct EventCategory {
        #[prost(uint64, optional, tag = "1")]
        pub iid: Option<u64>,
        #[prost(string, optional, tag = "2")]
        pub name: Option<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct EventName {
        #[prost(uint64, optional, tag = "1")]
        pub iid: Option<u64>,
        #[prost(string, optional, tag = "2")]
        pub name: Option<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct TrackDescriptor {
        #[prost(uint64, optional, tag = "1")]
        pub uuid: Option<u64>,
        #[prost(string, optional, tag = "2")]
        pub name: Option<String>,
        #[prost(message, optional, tag = "3")]
        pub process: Option<ProcessDescriptor>,
        #[prost(message, optional, tag = "4")]
        pub thread: Option<ThreadDescriptor>,
        #[prost(uint64, optional, tag = "5")]
        pub parent_uuid: Option<u64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ProcessDescriptor {
        #[prost(int32, optional, tag = "1")]
        pub pid: Option<i32>,
        #[prost(string, optional, tag = "6")]
        pub process_name: Option<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ThreadDescriptor {
        #[prost(int32, optional, tag = "1")]
        pub pid: Option<i32>,
        #[prost(int32, optional, tag = "2")]
        pub tid: Option<i32>,
        #[prost(string, optional, tag = "5")]
        pub thread_name: Option<String>,
    }
}

/// `TrackEvent.Type`.
pub(super) const SLICE_BEGIN: i32 = 1;
pub(super) const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
/// `TracePacket.SequenceFlags`: what was interned before is forgotten; what is interned is needed.
const CLEARED: u32 = 1;
const NEEDED: u32 = 2;
/// All packets are of one sequence.
pub(super) const SEQUENCE: u32 = 1;
/// Tracks by kind: any numbers that differ.
pub(super) const PROCESS: u64 = 1 << 32;
const THREAD: u64 = 2 << 32;
pub(super) const LANE: u64 = 3 << 32;
/// Categories: the causes by their number from 1 on, then these.
const MESSAGE_CATEGORY: u64 = Cause::COUNT as u64 + 1;
const SAMPLE_CATEGORY: u64 = MESSAGE_CATEGORY + 1;

/// What happens on a thread's track; at one time in this order, so that slices lie within each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    PieceEnds,
    MessageEnds,
    /// Its place among the messages.
    MessageBegins(u32),
    /// Its name, and cause.
    PieceBegins(u32, Cause),
    /// The function's name.
    Sample(u32),
}

/// A message's own slice.
struct Whole {
    id: u64,
    begin_ns: u64,
    end_ns: u64,
    has_ended: bool,
    shares: Shares,
    samples: u64,
    faults: u32,
    migrations: u32,
    threads: usize,
}

/// Messages on their way to a trace file. It holds them in short: slices are written in order of time.
pub struct Perfetto<'a> {
    context: Context<'a>,
    messages: Vec<Whole>,
    threads: BTreeMap<u32, Vec<(u64, Step)>>,
    names: BTreeMap<String, u32>,
}

impl<'a> Perfetto<'a> {
    /// An empty one.
    pub fn new(context: Context<'a>) -> Self {
        Self { context, messages: Vec::new(), threads: BTreeMap::new(), names: BTreeMap::new() }
    }

    fn name(&mut self, name: String) -> u32 {
        let next = self.names.len() as u32 + 1;
        *self.names.entry(name).or_insert(next)
    }

    fn descriptors(&self) -> Vec<TrackDescriptor> {
        let mut tracks = Vec::new();
        let pids: std::collections::BTreeSet<u32> = self.threads.keys().map(|tid| self.context.pid(*tid)).collect();
        for pid in pids {
            let process = ProcessDescriptor { pid: Some(pid as i32), process_name: Some(self.context.program.into()) };
            tracks.push(TrackDescriptor { uuid: Some(PROCESS | u64::from(pid)), process: Some(process), ..Default::default() });
        }
        for tid in self.threads.keys() {
            let pid = self.context.pid(*tid);
            let name = Some(self.context.thread(*tid));
            let thread = ThreadDescriptor { pid: Some(pid as i32), tid: Some(*tid as i32), thread_name: name };
            let (uuid, parent) = (THREAD | u64::from(*tid), PROCESS | u64::from(pid));
            tracks.push(TrackDescriptor {
                uuid: Some(uuid),
                parent_uuid: Some(parent),
                thread: Some(thread),
                ..Default::default()
            });
        }
        tracks
    }

    fn interned(&self) -> InternedData {
        let causes = Cause::ALL.into_iter().map(|cause| (cause as u64 + 1, cause.name()));
        let categories = causes.chain([(MESSAGE_CATEGORY, "message"), (SAMPLE_CATEGORY, "sample")]);
        let names = self.names.iter().map(|(name, iid)| EventName { iid: Some(u64::from(*iid)), name: Some(name.clone()) });
        InternedData {
            event_categories: categories.map(|(iid, name)| EventCategory { iid: Some(iid), name: Some(name.into()) }).collect(),
            event_names: names.collect(),
        }
    }

    /// What is told of a message beside its name.
    fn notes(&self, whole: &Whole) -> Vec<DebugAnnotation> {
        let named = |name: &str| DebugAnnotation { name: Some(name.into()), ..DebugAnnotation::default() };
        let number = |(name, n): (&str, u64)| DebugAnnotation { uint_value: Some(n), ..named(name) };
        let label = self.context.labels.get(&whole.id);
        let latency_ns = whole.end_ns.saturating_sub(whole.begin_ns);
        let causes =
            Cause::ALL.into_iter().map(|cause| (format!("{}_ns", cause.name().replace(' ', "_")), whole.shares.of(cause)));
        let counts = [("samples", whole.samples), ("faults", whole.faults.into()), ("migrations", whole.migrations.into())];
        std::iter::once(number(("id", whole.id)))
            .chain(label.map(|label| DebugAnnotation { string_value: Some(label.clone()), ..named("label") }))
            .chain(whole.has_ended.then(|| number(("latency_ns", latency_ns))))
            .chain(causes.filter(|(_, ns)| *ns > 0).map(|(name, ns)| number((&name, ns))))
            .chain(counts.into_iter().filter(|(_, n)| *n > 0).map(number))
            .collect()
    }

    /// The event of a step on a thread's track.
    fn event(&self, tid: u32, step: Step) -> TrackEvent {
        let event = TrackEvent { track_uuid: Some(THREAD | u64::from(tid)), ..TrackEvent::default() };
        let named = |kind, name: u32, category| TrackEvent {
            r#type: Some(kind),
            name_iid: Some(u64::from(name)),
            category_iids: vec![category],
            ..event.clone()
        };
        match step {
            Step::PieceEnds | Step::MessageEnds => TrackEvent { r#type: Some(SLICE_END), ..event },
            Step::PieceBegins(name, cause) => named(SLICE_BEGIN, name, cause as u64 + 1),
            Step::Sample(name) => named(INSTANT, name, SAMPLE_CATEGORY),
            Step::MessageBegins(at) => {
                let whole = &self.messages[at as usize];
                TrackEvent {
                    r#type: Some(SLICE_BEGIN),
                    name: Some(self.context.message(whole.id)),
                    category_iids: vec![MESSAGE_CATEGORY],
                    // Arrows where it goes from thread to thread.
                    flow_ids: if whole.threads > 1 { vec![u64::from(at) + 1] } else { Vec::new() },
                    ..event
                }
            }
        }
    }

    /// Messages from begin to end, on as many tracks as are under way at once.
    fn lanes(&self, mut put: impl FnMut(TracePacket) -> Result<()>) -> Result<()> {
        let mut order: Vec<&Whole> = self.messages.iter().collect();
        order.sort_by_key(|whole| (whole.begin_ns, whole.end_ns));
        let mut lanes = 0usize;
        // Lanes by when they are free; the first that is, is taken.
        let mut busy: std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize)>> = std::collections::BinaryHeap::new();
        for whole in order {
            let lane = match busy.peek() {
                Some(std::cmp::Reverse((free, lane))) if *free <= whole.begin_ns => {
                    let lane = *lane;
                    busy.pop();
                    lane
                }
                _ => {
                    let uuid = LANE + lanes as u64;
                    let track = TrackDescriptor { uuid: Some(uuid), name: Some("messages".into()), ..Default::default() };
                    put(packet(None, None, Some(track)))?;
                    lanes += 1;
                    lanes - 1
                }
            };
            busy.push(std::cmp::Reverse((whole.end_ns, lane)));
            let event = TrackEvent { track_uuid: Some(LANE + lane as u64), ..TrackEvent::default() };
            let begin = TrackEvent {
                r#type: Some(SLICE_BEGIN),
                name: Some(self.context.message(whole.id)),
                category_iids: vec![MESSAGE_CATEGORY],
                debug_annotations: self.notes(whole),
                ..event.clone()
            };
            put(packet(Some(whole.begin_ns), Some(begin), None))?;
            put(packet(Some(whole.end_ns), Some(TrackEvent { r#type: Some(SLICE_END), ..event }), None))?;
        }
        Ok(())
    }
}

impl Export for Perfetto<'_> {
    fn take(&mut self, message: &Message, _: &mut dyn Write) -> Result<()> {
        let at = self.messages.len() as u32;
        // One that never ended goes on as long as anything is known of it.
        let last_ns = message.pieces.iter().map(|piece| piece.to_ns).max().unwrap_or(message.begin_ns);
        self.messages.push(Whole {
            begin_ns: message.begin_ns,
            end_ns: message.end_ns.unwrap_or(last_ns),
            id: message.id,
            has_ended: message.end_ns.is_some(),
            shares: message.shares,
            samples: message.hits.len() as u64,
            faults: message.faults,
            migrations: message.migrations,
            threads: message.threads.len(),
        });
        // On its threads: a slice for each stretch in which one of them was at it without a break.
        let mut pieces: Vec<_> = message.pieces.iter().filter(|piece| piece.tid != 0).collect();
        pieces.sort_by_key(|piece| (piece.tid, piece.from_ns));
        for (place, piece) in pieces.iter().enumerate() {
            let name = self.name(self.context.piece(piece));
            let goes_on = |other: Option<&&&crate::Piece>, touches: fn(&crate::Piece, &crate::Piece) -> bool| {
                other.is_some_and(|other| other.tid == piece.tid && touches(piece, other))
            };
            let before = place.checked_sub(1).and_then(|before| pieces.get(before));
            let is_first = !goes_on(before.as_ref(), |piece, before| before.to_ns == piece.from_ns);
            let is_last = !goes_on(pieces.get(place + 1).as_ref(), |piece, after| after.from_ns == piece.to_ns);
            let steps = self.threads.entry(piece.tid).or_default();
            if is_first {
                steps.push((piece.from_ns, Step::MessageBegins(at)));
            }
            steps.push((piece.from_ns, Step::PieceBegins(name, piece.cause)));
            steps.push((piece.to_ns, Step::PieceEnds));
            if is_last {
                steps.push((piece.to_ns, Step::MessageEnds));
            }
        }
        for hit in &message.hits {
            let name = self.name(self.context.function(hit.function));
            self.threads.entry(hit.tid).or_default().push((hit.time_ns, Step::Sample(name)));
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, out: &mut dyn Write) -> Result<()> {
        let mut buffer = Vec::new();
        let mut put = |packet: TracePacket| {
            // A trace is the concatenation of its packets, each as the field 1 of the whole.
            buffer.clear();
            prost::encoding::message::encode(1, &packet, &mut buffer);
            out.write_all(&buffer)
        };
        let interned = Some(self.interned());
        let first = TracePacket { interned_data: interned, sequence_flags: Some(CLEARED), ..packet(None, None, None) };
        put(first)?;
        for track in self.descriptors() {
            put(packet(None, None, Some(track)))?;
        }
        self.lanes(&mut put)?;
        let mut threads = std::mem::take(&mut self.threads);
        for (tid, steps) in &mut threads {
            steps.sort_by_key(|(time_ns, step)| (*time_ns, order(step)));
            for (time_ns, step) in steps {
                put(packet(Some(*time_ns), Some(self.event(*tid, *step)), None))?;
            }
        }
        out.flush()
    }
}

/// At one time.
fn order(step: &Step) -> u8 {
    match step {
        Step::PieceEnds => 0,
        Step::MessageEnds => 1,
        Step::MessageBegins(_) => 2,
        Step::PieceBegins(..) => 3,
        Step::Sample(_) => 4,
    }
}

fn packet(timestamp: Option<u64>, track_event: Option<TrackEvent>, track_descriptor: Option<TrackDescriptor>) -> TracePacket {
    TracePacket {
        timestamp,
        trusted_packet_sequence_id: Some(SEQUENCE),
        sequence_flags: track_event.is_some().then_some(NEEDED),
        track_event,
        interned_data: None,
        track_descriptor,
    }
}
