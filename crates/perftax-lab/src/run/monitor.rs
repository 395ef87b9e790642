//! One run of a program under one condition.

use perftax_cost::left_out::share_of;
use perftax_doc::steps::Setting;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use perftax_doc::Estimate;
use perftax_doc::observation::Run;
use perftax_pmu::event::Event;
use perftax_pmu::guard::{check_interrupted, online_cpus};
use perftax_pmu::sampler::{Delivered, LiveSampler, Payload, ReaderThread, Sampler, Sampling, Wakeup, ring_pages_within_rights};
use perftax_pmu::sys::{Child, Ended, Exit, OpenEvent, Reading, Target, children_of};
use perftax_pmu::{Error, Result};

use super::{Command, ReferenceLoopThread};
use crate::system::steal_ns;
use perftax_target::Counted;

/// How events are attached to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// To the process and all that it creates, sharing one context: `perf record`'s default.
    Inherited,
    /// To the process and, each by an event of its own, to the processes and threads that it creates in its first moments:
    /// what `perf record -p PID,PID` does. Contexts are then no clones of each other, and every switch schedules them.
    Separate,
    /// To the CPUs, whatever runs there: `perf record -a`.
    PerCpu,
}

impl Attach {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inherited => "inherited",
            Self::Separate => "separate",
            Self::PerCpu => "per-cpu",
        }
    }
}

/// What is sampled during a run.
#[derive(Clone, Debug)]
pub struct Monitor {
    /// The event.
    pub event: Event,
    /// Its period.
    pub period: u64,
    /// What samples carry.
    pub payload: Payload,
    /// How it is attached.
    pub attach: Attach,
    /// Ring size in pages, a power of two.
    pub ring_pages: usize,
    /// A signal to the program's first thread for each sample.
    pub signal: Option<i32>,
    /// The share of the periods that are whole ones of a task, and so give a sample, where tasks inherit the event.
    pub seen: Estimate,
}

/// What is looked at beside the elapsed time, in every arm alike.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// The CPUs that the program may run on, ascending.
    pub cpus: Vec<u32>,
    /// Events counted (never sampled) with inheritance, one counter a CPU. `task-clock` here gives CPU time by core.
    pub counting: Vec<Event>,
    /// Whether reference loops run beside the program, one on each of its CPUs.
    pub reference_loops: bool,
    /// The one CPU that the program runs on, where time that the hypervisor steals there is taken off instead of spoiling the run.
    pub steal_taken_off: Option<u32>,
    /// Relative slow-down planted after the program's end, to show that the control catches it.
    pub planted_bias: f64,
}

/// Ring for those who may lock memory, pages: 65,536 basic samples. A wake-up costs the reader as much as draining thousands of
/// samples (70 µs on a guest: benches/drain.rs), so there should be few.
const RING_PAGES: usize = 512;

/// Pages of a ring as large as one may have without thinking about it, with one on each CPU: found once.
pub fn usual_ring_pages() -> usize {
    static PAGES: OnceLock<usize> = OnceLock::new();
    *PAGES.get_or_init(|| ring_pages_within_rights(RING_PAGES, online_cpus().map_or(1, |cpus| cpus.len())))
}

impl Monitor {
    /// Basic samples, inherited, in a ring of the usual size.
    pub fn new(event: Event, period: u64) -> Self {
        let ring_pages = usual_ring_pages();
        Self {
            event,
            period,
            payload: Payload::BASIC,
            attach: Attach::Inherited,
            ring_pages,
            signal: None,
            seen: Estimate::exact(1.0),
        }
    }

    /// The same with a ring of so many pages.
    pub fn with_ring(self, pages: Option<usize>) -> Self {
        Self { ring_pages: pages.unwrap_or(self.ring_pages), ..self }
    }

