//! `perftax record` on this machine: its recordings are read by perf and by ourselves, its programs are left alone, whatever becomes of it.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use perftax_doc::{EventsOn, ExpenseOn, Recorded};
use perftax_perfdata::recording::Recording;
use perftax_symbols::elf::Elf;

use crate::common::{Running, child, is_root};
use crate::streams::Place;

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;

/// Uses so much CPU time, and ends with this code.
fn busy(seconds: f64, code: u32) -> Vec<String> {
    let script = format!("use POSIX; 1 while POSIX::clock() < {seconds} * 1e6; exit {code}");
    ["perl", "-e", &script].map(String::from).to_vec()
}

/// What a plain user may sample, too.
fn clock() -> &'static str {
    if is_root() { "cpu-clock" } else { "cpu-clock:u" }
}

/// Whole CPUs are watched by whoever may (perf_event_open(2)).
fn may_watch_cpus() -> bool {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    is_root() || paranoid.trim().parse::<i32>().unwrap() <= 0
}

fn arguments<'a>(options: &[&'a str], program: &'a [String]) -> Vec<&'a str> {
    let options = ["-e", clock()].into_iter().chain(options.iter().copied());
    let separator = if program.is_empty() { None } else { Some("--") };
    options.chain(separator).chain(program.iter().map(String::as_str)).collect()
}

fn document(path: &str) -> Recorded {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn samples_by_perf(path: &str) -> (u64, u64) {
    let output = Command::new("perf").args(["script", "-F", "period", "-i", path]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let periods = text.lines().map(|line| line.trim().trim_end_matches(':').parse::<u64>().unwrap());
    periods.fold((0, 0), |(count, weight), period| (count + 1, weight + period))
}

/// The program's CPU time in which something was sampled, and in which sampling rested: where other tests have all CPUs, a good part.
fn sampled_and_rested_s(said: &Recorded) -> (f64, f64) {
    let (on, off): (Vec<_>, Vec<_>) = said.rates.iter().partition(|rate| rate.period.is_some());
    let time = |rates: Vec<&perftax_doc::RateUse>| rates.iter().map(|rate| rate.program_cpu_s).sum();
    (time(on), time(off))
}

#[test]
fn what_was_recorded_is_what_is_said_and_within_the_budget() {
    let place = Place::bare_with_profile();
    let (data, json) = (place.path("a.data"), place.path("a.json"));
    let program = busy(1.5, 7);
    let ran = place.perftax("record", &arguments(&["--budget", "5%", "-o", &data, "--json", &json], &program));
    assert_eq!(ran.code, Some(7), "{}", ran.stderr);
    assert!(ran.stderr.contains("perf report -i"), "{}", ran.stderr);
    let said = document(&json);
    assert_eq!((said.code, said.lost), (Some(7), 0));
    let (count, weight) = samples_by_perf(&data);
    assert_eq!(said.samples, count);
    let read = Recording::open(Path::new(&data)).unwrap();
    assert_eq!(read.events.iter().map(|event| event.samples).sum::<u64>(), count);
    assert_eq!(read.features.program(), program);
    // As many as there were periods, of each rate; 5 µs a sample and 5 % make one in some 105 µs, and a quarter of as many where other things take their part.
    let (sampled_s, rested_s) = sampled_and_rested_s(&said);
    assert!(count as f64 > 0.7 * sampled_s / 443e-6 || !is_root(), "{count} samples in {sampled_s} s: {}", ran.stderr);
    let counted_s = weight as f64 * 1e-9;
    assert!((counted_s / sampled_s - 1.0).abs() < 0.1 || !is_root(), "{counted_s} of {sampled_s} s: {}", ran.stderr);
    assert!(((sampled_s + rested_s) / 1.5 - 1.0).abs() < 0.1 || !is_root(), "{sampled_s} and {rested_s} s: {}", ran.stderr);
    let share = said.spent_share.unwrap();
    // Whatever took it: it does not rest for nothing.
    assert!(share.high > 0.02, "{share:?}: {}", ran.stderr);
    // Where other tests have all CPUs, what the recorder takes of them comes in lumps.
    assert!(share.high <= 0.05 * 1.3 && share.low > 0.0, "{share:?}");
    assert!(said.expenses.iter().any(|expense| expense.on == ExpenseOn::Samples && expense.count == Some(count)));
    let bill = place.perftax("bill", &[&data]);
    assert_eq!(bill.code, Some(0), "{}", bill.stderr);
    // Nothing was taken for something else: it says what it takes.
    let lint = place.perftax("lint", &[&data]);
    assert!(!lint.stdout.contains("substituted:") && lint.stdout.contains("cut-off"), "{}", lint.stdout);
}

#[test]
fn a_recording_that_is_there_is_kept() {
    let place = Place::bare_with_profile();
    let data = place.path("a.data");
    std::fs::write(&data, "somebody's").unwrap();
    let ran = place.perftax("record", &arguments(&["-o", &data], &busy(0.05, 0)));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(place.path("a.data.old")).unwrap(), "somebody's");
    // One that cannot begin takes nothing away.
    let ran = place.perftax("record", &arguments(&["-o", &data], &["/nowhere/to/be/found".to_string()]));
    assert_eq!(ran.code, Some(127), "{}", ran.stderr);
    assert!(Recording::open(Path::new(&data)).is_ok());
    assert_eq!(std::fs::read_to_string(place.path("a.data.old")).unwrap(), "somebody's");
    let left: Vec<_> =
        std::fs::read_dir(Path::new(&data).parent().unwrap()).unwrap().flatten().map(|it| it.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains(".partial-")), "{left:?}");
}

