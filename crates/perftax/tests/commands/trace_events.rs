//! `perftax trace record --also`, and what was worked on while messages waited for a thread. Needs root (or CAP_PERFMON and tracefs), but where it says otherwise.

use std::path::Path;
use std::process::Command;

use perftax_doc::{SlowMessage, TraceMessage, TraceReport};

use crate::common::{copy_executable, one_at_a_time, perftax, said, traced};

const MESSAGES: u64 = 2000;

/// The report of a recording of queue.c with these options, all of its messages in it.
fn recorded(folder: &Path, options: &[&str]) -> TraceReport {
    let program = traced("queue.c", "gcc", &["-pthread"], folder);
    let trace = folder.join("trace");
    let (program, trace) = (program.to_str().unwrap(), trace.to_str().unwrap());
    let count = MESSAGES.to_string();
    let recorded = perftax(&[&["trace", "record", "-m", "4096", "-o", trace], options, &["--", program, &count]].concat());
    assert_eq!(recorded.status.code(), Some(0), "{}", said(&recorded));
    let reported = perftax(&["trace", "report", trace, "--slowest", "100000", "--json", "-"]);
    assert_eq!(reported.status.code(), Some(0), "{}", said(&reported));
    serde_json::from_slice(&reported.stdout).unwrap()
}

/// What a message had of the event that was counted.
fn faults(slow: &SlowMessage) -> u64 {
    slow.events.iter().filter(|events| events.are_many).map(|events| events.samples).sum()
}

/// Those that wait behind a slow one are told what the worker was at, in the list, piece by piece, and in blame by kind.
fn waited(report: &TraceReport, trace: &str) {
    // The slow one at the head is over before the tenth behind it is begun, 1 ms later, at the earliest.
    let behind = |id: u64| report.slowest.iter().find(|slow| slow.id == id).unwrap();
    let (mut waited, mut right) = (0, 0);
    for head in (100..MESSAGES).step_by(100) {
        let slow = behind(head + 1);
        // The machine may have kept the first thread from beginning it until then.
        if slow.cause != "unattended" || slow.beyond_ns < 1_000_000 {
            continue;
        }
        waited += 1;
        let Some(meanwhile) = &slow.meanwhile else { continue };
        assert!(meanwhile.thread.starts_with("worker (") && meanwhile.ns <= slow.shares_ns["unattended"], "{slow:?}");
        right += usize::from(meanwhile.most == head && meanwhile.ns >= 1_000_000);
    }
    assert!(waited >= 3 && right * 10 >= waited * 8, "{right} of {waited}: {:?}", report.slowest);
    let unattended = report.blames[0].causes.iter().find(|cause| cause.cause == "unattended").unwrap();
    let kind = &unattended.by_whom[0];
    assert_eq!(kind.name, "meanwhile messages of thread worker");
    // Those behind the slow one wait 3 ms for it. Where slow ones waited for longer, the machine kept the worker from all of them, which is nobody's message.
    let kept_away = unattended.extra_ns.estimate > 3_500_000.0;
    assert!(kind.extra_ns.estimate > 0.0 || kept_away, "{unattended:?}");
    let id = report.slowest.iter().find(|slow| slow.meanwhile.is_some()).unwrap().id.to_string();
    let shown = perftax(&["trace", "show", trace, &id, "--json", "-"]);
    let shown: TraceMessage = serde_json::from_slice(&shown.stdout).unwrap();
    assert!(shown.waterfall.pieces.iter().any(|piece| piece.meanwhile.is_some()), "{shown:?}");
    let text = String::from_utf8(perftax(&["trace", "show", trace, &id]).stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.windows(2).any(|two| two == ["meanwhile,", "for"]), "{text}");
}

#[test]
fn events_are_counted_by_message_and_queues_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let report = recorded(folder.path(), &["--also", "page-faults:u", "--also-period", "1"]);
    let counted = &report.meta.counted[0];
    assert_eq!((counted.name.as_str(), counted.period, report.meta.lost), ("page-faults:u", 1, 0));
    // Forty pages each, every fiftieth message; nobody else touches anything new while it works.
    for slow in &report.slowest {
        let is_planted = slow.id % 50 == 25;
        assert_eq!(faults(slow), if is_planted { 40 } else { 0 }, "{slow:?}");
        if is_planted {
            let events = &slow.events[0];
            // Two threads come to it, and may be moved.
            let (low, high) = events.between_events;
            assert!((20..=38).contains(&low) && high >= 42, "{events:?}");
            let place = [events.function.as_deref(), events.object.as_deref()];
            assert_eq!(place, [Some("touch [queue]"), Some("table [queue]")], "{events:?}");
        }
    }
    let trace = folder.path().join("trace");
    waited(&report, trace.to_str().unwrap());
    // Of the slow messages alone the same is known.
    let kept = folder.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let report = recorded(&kept, &["--also", "page-faults:u", "--also-period", "1", "--keep-slow", "p90"]);
    let planted: Vec<&SlowMessage> = report.slowest.iter().filter(|slow| slow.id % 50 == 25).collect();
    assert!(planted.iter().all(|slow| faults(slow) == 40 && slow.events[0].usual_events < 10.0), "{planted:?}");
    assert!(!report.blames[0].events.is_empty(), "{:?}", report.blames);
}

/// Page faults in the program's own mode are everybody's to count.
#[test]
fn a_plain_user_counts_events_of_the_own_mode() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("queue.c", "gcc", &["-pthread"], folder.path());
    let own = folder.path().join("perftax");
    copy_executable(Path::new(env!("CARGO_BIN_EXE_perftax")), &own);
    let script = format!(
        "cd {0} && {1} trace record -o plain --also page-faults:u --also-period 1 -- {2} 500 && {1} trace report plain --slowest 500 --json -",
        folder.path().display(),
        own.display(),
        program.display()
    );
    let mut open = Command::new("chmod");
    assert!(open.arg("777").arg(folder.path()).status().unwrap().success());
    let mut user = Command::new("setpriv");
    user.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "sh", "-c", &script]);
    let output = one_at_a_time(|| user.env("HOME", folder.path()).output().unwrap());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report: TraceReport = serde_json::from_slice(&output.stdout).unwrap();
    let planted: Vec<u64> = report.slowest.iter().filter(|slow| slow.id % 50 == 25).map(faults).collect();
    assert_eq!(planted, [40; 10]);
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let refused = |options: &[&str], code: i32, why: &str| {
        let output = perftax(&[&["trace", "record", "-o", "/tmp/perftax-not-made"], options, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(code), "{options:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{options:?}: {}", said(&output));
        assert!(!Path::new("/tmp/perftax-not-made").exists());
    };
    refused(&["--also", "cpu-clock"], 2, "an event that something makes");
    refused(&["--also", "nonsense"], 3, "unknown event 'nonsense'");
    refused(&["--also", "page-faults", "--also-period", "0"], 2, "1 to 2^48");
    refused(&["--also-period", "7"], 2, "--also");
    let nine: Vec<&str> = ["--also", "page-faults"].repeat(9);
    refused(&nine, 2, "8 events at most");
}
