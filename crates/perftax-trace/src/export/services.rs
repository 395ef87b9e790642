//! Requests over services for Perfetto: a process a service, in it a slice for each message and beneath what its time went to, and arrows from what calls to what is called.

use std::collections::BTreeMap;

use perftax_doc::{RequestPart, RequestWaterfall};

use super::perfetto::schema::{DebugAnnotation, ProcessDescriptor, TracePacket, TrackDescriptor, TrackEvent};
use super::perfetto::{LANE, PROCESS, SEQUENCE, SLICE_BEGIN, SLICE_END};

/// The packets of a trace of requests. Times are of the host where each begins; when a part was elsewhere is the middle of what is known.
pub fn trace(requests: &[RequestWaterfall]) -> Vec<u8> {
    let mut out = Packets::default();
    let mut services: BTreeMap<&str, u64> = BTreeMap::new();
    let mut lanes: BTreeMap<(u64, usize), u64> = BTreeMap::new();
    for part in requests.iter().flat_map(|request| &request.parts) {
        let next = services.len() as u64 + 1;
        services.entry(&part.service).or_insert(next);
    }
    for (service, number) in &services {
        let name = Some((*service).to_string());
        let process = ProcessDescriptor { pid: Some(*number as i32), process_name: name };
        out.put(TracePacket {
            track_descriptor: Some(TrackDescriptor {
                uuid: Some(PROCESS | number),
                process: Some(process),
                ..Default::default()
            }),
            ..Default::default()
        });
    }
    // Of traces without clocks one comes after the other.
    let mut after_ns = 0;
    let mut events: Vec<(u64, u64, TrackEvent)> = Vec::new();
    let mut busy: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut order: Vec<&RequestWaterfall> = requests.iter().collect();
    order.sort_by_key(|request| request.begin_unix_ns);
    for (at, request) in order.into_iter().enumerate() {
        let begin_ns = request.begin_unix_ns.unwrap_or(after_ns);
        after_ns = begin_ns + request.request.latency_ns;
        let flow = |part: usize| (at as u64 + 1) << 16 | part as u64;
        for (place, part) in request.parts.iter().enumerate() {
            let service = services[part.service.as_str()];
            let from_ns = begin_ns.saturating_add_signed(part.from_ns.0.midpoint(part.from_ns.1));
            let to_ns = from_ns + part.ns;
            // The first lane that is free.
            let own = busy.entry(service).or_default();
            let lane = own.iter().position(|free_ns| *free_ns <= from_ns).unwrap_or(own.len());
            if lane == own.len() {
                own.push(to_ns);
            }
            own[lane] = to_ns;
            let next = LANE + lanes.len() as u64;
            let track = *lanes.entry((service, lane)).or_insert_with(|| {
                let parent_uuid = Some(PROCESS | service);
                let name = Some("requests".into());
                let descriptor = TrackDescriptor { uuid: Some(next), parent_uuid, name, ..Default::default() };
                out.put(TracePacket { track_descriptor: Some(descriptor), ..Default::default() });
                next
            });
            let inner = request.parts.iter().enumerate().filter(|(_, other)| other.parent == Some(place) && other.hop.is_some());
            let mut flow_ids: Vec<u64> = inner.map(|(inner, _)| flow(inner)).collect();
            flow_ids.extend(part.hop.map(|_| flow(place)));
            let event = TrackEvent { track_uuid: Some(track), ..TrackEvent::default() };
            let begin = TrackEvent {
                r#type: Some(SLICE_BEGIN),
                name: Some(part.label.clone().unwrap_or_else(|| format!("message {}", part.id))),
                flow_ids,
                debug_annotations: notes(request, part),
                ..event.clone()
            };
            let end = TrackEvent { r#type: Some(SLICE_END), ..event };
            // What begins first is put first, and what lies within ends first.
            let mut order = events.len() as u64;
            let mut push = |time_ns: u64, event: TrackEvent| {
                events.push((time_ns, order, event));
                order += 1;
            };
            push(from_ns, begin);
            for piece in part.pieces.iter().flatten() {
                let named = piece.which.as_ref().map_or_else(|| piece.cause.clone(), |which| format!("{}: {which}", piece.cause));
                let (piece_from_ns, piece_to_ns) = (from_ns + piece.from_ns, from_ns + piece.from_ns + piece.ns);
                push(piece_from_ns, TrackEvent { r#type: Some(SLICE_BEGIN), name: Some(named), ..end.clone() });
                push(piece_to_ns, end.clone());
            }
            push(to_ns, end);
        }
    }
    events.sort_by_key(|(time_ns, order, _)| (*time_ns, *order));
    for (time_ns, _, event) in events {
        out.put(TracePacket { timestamp: Some(time_ns), track_event: Some(event), ..Default::default() });
    }
    out.0
}

/// A trace: the concatenation of its packets, each as the field 1 of the whole.
#[derive(Default)]
struct Packets(Vec<u8>);

impl Packets {
    fn put(&mut self, packet: TracePacket) {
        prost::encoding::message::encode(1, &TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet }, &mut self.0);
    }
}

fn notes(request: &RequestWaterfall, part: &RequestPart) -> Vec<DebugAnnotation> {
    let text =
        |name: &str, text: String| DebugAnnotation { name: Some(name.into()), string_value: Some(text), ..Default::default() };
    let number = |name: &str, n: u64| DebugAnnotation { name: Some(name.into()), uint_value: Some(n), ..Default::default() };
    let mut notes = vec![number("id", part.id), number("ns", part.ns)];
    notes.extend(request.request.identity.clone().map(|identity| text("request", identity)));
    notes.extend(part.host.clone().map(|host| text("host", host)));
    notes.push(number("began_known_to_ns", part.from_ns.1.abs_diff(part.from_ns.0)));
    if let Some(hop) = part.hop {
        notes.extend([number("away_ns", hop.away_ns), number("ways_ns", hop.ways_ns)]);
        notes.extend([number("way_there_at_least_ns", hop.there_ns.0), number("way_there_at_most_ns", hop.there_ns.1)]);
    }
    if part.pieces.is_none() {
        notes.push(text("missing", "marks alone are known of it".into()));
    }
    notes
}
