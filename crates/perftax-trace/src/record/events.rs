//! The events that say what the kernel does, and what each means.

use perftax_pmu::event::{Catalog, Event, RecordFormat, parse};
use perftax_pmu::record::Sample;
use perftax_pmu::sampler::Sampling;
use perftax_pmu::{Error, Result};

use crate::kernel::{Interruption, KernelEvent, What};
use crate::lock::Lock;
use crate::names::Names;
use crate::sockets::{Call, Moment, action, may_act};

/// What an event's record means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Sample,
    Switch,
    Wakeup,
    Irq,
    IrqExit,
    Softirq,
    SoftirqExit,
    /// Its place among [`Interruption::VECTORS`].
    Vector(u32),
    VectorExit(u32),
    SyscallEnter,
    SyscallExit,
    FaultEnter,
    FaultExit,
    Ran,
    Migrate,
    TlbFlush,
    Nmi,
    /// A thread of the program leaves its CPU: says nothing but what its registers held.
    Leaving,
    /// What a BPF program read where a thread's context was written.
    Context,
    /// A place that says something of messages: its number among them.
    Probe(u32),
    /// An event that is counted by message: its number among them.
    Counted(u16),
    /// A thread leaves its CPU: says nothing but what the CPU's counters are at.
    Reading,
    /// One of those counters.
    Counter,
}

/// When a thread leaves its CPU, with its registers of user mode.
pub(super) const LEAVING: [(&str, Meaning); 1] = [("context-switches", Meaning::Leaving)];
/// What sampling by hardware takes of every CPU.
pub(super) const INTERRUPTS: [(&str, Meaning); 1] = [("nmi:nmi_handler", Meaning::Nmi)];
/// What every CPU did. Kernels and architectures differ in all but the first two.
pub(super) const NOISE: [(&str, Meaning); 17] = [
    ("sched:sched_switch", Meaning::Switch),
    // Not sched_wakeup, which is often told on the CPU of who is woken, by whoever runs there (kernel/sched/core.c, ttwu_queue).
    ("sched:sched_waking", Meaning::Wakeup),
    ("sched:sched_stat_runtime", Meaning::Ran),
    ("sched:sched_migrate_task", Meaning::Migrate),
    ("irq:irq_handler_entry", Meaning::Irq),
    ("irq:irq_handler_exit", Meaning::IrqExit),
    ("irq:softirq_entry", Meaning::Softirq),
    ("irq:softirq_exit", Meaning::SoftirqExit),
    ("tlb:tlb_flush", Meaning::TlbFlush),
    ("irq_vectors:local_timer_entry", Meaning::Vector(0)),
    ("irq_vectors:local_timer_exit", Meaning::VectorExit(0)),
    ("irq_vectors:reschedule_entry", Meaning::Vector(1)),
    ("irq_vectors:reschedule_exit", Meaning::VectorExit(1)),
    ("irq_vectors:call_function_entry", Meaning::Vector(2)),
    ("irq_vectors:call_function_exit", Meaning::VectorExit(2)),
    ("irq_vectors:call_function_single_entry", Meaning::Vector(3)),
    ("irq_vectors:call_function_single_exit", Meaning::VectorExit(3)),
];
/// What the program asked of the kernel.
pub(super) const SYSCALLS: [(&str, Meaning); 2] =
    [("raw_syscalls:sys_enter", Meaning::SyscallEnter), ("raw_syscalls:sys_exit", Meaning::SyscallExit)];
/// Its page faults: the first is written when the kernel begins, the others when it has filled in the page.
pub(super) const FAULTS: [(&str, Meaning); 3] =
    [("page-faults", Meaning::FaultEnter), ("minor-faults", Meaning::FaultExit), ("major-faults", Meaning::FaultExit)];
/// Locks that are kept in mind at most: of those beyond it is known that they are some.
const MAX_LOCKS: usize = 10_000;
/// Without these there is no telling who ran.
const NEEDED: usize = 2;

/// Events that were found, and the names of those that this kernel does not have.
pub(super) struct Tracepoints {
    pub events: Vec<(Event, Sampling, Meaning)>,
    pub missing: Vec<String>,
}

