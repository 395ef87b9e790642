//! What is written is read back: with the formats' published fields, and with what their viewers count on.

#![allow(clippy::unwrap_used)] // tests may

use std::collections::BTreeSet;
use std::io::Read;

use prost::Message as _;
use serde_json::Value;

use super::*;
use crate::cause::Cause;
use crate::message::Hit;
use crate::store::Function;
use crate::store::Relations;

struct World {
    names: Names,
    symbols: Symbols,
    labels: Labels,
    relations: Relations,
    pids: BTreeMap<u32, u32>,
}

impl World {
    fn new() -> Self {
        let function = |name: &str| Function { name: name.into(), module: "server".into() };
        let names = Names {
            locks: std::collections::BTreeMap::new(),
            threads: BTreeMap::from([(10, "main".into()), (11, "worker".into()), (99, "cron \"x\"".into())]),
            ..Names::default()
        };
        Self {
            names,
            symbols: Symbols::new([((10, 1), function("parse")), ((10, 2), function("answer"))]),
            relations: Relations::default(),
            labels: {
                let mut labels = Labels::default();
                labels.add(7, "GET /a,b \"c\"");
                labels
            },
            pids: BTreeMap::from([(10, 10), (11, 10)]),
        }
    }

    fn context(&self) -> Context<'_> {
        Context {
            program: "server",
            names: &self.names,
            symbols: &self.symbols,
            labels: &self.labels,
            relations: &self.relations,
            pids: &self.pids,
            event: "cpu-clock",
            period: 1000,
            sampling_gap_ns: Some(1000),
            taken_at_s: 1.5e9,
        }
    }
}

/// 8 within 7 on one thread, 9 on two threads, 10 never ends.
fn messages() -> Vec<Message> {
    let piece = |tid, from_ns, to_ns, cause, which| Piece { tid, from_ns, to_ns, cause, which };
    let made = |id, begin_ns, end_ns: Option<u64>, pieces: &[Piece], hits: &[(u64, u32, u32)]| {
        let mut message = Message::beginning(id, begin_ns);
        pieces.iter().for_each(|piece| message.add(*piece));
        message.hits = hits
            .iter()
            .map(|(time_ns, tid, function)| Hit { time_ns: *time_ns, tid: *tid, function: *function, cause: Cause::OnCpu })
            .collect();
        for piece in pieces.iter().filter(|piece| piece.tid != 0) {
            if !message.threads.contains(&piece.tid) {
                message.threads.push(piece.tid);
            }
        }
        message.end_ns = end_ns;
        message
    };
    let on = Cause::OnCpu;
    vec![
        made(8, 2000, Some(3000), &[piece(10, 2000, 3000, on, 0)], &[(2500, 10, 2)]),
        made(
            7,
            1000,
            Some(6000),
            &[
                piece(10, 1000, 2000, on, 0),
                piece(10, 3000, 4000, Cause::Blocked, 36),
                piece(10, 4000, 5000, Cause::Preempted, 99),
                piece(10, 5000, 6000, on, 0),
            ],
            &[(1500, 10, 1), (1700, 10, 1), (5500, 10, 2)],
        ),
        made(
            9,
            4000,
            Some(9000),
            &[
                piece(11, 4000, 5000, on, 0),
                piece(10, 6000, 8000, Cause::Irq, 0),
                piece(11, 8000, 9000, on, 0),
                piece(0, 5000, 6000, Cause::Unattended, 0),
            ],
            &[(8000, 11, 0)],
        ),
        made(10, 9000, None, &[piece(10, 9000, 9500, on, 0)], &[]),
    ]
}

fn written(mut export: Box<dyn Export + '_>) -> Vec<u8> {
    let mut out = Vec::new();
    for message in messages() {
        export.take(&message, &mut out).unwrap();
    }
    export.finish(&mut out).unwrap();
    out
}

