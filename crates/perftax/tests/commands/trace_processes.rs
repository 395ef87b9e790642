//! `perftax trace record` of several processes on this machine. Needs root, as the kernel's tracepoints do.

use std::path::Path;
use std::process::{Command, Stdio};

use perftax_doc::{SlowMessage, TraceMessage, TraceReport};

use crate::common::{Running, child, perftax, said, traced};

/// Each message that waits waits in the other process: that is what its time goes to, once, and between hops it is in the kernel or in a queue.
fn check(trace: &str, at_least: usize) {
    let reported = perftax(&["trace", "report", trace, "--slowest", "100000", "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&reported.stdout).unwrap_or_else(|_| panic!("{}", said(&reported)));
    assert_eq!((report.meta.dropped, report.meta.lost, report.meta.rings), (0, 0, 2));
    let late: Vec<_> = report.slowest.iter().filter(|slow| slow.label.as_deref() == Some("late")).collect();
    assert!(late.len() >= at_least, "{} of {}: {:?}", late.len(), report.messages, report.trouble);
    for slow in &late {
        assert_eq!(slow.shares_ns.values().sum::<u64>(), slow.latency_ns, "{slow:?}");
    }
    // Whatever else this machine does, most of them wait longest there.
    let waits = |slow: &SlowMessage| {
        let sleeps = slow.which.as_deref().is_some_and(|which| which.contains("nanosleep"));
        sleeps && slow.shares_ns["blocked"] >= 2_700_000
    };
    let named = late.iter().filter(|slow| waits(slow)).count();
    assert!(2 * named > late.len(), "{named} of {}: {late:?}", late.len());
    // Of one that was under way when the first process was listened to and the second one was not yet, part is missing.
    let id = late.iter().find(|slow| slow.begin_s > 0.05).unwrap_or(&late[0]).id.to_string();
    let shown = perftax(&["trace", "show", trace, &id, "--json", "-"]);
    let message: TraceMessage = serde_json::from_slice(&shown.stdout).unwrap_or_else(|_| panic!("{}", said(&shown)));
    let ways: Vec<bool> = message.hops.iter().map(|hop| hop.is_sent).collect();
    assert_eq!(ways, [true, false, true, false], "{:?}", message.hops);
    let [first, there, back, last] = &message.hops[..] else { panic!("{:?}", message.hops) };
    assert!(first.tid == last.tid && there.tid == back.tid && first.tid != there.tid, "{:?}", message.hops);
    for hop in [there, last] {
        let between = hop.between.unwrap();
        assert_eq!(between.ns, between.kernel_ns + between.queue_ns + between.unseen_ns);
        assert!(between.unseen_ns <= between.ns / 2, "{between:?}");
    }
    assert!(
        message.waterfall.pieces.iter().any(|piece| piece.tid == there.tid)
            && message.waterfall.pieces.iter().any(|piece| piece.tid == first.tid)
    );
    let text = perftax(&["trace", "show", trace, &id]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("after it was sent: "), "{}", String::from_utf8_lossy(&text.stdout));
}

fn relay(folder: &Path) -> (String, String) {
    let program = traced("relay.c", "gcc", &[], folder).to_str().unwrap().to_string();
    (program, folder.join("trace").to_str().unwrap().to_string())
}

#[test]
fn a_message_is_one_in_a_program_and_in_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let (program, trace) = relay(folder.path());
    let output = perftax(&["trace", "record", "--no-price-check", "-o", &trace, "--", &program, "300"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    check(&trace, 30);
}

#[test]
fn a_message_is_one_in_processes_that_run_already() {
    let folder = tempfile::tempdir().unwrap();
    let (program, trace) = relay(folder.path());
    let mut running = Running(Command::new(&program).arg("0").stdout(Stdio::null()).spawn().unwrap());
    running.until("has a child", |pid| child(pid).is_some());
    let both = format!("{},{}", running.pid(), child(running.pid()).unwrap());
    let output = perftax(&["trace", "record", "--no-price-check", "-o", &trace, "-p", &both, "--time", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    check(&trace, 20);
    assert!(running.0.try_wait().unwrap().is_none(), "it goes on");
    // Of one that is not there nothing is recorded at all.
    let gone = folder.path().join("gone").to_str().unwrap().to_string();
    let output = perftax(&["trace", "record", "-o", &gone, "-p", &format!("{},4194303", running.pid()), "--time", "1"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("4194303") && !Path::new(&gone).exists(), "{}", said(&output));
}

/// A group's processes are those of its folder; whoever marks among all of them is heard.
#[test]
fn groups_and_all_processes_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (program, trace) = relay(folder.path());
    let mut running = Running(Command::new(&program).arg("0").stdout(Stdio::null()).spawn().unwrap());
    running.until("has a child", |pid| child(pid).is_some());
    let all = ["trace", "record", "--no-price-check", "--no-kernel-noise", "-o", &trace, "-a", "--time", "1"];
    let output = perftax(&all);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let reported = perftax(&["trace", "report", &trace, "--slowest", "0", "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&reported.stdout).unwrap_or_else(|_| panic!("{}", said(&reported)));
    assert!(report.meta.rings >= 2 && report.messages >= 20, "{} messages of {} threads", report.messages, report.meta.rings);
    let output = perftax(&["trace", "record", "-o", "nothing", "--cgroup", "no/such/group"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("--cgroup") && said(&output).contains("no/such/group"), "{}", said(&output));
}
