//! This machine, as the commands that measure see it: identity, event names, mechanisms, profile.

use std::cell::OnceCell;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use perftax_doc::{MachineId, Origin};
use perftax_doc::{Mechanism, Warning};
use perftax_pmu::Error;
use perftax_pmu::event::{Catalog, Event, parse};
use perftax_pmu::guard::{ThrottleGuard, allowed_cpus};
use perftax_pmu::machine::intel::Generation;
use perftax_pmu::machine::{CpuLimit, Machine, MechanismStatus, Right, RightStatus, Topology, Vendor, measuring_cpu};
use perftax_pmu::sampler::LiveProbe;

use crate::origin;
use crate::progress::announce;
use crate::wait::Wait;

/// What a result is without a reference loop.
pub const NO_REFERENCE_LOOP: &str =
    "no reference loop runs beside the programs, so the machine's own variation stays in the intervals";

/// Everything that a measuring command needs to know about where it runs.
pub struct Host {
    /// Who this machine is.
    pub id: MachineId,
    /// Kernel release.
    pub kernel: String,
    /// Names of events.
    pub catalog: Catalog,
    /// CPUs that this process may use, ascending.
    pub cpus: Vec<u32>,
    machine: Machine,
    measuring_cpu: OnceCell<u32>,
    /// How long to wait for another perftax that measures.
    longest_wait: Duration,
}

/// One of the kernel's own words on this host (proc(5), /proc/sys/kernel); empty where it cannot be read.
pub fn kernel_says(what: &str) -> String {
    std::fs::read_to_string(Path::new("/proc/sys/kernel").join(what)).map(|text| text.trim().to_string()).unwrap_or_default()
}

impl Host {
    /// Whether a hypervisor is beneath.
    pub fn is_guest(&self) -> bool {
        self.machine.virtualisation.is_guest()
    }

    /// Reads the machine.
    pub fn read() -> Result<Self> {
        let machine = Machine::here();
        let catalog = Catalog::of_this_machine();
        Ok(Self {
            id: machine.id(),
            kernel: machine.kernel(),
            catalog,
            cpus: allowed_cpus()?,
            machine,
            measuring_cpu: OnceCell::new(),
            longest_wait: Duration::ZERO,
        })
    }

    /// The same, for a command that measures alone.
    pub fn read_waiting(wait: Wait) -> Result<Self> {
        Ok(Self { longest_wait: wait.longest()?, ..Self::read()? })
    }

    /// Counters of a core for events of the program's choice, where it has any.
    pub fn counters(&self) -> Option<usize> {
        self.machine.general_counters().map(|counters| counters as usize)
    }

