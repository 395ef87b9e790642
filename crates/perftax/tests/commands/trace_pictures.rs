//! `perftax trace show`, `report --html` and `export` of a trace that was recorded here. Needs root (or CAP_PERFMON and tracefs), as
//! recording does.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use perftax_doc::{Place, TraceMessage, TraceReport};

use crate::common::{perftax, said, traced};

/// A trace of 6,000 messages, every five hundredth of them delayed (delays.c); recorded once.
fn trace() -> &'static Path {
    static TRACE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, trace) = TRACE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let program = traced("delays.c", "gcc", &[], folder.path());
        let trace = folder.path().join("slow.trace");
        let arguments = ["trace", "record", "-o", trace.to_str().unwrap(), "--", program.to_str().unwrap(), "6000"];
        let recorded = perftax(&arguments);
        assert_eq!(recorded.status.code(), Some(0), "{}", said(&recorded));
        (folder, trace)
    });
    trace
}

#[test]
fn a_message_is_shown_piece_by_piece() {
    let trace = trace().to_str().unwrap();
    let shown = perftax(&["trace", "show", trace, "2500", "--json", "-"]);
    assert_eq!(shown.status.code(), Some(0), "{}", said(&shown));
    let doc: TraceMessage = serde_json::from_slice(&shown.stdout).unwrap();
    let message = &doc.waterfall;
    assert_eq!((message.id, doc.occurrence, doc.occurrences, doc.messages), (2500, 1, 1, 6000));
    // The first delay of the second round: it sleeps for 3 ms.
    let latency_ns = message.latency_ns.unwrap();
    assert!(latency_ns >= 3_000_000 && doc.faster_share > 0.99 && doc.median_ns < 1_000_000, "{doc:?}");
    assert_eq!(message.shares_ns.values().sum::<u64>(), latency_ns);
    assert_eq!(message.pieces.iter().map(|piece| piece.ns).sum::<u64>(), latency_ns);
    assert!(message.pieces.windows(2).all(|two| two[0].from_ns + two[0].ns <= two[1].from_ns));
    for (cause, ns) in &message.shares_ns {
        let own = message.pieces.iter().filter(|piece| &piece.cause == cause);
        assert_eq!(own.map(|piece| piece.ns).sum::<u64>(), *ns, "{cause}");
    }
    // What it waited in is told by the system call that is there before it, whatever else its CPU did meanwhile.
    assert!(message.pieces.iter().any(|piece| piece.which.as_deref() == Some("clock_nanosleep")), "{:?}", message.pieces);
    let around: Vec<(Place, u64)> = doc.neighbours.iter().map(|other| (other.place, other.id)).collect();
    assert_eq!(around, [(Place::Before, 2499), (Place::After, 2501)]);
    let text = perftax(&["trace", "show", trace, "2500"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("clock_nanosleep") && text.contains("2501"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn an_id_that_is_not_there_is_said_with_those_that_are() {
    let trace = trace().to_str().unwrap();
    let code = |arguments: &[&str]| {
        let output = perftax(arguments);
        (output.status.code().unwrap(), said(&output))
    };
    let (status, error) = code(&["trace", "show", trace, "7000"]);
    assert!(status == 2 && error.contains("ID is 7000") && error.contains("from 1 to 6000, nearest: 6000"), "{error}");
    let (status, error) = code(&["trace", "show", trace, "3", "--occurrence", "2"]);
    assert!(status == 2 && error.contains("--occurrence is 2, needs 1 to 1"), "{error}");
    let (status, _) = code(&["trace", "show", trace, "seven"]);
    assert_eq!(status, 2);
    let (status, error) = code(&["trace", "export", trace, "--format", "csv", "-o", "/nonexistent/x.csv"]);
    assert!(status == 1 && error.contains("/nonexistent/x.csv"), "{error}");
    let (status, error) = code(&["trace", "export", trace, "--format", "xml", "-o", "x"]);
    assert!(status == 2 && error.contains("perfetto"), "{error}");
}

#[test]
#[cfg(feature = "html")]
fn pictures_are_one_page_beside_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("slow.html");
    let reported = perftax(&["trace", "report", trace().to_str().unwrap(), "--html", page.to_str().unwrap()]);
    assert_eq!(reported.status.code(), Some(0), "{}", said(&reported));
    assert!(String::from_utf8_lossy(&reported.stdout).contains("messages  6,000 by 1 thread"));
    let page = std::fs::read_to_string(page).unwrap();
    for wanted in
        ["\"count\":6000", "data-select=\"2500\"", "What kept CPUs from the program", "clock_nanosleep", "Latencies in order"]
    {
        assert!(page.contains(wanted), "{wanted} is not in the page");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn every_format_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let report = perftax(&["trace", "report", trace().to_str().unwrap(), "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&report.stdout).unwrap();
    let written = |format: &str| {
        let file = folder.path().join(format);
        let done = perftax(&["trace", "export", trace().to_str().unwrap(), "--format", format, "-o", file.to_str().unwrap()]);
        assert_eq!(done.status.code(), Some(0), "{}", said(&done));
        assert!(said(&done).contains("6,000 of 6,000 messages"), "{}", said(&done));
        std::fs::read(file).unwrap()
    };
    let csv = String::from_utf8(written("csv")).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert!(rows.len() == 6001 && rows.iter().all(|row| row.len() == rows[0].len()));
    let sums = rows[1..].iter().all(|row| {
        let number = |at: usize| row[at].parse::<u64>().unwrap();
        number(3) == (4..15).map(number).sum::<u64>()
    });
    assert!(sums, "times by cause do not add up to the latency");
    let samples = rows[1..].iter().map(|row| row[15].parse::<u64>().unwrap()).sum::<u64>();
    assert_eq!(samples, report.samples);
    let firefox: serde_json::Value = serde_json::from_slice(&written("firefox")).unwrap();
    let threads = firefox["threads"].as_array().unwrap();
    assert_eq!(threads.iter().map(|thread| thread["samples"]["length"].as_u64().unwrap()).sum::<u64>(), report.samples);
    assert!(threads[0]["name"].as_str().unwrap().contains("delays"));
    // Their contents are read back in perftax-trace's own tests.
    assert_eq!(written("pprof")[..2], [0x1f, 0x8b]);
    assert_eq!(written("perfetto")[0], 0x0a);
    // To stdout, too.
    let piped = perftax(&["trace", "export", trace().to_str().unwrap(), "--format", "csv", "-o", "-"]);
    assert_eq!(piped.stdout, csv.as_bytes());
}