impl Tracepoints {
    /// # Errors
    /// Where one of the first two is missing, or tracefs cannot be read.
    pub fn resolve(wanted: &[(&str, Meaning)], sampling: Sampling, catalog: &Catalog) -> Result<Self> {
        let mut found = Self { events: Vec::new(), missing: Vec::new() };
        for (at, (name, meaning)) in wanted.iter().enumerate() {
            match parse(name, catalog) {
                Ok(parsed) => found.events.extend(parsed.into_iter().map(|event| (event, sampling, *meaning))),
                Err(Error::UnknownEvent { .. }) if at >= NEEDED => found.missing.push((*name).into()),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

/// Where the fields lie that are looked at.
pub(super) struct Formats {
    switch: RecordFormat,
    wakeup: RecordFormat,
    ran: RecordFormat,
    migrate: RecordFormat,
    irq: RecordFormat,
    softirq: RecordFormat,
    flush: RecordFormat,
    nmi: RecordFormat,
    syscall: RecordFormat,
    syscall_exit: RecordFormat,
}

impl Formats {
    /// # Errors
    /// Where tracefs does not say how `sched_switch` and `sched_waking` are laid out.
    pub fn read(catalog: &Catalog) -> Result<Self> {
        // A tracepoint that is missing has no records either.
        let optional = |system, name| catalog.record_format(system, name).unwrap_or_default();
        Ok(Self {
            switch: catalog.record_format("sched", "sched_switch")?,
            wakeup: catalog.record_format("sched", "sched_waking")?,
            ran: optional("sched", "sched_stat_runtime"),
            migrate: optional("sched", "sched_migrate_task"),
            irq: optional("irq", "irq_handler_entry"),
            softirq: optional("irq", "softirq_entry"),
            flush: optional("tlb", "tlb_flush"),
            nmi: optional("nmi", "nmi_handler"),
            syscall: optional("raw_syscalls", "sys_enter"),
            syscall_exit: optional("raw_syscalls", "sys_exit"),
        })
    }

    /// What a system call has to do with sockets; none where that is nothing.
    pub fn read_call(&self, meaning: Meaning, sample: &Sample<'_>) -> Option<Call> {
        let raw = sample.raw.unwrap_or_default();
        let at = match meaning {
            Meaning::SyscallEnter => {
                let number = self.syscall.number("id", raw)?;
                let mut arguments = [0; 6];
                for (at, argument) in arguments.iter_mut().enumerate() {
                    *argument = self.syscall.word("args", at, raw)?;
                }
                Moment::Enter(action(number, &arguments)?)
            }
            Meaning::SyscallExit => {
                self.syscall_exit.number("id", raw).filter(|number| may_act(*number))?;
                Moment::Exit(self.syscall_exit.number("ret", raw)?.cast_signed())
            }
            _ => return None,
        };
        let task = sample.task?;
        Some(Call { time_ns: sample.time_ns?, pid: task.pid, tid: task.tid, at })
    }

    /// The thread that leaves its CPU, and the one that it leaves it to.
    pub fn read_switch(&self, sample: &Sample<'_>) -> Option<(u32, u32)> {
        let number = |name| self.switch.number(name, sample.raw.unwrap_or_default()).map(|tid| tid as u32);
        number("prev_pid").zip(number("next_pid"))
    }

    /// What a record says; `None` where it does not hold what it should.
    pub fn read_record(&self, meaning: Meaning, sample: &Sample<'_>, names: &mut Names) -> Option<KernelEvent> {
        let (time_ns, cpu, mut tid) = (sample.time_ns?, sample.cpu?, sample.task?.tid);
        let raw = || sample.raw.unwrap_or_default();
        let number = |format: &RecordFormat, name: &str| format.number(name, raw()).map(|value| value as u32);
        let what = match meaning {
            Meaning::Sample | Meaning::Leaving | Meaning::Context | Meaning::Probe(_) | Meaning::Counted(_) => return None,
            Meaning::Reading | Meaning::Counter => return None,
            Meaning::Switch => {
                // The record belongs to the thread that leaves, whoever the sample says was there.
                tid = number(&self.switch, "prev_pid")?;
                let next = number(&self.switch, "next_pid")?;
                name(names, &self.switch, next, "next_comm", raw());
                name(names, &self.switch, tid, "prev_comm", raw());
                // TASK_RUNNING is 0; what lies above the states that can be reported says that it was preempted.
                What::Switch { is_runnable: self.switch.number("prev_state", raw())? & 0xff == 0, next }
            }
            Meaning::Wakeup => What::Wakeup { tid: number(&self.wakeup, "pid")? },
            Meaning::Ran => {
                tid = number(&self.ran, "pid")?;
                What::Ran(self.ran.number("runtime", raw())?)
            }
            Meaning::Migrate => What::Migrate { tid: number(&self.migrate, "pid")?, to: number(&self.migrate, "dest_cpu") },
            Meaning::Irq => {
                let line = number(&self.irq, "irq")?;
                names
                    .irqs
                    .entry(line)
                    .or_insert_with(|| String::from_utf8_lossy(self.irq.text("name", raw()).unwrap_or_default()).into_owned());
                What::Enter(Interruption::Irq, line)
            }
            Meaning::IrqExit => What::Exit(Interruption::Irq, 0),
            Meaning::Softirq => What::Enter(Interruption::Softirq, number(&self.softirq, "vec")?),
            Meaning::SoftirqExit => What::Exit(Interruption::Softirq, 0),
            Meaning::Vector(which) => What::Enter(Interruption::Vector, which),
            Meaning::VectorExit(which) => What::Exit(Interruption::Vector, which),
            Meaning::SyscallEnter => {
                let called = number(&self.syscall, "id")?;
                let argument = |at| self.syscall.word("args", at, raw());
                let lock = argument(0)
                    .zip(argument(1))
                    .and_then(|(address, command)| Lock::of_call(sample.task?.pid, called, [address, command]));
                What::SyscallEnter(lock.map_or(called, |lock| {
                    let number = lock.number();
                    if names.locks.len() < MAX_LOCKS {
                        names.locks.entry(number).or_insert(lock);
                    }
                    number
                }))
            }
            Meaning::SyscallExit => What::SyscallExit(number(&self.syscall, "id").unwrap_or(0)),
            Meaning::FaultEnter => What::FaultEnter,
            Meaning::FaultExit => What::FaultExit,
            Meaning::Nmi => What::Nmi(self.nmi.number("delta_ns", raw())?),
            Meaning::TlbFlush => What::TlbFlush(number(&self.flush, "reason")?),
        };
        Some(KernelEvent { time_ns, cpu, tid, what })
    }
}

fn name(names: &mut Names, format: &RecordFormat, tid: u32, field: &str, raw: &[u8]) {
    if tid != 0 && !names.threads.contains_key(&tid) {
        let comm = format.text(field, raw).unwrap_or_default();
        names.threads.insert(tid, String::from_utf8_lossy(comm).into_owned());
    }
}
