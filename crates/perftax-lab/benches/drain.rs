//! What draining the ring costs a sample: our reader against `perf record`, in interleaved pairs. Prints the ratio.
//!
//! Either's CPU time (schedstat) is taken over some seconds in the middle of a run, after a start-up that takes longer than all
//! draining; the samples are those that the period gives in that time. Both keep their own default ring.

use std::ffi::OsString;
use std::process::Command as Process;
use std::time::{Duration, Instant};

use perftax_lab::run::{Command, Monitor, Watched};
use perftax_pmu::event::{Catalog, parse};
use perftax_pmu::sampler::{LiveSampler, ReaderThread, Sampling};
use perftax_pmu::sys::{Child, Stdio, Target};

/// Above twice the cost of a sample on every guest seen so far: a shorter one would not deliver what the bench divides by.
const PERIOD_NS: u64 = 60_013;
const PAIRS: usize = 5;
const SECONDS: &str = "11";
/// How long a start-up takes, generously, and how long is watched then.
const START_UP: Duration = Duration::from_millis(2200);
const WATCHED: Duration = Duration::from_secs(8);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut ratios = Vec::new();
    for pair in 0..PAIRS {
        let ours = ours_ns()?;
        let theirs = perf_ns()?;
        println!(
            "pair {pair}: perftax {ours:.1} ns, perf record {theirs:.1} ns of CPU time a sample, ratio {:.3}",
            ours / theirs
        );
        ratios.push(ours / theirs);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "drain: median ratio {:.3} (range {:.3} to {:.3}, {PAIRS} pairs); needed at most 0.333",
        ratios[PAIRS / 2],
        ratios[0],
        ratios[PAIRS - 1]
    );
    Ok(())
}

fn busy() -> Command {
    let words = ["timeout", SECONDS, "perl", "-e", "1 while 1"];
    Command::from_argv(words.iter().map(OsString::from).collect(), Stdio::Discard)
}

fn ours_ns() -> Result<f64, Box<dyn std::error::Error>> {
    let event = parse("cpu-clock", &Catalog::of_this_machine())?.remove(0);
    let watched = Watched { cpus: perftax_pmu::guard::allowed_cpus()?, ..Watched::default() };
    let monitor = Monitor::new(event.clone(), PERIOD_NS);
    let mut child = Child::spawn(&busy().spec)?;
    let sampling = Sampling::every(PERIOD_NS, monitor.ring_pages * 4096).for_command();
    let targets: Vec<Target> = watched.cpus.iter().map(|&cpu| Target::ThreadOnCpu(child.pid(), cpu)).collect();
    let reader = ReaderThread::start(LiveSampler::open(&[(event, sampling)], &targets, monitor.ring_pages)?, targets.len())?;
    child.release()?;
    let cost_ns = watch_ns(reader.thread_id())?;
    child.wait()?;
    let delivered = reader.finish()?;
    assert_eq!(delivered.lost, 0, "a reader that loses samples has not drained them");
    Ok(cost_ns)
}

/// CPU time of one `perf record -p` over the busy program by the samples that it takes meanwhile.
fn perf_ns() -> Result<f64, Box<dyn std::error::Error>> {
    let file = std::env::temp_dir().join(format!("perftax-drain-{}.data", std::process::id()));
    let mut busy = Process::new("timeout").args([SECONDS, "perl", "-e", "1 while 1"]).spawn()?;
    std::thread::sleep(Duration::from_millis(100));
    // The program that spins is timeout's child.
    let pid = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", busy.id()))?;
    let period = PERIOD_NS.to_string();
    let words = ["record", "-q", "-B", "-N", "-e", "cpu-clock", "-c", &period, "-p", pid.trim(), "-o"];
    let argv =
        [OsString::from("perf")].into_iter().chain(words.iter().map(OsString::from)).chain([file.clone().into()]).collect();
    let mut recorder = Child::spawn(&Command::from_argv(argv, Stdio::Discard).spec)?;
    recorder.release()?;
    let cost_ns = watch_ns(recorder.pid())?;
    busy.wait()?;
    recorder.wait()?;
    std::fs::remove_file(&file).ok();
    Ok(cost_ns)
}

/// CPU time of a thread by the samples that the period gives, once it has started.
fn watch_ns(tid: i32) -> Result<f64, Box<dyn std::error::Error>> {
    std::thread::sleep(START_UP);
    let (start, before_ns) = (Instant::now(), executed_ns(tid)?);
    std::thread::sleep(WATCHED);
    let (watched, after_ns) = (start.elapsed(), executed_ns(tid)?);
    Ok((after_ns - before_ns) as f64 / (watched.as_nanos() as f64 / PERIOD_NS as f64))
}

/// CPU time of a thread so far: the first number of its schedstat.
fn executed_ns(tid: i32) -> Result<u64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat"))?;
    Ok(text.split_ascii_whitespace().next().unwrap_or("0").parse()?)
}