    /// Intel's generation that it is of; none where it is no such processor, or an unknown one.
    pub fn generation(&self) -> Option<&'static Generation> {
        let cpu = &self.machine.cpu;
        Generation::of_model(cpu.family, cpu.model).filter(|_| cpu.vendor == Vendor::Intel)
    }

    /// The types of its PMUs, with their names.
    pub fn pmu_types(&self) -> Vec<(u32, String)> {
        let mut types: Vec<_> = self.machine.pmus.iter().filter_map(|pmu| Some((pmu.kind?, pmu.name.clone()))).collect();
        types.sort();
        types
    }

    /// Which of the CPUs share a core.
    pub fn topology(&self) -> Topology {
        Topology::read(&self.machine.root, &self.cpus)
    }

    /// Whether the core's PMU is the emulated one, which counts without error by its making.
    pub fn is_emulated() -> bool {
        std::env::var_os("PERFTAX_EMULATED").is_some()
    }

    /// Whether loads can miss: on the emulated machine only with `--caches`.
    pub fn has_caches() -> bool {
        !Self::emulated_lacks("caches")
    }

    /// Whether IBS starts its counts at random: on the emulated machine only with `--ibs-random`.
    pub fn has_random_starts() -> bool {
        !Self::emulated_lacks("ibs-random")
    }

    /// Whether this is an emulated machine without something that can be asked for: it says what it has.
    fn emulated_lacks(what: &str) -> bool {
        let has = std::env::var("PERFTAX_EMULATED_WITH").unwrap_or_default();
        Self::is_emulated() && !has.split(',').any(|had| had == what)
    }

    /// Whether time is made of instructions: the emulated machine's is, unless it was told to be fast.
    pub fn counts_instructions() -> bool {
        std::env::var_os("PERFTAX_EMULATED").is_some_and(|how| how == "icount")
    }

    /// The head of a document of this machine.
    pub fn origin(&self, kind: &str) -> Origin {
        let mut origin = origin::here(kind, self.id.clone(), self.kernel.clone());
        if std::env::var_os("PERFTAX_EMULATED").is_some_and(|how| how == "fast") {
            origin.warnings.push(Warning::Other {
                message: "this is an emulated machine with --fast: its time is the host's, and no two runs are alike".into(),
                remedy: "perftax vm run without --fast".into(),
            });
        }
        // Doctor says the same as a fact.
        let limit = CpuLimit::read(&self.machine.root).filter(|limit| limit.cpus() < self.cpus.len() as f64);
        if let Some(limit) = limit {
            origin.warnings.push(Warning::Other {
                message: format!(
                    "a CPU quota holds this process to {:.2} CPUs (cpu.max): a program that uses it up waits for what sampling takes once more, and elapsed \
                     times are the quota's",
                    limit.cpus()
                ),
                remedy: "measure outside of the quota (docker run without --cpus; echo max >cpu.max in its control group)".into(),
            });
        }
        origin
    }

    /// The CPU that single-threaded measurements are pinned to: the last one, since the first takes most device interrupts, unless somebody else is on it
    /// and another idles. It is looked for once.
    pub fn measuring_cpu(&self) -> u32 {
        *self.measuring_cpu.get_or_init(|| measuring_cpu(&self.machine.root, &self.cpus).unwrap_or(0))
    }

    /// One event by name.
    pub fn event(&self, text: &str) -> Result<Event> {
        let mut events = parse(text, &self.catalog)?;
        if events.len() > 1 {
            return Err(Error::Argument { argument: "-e", value: text.into(), needed: "one event here".into() }.into());
        }
        Ok(events.pop().ok_or_else(|| Error::EventSyntax { text: text.into(), why: "names no event".into() })?)
    }

    /// Refuses an event that this machine has not, or that may not be opened.
    pub fn check_usable(&self, event: &Event) -> Result<()> {
        event.check_supported(&self.catalog)?;
        Ok(LiveProbe::new(&self.catalog).check_permitted(event)?)
    }

    /// What counts CPU time, for everybody: a clock that is counted goes on in the kernel's mode whatever its filter says (kernel/events/core.c,
    /// task_clock_event_read), and only the filter decides who may open it.
    pub fn task_clock(&self) -> Result<Event> {
        let mut event = self.event("task-clock")?;
        event.modifiers.exclude_kernel = true;
        Ok(event)
    }

    /// The event and mechanism to measure: what was asked for, checked, or the best mechanism that works here.
    pub fn choose(&self, event: Option<&str>, mechanism: Option<Mechanism>) -> Result<(Option<Event>, Mechanism)> {
        if let Some(text) = event {
            let event = self.event(text)?;
            if event.rate.is_some() {
                let needed = "the event without period= or freq=: these commands choose periods, or take them by -c".into();
                return Err(Error::Argument { argument: "-e", value: text.into(), needed }.into());
            }
            self.check_usable(&event)?;
            if mechanism == Some(Mechanism::PebsDirect) {
                if event.mechanism != Mechanism::Pebs {
                    let needed =
                        "a precise event of a core's counters, such as instructions:up: perf's PEBS is measured beside it".into();
                    return Err(Error::Argument { argument: "-e", value: text.into(), needed }.into());
                }
                self.available(Mechanism::PebsDirect)?;
                event.direct(&self.catalog)?;
                return Ok((Some(event), Mechanism::PebsDirect));
            }
            if let Some(wanted) = mechanism.filter(|wanted| *wanted != event.mechanism) {
                return Err(Error::Argument {
                    argument: "--mechanism",
                    value: wanted.to_string(),
                    needed: format!("{} for event {text} (or leave it out)", event.mechanism),
                }
                .into());
            }
            let mechanism = event.mechanism;
            return Ok((Some(event), mechanism));
        }
        let probe = LiveProbe::new(&self.catalog);
        let status = match mechanism {
            Some(mechanism) => self.available(mechanism)?,
            // What needs an argument, an address or a place in a program, is nobody's default.
            // Each is tried only where none before it is to be had: closing a tracepoint or a uprobe again takes the kernel some 50 ms.
            None => Mechanism::ALL
                .into_iter()
                .map(|mechanism| self.machine.mechanism(mechanism, &probe))
                .find(|status| !status.event.is_empty())
                .ok_or_else(|| self.nothing(&probe))?,
        };
        let event = Some(status.event).filter(|event| !event.is_empty()).map(|text| self.event(&text)).transpose()?;
        Ok((event, status.mechanism))
    }

    /// Why nothing at all can be sampled: what refuses the least that there is.
    fn nothing(&self, probe: &LiveProbe) -> Error {
        let least = self.machine.mechanism(Mechanism::CpuClock, probe);
        Error::Unsupported { what: "sample anything".into(), why: least.why_not, remedy: least.remedy }
    }

    /// Whether this process has a right; where not, why, and what helps.
    pub fn right(&self, right: Right) -> RightStatus {
        self.machine.right(right, &LiveProbe::new(&self.catalog))
    }

    /// Whether something optional may be done that a right is needed for. Where not, `less` says what the result is without it, as a warning.
    pub fn may(&self, right: Right, less: &str, origin: &mut Origin) -> bool {
        let status = self.right(right);
        let is_held = status.held == Some(true);
        if !is_held {
            origin.warnings.push(Warning::Other { message: format!("{less}: {}", status.why_not), remedy: status.remedy });
        }
        is_held
    }

    /// Whether what the kernel does beside a program may be watched: whole CPUs, by tracepoints. Where not, the trace says so.
    #[cfg(feature = "trace")]
    pub fn may_see_noise(&self, origin: &mut Origin) -> bool {
        let less = "what the kernel did (switches, interrupts, system calls) is left out";
        self.may(Right::WholeCpus, less, origin) && self.may(Right::Tracepoints, less, origin)
    }

    /// How it stands with a mechanism.
    pub fn mechanism(&self, mechanism: Mechanism) -> MechanismStatus {
        self.machine.mechanism(mechanism, &LiveProbe::new(&self.catalog))
    }

    fn available(&self, mechanism: Mechanism) -> Result<MechanismStatus> {
        let status = self.mechanism(mechanism);
        if status.available {
            return Ok(status);
        }
        let remedy = if status.remedy.is_empty() { "perftax doctor shows what works here".into() } else { status.remedy };
        Err(Error::Unsupported { what: format!("sample by {mechanism}"), why: status.why_not, remedy }.into())
    }

    /// Raises the kernel's sampling limits until dropped, and says so where it may not. Waits for another perftax that measures as long as it was
    /// asked for.
    pub fn throttle_guard(&self, origin: &mut Origin) -> Result<ThrottleGuard> {
        let longest = self.longest_wait;
        let mut has_waited = false;
        let mut told = || {
            has_waited = true;
            announce(&format!("another perftax is measuring: waiting for it, {} s at most", longest.as_secs()));
        };
        let guard = ThrottleGuard::raise_within(longest, &mut told).map_err(|error| match error {
            Error::Busy { lock, waited_s, remedy } => {
                let how = if waited_s == 0 { "--wait waits for it" } else { "--wait=SECONDS waits longer" };
                Error::Busy { lock, waited_s, remedy: format!("{how}; {remedy}") }
            }
            other => other,
        })?;
        if has_waited {
            announce("the other perftax is done");
        }
        if !guard.is_active() {
            let (rate, percent) = guard.limits();
            origin.warnings.push(perftax_doc::Warning::Other {
                message: format!(
                    "the kernel's sampling limits stay at {rate} samples a second and {percent} % of a CPU: no right to raise them"
                ),
                remedy: ThrottleGuard::remedy(),
            });
        }
        Ok(guard)
    }
}
