//! Who watches the programs of a cell, and what they saw.

use perftax_doc::MatrixMode;
use perftax_pmu::event::Event;
use perftax_pmu::guard::allowed_cpus;
use perftax_pmu::sampler::{LiveSampler, Payload, ReaderThread, Sampler, Sampling};
use perftax_pmu::sys::{OpenEvent, Reading, Target};
use perftax_pmu::{Error, Result};

/// Sessions that watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitors {
    /// One an instance, each with a ring and a reader of its own: as many `perf record -- PROGRAM`.
    Each,
    /// One that all instances belong to: `perf record -p PID,PID…`.
    One,
    /// One for whole CPUs, whatever runs there: `perf record -a`.
    Cpus,
}

impl Monitors {
    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::One => "one",
            Self::Cpus => "cpus",
        }
    }
}

/// What is to be watched.
#[derive(Clone, Debug)]
pub struct Watch {
    /// How.
    pub mode: MatrixMode,
    /// By whom.
    pub monitors: Monitors,
    /// Whether its events are one group: all of them are on the counters together, or none.
    pub one_group: bool,
    /// The events, each with its period where it has one.
    pub events: Vec<(Event, Option<u64>)>,
    /// Pages of each ring, a power of two.
    pub ring_pages: usize,
}

/// A program that waits at its gate: its process, and the CPU that it will run on.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The process.
    pub pid: i32,
    /// The CPU.
    pub cpu: u32,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Samples delivered.
    pub samples: u64,
    /// Samples lost.
    pub lost: u64,
    /// Times that an event was throttled.
    pub throttled: u64,
    /// Bytes of records.
    pub record_bytes: u64,
    /// CPU time of the readers, ns.
    pub reader_ns: u64,
    /// Of each event, all instances together: what it counted, and for how long it was on and did count.
    pub events: Vec<Reading>,
}

/// Events that are open.
pub struct Watching {
    counters: Vec<OpenEvent>,
    readers: Vec<ReaderThread>,
    events: usize,
}

impl Watch {
    /// How each of its events is sampled, for a program about to be executed. In a group all but the first are on with that one.
    fn samplings(&self) -> impl Iterator<Item = (&Event, Sampling)> {
        self.events.iter().enumerate().map(|(at, (event, period))| {
            let sampling = self.sampling(*period);
            let on_with_leader = self.one_group && at > 0;
            (event, Sampling { on_with_leader, enable_on_exec: sampling.enable_on_exec && !on_with_leader, ..sampling })
        })
    }

    fn sampling(&self, period: Option<u64>) -> Sampling {
        let Some(period) = period.filter(|_| self.mode.samples()) else { return Sampling::COUNTING.for_command() };
        // With several events perf has each sample say which one it is of.
        let payload = if self.events.len() > 1 { Payload::BASIC.with_place() } else { Payload::BASIC };
        let payload = if self.mode == MatrixMode::Lbr { payload.with_branches() } else { payload };
        Sampling::every(period, self.ring_pages * rustix::param::page_size()).carrying(payload).for_command()
    }

