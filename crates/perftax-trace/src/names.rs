//! What the numbers in a trace are called.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::blame::Detail;
use crate::cause::Cause;
use crate::kernel::Interruption;
use crate::kinds::Kinds;
use crate::lock::Lock;
use crate::message::Piece;
use crate::store::Symbols;

/// Names that were seen while recording.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// What threads were called last.
    pub threads: BTreeMap<u32, String>,
    /// Whose lines interrupts are.
    pub irqs: BTreeMap<u32, String>,
    /// Locks that threads waited for, by their numbers.
    pub locks: BTreeMap<u32, Lock>,
    /// What messages and threads are called together.
    pub kinds: Arc<Kinds>,
}

impl Names {
    /// A thread, by its name and number.
    pub fn thread(&self, tid: u32) -> String {
        match self.threads.get(&tid) {
            Some(name) => format!("{name} ({tid})"),
            None => format!("thread {tid}"),
        }
    }

    /// What a thread was called.
    pub fn thread_name(&self, tid: u32) -> &str {
        self.threads.get(&tid).map_or("?", String::as_str)
    }

    /// A system call, or the lock that is waited for by one.
    fn call(&self, number: u32) -> String {
        match self.locks.get(&number) {
            Some(lock) => format!("{} at {}", syscall(syscalls::Sysno::futex as u32), lock.name()),
            None => syscall(Lock::or_call(number)),
        }
    }

    /// Which of a cause it was, as [`Piece::which`] has it; none where nothing is known of that, or there is nothing to say.
    pub fn which(&self, cause: Cause, which: u32, symbols: &Symbols) -> Option<String> {
        let is_told = which != 0 || cause.is_interruption();
        is_told.then(|| self.detail(cause, Detail::Which(which), symbols)).flatten()
    }

    /// A detail of a cause; none where there is nothing to say.
    pub fn detail(&self, cause: Cause, detail: Detail, symbols: &Symbols) -> Option<String> {
        let which = match detail {
            Detail::Function(number) => {
                let function = symbols.get(number);
                return Some(match function.module.as_str() {
                    "" => function.name.clone(),
                    module if function.name.is_empty() && module.starts_with('[') => module.into(),
                    module if module.starts_with('[') => format!("{} {module}", function.name),
                    module if function.name.is_empty() => format!("[{module}]"),
                    module => format!("{} [{module}]", function.name),
                });
            }
            Detail::Ended { which, kind } => {
                let by = format!("ended by {}", self.kinds.name(kind)?);
                let call = which.checked_sub(1).filter(|_| which != Piece::IN_FAULT).map(|number| self.call(number));
                return Some(call.map_or_else(|| by.clone(), |call| format!("{call}, {by}")));
            }
            Detail::Meanwhile(kind) => return Some(format!("meanwhile {}", self.kinds.name(kind)?)),
            Detail::Which(which) => which,
        };
        let at = which as usize;
        match cause {
            Cause::Blocked if which == Piece::IN_FAULT => Some("page fault".into()),
            Cause::Syscall | Cause::Blocked => which.checked_sub(1).map(|number| self.call(number)),
            Cause::Irq => {
                Some(self.irqs.get(&which).map_or_else(|| format!("irq {which}"), |name| format!("{name} (irq {which})")))
            }
            Cause::Softirq => {
                Some(Interruption::SOFTIRQS.get(at).map_or_else(|| format!("softirq {which}"), |name| (*name).into()))
            }
            Cause::Vector if at == Interruption::VECTORS.len() => Some("TLB flush".into()),
            Cause::Vector if which == Interruption::NMI => Some("non-maskable (sampling)".into()),
            Cause::Vector => Interruption::VECTORS.get(at).map(|name| name.replace('_', " ")),
            Cause::Preempted => Some(format!("by {}", self.thread(which))),
            Cause::Runnable => Some(format!("behind {}", self.thread(which))),
            _ => None,
        }
    }
}

/// A system call by its number on this architecture (Linux, asm/unistd.h).
pub fn syscall(number: u32) -> String {
    match syscalls::Sysno::new(number as usize) {
        Some(call) => call.name().into(),
        None => format!("system call {number}"),
    }
}
