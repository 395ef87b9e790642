//! `perftax trace join`: traces of two processes as if they were two hosts'. Needs root, as the kernel's tracepoints do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use prost::Message as _;

use perftax_doc::{TraceJoin, TraceMeta};
use perftax_pmu::sys::{Discipline, HostClock};
use perftax_trace::export::{otlp::schema as otlp, perfetto_schema::Trace};
use perftax_trace::store::{read_clocks, write_clocks, write_relations};
use perftax_trace::{Hop, Relation, Store};

use crate::common::{Running, child, one_at_a_time, perftax, said, traced};

fn joined(traces: &[&Path]) -> (TraceJoin, String) {
    let traces: Vec<&str> = traces.iter().map(|trace| trace.to_str().unwrap()).collect();
    let [json, text] = [&["--json", "-"][..], &[]].map(|options| {
        let output = perftax(&[&["trace", "join"][..], &traces, options].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    });
    (serde_json::from_str(&json).unwrap(), text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A host whose raw clock is ahead and faster, and whose other clock is wrong, though its kernel says that it is right to 2 ms.
struct Skew {
    ahead_ns: i64,
    faster: f64,
    wrong_ns: i64,
}

impl Skew {
    fn raw(&self, ns: u64, from_ns: u64) -> u64 {
        let since = ns as f64 - from_ns as f64;
        ns.wrapping_add_signed(self.ahead_ns + (since * self.faster).round() as i64)
    }

    /// Rewrites what a trace says of its host's clocks.
    fn apply(&self, trace: &Path, boot_id: &str) {
        let store = Store::open(trace).unwrap();
        let clocks = read_clocks(trace).unwrap();
        let from_ns = clocks[0].raw_ns;
        let kept_right = Discipline { tai_offset_s: 37, max_error_ns: 2_000_000, ..Discipline::default() };
        let clock = |clock: &HostClock| HostClock {
            raw_ns: self.raw(clock.raw_ns, from_ns),
            realtime_ns: clock.realtime_ns.wrapping_add_signed(self.wrong_ns),
            discipline: Some(kept_right),
            ..*clock
        };
        write_clocks(trace, &clocks.iter().map(clock).collect::<Vec<_>>()).unwrap();
        let hops: Vec<Hop> =
            store.relations.all_hops().map(|hop| Hop { time_ns: self.raw(hop.time_ns, from_ns), ..*hop }).collect();
        let relations: BTreeMap<u64, Relation> = hops.iter().map(|hop| (hop.id, store.relations.of(hop.id))).collect();
        write_relations(trace, &relations, &hops).unwrap();
        let path = trace.join("meta.json");
        let mut meta: TraceMeta = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        meta.host.as_mut().unwrap().boot_id = boot_id.into();
        std::fs::write(&path, serde_json::to_string(&meta).unwrap()).unwrap();
    }
}

/// One request that is asked for, in all forms.
fn exported(traces: &[PathBuf; 2], identity: &str) {
    let folder = tempfile::tempdir().unwrap();
    let [page, perfetto, otlp, json] = ["page", "perfetto", "otlp", "json"].map(|name| folder.path().join(name));
    let named = ["one", "two"].map(|name| format!("{name}={}", traces[usize::from(name == "two")].display()));
    let output = Command::new(env!("CARGO_BIN_EXE_perftax"))
        .args(["trace", "join", &named[0], &named[1], "--request", identity, "--waterfalls", "0", "--html"])
        .arg(&page)
        .arg("--perfetto")
        .arg(&perfetto)
        .arg("--otlp")
        .arg(&otlp)
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let document: TraceJoin = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let waterfalls = document.requests.unwrap().waterfalls;
    assert_eq!((waterfalls.len(), waterfalls[0].request.identity.as_deref()), (1, Some(identity)));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(identity) && page.contains("part by part") && !page.contains("src=\"http"));
    let trace = Trace::decode(std::fs::read(perfetto).unwrap().as_slice()).unwrap();
    let processes = trace.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref()?.process.as_ref());
    assert_eq!(processes.map(|process| process.process_name().to_string()).collect::<Vec<_>>(), ["one", "two"]);
    let kinds = trace.packet.iter().filter_map(|packet| packet.track_event.as_ref()?.r#type);
    assert_eq!(kinds.clone().filter(|kind| *kind == 1).count(), kinds.filter(|kind| *kind == 2).count());
    let spans = otlp::ExportTraceServiceRequest::decode(std::fs::read(otlp).unwrap().as_slice()).unwrap();
    let all: Vec<_> = spans.resource_spans.iter().flat_map(|of| &of.scope_spans).flat_map(|of| &of.spans).collect();
    assert_eq!((spans.resource_spans.len(), all.len()), (2, 2));
    assert!(all[1].parent_span_id == all[0].span_id && all[0].trace_id == all[1].trace_id && all[1].kind == 2, "{all:?}");
    for (wrong, needed) in [(["--request", "4711471147"], "a request of these traces"), (["--entry", "x"], "begin in: front")] {
        let refused =
            perftax(&[&["trace", "join", traces[0].to_str().unwrap(), traces[1].to_str().unwrap()], &wrong[..]].concat());
        assert!(refused.status.code() == Some(2) && said(&refused).contains(needed), "{}", said(&refused));
    }
    let refused = perftax(&["trace", "join", traces[0].to_str().unwrap(), traces[0].to_str().unwrap()]);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("each trace once"), "{}", said(&refused));
}

#[test]
fn clocks_of_two_hosts_are_aligned_by_what_passes_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("relay.c", "gcc", &[], folder.path());
    let mut running = Running(Command::new(&program).arg("0").stdout(Stdio::null()).spawn().unwrap());
    running.until("has a child", |pid| child(pid).is_some());
    let traces = ["front", "back"].map(|name| folder.path().join(name));
    let pids = [running.pid().to_string(), child(running.pid()).unwrap()];
    let recorded = one_at_a_time(|| {
        let both = [0, 1].map(|at| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
            command.args(["trace", "record", "--no-price-check", "--time", "2", "-o"]).arg(&traces[at]);
            command.args(["-p", &pids[at]]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        both.map(|child| child.wait_with_output().unwrap())
    });
    recorded.iter().for_each(|output| assert_eq!(output.status.code(), Some(0), "{}", said(output)));

    // On one host: one clock, and no message contradicts that.
    let (same, text) = joined(&[&traces[0], &traces[1]]);
    assert!(same.traces.iter().all(|trace| trace.named > 50 && trace.clocks >= 2 && trace.host.is_some()), "{same:?}");
    let pair = &same.pairs[0];
    let causal = pair.causal.unwrap();
    assert!(pair.is_one_host && pair.crossings.iter().all(|n| *n > 50), "{pair:?}");
    assert!(causal.low_s <= 0.0 && 0.0 <= causal.high_s && causal.width_ns < 50_000_000, "{causal:?}");
    assert!(text.contains("0: one clock") && same.lying.is_empty(), "{text}");

    // Each tenth message waits for 3 ms in the other process.
    let requests = same.requests.as_ref().unwrap();
    assert!(requests.entry == "front" && requests.latency.messages > 50 && requests.repeated == 0, "{requests:?}");
    let blame = requests.blame.as_ref().unwrap();
    let sum: f64 = blame.charges.iter().map(|of| of.extra_ns.estimate).sum();
    assert!((sum - blame.extra_ns.estimate).abs() < 1.0 && requests.slow.len() as u64 == blame.requests, "{blame:?}");
    let waterfall = &requests.waterfalls[0];
    let all: f64 = waterfall.charges.iter().map(|(_, ns)| ns).sum();
    assert!((all - waterfall.request.latency_ns as f64).abs() < 1.0, "{waterfall:?}");
    let parts: Vec<(&str, usize)> = waterfall.parts.iter().map(|part| (part.service.as_str(), part.depth)).collect();
    assert_eq!(parts, [("front", 0), ("back", 1)]);
    let hop = waterfall.parts[1].hop.unwrap();
    assert!(hop.away_ns == hop.ways_ns + waterfall.parts[1].ns && hop.there_ns.0 <= hop.there_ns.1, "{hop:?}");
    let waited = requests.slow.iter().filter(|request| {
        let is_late = request.label.as_deref() == Some("late") && request.latency_ns >= 3_000_000;
        is_late && request.foremost.service == "back" && request.foremost.cause == "blocked"
    });
    assert!(waited.count() > 0 && text.contains("begin in front") && text.contains("clock_nanosleep"), "{text} {requests:?}");
    exported(&traces, waterfall.request.identity.as_deref().unwrap());

    // On two, of which the second one's clocks are skewed.
    let skew = Skew { ahead_ns: -3_200_000_000, faster: 40e-6, wrong_ns: 70_000_000 };
    Skew { ahead_ns: 0, faster: 0.0, wrong_ns: 0 }.apply(&traces[0], "a");
    let from_ns = read_clocks(&traces[1]).unwrap()[0].raw_ns;
    skew.apply(&traces[1], "b");
    let (two, text) = joined(&[&traces[0], &traces[1]]);
    let pair = &two.pairs[0];
    let causal = pair.causal.unwrap();
    let truth_s = (skew.raw(causal.time_ns, from_ns) as f64 - causal.time_ns as f64) * 1e-9;
    assert!(!pair.is_one_host && causal.low_s <= truth_s && truth_s <= causal.high_s, "{truth_s} {causal:?}");
    assert!(causal.shortest_round_trip_ns > 0 && causal.drift_ppm.0 <= 40.0 && causal.drift_ppm.1 >= 40.0, "{causal:?}");
    // Those that wait for 3 ms wait there, whatever the clocks show.
    let trips = &pair.round_trips[0];
    assert!(pair.round_trips.len() == 1 && trips.from_to == [0, 1] && trips.away.messages > 50, "{trips:?}");
    let waits = trips.slowest.iter().filter(|trip| trip.away_ns >= 3_000_000 && trip.there_ns >= 2_900_000).count();
    assert!(waits > 0 && trips.slowest.iter().all(|trip| trip.way_there_ns.0 <= trip.way_there_ns.1), "{trips:?}");
    assert!(text.contains("away longest"), "{text}");
    // Both say that they are right: one of them is not, and nobody tells which.
    let named: Vec<(usize, &str, Option<usize>)> =
        two.lying.iter().map(|lying| (lying.trace, lying.clock.as_str(), lying.or_trace)).collect();
    assert_eq!(named, [(0, "CLOCK_REALTIME", Some(1)), (0, "CLOCK_TAI", Some(1))], "{two:?}");
    assert!(text.contains("CLOCK_REALTIME, or ") && text.contains("is wrong: "), "{text}");

    let refused = perftax(&["trace", "join", traces[0].to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
}
