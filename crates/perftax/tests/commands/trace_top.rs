//! `perftax trace top` on this machine: a program that marks its messages, its metrics and its spans. Needs root, as the kernel's tracepoints do.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use perftax_doc::TraceTop;
use prost::Message as _;

use crate::common::{perftax, said, traced, turn};

/// A receiver of OTLP, by the classes that OpenTelemetry publishes: its address, and what it is sent.
fn receiver() -> (String, Receiver<ExportTraceServiceRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (out, requests) = channel();
    std::thread::spawn(move || {
        for mut asking in listener.incoming().flatten() {
            while let Some((head, body)) = question(&mut asking) {
                assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
                assert!(head.to_lowercase().contains("content-type: application/x-protobuf\r\n"), "{head}");
                if out.send(ExportTraceServiceRequest::decode(body.as_slice()).unwrap()).is_err() {
                    return;
                }
                let answer = ExportTraceServiceResponse::default().encode_to_vec();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\n\r\n",
                    answer.len()
                );
                asking.write_all(&[head.as_bytes(), &answer].concat()).unwrap();
            }
        }
    });
    (address, requests)
}

/// The head and the body of a request; none where there is no more.
fn question(asking: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut some = [0; 4096];
    loop {
        if let Some(end) = all.windows(4).position(|end| end == b"\r\n\r\n") {
            let head = String::from_utf8(all[..end + 2].to_vec()).unwrap();
            let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(String::from));
            let length: usize = length.unwrap().trim().parse().unwrap();
            if all.len() >= end + 4 + length {
                return Some((head, all[end + 4..end + 4 + length].to_vec()));
            }
        }
        match asking.read(&mut some).ok()? {
            0 => return None,
            n => all.extend_from_slice(&some[..n]),
        }
    }
}

/// What is answered at /metrics, as soon as there is any.
fn metrics(address: &str) -> String {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(60), "no metrics at {address}");
        std::thread::sleep(Duration::from_millis(100));
        let Ok(mut asking) = TcpStream::connect(address) else { continue };
        asking.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        let mut answer = String::new();
        asking.read_to_string(&mut answer).unwrap();
        if let Some((head, body)) = answer.split_once("\r\n\r\n").filter(|(head, _)| head.starts_with("HTTP/1.1 200")) {
            assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
            if body != "# EOF\n" {
                return body.into();
            }
        }
    }
}

/// Each sample is of the family above it, as OpenMetrics has it, and is there once; the page ends as it must.
fn check_page(page: &str) {
    assert!(page.ends_with("\n# EOF\n"), "{page}");
    let (mut families, mut samples) = (HashSet::new(), HashSet::new());
    let (mut family, mut kind) = ("", "");
    for line in page.lines().filter(|line| *line != "# EOF") {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            (family, kind) = typed.split_once(' ').unwrap();
            assert!(families.insert(family), "{family} is there twice");
        } else if let Some(unit) = line.strip_prefix("# UNIT ") {
            let (of, unit) = unit.split_once(' ').unwrap();
            assert!(of == family && family.ends_with(&format!("_{unit}")), "{line}");
        } else if let Some(help) = line.strip_prefix("# HELP ") {
            assert!(help.starts_with(&format!("{family} ")), "{line}");
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(samples.insert(name), "{name} is there twice");
            value.parse::<f64>().unwrap();
            let suffix =
                name.split('{').next().unwrap().strip_prefix(family).unwrap_or_else(|| panic!("{line} is not of {family}"));
            let allowed: &[&str] = match kind {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_count", "_sum"],
                "gauge" => &[""],
                other => panic!("{other}"),
            };
            assert!(allowed.contains(&suffix), "{line} of a {kind}");
        }
    }
}

fn value(span: &Span, key: &str) -> Option<Value> {
    span.attributes.iter().find(|one| one.key == key).and_then(|one| one.value.as_ref()?.value.clone())
}

fn text(span: &Span, key: &str) -> String {
    match value(span, key) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{key} is {other:?} of {span:?}"),
    }
}

fn number(span: &Span, key: &str) -> i64 {
    match value(span, key) {
        Some(Value::IntValue(number)) => number,
        other => panic!("{key} is {other:?} of {span:?}"),
    }
}