#[test]
fn a_process_goes_on_when_it_was_recorded() {
    let place = Place::bare_with_profile();
    let mut program = Running(Command::new("perl").args(["-e", "1 while 1"]).stdout(Stdio::null()).spawn().unwrap());
    program.until("using CPU time", |pid| perftax_pmu::sys::process_cpu_ns(pid).unwrap_or(0) > 10_000_000);
    let (data, json, pid) = (place.path("a.data"), place.path("a.json"), program.pid().to_string());
    let ran = place.perftax("record", &arguments(&["-o", &data, "--json", &json, "-p", &pid, "--for", "700ms"], &[]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(program.0.try_wait().unwrap().is_none(), "it goes on");
    let said = document(&json);
    assert!(said.code.is_none() && said.samples > 0, "{said:?}");
    assert!((0.3..20.0).contains(&said.elapsed_s), "{}", said.elapsed_s);
    // Who runs is known, though nobody saw it start.
    let output = Command::new("perf").args(["script", "-F", "comm,dso", "-i", &data]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().filter(|line| line.contains("perl") && !line.contains("[unknown]")).count() > 0, "{text}");
}

/// The recording under its temporary name.
fn partial_of(data: &str) -> Option<std::path::PathBuf> {
    let folder = std::fs::read_dir(Path::new(data).parent().unwrap()).unwrap().flatten();
    let mut partials = folder.map(|it| it.path()).filter(|path| path.to_string_lossy().contains("a.data.partial-"));
    partials.next()
}

/// Whoever is killed has only looked: the program goes on, and what was recorded until then is there.
#[test]
fn a_program_survives_the_recorder() {
    let place = Place::bare_with_profile();
    let (data, done) = (place.path("a.data"), place.path("done"));
    let script = format!("my $end = time + 3; 1 while time < $end; open my $f, '>', '{done}'; print $f 'done'");
    let program = ["perl", "-e", &script].map(String::from);
    let mut recorder = place
        .command("record", &arguments(&["-o", &data], &program))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    // Until something is in it.
    let there = loop {
        let found = partial_of(&data)
            .filter(|path| Recording::open(path).is_ok_and(|read| read.events.iter().any(|event| event.samples > 0)));
        if let Some(path) = found {
            break path;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was written");
        std::thread::sleep(Duration::from_millis(20));
    };
    recorder.kill().unwrap();
    assert_eq!(recorder.wait().unwrap().signal(), Some(SIGKILL));
    while !Path::new(&done).exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the program is gone");
        std::thread::sleep(Duration::from_millis(20));
    }
    let read = Recording::open(&there).unwrap();
    assert!(read.events[0].samples > 0 && read.fault.is_none());
    assert_eq!(samples_by_perf(there.to_str().unwrap()).0, read.events[0].samples);
}

#[test]
fn an_interrupt_ends_the_program_and_keeps_the_recording() {
    let place = Place::bare_with_profile();
    let data = place.path("a.data");
    let program = ["perl", "-e", "alarm 60; 1 while 1"].map(String::from);
    let mut recorder = place
        .command("record", &arguments(&["-o", &data], &program))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let partial = || partial_of(&data).is_some_and(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 0));
    let began = Instant::now();
    while !partial() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &recorder.id().to_string()]).status().unwrap().success());
    let ended = recorder.wait().unwrap();
    assert_eq!(ended.code(), Some(128 + SIGINT), "{ended:?}");
    assert!(Recording::open(Path::new(&data)).is_ok());
}

