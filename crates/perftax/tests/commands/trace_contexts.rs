//! `perftax trace --tag otel` on this machine: messages by the contexts that threads publish, in every way in which a variable of each thread's own is got at. Needs root, for BPF.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use perftax_doc::{TraceMessage, TraceReport};

use crate::common::{perftax, said, traced};

/// Messages of each of two threads.
const MESSAGES: u64 = 200;

/// The program's writer as a library.
fn library(options: &[&str], folder: &Path) -> PathBuf {
    let (source, library) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("../perftax-trace/tests/programs/contexts.c"), folder.join("libcontexts.so"));
    let mut command = Command::new("gcc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-DLIBRARY"]).args(options);
    assert!(command.args(["-o".as_ref(), library.as_os_str(), source.as_os_str()]).status().unwrap().success());
    library
}

/// Records a program, in a virtual machine, too: where its hypervisor loses the reason of a debug exception, and the program dies of it, once more.
fn recorded(options: &[&str], trace: &str, program: &[&str]) -> Output {
    const DIED_OF_TRAP: i32 = 128 + 5;
    for _ in 0..ATTEMPTS {
        let record = ["trace", "record", "--tag", "otel", "--trap-in-guest", "-o", trace];
        let output = perftax(&[&record[..], options, &["--"], program].concat());
        if output.status.code() != Some(DIED_OF_TRAP) {
            assert_eq!(output.status.code(), Some(0), "{}", said(&output));
            return output;
        }
        let text = perftax(&["trace", "report", trace]);
        assert!(String::from_utf8_lossy(&text.stdout).contains("died of SIGTRAP"), "{}", said(&output));
        std::fs::remove_dir_all(trace).unwrap();
    }
    panic!("it died of SIGTRAP {ATTEMPTS} times");
}

/// One exception in some 400,000 was lost; a run has some 20,000 at most.
const ATTEMPTS: usize = 6;

/// What the program wrote down of a message, ns.
struct Truth {
    begin_ns: [u64; 2],
    end_ns: [u64; 2],
}

fn truth(file: &Path) -> BTreeMap<String, Truth> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let ns = |at: usize| fields[at].parse().unwrap();
            (fields[0].to_string(), Truth { begin_ns: [ns(1), ns(2)], end_ns: [ns(3), ns(4)] })
        })
        .collect()
}

