//! Who called: how it is asked for, and chains made of copies of stacks while the program runs.

use perftax_pmu::process::mapped_file;
use perftax_pmu::record::{Mmap2, RegisterAbi, Sample};
use perftax_pmu::sampler::Payload;
use perftax_symbols::{Frame, Unwinder};

use crate::code::Code;

/// How callers are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Callers {
    /// Not at all.
    #[default]
    Nobody,
    /// By frame pointers, in the kernel.
    FramePointers,
    /// By the tables that compilers leave for exceptions, from a copy of the top of the stack of so many bytes; what is written are the callers, not the copy.
    Tables {
        /// Bytes of the stack that are copied at most.
        stack_bytes: u32,
    },
}

impl Callers {
    /// What samples carry on their way to us.
    pub(crate) fn carried(self, payload: Payload) -> Payload {
        match self {
            Self::Nobody => payload,
            Self::FramePointers => payload.with_callchain(),
            Self::Tables { stack_bytes } => payload.with_stack_to_unwind(stack_bytes),
        }
    }

    /// What they carry in the recording.
    pub(crate) fn written(self, payload: Payload) -> Payload {
        match self {
            Self::Nobody => payload,
            Self::FramePointers | Self::Tables { .. } => payload.with_callchain(),
        }
    }
}

/// Registers by the kernel's numbers (`asm/perf_regs.h`, x86).
const BP: u32 = 6;
const SP: u32 = 7;
const IP: u32 = 8;
/// `PERF_CONTEXT_USER`: what follows are addresses of user mode.
const USER: u64 = (-512_i64).cast_unsigned();
/// Callers of user mode that are told at most, as perf has it (`kernel.perf_event_max_stack`).
const MOST: usize = 127;

/// Finds callers in copies of stacks.
#[derive(Debug, Default)]
pub struct Walker {
    unwinder: Unwinder,
    code: Code,
    chain: Vec<u64>,
    /// Samples whose copy ended before the chain did.
    pub cut: u64,
}

impl Walker {
    /// A process maps code.
    pub fn mapped(&mut self, map: &Mmap2<'_>) {
        self.code.map(map.mapping.task.pid, map.into());
    }

    /// A process begins as a copy of another.
    pub fn forked(&mut self, pid: u32, parent: u32) {
        self.code.forked(pid, parent);
    }

    /// A process executes another program, or is gone.
    pub fn forget(&mut self, pid: u32) {
        self.code.forget(pid);
        self.unwinder.forget(pid);
    }

    /// Nobody is known any more.
    pub fn forget_all(&mut self) {
        self.code = Code::default();
        self.unwinder.forget_all();
    }

    /// What is known of processes' code.
    #[cfg(test)]
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// A sample's whole chain, as the kernel writes one: its own part as it came, then who called in user mode.
    pub fn chain(&mut self, sample: &Sample<'_>) -> &[u64] {
        self.chain.clear();
        self.chain.extend(sample.callchain.iter().flat_map(|chain| chain.entries.iter()));
        let registers = sample.user_registers.filter(|registers| registers.abi == RegisterAbi::Bits64);
        let word = |number| registers.and_then(|registers| registers.get(number));
        if let (Some(at), Some(stack), Some(base), Some(task)) = (word(IP), word(SP), word(BP), sample.task) {
            let copy = sample.user_stack.map_or(&[][..], |stack| stack.valid);
            let frame = Frame { stack, base };
            let pid = task.pid;
            let walk = self.unwinder.chain(pid, self.code.of(pid), at, frame, copy, MOST, |map| mapped_file(pid, map));
            self.cut += u64::from(walk.is_cut);
            self.chain.extend([USER, at]);
            self.chain.extend(walk.callers);
        }
        &self.chain
    }
}
