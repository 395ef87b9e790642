//! `perftax trace --tag socket:…` on this machine: messages told apart by a server's system calls. Needs root (or CAP_PERFMON and tracefs), as the kernel's tracepoints do.

use std::net::TcpListener;

use perftax_doc::{SocketSight, TraceMessage, TraceReport};

use crate::common::{perftax, said, traced};

/// A port that nobody listens at.
fn port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

fn recorded(options: &[&str], words: &[&str]) -> (TraceReport, SocketSight, String) {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("sockets.c", "gcc", &[], folder.path());
    let trace = folder.path().join("trace").to_str().unwrap().to_string();
    let record = [&["trace", "record", "-m", "4096", "-o", &trace], options, &["--", program.to_str().unwrap()], words].concat();
    let output = perftax(&record);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = perftax(&["trace", "report", &trace, "--slowest", "100", "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report.meta.lost, 0);
    let sight = report.meta.sockets.unwrap();
    let text = perftax(&["trace", "report", &trace]);
    (report, sight, String::from_utf8_lossy(&text.stdout).into_owned())
}

/// Of each connection each request is a message, by the port or by all; what the server waited in is named. Also where nothing else of the kernel's is recorded.
#[test]
fn requests_are_told_by_their_connections() {
    for alone in [false, true] {
        let port = port();
        let tag = format!("socket:{port}");
        let options = [&["--tag", &tag][..], if alone { &["--no-kernel-noise"] } else { &[] }].concat();
        let (report, sight, _) = recorded(&options, &[&port, "4", "500"]);
        let wanted = SocketSight {
            port: port.parse().ok(),
            connections: 4,
            begun: 2000,
            answered: 2000,
            unanswered: 0,
            unasked: 0,
            refused: 0,
            rings: 0,
        };
        assert_eq!(sight, wanted);
        assert_eq!((report.messages, report.trouble.len()), (2000, 0), "{:?}", report.trouble);
        // Forty are delayed by 3 ms each.
        let delayed = report.slowest.iter().filter(|slow| slow.latency_ns >= 3_000_000);
        assert!(delayed.count() >= 40, "{:?}", report.slowest);
        let blocked = report.slowest.iter().filter(|slow| slow.shares_ns.get("blocked").is_some_and(|ns| *ns >= 2_900_000));
        assert_eq!(blocked.count(), if alone { 0 } else { 40 }, "{:?}", report.slowest);
        if !alone {
            let mut named = report.slowest.iter().filter(|slow| slow.cause == "blocked" && slow.latency_ns >= 3_000_000);
            let is_named =
                |slow: &perftax_doc::SlowMessage| slow.which.as_deref().is_some_and(|which| which.contains("nanosleep"));
            assert!(named.all(is_named), "{:?}", report.slowest);
        }
    }
}

/// Eight at a time, which the server reads one by one: each is a message from its own read on.
#[test]
fn what_waits_in_the_kernel_is_told_apart() {
    let port = port();
    let (report, sight, _) = recorded(&["--tag", "socket"], &[&port, "2", "400", "8"]);
    assert_eq!((sight.connections, sight.begun, sight.answered, sight.refused), (2, 800, 800, 0));
    assert_eq!((report.messages, report.trouble.len()), (800, 0), "{:?}", report.trouble);
}

#[test]
fn what_is_asked_of_nobody_is_said() {
    let (used, other) = (port(), port());
    let (report, sight, said) = recorded(&["--tag", &format!("socket:{other}")], &[&used, "2", "100"]);
    assert_eq!((report.messages, sight.connections, sight.begun), (0, 0, 0));
    assert!(said.contains("no request was read") && said.contains("--tag socket:PORT"), "{said}");
    let output = perftax(&["trace", "record", "--tag", "socket:http", "-o", "/nowhere", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
}

/// A server that asks another one for each request: what is read there is part of what was read here, and is where its time goes.
#[test]
fn what_is_passed_on_is_part_of_what_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("passed.c", "gcc", &[], folder.path());
    let (port, trace) = (port(), folder.path().join("trace").to_str().unwrap().to_string());
    let record =
        ["trace", "record", "--no-price-check", "--tag", "socket", "-o", &trace, "--", program.to_str().unwrap(), &port, "1500"];
    let output = perftax(&record);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let reported = perftax(&["trace", "report", &trace, "--slowest", "1000", "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&reported.stdout).unwrap();
    assert_eq!((report.messages, report.meta.lost, report.trouble.len()), (3000, 0, 0), "{:?}", report.trouble);
    // Those of both by turns, as they began: whoever asks is always slower than whom he asks, and the slowest may all be his.
    let mut slow: Vec<_> = report.slowest.iter().filter(|slow| slow.latency_ns >= 3_000_000).collect();
    slow.sort_by(|a, b| a.begin_s.total_cmp(&b.begin_s));
    let slow = slow.split_off(slow.len().saturating_sub(60));
    assert!(slow.len() >= 30, "{} of 3000", report.slowest.len());
    let (mut asked, mut answered, mut alone) = (0, 0, 0);
    for slow in slow {
        let shown = perftax(&["trace", "show", &trace, &slow.id.to_string(), "--json", "-"]);
        let message: TraceMessage = serde_json::from_slice(&shown.stdout).unwrap();
        match (&message.parent, &message.parts[..]) {
            (None, [part]) => {
                asked += 1;
                assert!(part.latency_ns.unwrap() <= slow.latency_ns && part.thread.is_some(), "{part:?} of {slow:?}");
                let text = perftax(&["trace", "show", &trace, &slow.id.to_string()]);
                assert!(String::from_utf8_lossy(&text.stdout).contains(&format!("{} (", part.id)), "{}", said(&text));
            }
            (Some(parent), []) => {
                answered += 1;
                assert!(parent.latency_ns.unwrap() >= slow.latency_ns, "{parent:?} of {slow:?}");
                let [sent, received] = &message.hops[..] else { panic!("{:?}", message.hops) };
                assert!(sent.is_sent && sent.from_ns < 0 && !received.is_sent && sent.tid != received.tid, "{:?}", message.hops);
                let between = received.between.unwrap();
                assert_eq!(between.ns as i64, received.from_ns - sent.from_ns);
                assert!(between.unseen_ns <= between.ns / 2, "{between:?}");
            }
            // Of those that came before its connection's other end was known nothing is said.
            (None, []) => alone += 1,
            other => panic!("{other:?} of {slow:?}"),
        }
    }
    assert!(asked > 0 && answered > 0 && asked + answered > alone, "{asked}, {answered}, {alone} alone");
}
