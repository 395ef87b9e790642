//! Trying mechanisms out on the kernel: an event is opened on this very thread, and closed again.

use std::path::Path;

use perf_event_open_sys::bindings as abi;
use perftax_doc::Mechanism;

use super::ring_pages::map_rings;
use super::{DirectSampler, LiveSampler, Payload, Sampler, Sampling};
use crate::error::Error;
use crate::event::{Catalog, Event, harmless_uprobe, parse};
use crate::guard::{ThrottleGuard, allowed_cpus, make_this_thread_realtime};
use crate::machine::{Opening, Privilege, Probe, Right, Root, Trial, usual_event};
use crate::sys::{OpenEvent, Target, timer_resolution_ns};

/// Opens one sampling event of each mechanism asked about.
pub struct LiveProbe<'a> {
    catalog: &'a Catalog,
}

/// Period of the probing event: it never gets there.
pub(super) const NEVER: u64 = 1 << 40;
/// More breakpoints than any CPU has.
const SLOTS_TRIED: u64 = 32;

impl<'a> LiveProbe<'a> {
    /// Probes with the names of this machine's catalog.
    pub fn new(catalog: &'a Catalog) -> Self {
        Self { catalog }
    }

    /// Whether this process may sample an event of its own, before anything else is done.
    ///
    /// # Errors
    /// `Permission`. What else may be wrong is told by whoever opens it as it is to be opened.
    pub fn check_permitted(&self, event: &Event) -> Result<(), Error> {
        let sampling = Sampling { period: Some(NEVER), ..Sampling::COUNTING };
        match OpenEvent::open(event, &sampling, Target::ThisThread, None) {
            Err(error @ Error::Permission { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    fn event(&self, text: &str) -> Result<Event, Error> {
        let mut events = parse(text, self.catalog)?;
        let event = events.pop().ok_or_else(|| Error::EventSyntax { text: text.into(), why: "names no event".into() })?;
        event.check_supported(self.catalog)?;
        Ok(event)
    }

    fn try_open(&self, text: &str) -> Result<OpenEvent, Error> {
        self.try_on(text, Target::ThisThread)
    }

    fn try_on(&self, text: &str, target: Target) -> Result<OpenEvent, Error> {
        OpenEvent::open(&self.event(text)?, &Sampling { period: Some(NEVER), ..Sampling::COUNTING }, target, None)
    }

    /// Where cores are of several kinds: the mechanism is there if each kind has it. Without a named event it is used where all CPUs that this process may
    /// run on are of one kind, with that kind's event; else its event has to be named.
    fn open_kinds(&self, usual: &str) -> Opening {
        for pmu in self.catalog.core_pmus() {
            if let Err(error) = self.try_open(&of_kind(usual, &pmu.name)) {
                return opening(Err(error));
            }
        }
        let only = allowed_cpus().ok().and_then(|cpus| self.catalog.core_pmu_of(&cpus));
        Opening::Opened(only.map(|pmu| of_kind(usual, &pmu.name)).unwrap_or_default())
    }

    fn try_uprobe(&self) -> Result<OpenEvent, Error> {
        OpenEvent::open(
            &harmless_uprobe(self.catalog)?,
            &Sampling { period: Some(1), ..Sampling::COUNTING },
            Target::ThisThread,
            None,
        )
    }

    /// The first of these events that opens, or why none does: permission before anything else, since the others may be there for others.
    fn first_of(&self, texts: &[&str]) -> Result<String, Error> {
        let mut refused = None;
        for &text in texts {
            match self.try_open(text) {
                Ok(_) => return Ok(text.into()),
                Err(error @ Error::Permission { .. }) => refused = Some(error),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| Error::EventSyntax { text: String::new(), why: "names no event".into() }))
    }

    /// The rings that samplers use, one on each CPU, as perf has them.
    fn map_rings(&self) -> Result<(), Error> {
        map_rings(&self.event("cpu-clock:u")?, RING_PAGES, allowed_cpus()?.len())
    }
}

/// Pages of perf's own rings: 512 KiB.
const RING_PAGES: usize = 128;

/// A tracepoint that every kernel with any has.
const TRACEPOINT: &str = "sched:sched_switch";

/// `instructions:up` as that of a kind of cores: `cpu_atom/instructions/up`.
fn of_kind(usual: &str, pmu: &str) -> String {
    let (event, modifiers) = usual.split_once(':').unwrap_or((usual, ""));
    format!("{pmu}/{event}/{modifiers}")
}

/// What came of opening an event.
fn opening(outcome: Result<String, Error>) -> Opening {
    match outcome {
        Ok(event) => Opening::Opened(event),
        Err(error) => Opening::Refused { why: error.headline(), remedy: error.advice() },
    }
}

/// What came of trying, without what was got.
fn trial<T>(outcome: Result<T, Error>) -> Trial {
    match outcome {
        Ok(_) => Trial::Allowed,
        Err(error) => Trial::Refused { why: error.headline(), remedy: error.advice() },
    }
}

impl Probe for LiveProbe<'_> {
    fn open(&self, mechanism: Mechanism) -> Opening {
        if mechanism == Mechanism::PebsDirect {
            return match DirectSampler::check(Path::new(DirectSampler::DEVICE)) {
                Err(Error::Unsupported { why, remedy, .. }) => Opening::Refused { why, remedy },
                outcome => opening(outcome.map(|()| String::new())),
            };
        }
        let watched = 0u64;
        let watching = format!("mem:{:#x}/8:w:u", std::ptr::from_ref(&watched) as usize);
        // Each with all that may be sampled, then with the program's own user mode alone. IBS leaves the kernel out by itself from Zen 6 on (the address' highest
        // bit); before, since Linux 6.15, the driver drops such samples, once they are taken, where it is asked to (arch/x86/events/amd/ibs.c, swfilt).
        let usual = usual_event(mechanism);
        let texts = match mechanism {
            Mechanism::Pebs | Mechanism::Pmi if self.catalog.core_pmus().len() > 1 => return self.open_kinds(usual),
            Mechanism::Pebs | Mechanism::Pmi => vec![usual],
            Mechanism::IbsOp => vec![usual, "ibs_op//u", "ibs_op/swfilt=1/u"],
            Mechanism::IbsFetch => vec![usual, "ibs_fetch//u", "ibs_fetch/swfilt=1/u"],
            Mechanism::CpuClock => vec![usual, "cpu-clock:u"],
            Mechanism::Software => vec![usual, "page-faults:u"],
            Mechanism::Breakpoint => return opening(self.try_open(&watching).map(|_| String::new())),
            Mechanism::Tracepoint => return opening(self.try_open(TRACEPOINT).map(|_| String::new())),
            Mechanism::Uprobe => return opening(self.try_uprobe().map(|_| String::new())),
            // What sysfs says stands.
            Mechanism::Spe | Mechanism::PebsDirect => return Opening::NotTried,
        };
        opening(self.first_of(&texts))
    }

    fn may(&self, right: Right) -> Trial {
        match right {
            Right::OwnUserMode => trial(self.try_open("cpu-clock:u")),
            Right::OwnKernelMode => trial(self.try_open("cpu-clock")),
            Right::WholeCpus => {
                trial(allowed_cpus().and_then(|cpus| self.try_on("cpu-clock", Target::Cpu(cpus.first().copied().unwrap_or(0)))))
            }
            // With what it carries: merely counting one is nobody's secret, and allowed at every level (kernel/trace/trace_event_perf.c,
            // perf_trace_event_perm).
            Right::Tracepoints => trial(self.event(TRACEPOINT).and_then(|event| {
                let raw = Sampling { period: Some(NEVER), ..Sampling::COUNTING }.carrying(Payload::BASIC.with_raw());
                OpenEvent::open(&event, &raw, Target::ThisThread, None)
            })),
            Right::Uprobes => trial(self.try_uprobe()),
            Right::KernelNames => kernel_names(),
            Right::Rings => trial(self.map_rings()),
            Right::SamplingLimits => ThrottleGuard::may_raise()
                .map_or_else(|why| Trial::Refused { why, remedy: ThrottleGuard::remedy() }, |()| Trial::Allowed),
            // In a thread of its own, which ends at once: this one stays as it is.
            Right::RealTime => std::thread::spawn(make_this_thread_realtime).join().map_or(Trial::NotTried, trial),
        }
    }

    fn counts_the_clock(&self) -> Option<bool> {
        let clock = OpenEvent::open(&self.event("cpu-clock:u").ok()?, &Sampling::COUNTING, Target::ThisThread, None).ok()?;
        clock.enable().ok()?;
        // Some microseconds at least: a system call, and what it takes to get there.
        let id = clock.id();
        clock.disable().ok()?;
        std::hint::black_box(id).ok()?;
        Some(clock.read().ok()?.value > 0)
    }

    fn interrupts(&self, event: &str) -> Option<bool> {
        /// Work that is some hundred periods of instructions and cycles, and takes milliseconds.
        const TURNS: u64 = 4_000_000;
        const PERIOD: u64 = 50_021;
        const RING_PAGES: usize = 8;
        let sampling = Sampling { period: Some(PERIOD), ..Sampling::COUNTING }.carrying(Payload::BASIC);
        let mut sampler = LiveSampler::open(&[(self.event(event).ok()?, sampling)], &[Target::ThisThread], RING_PAGES).ok()?;
        sampler.enable().ok()?;
        for turn in 0..TURNS {
            std::hint::black_box(turn);
        }
        sampler.disable().ok()?;
        let counted = sampler.events().first()?.read().ok()?.value;
        let mut samples = 0;
        sampler.drain(&mut |header, _| samples += u64::from(header.kind == abi::PERF_RECORD_SAMPLE)).ok()?;
        // An event that hardly happens in this work tells nothing.
        (counted > 20 * PERIOD).then_some(samples > 0)
    }

    fn timer_resolution_ns(&self) -> Option<u64> {
        Some(timer_resolution_ns())
    }

    fn breakpoint_slots(&self) -> Option<u32> {
        let variables = vec![0u64; SLOTS_TRIED as usize];
        let mut open = Vec::new();
        for variable in &variables {
            match self.try_open(&format!("mem:{:#x}/8:w:u", std::ptr::from_ref(variable) as usize)) {
                Ok(event) => open.push(event),
                Err(_) => break,
            }
        }
        Some(open.len() as u32)
    }
}

/// Whether the kernel shows the addresses of its functions: zeros stand for those that it hides, and for the first variables of each CPU, too.
fn kernel_names() -> Trial {
    use std::io::BufRead;
    let path = "/proc/kallsyms";
    // Only what refuses: a level that is lower already is not to be raised.
    let root = Root::here();
    let is_restricted = root.sysctl("kernel.kptr_restrict").is_some_and(|level| level != "0");
    let is_paranoid = Privilege::read(&root).paranoid.is_some_and(|level| level > 1);
    let knobs = [(is_restricted, " kernel.kptr_restrict=0"), (is_paranoid || !is_restricted, " kernel.perf_event_paranoid=1")];
    let needed: String = knobs.iter().filter(|(refuses, _)| *refuses).map(|(_, knob)| *knob).collect();
    let refused = |why: String| Trial::Refused { why, remedy: format!("sudo sysctl{needed}") };
    let file = match std::fs::File::open(path) {
        Ok(file) => std::io::BufReader::new(file),
        Err(error) => return refused(format!("{path}: {error}")),
    };
    let is_function = |line: &String| line.split(' ').nth(1).is_some_and(|kind| kind.eq_ignore_ascii_case("t"));
    let first = file.lines().map_while(Result::ok).find(is_function);
    match first {
        Some(line) if line.bytes().take_while(|byte| *byte != b' ').any(|byte| byte != b'0') => Trial::Allowed,
        Some(_) => refused(format!("{path} shows addresses of 0 (kernel.kptr_restrict, kernel.perf_event_paranoid)")),
        None => refused(format!("{path} shows no functions")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is tried on each kind of core is an event of it, with the same modifiers.
    #[test]
    fn the_usual_event_is_had_of_each_kind_of_core() {
        let catalog = Catalog::at(Path::new("/nonexistent"), None).with_vendor(crate::event::Vendor::Intel);
        for mechanism in [Mechanism::Pebs, Mechanism::Pmi] {
            let usual = usual_event(mechanism);
            let of_all = parse(usual, &catalog).ok().and_then(|mut events| events.pop());
            let text = of_kind(usual, "cpu_core");
            let of_one = parse(&text, &catalog).ok().and_then(|mut events| events.pop());
            let what = |event: Option<Event>| event.map(|event| (event.modifiers, event.mechanism));
            assert_eq!(of_one.as_ref().and_then(|event| event.core.as_deref()), Some("cpu_core"), "{text}");
            assert!(what(of_all.clone()).is_some() && what(of_all) == what(of_one), "{text}");
        }
    }
}