    /// Opens its events on programs that wait, and starts to drain.
    ///
    /// # Errors
    /// Where an event cannot be opened.
    pub fn start(&self, programs: &[Waiting]) -> Result<Watching> {
        let of_cpus = self.monitors == Monitors::Cpus;
        let targets: Vec<Target> = if of_cpus {
            let mut cpus: Vec<u32> = programs.iter().map(|program| program.cpu).collect();
            cpus.sort_unstable();
            cpus.dedup();
            cpus.into_iter().map(Target::Cpu).collect()
        } else {
            programs.iter().map(|program| Target::ThreadOnCpu(program.pid, program.cpu)).collect()
        };
        let of_target =
            |sampling: Sampling| if of_cpus { Sampling { inherit: false, enable_on_exec: false, ..sampling } } else { sampling };
        let events: Vec<(Event, Sampling)> =
            self.samplings().map(|(event, sampling)| (event.clone(), of_target(sampling))).collect();
        let mut watching = Watching { counters: Vec::new(), readers: Vec::new(), events: events.len() };
        if !self.mode.samples() {
            // Counting needs no ring, and so no CPU: it follows a program that moves.
            let follows = programs.iter().map(|program| Target::Thread(program.pid)).collect();
            for &target in if of_cpus { &targets } else { &follows } {
                let first = watching.counters.len();
                for (event, sampling) in &events {
                    let leader = watching.counters.get(first).filter(|_| self.one_group);
                    let counter = OpenEvent::open(event, sampling, target, leader)?;
                    watching.counters.push(counter);
                }
            }
            if of_cpus {
                watching.counters.iter().try_for_each(OpenEvent::enable)?;
            }
            return Ok(watching);
        }
        let sessions: Vec<&[Target]> = match self.monitors {
            Monitors::Each => targets.chunks(1).collect(),
            Monitors::One | Monitors::Cpus => vec![&targets],
        };
        for session in sessions {
            let open = if self.one_group { LiveSampler::open_group } else { LiveSampler::open };
            let mut sampler = open(&events, session, self.ring_pages)?;
            if of_cpus {
                sampler.enable()?;
            }
            watching.readers.push(ReaderThread::start(sampler, session.len())?);
        }
        Ok(watching)
    }

    /// Whether the kernel takes each of its events, by itself or all as one group; none is kept.
    ///
    /// # Errors
    /// What it says to the first one that it does not take.
    pub fn check(&self) -> Result<()> {
        // Watching a CPU takes more rights than watching a thread.
        let target = match self.monitors {
            Monitors::Cpus => Target::Cpu(allowed_cpus()?.first().copied().unwrap_or(0)),
            Monitors::Each | Monitors::One => Target::ThisThread,
        };
        let mut group: Vec<OpenEvent> = Vec::new();
        for (event, sampling) in self.samplings() {
            let sampling = Sampling { inherit: false, enable_on_exec: false, ..sampling };
            match OpenEvent::open(event, &sampling, target, group.first()) {
                Ok(opened) if self.one_group => group.push(opened),
                Ok(_) => {}
                Err(error) => return Err(self.beside(group.len(), event, error)),
            }
        }
        Ok(())
    }

    /// Why an event is not taken into a group of so many others.
    fn beside(&self, others: usize, event: &Event, error: Error) -> Error {
        match error {
            Error::Unsupported { why, remedy, .. } if others > 0 => Error::Unsupported {
                what: format!("have all {} events in one group", self.events.len()),
                why: format!(
                    "the kernel takes the first {others}, and not {} beside them: all of a group need counters of one PMU at once ({why})",
                    event.name
                ),
                remedy,
            },
            other => other,
        }
    }
}

impl Watching {
    /// Drains what is left, reads what was counted, and closes.
    ///
    /// # Errors
    /// Where a record or a counter cannot be read.
    pub fn finish(self) -> Result<Seen> {
        let mut seen = Seen { events: vec![Reading::default(); self.events], ..Seen::default() };
        let mut readings = self.counters.iter().map(OpenEvent::read).collect::<Result<Vec<_>>>()?;
        for reader in self.readers {
            let delivered = reader.finish()?;
            seen.samples += delivered.samples();
            seen.lost += delivered.lost;
            seen.throttled += delivered.throttled;
            seen.record_bytes += delivered.bytes;
            seen.reader_ns += delivered.reader_cpu_ns;
            readings.extend(delivered.readings);
        }
        // Targets one after the other, the events of each in their order.
        for (at, reading) in readings.iter().enumerate() {
            let sum = &mut seen.events[at % self.events.max(1)];
            sum.value += reading.value;
            sum.time_enabled_ns += reading.time_enabled_ns;
            sum.time_running_ns += reading.time_running_ns;
            sum.lost += reading.lost;
        }
        Ok(seen)
    }
}