    fn open(&self, child: &Child, cpus: &[u32]) -> Result<LiveSampler> {
        let ring_bytes = self.ring_pages * rustix::param::page_size();
        // With what perf record asks for as well, so that it costs what that does.
        let with_records = Sampling { task_records: true, mapping_records: true, ..Sampling::every(self.period, ring_bytes) };
        let mut plain = with_records.carrying(self.payload);
        if self.signal.is_some() {
            plain.wakeup = Wakeup::EverySample;
        }
        let (sampling, targets): (_, Vec<Target>) = match self.attach {
            Attach::Inherited => (plain.for_command(), cpus.iter().map(|&c| Target::ThreadOnCpu(child.pid(), c)).collect()),
            Attach::Separate => {
                let sampling = Sampling { inherit: false, ..plain.for_command() };
                (sampling, cpus.iter().map(|&c| Target::ThreadOnCpu(child.pid(), c)).collect())
            }
            Attach::PerCpu => (plain, cpus.iter().map(|&c| Target::Cpu(c)).collect()),
        };
        let mut sampler = LiveSampler::open(&[(self.event.clone(), sampling)], &targets, self.ring_pages)?;
        if let Some(signal) = self.signal {
            sampler.events().iter().try_for_each(|event| event.signal_thread(child.pid(), signal))?;
        }
        if self.attach == Attach::PerCpu {
            Sampler::enable(&mut sampler)?;
        }
        Ok(sampler)
    }
}