/// Nearest rank.
fn quantile(sorted: &[u64], q: f64) -> u64 {
    sorted[((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}

#[test]
fn slow_messages_are_told_while_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("followed.c", "gcc", &[], folder.path());
    let [truth, json] = ["truth.csv", "top.json"].map(|name| folder.path().join(name).to_str().unwrap().to_string());
    let (otlp, requests) = receiver();
    let metrics_at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let options = ["trace", "top", "--interval", "1", "--window", "8", "--slow", "p90", "--json", &json];
    let page;
    let output = {
        let _turn = turn();
        let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
        command.args(options).args(["--metrics", &metrics_at, "--otlp", &otlp, "--", program.to_str().unwrap(), "6", &truth]);
        let child = command.env("NO_COLOR", "1").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        page = metrics(&metrics_at);
        child.wait_with_output().unwrap()
    };
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    check_page(&page);
    assert!(page.contains("perftax_kind_messages_now{kind=\"GET /soon?n=?\"}"), "{page}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.matches("GET /late?n=?").count() >= 4, "{shown}");

    // All messages, as the program saw them; marks come while nothing else is recorded, too.
    let top: TraceTop = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let lines = std::fs::read_to_string(&truth).unwrap();
    let mut all: Vec<u64> = lines.lines().map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect();
    all.sort_unstable();
    let latency = top.latency.unwrap();
    assert_eq!((latency.messages, top.dropped, top.lost), (all.len() as u64, 0, Some(0)), "{top:?}");
    assert_eq!(top.histogram.last().unwrap().messages, latency.messages);
    for (q, ns) in [(0.5, latency.p50_ns), (0.99, latency.p99_ns)] {
        // The program reads its clock outside of its marks.
        let is = quantile(&all, q);
        assert!((0.97..1.005).contains(&(ns as f64 / is as f64)), "{q}: {ns} of {is}");
    }
    let now = top.now.unwrap();
    let late = now.kinds.iter().find(|kind| kind.kind == "GET /late?n=?").unwrap();
    assert!(late.slow > 0 && late.latency.p50_ns >= 4_950_000, "{late:?}");
    let blame = now.blame.unwrap();
    // Of the slow ones, a tenth, half wait for 5 ms.
    let blocked = blame.causes.iter().find(|cause| cause.cause == "blocked").unwrap();
    assert!(blocked.extra_ns.high >= 2e6 && blocked.which[0].name.contains("nanosleep"), "{blame:?}");

    // Spans of those that wait are in the traces that the program named.
    let requests: Vec<ExportTraceServiceRequest> = requests.try_iter().collect();
    let mut late = 0;
    let mut ids = HashSet::new();
    for span in requests.iter().flat_map(|request| &request.resource_spans[0].scope_spans[0].spans) {
        assert!(ids.insert(span.span_id.clone()) && span.span_id.len() == 8 && span.trace_id.len() == 16);
        assert!(span.end_time_unix_nano > span.start_time_unix_nano);
        if span.name.starts_with("GET /late?n=") {
            late += 1;
            let id: u64 = span.name.rsplit('=').next().unwrap().parse().unwrap();
            let trace = (u128::from(0x0123_4567_89ab_cdef_u64) << 64 | u128::from(id)).to_be_bytes();
            assert_eq!(
                (span.trace_id.as_slice(), &span.parent_span_id),
                (&trace[..], &0xfedc_ba98_7654_3210_u64.to_be_bytes().to_vec())
            );
            // Whatever else this machine does, they wait.
            assert!(number(span, "perftax.blocked_ns") >= 4_900_000 && !text(span, "perftax.cause").is_empty(), "{span:?}");
            assert!(text(span, "perftax.threads").starts_with("followed ("), "{span:?}");
            assert!(span.end_time_unix_nano - span.start_time_unix_nano >= 5_000_000);
        }
    }
    assert!(late >= 20, "{late} of {} spans: {:?}", ids.len(), top.sent);
    let sent = top.sent.unwrap();
    assert_eq!((sent.taken, sent.refused, sent.why), (ids.len() as u64, 0, None));
}

/// What cannot be had is refused before anything is started, and a receiver that is not there is said.
#[test]
fn what_cannot_be_followed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("followed.c", "gcc", &[], folder.path());
    let (program, truth) = (program.to_str().unwrap(), folder.path().join("truth.csv"));
    let words = ["--", program, "3", truth.to_str().unwrap()];
    for (options, needed) in [
        (["--interval", "0.1"], "--interval"),
        (["--window", "1000"], "--window"),
        (["--otlp", "https://here:1"], "--otlp"),
        (["--metrics", "nowhere"], "--metrics"),
    ] {
        let output = perftax(&[&["trace", "top"], &options[..], &words].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", said(&output));
        assert!(said(&output).contains(needed) && !Path::new(&truth).exists(), "{}", said(&output));
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = perftax(&[&["trace", "top", "--interval", "0.5", "--otlp", &nobody, "--json", "-"], &words[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let top: TraceTop = serde_json::from_slice(&output.stdout).unwrap();
    let sent = top.sent.unwrap();
    assert!(sent.taken == 0 && sent.refused > 0 && sent.why.unwrap().contains(&nobody), "{:?}", top.now);
}
