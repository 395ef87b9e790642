//! Programs that do not end.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use perftax_doc::{Plan, Prediction};
use perftax_pmu::sys::process_cpu_ns;

use crate::common::{Running, perftax, said};

/// Listens, and waits for somebody who never comes.
const SERVER: &str =
    "use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die; $s->accept";

/// Predicts with somebody else's costs: nothing is calibrated here.
fn predict(options: &[&str], program: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
    command.args(["predict", "--machine", "broadwell", "-e", "UOPS_RETIRED.ALL", "--count-of", "1e8", "-r", "2"]).args(options);
    command.args(["--", "perl", "-e", program]).env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap()
}

#[test]
fn one_that_waits_for_work_gets_an_answer_and_may_be_measured_for_a_time() {
    let began = Instant::now();
    let refused = predict(&[], SERVER);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("--for 30s") && said.contains("wait for work"), "{said}");
    // Nine seconds where nobody else is on the machine.
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());

    let measured = predict(&["--for", "400ms", "--json", "-"], SERVER);
    let said = String::from_utf8_lossy(&measured.stderr);
    assert_eq!(measured.status.code(), Some(0), "{said}");
    let prediction: Prediction = serde_json::from_slice(&measured.stdout).unwrap();
    let elapsed_s = prediction.workload.elapsed_s.estimate;
    // It is the time that was asked for, not what the machine made of it.
    assert!((0.4..1.0).contains(&elapsed_s), "{elapsed_s}");
    assert!(prediction.workload.runs.len() == 2, "{:?}", prediction.workload.runs);
}

#[test]
fn a_time_that_is_none_is_refused() {
    for wrong in ["30", "forever", "0s"] {
        let refused = predict(&["--for", wrong], SERVER);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(wrong), "{said}");
    }
    let simulated = Command::new(env!("CARGO_BIN_EXE_perftax")).args(["sim", "--for", "1s", "--", "true"]).output().unwrap();
    let said = String::from_utf8_lossy(&simulated.stderr);
    assert!(simulated.status.code() == Some(2) && said.contains("--for"), "{said}");
}