impl Monitor {
    /// Opens an event on every descendant that appears within [`DESCENDANTS_APPEAR`].
    fn attach_to_descendants(&self, child: &Child, cpus: &[u32]) -> Result<Vec<ReaderThread>> {
        let ring_bytes = self.ring_pages * rustix::param::page_size();
        let sampling = Sampling::every(self.period, ring_bytes).carrying(self.payload);
        let mut known = vec![child.pid()];
        let mut readers = Vec::new();
        let until = Instant::now() + DESCENDANTS_APPEAR;
        while Instant::now() < until && !child.has_ended() {
            for tid in descendants(child.pid()) {
                if known.contains(&tid) {
                    continue;
                }
                known.push(tid);
                let targets: Vec<Target> = cpus.iter().map(|&cpu| Target::ThreadOnCpu(tid, cpu)).collect();
                match LiveSampler::open(&[(self.event.clone(), sampling)], &targets, self.ring_pages) {
                    Ok(mut sampler) => {
                        Sampler::enable(&mut sampler)?;
                        readers.push(ReaderThread::start(sampler, targets.len())?);
                    }
                    // A descendant may be gone again already: then there is nothing to watch.
                    Err(_) if !std::path::Path::new(&format!("/proc/{tid}")).exists() => {}
                    Err(error) => return Err(error),
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(readers)
    }
}

/// How long after the start descendants are looked for.
const DESCENDANTS_APPEAR: Duration = Duration::from_millis(40);

/// Threads of a process and of its children, from /proc (the `children` files need CONFIG_PROC_CHILDREN).
fn descendants(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
    threads.chain(children_of(pid).into_iter().flat_map(descendants)).collect()
}

/// Runs the command once, in the given arm and round.
///
/// # Errors
/// Where the command cannot be executed, fails, or is killed; where an event cannot be opened.
pub fn run_once(command: &Command, monitor: Option<&Monitor>, watched: &Watched, arm: &str, round: u32) -> Result<Run> {
    let (_copy, mut child) = command.spawn()?;
    let counters = open_counters(&child, watched)?;
    let reader = monitor.map(|m| m.open(&child, &watched.cpus)).transpose()?;
    let has_signals = monitor.is_some_and(|monitor| monitor.signal.is_some());
    let start = if has_signals { ReaderThread::start_for_the_end } else { ReaderThread::start };
    let reader = reader.map(|s| start(s, watched.cpus.len())).transpose()?;
    let measured_cpus = if watched.reference_loops { watched.cpus.as_slice() } else { &[] };
    let reference_loops = measured_cpus.iter().map(|&cpu| ReferenceLoopThread::start(cpu)).collect::<Result<Vec<_>>>()?;
    let steal_before = steal_ns(watched.steal_taken_off)?;
    let online_before = online_cpus()?;
    child.release()?;
    let released = Instant::now();
    let late = match monitor {
        Some(monitor) if monitor.attach == Attach::Separate => monitor.attach_to_descendants(&child, &watched.cpus)?,
        _ => Vec::new(),
    };
    let mut exit = command.lifetime.wait(child)?;
    let whole_s = released.elapsed().as_secs_f64();
    if watched.planted_bias > 0.0 && arm == super::OFF_AGAIN {
        exit.elapsed_s *= 1.0 + watched.planted_bias;
    }
    let reference_loops = reference_loops.into_iter().map(ReferenceLoopThread::finish).collect::<Result<Vec<_>>>()?;
    let steal_s = (steal_ns(watched.steal_taken_off)?.saturating_sub(steal_before)) as f64 * 1e-9;
    let taken_off_s = if watched.steal_taken_off.is_some() { steal_s } else { 0.0 };
    let mut delivered = reader.map(ReaderThread::finish).transpose()?.unwrap_or_default();
    for reader in late {
        delivered.merge(&reader.finish()?);
    }
    succeeded(command, &exit)?;
    command.note_what_is_left();

    let period = monitor.map_or(0, |m| m.period);
    // A clock counts in the mode that its filter leaves out, too, and gives no samples of it.
    let dropped = monitor.map(|m| share_of(m.event.left_out(), exit.usage.user_s, exit.usage.system_s));
    let dropped = dropped.unwrap_or(Estimate::exact(0.0));
    let seen = monitor.map_or(Estimate::exact(1.0), |m| m.seen);
    let due = if period == 0 { 0.0 } else { delivered.counted.iter().sum::<u64>() as f64 / period as f64 };
    let mut run = Run {
        period,
        elapsed_s: exit.elapsed_s - taken_off_s,
        reference_loops,
        user_s: exit.usage.user_s,
        system_s: exit.usage.system_s,
        samples: delivered.samples(),
        samples_per_cpu: delivered.samples_by_target.clone(),
        expected_samples: due * (1.0 - dropped.estimate) * seen.estimate,
        lost: delivered.lost,
        throttled: delivered.throttled,
        voluntary_switches: exit.usage.voluntary_switches,
        involuntary_switches: exit.usage.involuntary_switches,
        minor_faults: exit.usage.minor_faults,
        major_faults: exit.usage.major_faults,
        max_rss_bytes: exit.usage.max_rss_bytes,
        steal_s: steal_s - taken_off_s,
        ..Run::nothing(arm, round)
    };
    for (event, readings) in counters {
        let readings = readings.iter().map(OpenEvent::read).collect::<Result<Vec<_>>>()?;
        check_running(&event, &readings)?;
        let values: Vec<u64> = readings.iter().map(|r| r.value).collect();
        if event.name == TASK_CLOCK {
            run.cpu_s_per_cpu = values.iter().map(|&ns| ns as f64 * 1e-9).collect();
        }
        run.counts.insert(event.name, values.iter().sum());
    }
    let switched = monitor.is_some_and(|m| m.attach == Attach::Separate);
    let why = why_discarded(&run, &delivered, switched, due * (1.0 - dropped.high) * seen.low, whole_s);
    run.discarded = other_cpus(&online_before, &online_cpus()?).or(why);
    Ok(run)
}

/// Refuses counts of counters that were shared with others: those are extrapolations, and predictions would not say so. What the kernel counts needs no
/// counter, and has all there is whatever its times say.
pub(super) fn check_running(event: &Event, readings: &[Reading]) -> Result<()> {
    let mut counted = Counted::default();
    counted.add(readings);
    let Some(share) = counted.multiplexed().filter(|_| event.mechanism.is_hardware()) else { return Ok(()) };
    Err(Error::Unsupported {
        what: format!("count {}", event.name),
        why: format!("its counter was shared with others and ran {:.0} % of the time (multiplexing)", share * 100.0),
        remedy: format!(
            "close other profilers; sysctl kernel.nmi_watchdog=0 frees one counter; or give the count with {}",
            Setting::CountOf
        ),
    })
}

/// The event whose counts by CPU are the program's CPU time by core, in nanoseconds.
pub(super) const TASK_CLOCK: &str = "task-clock";

fn open_counters(child: &Child, watched: &Watched) -> Result<Vec<(Event, Vec<OpenEvent>)>> {
    let sampling = Sampling::COUNTING.for_command();
    let mut counters = Vec::new();
    for event in &watched.counting {
        let by_cpu =
            watched.cpus.iter().map(|&cpu| OpenEvent::open(event, &sampling, Target::ThreadOnCpu(child.pid(), cpu), None));
        counters.push((event.clone(), by_cpu.collect::<Result<Vec<_>>>()?));
    }
    Ok(counters)
}

pub(crate) fn succeeded(command: &Command, exit: &Exit) -> Result<()> {
    // On a terminal the signal that interrupts us also ends the program: that is no failure of its own.
    check_interrupted()?;
    // A program that asked for what is not there may have failed for that.
    command.check_input()?;
    let how = match exit.ended {
        // How it takes being told to end is its own affair.
        _ if exit.stopped => return Ok(()),
        Ended::Code(0) => return Ok(()),
        Ended::Code(code) => format!("exited with code {code}"),
        Ended::Signal(signal) => format!("was killed by signal {signal}"),
    };
    Err(Error::CommandFailed { command: command.line(), how })
}

/// Share of the samples expected by the run's own count that must arrive: the kernel skips periods that it could not serve in
/// time, and a run that lost more of them did not pay for them either.
const DELIVERED_MIN: f64 = 0.9;
/// Samples that may be missing in any case: each context starts and ends in the middle of a period.
const DELIVERED_SLACK: f64 = 16.0;
/// Share of a run's time that the hypervisor may steal before the run is somebody else's measurement.
const STEAL_LIMIT: f64 = 0.02;

/// Why a run is none where CPUs came or went meanwhile: what was opened on one that is gone counts nothing, and on one that has come nothing was opened.
fn other_cpus(before: &[u32], after: &[u32]) -> Option<String> {
    (before != after).then(|| format!("the CPUs that are online changed from {} to {}", listed(before), listed(after)))
}

/// `0, 1`.
fn listed(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// `switched`: contexts of their own, whose timers every switch stops and starts: samples are missing there as a matter of course. `least`: samples
/// that should have come where the share that the event's filter drops is as large as it may be. `whole_s`: from its release to its end, which under a load
/// is more than the run that counts.
fn why_discarded(run: &Run, delivered: &Delivered, switched: bool, least: f64, whole_s: f64) -> Option<String> {
    if delivered.lost > 0 {
        Some(format!("{} samples lost", delivered.lost))
    } else if delivered.throttled > 0 {
        Some(format!("throttled {} times", delivered.throttled))
    } else if !switched && (run.samples as f64) < least * DELIVERED_MIN - DELIVERED_SLACK {
        Some(format!("{} samples of at least {least:.0} expected", run.samples))
    } else {
        too_much_stolen(run, whole_s)
    }
}

/// Why a run must not be used that the hypervisor stole too much of; `whole_s` as for [`why_discarded`].
pub(super) fn too_much_stolen(run: &Run, whole_s: f64) -> Option<String> {
    let is_too_much = run.steal_s > STEAL_LIMIT * run.elapsed_s.max(whole_s);
    is_too_much.then(|| format!("{:.0} ms stolen by the hypervisor", run.steal_s * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_goes_is_told_of() {
        assert_eq!(other_cpus(&[0, 1], &[0, 1]), None);
        let why = other_cpus(&[0, 1, 3], &[0, 3]);
        assert_eq!(why.as_deref(), Some("the CPUs that are online changed from 0, 1, 3 to 0, 3"));
    }
}