#[test]
fn perfetto_slices_lie_within_each_other_and_add_up() {
    let world = World::new();
    let bytes = written(Box::new(Perfetto::new(world.context())));
    let trace = perfetto_schema::Trace::decode(&bytes[..]).unwrap();
    let interned = trace.packet.iter().find_map(|packet| packet.interned_data.clone()).unwrap();
    assert_eq!(trace.packet[0].sequence_flags, Some(1));
    let names: BTreeMap<u64, String> =
        interned.event_names.into_iter().map(|name| (name.iid.unwrap(), name.name.unwrap())).collect();
    let categories: BTreeMap<u64, String> =
        interned.event_categories.into_iter().map(|name| (name.iid.unwrap(), name.name.unwrap())).collect();
    let tracks: Vec<_> = trace.packet.iter().filter_map(|packet| packet.track_descriptor.clone()).collect();
    let uuids: BTreeSet<u64> = tracks.iter().map(|track| track.uuid.unwrap()).collect();
    assert_eq!(uuids.len(), tracks.len());
    assert!(tracks.iter().all(|track| track.parent_uuid.is_none_or(|parent| uuids.contains(&parent))));
    let threads: Vec<_> = tracks.iter().filter_map(|track| track.thread.clone()).collect();
    assert_eq!(threads.iter().map(|t| (t.pid.unwrap(), t.tid.unwrap())).collect::<Vec<_>>(), [(10, 10), (10, 11)]);
    assert_eq!(threads[1].thread_name.as_deref(), Some("worker"));
    // Every track is a stack of slices, in order of time.
    let mut stacks: BTreeMap<u64, (u64, Vec<(String, u64)>)> = BTreeMap::new();
    let mut slices: Vec<(u64, String, u64, usize)> = Vec::new();
    let mut instants = Vec::new();
    for packet in trace.packet.iter().filter(|packet| packet.track_event.is_some()) {
        let (event, time) = (packet.track_event.clone().unwrap(), packet.timestamp.unwrap());
        assert!(packet.trusted_packet_sequence_id == Some(1) && packet.sequence_flags == Some(2));
        let track = event.track_uuid.unwrap();
        assert!(uuids.contains(&track) && event.category_iids.iter().all(|iid| categories.contains_key(iid)));
        let (last, stack) = stacks.entry(track).or_default();
        assert!(time >= *last);
        *last = time;
        let name = event.name.clone().or_else(|| Some(names[&event.name_iid?].clone()));
        match event.r#type {
            Some(1) => stack.push((name.unwrap(), time)),
            Some(2) => {
                let (name, from) = stack.pop().unwrap();
                slices.push((track & 0xffff_ffff, name, time - from, stack.len()));
            }
            Some(3) => instants.push((track & 0xffff_ffff, name.unwrap(), time)),
            other => panic!("{other:?}"),
        }
    }
    assert!(stacks.values().all(|(_, stack)| stack.is_empty()));
    let of = |track: u64, name: &str| {
        let all = slices.iter().filter(|slice| slice.0 == track && slice.1.starts_with(name));
        all.map(|slice| (slice.2, slice.3)).collect::<Vec<_>>()
    };
    // On its thread 7 is there before 8 and after it; from begin to end it is one, beside 9.
    assert_eq!(of(10, "message 7: GET /a,b"), [(1000, 0), (3000, 0)]);
    assert_eq!((of(10, "message 8"), of(10, "message 10")), (vec![(1000, 0)], vec![(500, 0)]));
    assert_eq!(of(0, "message 7"), [(5000, 0)]);
    assert_eq!((of(10, "preempted: by cron \"x\" (99)"), of(10, "irq: irq 0")), (vec![(1000, 1)], vec![(2000, 1)]));
    assert_eq!(slices.iter().filter(|slice| slice.3 == 1).map(|slice| slice.2).sum::<u64>(), 9500);
    assert_eq!(instants.len(), 5);
    assert!(instants.contains(&(10, "parse".into(), 1500)), "{instants:?}");
    let notes = trace.packet.iter().filter_map(|packet| packet.track_event.as_ref()).flat_map(|event| &event.debug_annotations);
    let latency = notes.clone().find(|note| note.name.as_deref() == Some("latency_ns")).unwrap();
    assert!(latency.uint_value == Some(5000) && notes.clone().any(|note| note.string_value.is_some()));
    // What goes from thread to thread is tied together.
    let flows = trace.packet.iter().filter_map(|packet| packet.track_event.as_ref()).filter(|event| !event.flow_ids.is_empty());
    assert_eq!(flows.count(), 3);
}