/// Each message that the program had, and no other, begins and ends while its context is attached and detached: the kernel reads it at the very write.
#[test]
fn contexts_are_read_when_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-rdynamic", "-ldl"];
    let program = traced("contexts.c", "gcc", &options, folder.path());
    let (program, file) = (program.to_str().unwrap(), folder.path().join("truth.csv"));
    let messages = MESSAGES.to_string();
    let ways: [(&str, Option<&[&str]>); 4] = [
        ("swap", None),
        ("place", Some(&["-mtls-dialect=gnu2"])),
        ("swap", Some(&["-mtls-dialect=gnu"])),
        ("place", Some(&["-ftls-model=initial-exec"])),
    ];
    let (mut all, mut right) = (0, 0);
    for (how, built) in ways {
        let trace = folder.path().join("trace");
        let library = built.map(|options| library(options, folder.path()));
        let mut command = vec![program, "2", &messages, how, file.to_str().unwrap()];
        command.extend(library.as_ref().map(|library| library.to_str().unwrap()));
        let output = recorded(&["--no-price-check"], trace.to_str().unwrap(), &command);
        let reported = perftax(&["trace", "report", trace.to_str().unwrap(), "--slowest", "10000", "--json", "-"]);
        let report: TraceReport = serde_json::from_slice(&reported.stdout).unwrap();
        let sight = report.meta.contexts.clone().unwrap();
        assert_eq!((sight.unwatched, sight.why, sight.resumed, report.meta.lost), (0, None, 0, 0), "{how} {built:?}");
        let truth = truth(&file);
        assert_eq!((sight.begun, sight.ended), (2 * MESSAGES, 2 * MESSAGES), "{how} {built:?}: {}", said(&output));
        // What began when, of which trace: by the trace's own tables.
        let csv = perftax(&["trace", "export", trace.to_str().unwrap(), "--format", "csv", "--all", "-o", "-"]);
        let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
        let mut lines = csv.lines();
        let names: Vec<&str> = lines.next().unwrap().split(',').collect();
        let at = |name: &str| names.iter().position(|other| *other == name).unwrap();
        let told: BTreeMap<String, (u64, u64, u64)> = lines
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                let ns = |name: &str| fields[at(name)].parse::<u64>().unwrap();
                (fields[at("trace")].to_string(), (ns("id"), ns("begin_ns"), ns("begin_ns") + ns("latency_ns")))
            })
            .collect();
        for (trace, truth) in &truth {
            // With the span that it began with.
            let told = told.get(&format!("{trace}-0000000000000001"));
            all += 1;
            right += u64::from(told.is_some_and(|(_, begin_ns, end_ns)| {
                (truth.begin_ns[0]..=truth.begin_ns[1]).contains(begin_ns) && (truth.end_ns[0]..=truth.end_ns[1]).contains(end_ns)
            }));
        }
        let one = truth.keys().nth(7).unwrap();
        let shown = perftax(&["trace", "show", trace.to_str().unwrap(), one, "--json", "-"]);
        let message: TraceMessage = serde_json::from_slice(&shown.stdout).unwrap_or_else(|_| panic!("{}", said(&shown)));
        let identity = format!("{one}-0000000000000001");
        assert_eq!((message.waterfall.id, message.identity), (told[&identity].0, Some(identity)));
        std::fs::remove_dir_all(trace).unwrap();
    }
    // A thread that is preempted between its clock and its write is right all the same; what is not is lost.
    assert!(right * 1000 >= all * 999, "{right} of {all}");
}

/// Who changes its record in place does not write its variable again: after a time in which nothing was recorded it is read.
#[test]
fn contexts_are_known_again_after_a_check_of_the_price() {
    let folder = tempfile::tempdir().unwrap();
    let program = traced("contexts.c", "gcc", &["-rdynamic", "-ldl"], folder.path());
    let (trace, file) = (folder.path().join("trace"), folder.path().join("truth.csv"));
    let (trace, file) = (trace.to_str().unwrap(), file.to_str().unwrap());
    let messages = 3000u64;
    let program = ["env", "CONTEXTS_SLEEP_US=2000", program.to_str().unwrap(), "1", &messages.to_string(), "place", file];
    recorded(&[], trace, &program);
    let reported = perftax(&["trace", "report", trace, "--json", "-"]);
    let report: TraceReport = serde_json::from_slice(&reported.stdout).unwrap();
    // A check comes in the third or fourth second, and takes one at most: what is written meanwhile is missed, and nothing after it.
    let begun = report.meta.contexts.unwrap().begun;
    assert!(begun + 20 < messages, "{begun} of {messages}: there was no check in {} s", report.meta.elapsed_s);
    assert!(10 * begun > 7 * messages, "{begun} of {messages} in {} s", report.meta.elapsed_s);
}

#[test]
fn who_publishes_nothing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let trace = trace.to_str().unwrap();
    recorded(&[], trace, &["sleep", "0.3"]);
    let text = perftax(&["trace", "report", trace]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("no thread published a context (otel_thread_ctx_v1)"), "{text}");
    assert!(text.contains("DD_TRACE_OTEL_CTX_ENABLED=true"), "{text}");
}

/// In a virtual machine the program may die of it: nobody does that to it without having said so.
#[test]
fn in_a_guest_it_is_asked_for() {
    let is_guest = std::fs::read_to_string("/proc/cpuinfo").unwrap().contains(" hypervisor");
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let output = perftax(&["trace", "record", "--tag", "otel", "-o", trace.to_str().unwrap(), "--", "true"]);
    let refused = (output.status.code(), said(&output).contains("--trap-in-guest"));
    assert_eq!(refused, if is_guest { (Some(3), true) } else { (Some(0), false) }, "{}", said(&output));
}