/// Files follow each other, each complete by itself; the oldest go. Whoever asks meanwhile is told, by signal or by HTTP.
#[test]
fn what_runs_for_long_keeps_to_its_room_and_says_how_it_goes() {
    let place = Place::bare_with_profile();
    let data = place.path("a.data");
    let program = ["perl", "-e", "alarm 60; 1 while 1"].map(String::from);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let options = ["--budget", "5%", "-o", &data, "--keep", "2M", "--metrics", &address];
    let mut command = place.command("record", &arguments(&options, &program));
    let mut recorder = Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let segments = || {
        let folder = std::fs::read_dir(Path::new(&data).parent().unwrap()).unwrap().flatten();
        let mut found: Vec<_> = folder.map(|it| it.path()).filter(|path| is_segment(path)).collect();
        found.sort();
        found
    };
    // Long enough for some to have gone: each has an eighth of the room.
    let first = std::cell::OnceCell::new();
    recorder.until("giving segments up", |_| {
        let there = segments();
        there.first().is_some_and(|oldest| first.get_or_init(|| oldest.clone()) != oldest)
    });
    let signal = |name: &str| assert!(Command::new("kill").args([name, &recorder.pid().to_string()]).status().unwrap().success());
    signal("-USR1");
    signal("-HUP");
    // It is told at the end of a window, which is a second long at most.
    let exposed = (0..100).map(|_| asked(&address)).find(|exposed| {
        std::thread::sleep(Duration::from_millis(100));
        !exposed.contains("perftax_segments_dropped_total 0\n")
    });
    let exposed = exposed.unwrap();
    let value = |name: &str| -> f64 {
        let line = exposed.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {exposed}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    assert!(value("perftax_samples_total") > 100.0 && value("perftax_segments_dropped_total") >= 1.0, "{exposed}");
    assert!(value("perftax_spent_seconds{bound=\"high\"}") > value("perftax_spent_seconds{bound=\"low\"}"), "{exposed}");
    assert!(exposed.contains("application/openmetrics-text") && exposed.ends_with("# EOF\n"), "{exposed}");
    std::thread::sleep(Duration::from_millis(400));
    signal("-INT");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut recorder.0.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(recorder.0.wait().unwrap().code(), Some(128 + SIGINT), "{said}");
    assert_eq!(said.matches("perf report -i").count(), 2, "once when asked, once at the end: {said}");
    let there = segments();
    let bytes: u64 = there.iter().map(|path| std::fs::metadata(path).unwrap().len()).sum();
    assert!(there.len() > 2 && bytes <= 2 << 20, "{bytes} bytes in {there:?}");
    for path in there {
        let read = Recording::open(&path).unwrap();
        assert!(read.fault.is_none() && !read.features.hostname.is_empty(), "{}", path.display());
        // Who runs is known in each.
        assert!(read.counts.by_thread.keys().all(|(thread, _)| read.counts.comm(thread.tid) == "perl"), "{}", path.display());
    }
}

fn is_segment(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().strip_prefix("a.data.").is_some_and(|rest| rest.as_bytes()[0].is_ascii_digit())
}

fn asked(address: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

/// A disk that gets full takes what does not fit, is said, and leaves a recording; segments make room instead.
#[test]
fn a_full_disk_loses_no_more_than_does_not_fit() {
    if !is_root() {
        // Who may mount nothing cannot fill a disk either; the writer's own test does what can be done.
        return;
    }
    let place = Place::bare_with_profile();
    let (disk, json) = (place.path("disk"), place.path("a.json"));
    std::fs::create_dir(&disk).unwrap();
    let perftax = env!("CARGO_BIN_EXE_perftax");
    let run = |options: &str| {
        let script = format!(
            "mount -t tmpfs -o size=400K tmpfs {disk} && {perftax} record -e cpu-clock --budget 5% -o {disk}/a.data --json {json} {options} -- \
             perl -e 'use POSIX; 1 while POSIX::clock() < 2e6'; echo code=$?; {perftax} bill {disk}/a.data* 2>&1; ls {disk}"
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).env("XDG_DATA_HOME", place.path("data"));
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let said = run("");
    let one = document(&json);
    assert!(said.contains("code=1") && said.contains("No space left on device") && said.contains("cpu-clock"), "{said}");
    assert!(one.unwritten > 0 && one.samples > 500, "{one:?}");
    let said = run("--keep 10M --switch-output=100K");
    let segments = document(&json);
    assert!(said.contains("code=0") && !said.contains("No space left"), "{said}");
    assert!(segments.unwritten == 0 && segments.dropped_segments > 0, "{segments:?}");
}

/// Whoever is on the CPUs, of whom nobody knew before.
#[test]
fn cpus_are_watched_for_whoever_may() {
    let place = Place::bare_with_profile();
    let data = place.path("a.data");
    let program = busy(0.5, 0);
    let ran = place.perftax("record", &arguments(&["-a", "--budget", "5%", "-o", &data], &program));
    if !may_watch_cpus() {
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert!(ran.stderr.contains("watch whole CPUs (-a)"), "{}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let read = Recording::open(Path::new(&data)).unwrap();
    let of_perl = read.counts.by_thread.iter().filter(|((thread, _), _)| read.counts.comm(thread.tid) == "perl").count();
    assert!(of_perl > 0, "{:?}", read.counts.by_thread);
    let idle = read.counts.by_thread.keys().any(|(thread, _)| thread.pid == 0);
    assert!(!idle, "idle CPUs give no samples");
}

/// In namespaces of its own, as a container has: there it records what it sees, by its numbers; from outside, what lies at the program's path there and not here.
#[test]
fn a_container_is_recorded_from_inside_and_from_outside() {
    let place = Place::bare_with_profile();
    let program = place.path("program");
    let build = |name: &str, more: &str| {
        let (source, built) = (place.path("a.c"), place.path(name));
        std::fs::write(
            &source,
            format!("int main(int n, char **words) {{ for (volatile long i = 0; n > 1 || i < {more}; i++); return !words; }}\n"),
        )
        .unwrap();
        let built_well = Command::new("gcc").args(["-O1", "-Wl,--build-id", "-o", &built, &source]).status().unwrap();
        assert!(built_well.success());
        Elf::open(Path::new(&built)).unwrap().build_id().unwrap()
    };
    let (of_container, of_host) = (build("inside", "300000000"), build("program", "300000001"));
    assert_ne!(of_container, of_host);
    let in_namespaces = |script: &str| {
        let user: &[&str] = if is_root() { &[] } else { &["-Ur"] };
        let mut command = Command::new("unshare");
        command.args(user).args(["-m", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]).arg(script);
        command.env("XDG_DATA_HOME", place.path("data")).stdin(Stdio::null());
        command
    };
    let id_of_program = |data: &str| {
        let read = Recording::open(Path::new(data)).unwrap();
        let pids: BTreeSet<u32> = read.counts.by_thread.keys().map(|(thread, _)| thread.pid).collect();
        (pids, read.features.build_ids.unwrap().remove(&program))
    };
    let (data, json) = (place.path("a.data"), place.path("a.json"));
    let perftax = env!("CARGO_BIN_EXE_perftax");
    let script = format!(
        "mount --bind {} {program} && {perftax} record -e {} --budget 5% -o {data} --json {json} -- {program}",
        place.path("inside"),
        clock()
    );
    let output = in_namespaces(&script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(samples_by_perf(&data).0, document(&json).samples);
    let (pids, id) = id_of_program(&data);
    assert!(pids.len() == 1 && pids.iter().all(|pid| *pid < 100), "{pids:?}: numbers are the container's");
    assert_eq!(id, Some(of_container.clone()));

    let script = format!("mount --bind {} {program} && exec {program} for long", place.path("inside"));
    let mut running = Running(in_namespaces(&script).spawn().unwrap());
    running.until("executed in its namespaces", |pid| {
        let maps = child(pid).map(|child| std::fs::read_to_string(format!("/proc/{child}/maps")).unwrap_or_default());
        maps.is_some_and(|maps| maps.contains("/program") && maps.contains("libc"))
    });
    let container = child(running.pid()).unwrap();
    let outside = place.path("b.data");
    let ran = place.perftax("record", &arguments(&["-p", &container, "--for", "1", "--budget", "5%", "-o", &outside], &[]));
    drop(running);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(id_of_program(&outside).1, Some(of_container));
}

/// Of whole CPUs a program's samples are kept, and its children's, and nobody else's.
#[test]
fn of_whole_cpus_only_the_programs_own_samples_are_kept() {
    let place = Place::bare_with_profile();
    let (data, json) = (place.path("a.data"), place.path("a.json"));
    let other = Running(Command::new("sh").args(["-c", "while :; do :; done"]).stdout(Stdio::null()).spawn().unwrap());
    // A child that sleeps first: what it executes is told long before it is sampled.
    let script =
        "use POSIX; if (!fork) { $0 = 'the child'; 1 while POSIX::clock() < 4e5; exit } 1 while POSIX::clock() < 4e5; wait";
    let program = ["perl", "-e", script].map(String::from);
    let ran = place.perftax("record", &arguments(&["--on", "cpus", "--budget", "5%", "-o", &data, "--json", &json], &program));
    drop(other);
    if !may_watch_cpus() {
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert!(ran.stderr.contains("watch whole CPUs (--on cpus)"), "{}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let said = document(&json);
    assert_eq!((said.events_on, said.went_over_s), (EventsOn::Cpus, None));
    assert!(said.of_others > 0, "{}", ran.stderr);
    let (count, weight) = samples_by_perf(&data);
    assert_eq!(count, said.samples);
    // Two processes of 0.4 s each, sampled or not.
    let (sampled_s, rested_s) = sampled_and_rested_s(&said);
    let weight_s = weight as f64 * 1e-9;
    assert!((weight_s / sampled_s - 1.0).abs() < 0.1, "{weight_s} of {sampled_s} s: {}", ran.stderr);
    assert!((0.6..=1.1).contains(&(weight_s + rested_s)), "{weight_s} and {rested_s} s: {}", ran.stderr);
    let read = Recording::open(Path::new(&data)).unwrap();
    let pids: BTreeSet<u32> = read.counts.by_thread.keys().map(|(thread, _)| thread.pid).collect();
    assert_eq!(pids.len(), 2, "{pids:?}");
    assert!(read.counts.by_thread.keys().all(|(thread, _)| read.counts.comm(thread.tid) != "sh"));
    assert!(ran.stderr.contains("samples of other programs were taken, too, and dropped"), "{}", ran.stderr);
}

/// A program that does little but create processes: on threads nothing would be left for samples, so that the events go over to CPUs, for whoever may have them there.
#[test]
fn where_threads_take_the_budget_the_events_go_over_to_cpus() {
    let place = Place::bare_with_prices(&[("task", 25_000.0)]);
    let json = place.path("a.json");
    let script = "for (1..1500) { my $p = fork; exit if !$p; waitpid $p, 0; $x += $_ for 1..20000 }";
    let program = ["perl", "-e", script].map(String::from);
    let ran = place.perftax("record", &arguments(&["-o", &place.path("a.data"), "--json", &json], &program));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let said = document(&json);
    if may_watch_cpus() {
        assert!(said.events_on == EventsOn::Cpus && said.went_over_s.is_some(), "{}", ran.stderr);
        assert!(ran.stderr.contains("on whole CPUs from "), "{}", ran.stderr);
    } else {
        assert_eq!((said.events_on, said.of_others), (EventsOn::Threads, 0));
    }
    let stays = place.perftax("record", &arguments(&["--on", "threads", "-o", &place.path("b.data"), "--json", &json], &program));
    assert_eq!((stays.code, document(&json).events_on), (Some(0), EventsOn::Threads), "{}", stays.stderr);
}

/// One thread of several: it is sampled, the others are not, and the recording ends with it.
#[test]
fn a_thread_alone_is_recorded_to_its_end() {
    let place = Place::bare_with_profile();
    let (data, json) = (place.path("a.data"), place.path("a.json"));
    let script = "import threading, time\ndef busy(s):\n    end = time.thread_time() + s\n    while time.thread_time() < end: pass\n\
                  other = threading.Thread(target=busy, args=(60,), daemon=True)\nother.start()\n\
                  one = threading.Thread(target=busy, args=(1.5,))\none.start()\nprint(one.native_id, flush=True)\none.join()\ntime.sleep(30)";
    let mut program = Running(Command::new("python3").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(program.0.stdout.take().unwrap()), &mut line).unwrap();
    let tid = line.trim();
    let ran = place.perftax("record", &arguments(&["--budget", "5%", "-t", tid, "-o", &data, "--json", &json], &[]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(program.0.try_wait().unwrap().is_none(), "the process goes on");
    let read = Recording::open(Path::new(&data)).unwrap();
    let tids: Vec<String> = read.counts.by_thread.keys().map(|(thread, _)| thread.tid.to_string()).collect();
    assert_eq!(tids, [tid], "{}", ran.stderr);
    let said = document(&json);
    assert!(said.samples > 20 && said.program_cpu_s < 1.6 && said.elapsed_s < 25.0, "{}", ran.stderr);
    let ran = place.perftax("record", &["-t", "4194303"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

/// Times of a clock that everybody can read.
#[test]
fn times_are_of_the_clock_that_is_asked_for() {
    let place = Place::bare_with_profile();
    let data = place.path("a.data");
    // Since boot, suspended or not.
    let now = || -> f64 { std::fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap() };
    let before_s = now();
    let ran = place.perftax("record", &arguments(&["--budget", "5%", "--clockid", "boot", "-o", &data], &busy(0.3, 0)));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let output = Command::new("perf").args(["script", "-F", "time", "-i", &data]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let times: Vec<f64> = text.lines().map(|line| line.trim().trim_end_matches(':').parse().unwrap()).collect();
    assert!(
        times.len() > 50 && times.iter().all(|time_s| (before_s - 0.1..=now() + 0.1).contains(time_s)),
        "{before_s} {times:?}"
    );
    let ran = place.perftax("record", &["--clockid", "sundial", "--", "true"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

/// Callers by tables: of code without frame pointers, through the C library, in chains instead of copies of the stack.
#[cfg(target_arch = "x86_64")]
#[test]
fn callers_are_found_by_tables_while_it_runs() {
    let place = Place::bare_with_prices(&[("callchain", 500.0), ("user-stack", 2_000.0)]);
    let (source, program, data, json) = (place.path("a.c"), place.path("a"), place.path("a.data"), place.path("a.json"));
    let text = r#"
        #include <stdlib.h>
        __attribute__((noinline)) static int leaf(int n) { volatile int x = 0; for (int i = 0; i < n; i++) x += i; return x; }
        static int compare(const void *a, const void *b) { return leaf(200) + *(const int *)a - *(const int *)b; }
        __attribute__((noinline)) static void sort(int *all) { qsort(all, 1000, sizeof *all, compare); all[0]++; }
        int main(void) {
            int all[1000];
            for (int times = 0; times < 400; times++) {
                for (int i = 0; i < 1000; i++) all[i] = i * 7919 % 1000;
                sort(all);
            }
            return all[0] == -1;
        }
    "#;
    std::fs::write(&source, text).unwrap();
    let built = Command::new("gcc")
        .args(["-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-o", &program, &source])
        .status();
    assert!(built.unwrap().success());
    let options = ["--budget", "10%", "-c", "500000", "--call-graph", "dwarf", "-o", &data, "--json", &json];
    let ran = place.perftax("record", &arguments(&options, std::slice::from_ref(&program)));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let said = document(&json);
    assert_eq!(said.cut, 0, "{}", ran.stderr);
    assert!(said.samples > 50, "{}", ran.stderr);
    let output = Command::new("perf").args(["script", "-F", "ip,sym", "-i", &data]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let chains: Vec<Vec<&str>> = text
        .split(
            "

",
        )
        .map(|chain| chain.lines().filter_map(|line| line.split_whitespace().nth(1)).collect())
        .collect();
    let of_leaf: Vec<&Vec<&str>> = chains.iter().filter(|chain| chain.first() == Some(&"leaf")).collect();
    let is_whole = |chain: &&&Vec<&str>| {
        let place = |name: &str| chain.iter().position(|function| *function == name);
        let places = [place("leaf"), place("compare"), place("sort"), place("main")];
        places.iter().all(Option::is_some) && places.is_sorted() && chain.len() > 6
    };
    let whole = of_leaf.iter().filter(is_whole).count();
    assert!(of_leaf.len() > 40 && whole * 100 >= of_leaf.len() * 99, "{whole} of {}: {text}", of_leaf.len());
    // A copy of the stack alone is 8 KiB.
    assert!(said.recording_bytes < 600 * said.samples + 20_000, "{} bytes of {} samples", said.recording_bytes, said.samples);
    for wrong in ["dwarf,0", "dwarf,65100", "dwarf,70000", "dwarf,x", "lbr", "fp,8", "fp,defer"] {
        let ran = place.perftax("record", &["--call-graph", wrong, "--", "true"]);
        assert_eq!(ran.code, Some(2), "{wrong}: {}", ran.stderr);
    }
}

/// What the kernel counts in software is sampled at its period, and each sample weighs that much.
#[test]
fn events_that_the_kernel_counts_are_weighed_by_their_period() {
    let place = Place::bare_with_profile();
    let (data, json) = (place.path("a.data"), place.path("a.json"));
    let script =
        "my @a; for my $i (1..40) { my $x = 'x' x 4_000_000; substr($x, $_ * 4096, 1, 'y') for 0..900; push @a, $x if $i % 2 }";
    let event = if is_root() { "page-faults" } else { "page-faults:u" };
    let arguments = ["-e", event, "-c", "10", "--budget", "50%", "-o", &data, "--json", &json, "--", "perl", "-e", script];
    let ran = place.perftax("record", &arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let said = document(&json);
    let (count, weight) = samples_by_perf(&data);
    assert_eq!(count, said.samples);
    // Of tens of thousands of faults.
    assert!(count > 100 && weight >= 7 * count, "{count} samples of {weight} faults: {}", ran.stderr);
    assert!((0.9..=1.02).contains(&said.represented.unwrap()), "{:?}", said.represented);
    let read = Recording::open(Path::new(&data)).unwrap();
    assert!(read.fault.is_none() && read.counts.by_thread.keys().all(|(thread, _)| read.counts.comm(thread.tid) == "perl"));
}

/// Into a pipe, which perf and we read as it comes; what the program writes does not come between.
#[test]
fn a_stream_is_read_as_it_comes() {
    let place = Place::bare_with_profile();
    let program = ["sh", "-c", "echo something; perl -e 'use POSIX; 1 while POSIX::clock() < 3e5'"].map(String::from);
    let mut recorder = place.command("record", &arguments(&["-o", "-"], &program));
    let recorded = recorder.output().unwrap();
    let said = String::from_utf8_lossy(&recorded.stderr).into_owned();
    assert!(recorded.status.success() && said.contains("something\n"), "{said}");
    let data = place.path("a.data");
    std::fs::write(&data, &recorded.stdout).unwrap();
    let read = Recording::open(Path::new(&data)).unwrap();
    assert!(read.piped && read.fault.is_none() && read.features.hostname == hostname(), "{:?}", read.features);
    let count = read.events[0].samples;
    assert!(count > 10 && read.features.build_ids.as_ref().is_some_and(|ids| ids.keys().any(|path| path.contains("perl"))));
    assert_eq!(samples_by_perf(&data).0, count);
    let ran = place.perftax("record", &arguments(&["-o", "/dev/null", "--keep", "1M"], &program));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().into()
}