#[test]
fn pprof_refers_to_what_is_there_and_adds_up() {
    let world = World::new();
    let bytes = written(Box::new(Pprof::new(world.context())));
    let mut raw = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut raw).unwrap();
    let profile = pprof_schema::Profile::decode(&raw[..]).unwrap();
    let text = |number: i64| profile.string_table[number as usize].as_str();
    assert_eq!(text(0), "");
    let types: Vec<_> = profile.sample_type.iter().map(|kind| (text(kind.r#type), text(kind.unit))).collect();
    assert_eq!(types, [("samples", "count"), ("time", "nanoseconds")]);
    assert_eq!((profile.period, profile.duration_nanos), (1000, 8000));
    assert!(profile.function.iter().enumerate().all(|(at, function)| function.id == at as u64 + 1));
    assert!(profile.location.iter().all(|at| profile.mapping.iter().any(|mapping| mapping.id == at.mapping_id)));
    let mut rows: Vec<(&str, i64, i64, String)> = Vec::new();
    for sample in &profile.sample {
        let location = profile.location.iter().find(|location| location.id == sample.location_id[0]).unwrap();
        let function = profile.function.iter().find(|function| function.id == location.line[0].function_id).unwrap();
        let label = |key: &str| sample.label.iter().find(|label| text(label.key) == key).unwrap();
        let message = label("message");
        assert_eq!(text(label("cause").str), "on CPU");
        let message = if message.str != 0 { text(message.str).to_string() } else { message.num.to_string() };
        rows.push((text(function.name), sample.value[0], sample.value[1], message));
    }
    rows.sort();
    let long = "7: GET /a,b \"c\"".to_string();
    let wanted = [
        ("[unknown]", 1, 1000, "9".to_string()),
        ("answer", 1, 1000, long.clone()),
        ("answer", 1, 1000, "8".into()),
        ("parse", 2, 2000, long),
    ];
    assert_eq!(rows, wanted);
}

#[test]
fn firefox_tables_are_of_one_length_and_refer_to_what_is_there() {
    let world = World::new();
    let bytes = written(Box::new(Firefox::new(world.context())));
    let profile: Value = serde_json::from_slice(&bytes).unwrap();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let meta = &profile["meta"];
    assert_eq!(meta["interval"], 0.001);
    let categories = list(&meta["categories"]);
    assert!(categories.iter().any(|category| category["name"] == "preempted"));
    let schemas: Vec<String> = list(&meta["markerSchema"]).iter().map(|s| s["name"].as_str().unwrap().into()).collect();
    assert_eq!(schemas, ["message", "piece"]);
    let threads = list(&profile["threads"]);
    assert_eq!(threads.len(), 2);
    let shared = &profile["shared"]["stringArray"];
    let (mut samples, mut told) = (0, Vec::new());
    for thread in &threads {
        let texts = if thread["stringArray"].is_array() { list(&thread["stringArray"]) } else { list(shared) };
        // Every list of a table that is given has the table's length, and every number in it is one of a row that is there.
        let table = |name: &str, refers: &[(&str, usize)]| {
            let table = &thread[name];
            let length = table["length"].as_u64().unwrap() as usize;
            for (column, values) in table.as_object().unwrap().iter().filter(|(_, values)| values.is_array()) {
                assert_eq!(values.as_array().unwrap().len(), length, "{name}.{column}");
            }
            for (column, rows) in refers {
                let within = |value: &Value| value.is_null() || value.as_i64().is_some_and(|at| at >= -1 && at < *rows as i64);
                assert!(list(&table[*column]).iter().all(within), "{name}.{column}: {}", table[*column]);
            }
            length
        };
        let functions = table("funcTable", &[("name", texts.len())]);
        let frames = table("frameTable", &[("func", functions), ("category", categories.len())]);
        let stacks = table("stackTable", &[("frame", frames)]);
        samples += table("samples", &[("stack", stacks)]);
        let markers = table("markers", &[("name", texts.len()), ("category", categories.len())]);
        for at in 0..markers {
            let (data, phase) = (&thread["markers"]["data"][at], thread["markers"]["phase"][at].as_u64().unwrap());
            let name = texts[thread["markers"]["name"][at].as_u64().unwrap() as usize].as_str().unwrap();
            let span = |key: &str| thread["markers"][key][at].as_f64();
            assert!(schemas.iter().any(|schema| data["type"] == schema.as_str()));
            if phase == 1 {
                assert!(span("endTime").unwrap() > span("startTime").unwrap());
            }
            told.push((name.to_string(), phase));
        }
    }
    assert_eq!(samples, 5);
    assert_eq!(told.iter().filter(|(name, _)| name == "message").count(), 4);
    assert!(told.contains(&("preempted: by cron \"x\" (99)".into(), 1)) && told.contains(&("message".into(), 2)), "{told:?}");
}

#[test]
fn csv_has_a_row_a_message() {
    let world = World::new();
    let out = written(Box::new(Csv::new(world.context())));
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "id,label,begin_ns,latency_ns,on_CPU_ns,page_fault_ns,system_call_ns,irq_ns,softirq_ns,vector_ns,steal_ns,preempted_ns,\
         runnable_ns,blocked_ns,unattended_ns,samples,faults,migrations,parent,trace,\
         instructions,instructions_low,instructions_high,cycles,cycles_low,cycles_high"
    );
    assert_eq!(lines[2], "7,\"GET /a,b \"\"c\"\"\",1000,5000,2000,0,0,0,0,0,0,1000,0,1000,0,3,0,0,,,,,,,,");
    assert_eq!((lines.len(), lines[4]), (5, "10,,9000,,500,0,0,0,0,0,0,0,0,0,0,0,0,0,,,,,,,,"));
}

#[test]
fn the_slow_ones_come_with_their_neighbours() {
    let message = |id: u64, ns: u64, tid| {
        let mut message = Message::beginning(id, id * 100);
        (message.end_ns, message.threads) = (Some(id * 100 + ns), vec![tid]);
        message
    };
    let all = [
        (1, 5, 1),
        (2, 5, 1),
        (3, 5, 2),
        (4, 90, 1),
        (5, 5, 2),
        (6, 5, 1),
        (7, 5, 1),
        (8, 90, 1),
        (9, 90, 1),
        (10, 5, 1),
        (11, 5, 1),
    ];
    let chosen = |mut selection: Selection| {
        let mut ids = Vec::new();
        for (id, ns, tid) in all {
            let mut out = |message: &Message| -> std::result::Result<(), ()> {
                ids.push(message.id);
                Ok(())
            };
            selection.take(&message(id, ns, tid), &mut out).unwrap();
        }
        ids
    };
    assert_eq!(chosen(Selection::slow(50)), [2, 4, 6, 7, 8, 9, 10]);
    assert_eq!(chosen(Selection::All).len(), 11);
}

/// What is in a field. Fields are listed by number, how they are written (0 varint, 1 eight bytes, 2 length and bytes), and this.
#[derive(Clone, Copy)]
enum Inner {
    Plain,
    Of(&'static [(u64, u64, Inner)]),
}

/// Reads bytes without any of our definitions; fails where a field is not as listed.
fn check_wire(mut bytes: &[u8], name: &str, fields: &[(u64, u64, Inner)], seen: &mut BTreeSet<(String, u64)>) {
    let varint = |bytes: &mut &[u8]| prost::encoding::decode_varint(bytes).unwrap();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let (number, kind) = (tag >> 3, tag & 7);
        let (.., inner) = fields
            .iter()
            .find(|(wanted, as_kind, _)| *wanted == number && *as_kind == kind)
            .unwrap_or_else(|| panic!("{name} has field {number} of kind {kind}"));
        seen.insert((name.into(), number));
        match kind {
            0 => drop(varint(&mut bytes)),
            1 => bytes = &bytes[8..],
            _ => {
                let length = varint(&mut bytes) as usize;
                let (within, rest) = bytes.split_at(length);
                bytes = rest;
                if let Inner::Of(fields) = inner {
                    check_wire(within, &format!("{name}.{number}"), fields, seen);
                }
            }
        }
    }
}

/// By protos/perfetto/trace/trace_packet.proto, track_event/{track_event,track_descriptor,debug_annotation,process_descriptor,
/// thread_descriptor}.proto and interned_data/interned_data.proto, as published in perfetto 0.59.1 on PyPI.
#[test]
fn perfetto_is_on_the_wire_as_published() {
    use Inner::{Of, Plain};
    const NAMED: &[(u64, u64, Inner)] = &[(1, 0, Plain), (2, 2, Plain)];
    const NOTE: &[(u64, u64, Inner)] = &[(3, 0, Plain), (6, 2, Plain), (10, 2, Plain)];
    const EVENT: &[(u64, u64, Inner)] =
        &[(3, 0, Plain), (4, 2, Of(NOTE)), (9, 0, Plain), (10, 0, Plain), (11, 0, Plain), (23, 2, Plain), (47, 1, Plain)];
    const PROCESS: &[(u64, u64, Inner)] = &[(1, 0, Plain), (6, 2, Plain)];
    const THREAD: &[(u64, u64, Inner)] = &[(1, 0, Plain), (2, 0, Plain), (5, 2, Plain)];
    const TRACK: &[(u64, u64, Inner)] = &[(1, 0, Plain), (2, 2, Plain), (3, 2, Of(PROCESS)), (4, 2, Of(THREAD)), (5, 0, Plain)];
    const INTERNED: &[(u64, u64, Inner)] = &[(1, 2, Of(NAMED)), (2, 2, Of(NAMED))];
    const PACKET: &[(u64, u64, Inner)] =
        &[(8, 0, Plain), (10, 0, Plain), (11, 2, Of(EVENT)), (12, 2, Of(INTERNED)), (13, 0, Plain), (60, 2, Of(TRACK))];
    let world = World::new();
    let mut seen = BTreeSet::new();
    check_wire(&written(Box::new(Perfetto::new(world.context()))), "Trace", &[(1, 2, Of(PACKET))], &mut seen);
    // Every one of them occurs.
    assert_eq!(seen.len(), 1 + 6 + 7 + 3 + 2 + 2 + 2 + 5 + 2 + 3, "{seen:?}");
}

/// By proto/profile.proto of github.com/google/pprof (2025).
#[test]
fn pprof_is_on_the_wire_as_published() {
    use Inner::{Of, Plain};
    const TYPE: &[(u64, u64, Inner)] = &[(1, 0, Plain), (2, 0, Plain)];
    const LABEL: &[(u64, u64, Inner)] = &[(1, 0, Plain), (2, 0, Plain), (3, 0, Plain), (4, 0, Plain)];
    const SAMPLE: &[(u64, u64, Inner)] = &[(1, 2, Plain), (2, 2, Plain), (3, 2, Of(LABEL))];
    const MAPPING: &[(u64, u64, Inner)] = &[(1, 0, Plain), (5, 0, Plain), (7, 0, Plain)];
    const LINE: &[(u64, u64, Inner)] = &[(1, 0, Plain)];
    const LOCATION: &[(u64, u64, Inner)] = &[(1, 0, Plain), (2, 0, Plain), (4, 2, Of(LINE))];
    const FUNCTION: &[(u64, u64, Inner)] = &[(1, 0, Plain), (2, 0, Plain), (3, 0, Plain)];
    const PROFILE: &[(u64, u64, Inner)] = &[
        (1, 2, Of(TYPE)),
        (2, 2, Of(SAMPLE)),
        (3, 2, Of(MAPPING)),
        (4, 2, Of(LOCATION)),
        (5, 2, Of(FUNCTION)),
        (6, 2, Plain),
        (9, 0, Plain),
        (10, 0, Plain),
        (11, 2, Of(TYPE)),
        (12, 0, Plain),
    ];
    let world = World::new();
    let bytes = written(Box::new(Pprof::new(world.context())));
    let mut raw = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut raw).unwrap();
    let mut seen = BTreeSet::new();
    check_wire(&raw, "Profile", PROFILE, &mut seen);
    assert_eq!(seen.len(), 10 + 2 + 3 + 4 + 3 + 3 + 1 + 3 + 2, "{seen:?}");
}