/// A server is started before its load and ended after it, in each run.
#[test]
fn a_server_is_measured_under_its_load() {
    let folder = tempfile::tempdir().unwrap();
    let [port, served] = ["port", "served"].map(|name| folder.path().join(name).display().to_string());
    // It says on which port it listens in a file that appears whole, and answers one line each time.
    let server = format!(
        "use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 9, LocalAddr => '127.0.0.1') or die; \
         open my $f, '>', '{port}.new'; print $f $s->sockport; close $f; rename '{port}.new', '{port}'; \
         while (my $c = $s->accept) {{ my $i = 0; $i++ while $i < 3e5; print $c \"done\\n\"; close $c }}"
    );
    let load = format!(
        "rm -f '{port}.seen'; perl -MIO::Socket::INET -e 'open my $f, \"<\", \"{port}\"; my $p = <$f>; for (1..20) {{ \
         my $c = IO::Socket::INET->new(PeerAddr => \"127.0.0.1:$p\") or exit 7; <$c> eq \"done\\n\" or exit 8 }}' && rm '{port}' && echo x >>'{served}'"
    );
    let measured = predict(&["--load", &load, "--ready", &port, "--json", "-"], &server);
    let said = String::from_utf8_lossy(&measured.stderr);
    assert_eq!(measured.status.code(), Some(0), "{said}");
    let prediction: Prediction = serde_json::from_slice(&measured.stdout).unwrap();
    assert!(prediction.workload.cpu_s.estimate > 0.02, "{:?}", prediction.workload.cpu_s);
    // The one that looks at tasks, the one that counts, and two unmonitored ones.
    assert_eq!(std::fs::read_to_string(&served).unwrap().lines().count(), 4);

    let failed = predict(&["--load", "echo no such door >&2; exit 5"], SERVER);
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(failed.status.code() == Some(1) && said.contains("exited with code 5") && said.contains("no such door"), "{said}");
    for refused in [&["--load", "true", "--for", "1s"][..], &["--ready", "80"], &["--load", "true", "--ready", "listening ("]] {
        let output = predict(refused, SERVER);
        assert_eq!(output.status.code(), Some(2), "{refused:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Works for a third of its time until it is killed, with a thread and a process that it had created before anybody looked; says when it has.
const WORKER: &str = "use threads; use Time::HiRes 'sleep'; my $me = $$; $| = 1; threads->create(sub { sleep 0.01 while 1 })->detach; \
     unless (fork) { sleep 1 while getppid == $me; exit } print \"ready\\n\"; \
     while (1) { my $i = 0; $i++ while $i < 2e5; sleep 0.02 }";

fn worker() -> Running {
    let mut worker = Command::new("perl").args(["-e", WORKER]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(worker.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Running(worker)
}

/// Its first thread ends, and another one works.
const HEADLESS: &str = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n\
     static int parent;\n\
     static void *work(void *none) { (void)none; for (volatile long i = 0; getppid() == parent; i++) if (i == 1000000) puts(\"ready\"), fflush(stdout); return 0; }\n\
     int main(void) { pthread_t other; parent = getppid(); alarm(600); pthread_create(&other, 0, work, 0); pthread_exit(0); }\n";

/// One whose first thread is gone, and whose file was removed and replaced.
#[test]
fn a_process_is_planned_for_whatever_is_left_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let [source, program] = ["headless.c", "headless"].map(|name| folder.path().join(name));
    std::fs::write(&source, HEADLESS).unwrap();
    let status = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(status.success());
    let mut running = Running(Command::new(&program).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    std::fs::remove_file(&program).unwrap();
    std::fs::write(&program, "another").unwrap();
    let pid = running.0.id().to_string();
    let costs = ["predict", "--machine", "broadwell", "-e", "UOPS_RETIRED.ALL", "--count-of", "1e8"];
    let output = perftax(&[&costs[..], &["-p", &pid, "--for", "300ms", "-r", "2", "--json", "-"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let workload = serde_json::from_slice::<Prediction>(&output.stdout).unwrap().workload;
    assert!(workload.command.first().is_some_and(|word| word.ends_with("headless")), "{:?}", workload.command);
    // It computes whenever this machine lets it.
    assert!(workload.cpu_s.estimate > 0.02 && workload.tasks.unwrap().cpu_s.total() > 0.0, "{:?}", workload.cpu_s);
}

/// A process that runs is looked at, and goes on.
#[test]
fn a_process_that_runs_is_planned_for() {
    let mut worker = worker();
    let pid = worker.0.id().to_string();
    let of_process = |command: &str, options: &[&str]| {
        let costs = ["--machine", "broadwell", "-e", "UOPS_RETIRED.ALL", "--count-of", "1e8"];
        perftax(&[&[command][..], &costs, &["-p", &pid], options].concat())
    };
    let (began, before_ns) = (Instant::now(), process_cpu_ns(worker.0.id()).unwrap());
    let planned = of_process("plan", &["--budget", "5%", "--for", "500ms", "-r", "3", "--json", "-"]);
    let (elapsed_s, cpu_ns) = (began.elapsed().as_secs_f64(), process_cpu_ns(worker.0.id()).unwrap() - before_ns);
    assert_eq!(planned.status.code(), Some(0), "{}", said(&planned));
    let plan: Plan = serde_json::from_slice(&planned.stdout).unwrap();
    let workload = &plan.workload;
    assert_eq!((workload.pid, workload.runs.len()), (Some(worker.0.id()), 3));
    assert!((0.5..1.0).contains(&workload.elapsed_s.estimate), "{:?}", workload.elapsed_s);
    // What its own clock says of all that time, it uses in the looks as well: as much as this machine lets it.
    let (used, seen) = (cpu_ns as f64 * 1e-9 / elapsed_s, workload.cpu_s.estimate / workload.elapsed_s.estimate);
    assert!(seen > used / 3.0 && seen < used * 3.0, "{seen} {used}");
    assert_eq!(workload.threads, 2);
    assert!(workload.switches.estimate > 10.0, "{:?}", workload.switches);
    let at = |word: &str| plan.perf_record.iter().position(|other| other == word);
    assert!(at("-p").is_some_and(|at| plan.perf_record[at + 1] == pid), "{:?}", plan.perf_record);
    assert!(said(&planned).contains("3 times for 0.5 s"), "{}", said(&planned));
    let warned = serde_json::to_string(&plan.origin.warnings).unwrap();
    assert!(warned.contains("had created another process already"), "{warned}");

    let predicted = of_process("predict", &["--for", "200ms", "-r", "2", "-c", "1000003"]);
    let text = String::from_utf8_lossy(&predicted.stdout).into_owned();
    assert!(predicted.status.code() == Some(0) && text.contains(&format!("-p {pid}")), "{text} {}", said(&predicted));
    assert!(worker.0.try_wait().unwrap().is_none(), "it goes on");
    for refused in [&["--for", "end"][..], &["--load", "true"], &["--", "true"]] {
        let output = of_process("predict", refused);
        assert_eq!(output.status.code(), Some(2), "{refused:?}: {}", said(&output));
    }

    // A thread of it is no process; to be told that nothing is calibrated for.
    let tasks =
        std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let thread = tasks.into_iter().find(|tid| *tid != pid).unwrap();
    let refused = perftax(&["plan", "-p", &thread]);
    assert!(
        refused.status.code() == Some(2) && said(&refused).contains(&format!("threads of process {pid}")),
        "{}",
        said(&refused)
    );

    // One that does nothing, and one that is no more.
    let mut sleeper = Command::new("sleep").arg("600").spawn().map(Running).unwrap();
    let idle = perftax(&[
        "plan",
        "--machine",
        "broadwell",
        "-e",
        "UOPS_RETIRED.ALL",
        "--count-of",
        "1e8",
        "--for",
        "50ms",
        "-p",
        &sleeper.0.id().to_string(),
    ]);
    assert!(idle.status.code() == Some(1) && said(&idle).contains("used no CPU time"), "{}", said(&idle));
    sleeper.0.kill().unwrap();
    worker.0.kill().unwrap();
    worker.0.wait().unwrap();
    let gone = of_process("plan", &[]);
    assert!(gone.status.code() == Some(2) && said(&gone).contains("a process that runs"), "{}", said(&gone));
}

/// What counts a program's pieces of work says what sampling makes of one.
#[test]
fn a_piece_of_work_is_told_of() {
    // A hundred faults of memory that is touched for the first time, and work between them.
    let program = "my $s = ''; for (1 .. 100) { $s .= 'x' x 1e5; my $i = 0; $i++ while $i < 2e4 }";
    let plan = |work: &str| {
        let costs = ["plan", "--machine", "broadwell", "-e", "UOPS_RETIRED.ALL", "--count-of", "1e9", "-r", "2", "--json", "-"];
        perftax(&[&costs[..], &["--work", work, "--", "perl", "-e", program]].concat())
    };
    let output = plan("page-faults:u");
    let plan_of: Plan = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    let work = plan_of.work.unwrap();
    // 10 MB in pages of 4 KiB, or larger ones where the kernel gives those.
    assert!(work.event == "page-faults:u" && work.pieces.estimate > 100.0, "{work:?}");
    let cpu_s = plan_of.workload.cpu_s.estimate;
    assert!((work.cpu_s * work.pieces.estimate / cpu_s - 1.0).abs() < 1e-9, "{work:?} {cpu_s}");
    assert!(work.extra_cpu_s.high <= work.cpu_s * 0.0101, "within the budget: {work:?}");
    let none = plan("alignment-faults");
    assert!(none.status.code() == Some(2) && said(&none).contains("--work"), "{}", said(&none));
}
