// SPDX-License-Identifier: GPL-2.0-or-later
//! What an instruction counts as.

use std::ops::{Index, IndexMut};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind,
};
use perftax_model::{Counts, Event};

/// Events of one instruction or block: there are many of these, and none has many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Few([u16; Event::COUNT]);

impl Index<Event> for Few {
    type Output = u16;

    fn index(&self, event: Event) -> &u16 {
        &self.0[event as usize]
    }
}

impl IndexMut<Event> for Few {
    fn index_mut(&mut self, event: Event) -> &mut u16 {
        &mut self.0[event as usize]
    }
}

impl Few {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// Adds them so many times to totals.
    pub fn add_to(&self, totals: &mut Counts, times: u64) {
        if times > 0 {
            Event::all().for_each(|event| totals[event] += u64::from(self[event]) * times);
        }
    }
}

/// An instruction's events, and what matters of its flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoded {
    /// Events of every class that does not depend on how it runs.
    pub counts: Few,
    /// A conditional branch: whether it is taken shows only when it runs.
    pub conditional: bool,
    /// A string instruction with a repeat prefix: QEMU comes back to it after every repetition, once more than there are any.
    pub repeats: bool,
    /// Events of one repetition.
    pub repetition: Few,
    /// Bytes of its largest memory operand.
    pub bytes: u32,
    /// It writes where it has read: one address, unlike those of a move from memory to memory.
    pub modifies: bool,
}

impl Decoded {
    /// Classes that happen at every repetition of an instruction, not once.
    pub const REPEATED: [Event; 3] = [Event::Loads, Event::Stores, Event::Uops];

    /// Whether it reads, and whether it writes memory.
    pub fn accesses(&self) -> (bool, bool) {
        let any = |event| self.counts[event] + self.repetition[event] > 0;
        (any(Event::Loads), any(Event::Stores))
    }
}

/// Decodes one instruction at an address.
pub fn decode(code: &[u8], ip: u64, factory: &mut InstructionInfoFactory) -> Decoded {
    let mut decoder = Decoder::with_ip(64, code, ip, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let mut decoded = Decoded::default();
    let Accesses { loads, stores, modifies } = memory_accesses(&instruction, factory);
    decoded.modifies = modifies;
    let counts = &mut decoded.counts;
    counts[Event::Instructions] = 1;
    counts[Event::DispatchedOps] = 1;
    counts[Event::Loads] = u16::from(loads);
    counts[Event::Stores] = u16::from(stores);
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg && loads;
    counts[Event::LockedOps] = u16::from(instruction.has_lock_prefix() || exchanges);
    let is_move = matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Push | Mnemonic::Pop | Mnemonic::Movzx);
    let operation = u16::from(!(is_move && (loads || stores)));
    counts[Event::Uops] = (operation + u16::from(loads) + 2 * u16::from(stores)).max(1);
    match instruction.flow_control() {
        FlowControl::Next | FlowControl::Exception | FlowControl::Interrupt | FlowControl::XbeginXabortXend => {}
        FlowControl::ConditionalBranch => {
            counts[Event::Branches] = 1;
            decoded.conditional = true;
        }
        flow => {
            counts[Event::Branches] = 1;
            counts[Event::TakenBranches] = 1;
            // A system call is a far branch (BR_INST_RETIRED.FAR_BRANCH), and no call.
            let calls = matches!(flow, FlowControl::Call | FlowControl::IndirectCall) && !is_system_call(&instruction);
            counts[Event::Calls] = u16::from(calls);
            counts[Event::Returns] = u16::from(flow == FlowControl::Return && !is_system_call(&instruction));
        }
    }
    decoded.repeats = instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
    if decoded.repeats {
        for event in Decoded::REPEATED {
            decoded.repetition[event] = std::mem::take(&mut decoded.counts[event]);
        }
        decoded.counts[Event::Uops] = 1;
    }
    decoded.bytes = instruction.memory_size().size().min(64) as u32;
    decoded
}

/// What an instruction does to memory.
#[derive(Clone, Copy, Default)]
struct Accesses {
    loads: bool,
    stores: bool,
    /// Both at one address.
    modifies: bool,
}

fn memory_accesses(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Accesses {
    // Most instructions have neither a memory operand nor the stack's, and need not be looked into.
    let touches_memory = |operand| {
        !matches!(
            instruction.op_kind(operand),
            OpKind::Register
                | OpKind::NearBranch64
                | OpKind::Immediate8
                | OpKind::Immediate8_2nd
                | OpKind::Immediate32
                | OpKind::Immediate64
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32to64
        )
    };
    if !instruction.is_stack_instruction() && !(0..instruction.op_count()).any(touches_memory) {
        return Accesses::default();
    }
    let info = factory.info_options(instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
    let mut all = Accesses::default();
    for memory in info.used_memory() {
        match memory.access() {
            OpAccess::Read | OpAccess::CondRead => all.loads = true,
            OpAccess::Write | OpAccess::CondWrite => all.stores = true,
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => all = Accesses { loads: true, stores: true, modifies: true },
            OpAccess::None | OpAccess::NoMemAccess => {}
        }
    }
    all
}

fn is_system_call(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Sysret | Mnemonic::Sysexit | Mnemonic::Vmcall | Mnemonic::Vmmcall
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &[u8]) -> Decoded {
        decode(code, 0x1000, &mut InstructionInfoFactory::new())
    }

    fn classes(code: &[u8]) -> Vec<&'static str> {
        let counts = of(code).counts;
        Event::all().filter(|&event| counts[event] > 0).map(Event::name).filter(|n| !n.contains("ops")).collect()
    }

    #[test]
    fn instructions_are_what_the_manual_says() {
        assert_eq!(classes(&[0x8b, 0x1b]), ["instructions", "loads"], "mov (%rbx),%ebx");
        assert_eq!(classes(&[0x48, 0x89, 0x03]), ["instructions", "stores"], "mov %rax,(%rbx)");
        assert_eq!(classes(&[0x48, 0x01, 0x03]), ["instructions", "loads", "stores"], "add %rax,(%rbx)");
        assert_eq!(classes(&[0x48, 0x8d, 0x03]), ["instructions"], "lea (%rbx),%rax");
        assert_eq!(classes(&[0x0f, 0x1f, 0x40, 0x00]), ["instructions"], "a long nop");
        assert_eq!(classes(&[0x0f, 0x05]), ["instructions", "branches", "taken-branches"], "syscall");
        assert_eq!(classes(&[0x55]), ["instructions", "stores"], "push %rbp");
        assert_eq!(classes(&[0xc3]), ["instructions", "loads", "branches", "taken-branches", "returns"], "ret");
        let call = ["instructions", "stores", "branches", "taken-branches", "calls"];
        assert_eq!(classes(&[0xe8, 0, 0, 0, 0]), call);
        assert_eq!(classes(&[0x75, 0x10]), ["instructions", "branches"], "jne");
        assert!(of(&[0x75, 0x10]).conditional && !of(&[0xeb, 0x10]).conditional);
    }

    #[test]
    fn locks_and_repeats() {
        assert_eq!(of(&[0xf0, 0x48, 0x01, 0x03]).counts[Event::LockedOps], 1, "lock add");
        assert_eq!(of(&[0x48, 0x87, 0x03]).counts[Event::LockedOps], 1, "xchg with memory locks by itself");
        assert_eq!(of(&[0x48, 0x87, 0xc3]).counts[Event::LockedOps], 0, "xchg of registers");
        assert!(of(&[0xf3, 0x48, 0xa5]).repeats && !of(&[0x48, 0xa5]).repeats, "rep movsq");
        assert!(!of(&[0xf3, 0x0f, 0x1e, 0xfa]).repeats, "endbr64 has the prefix and repeats nothing");
    }

    #[test]
    fn what_is_modified_is_told_from_what_is_moved() {
        let modifies = |code: &[u8]| of(code).modifies;
        assert!(modifies(&[0x48, 0x01, 0x03]), "add %rax,(%rbx)");
        assert!(modifies(&[0x48, 0x87, 0x03]), "xchg %rax,(%rbx)");
        assert!(modifies(&[0xf0, 0x48, 0x0f, 0xb1, 0x0b]), "lock cmpxchg %rcx,(%rbx)");
        for (code, text) in [
            (&[0x48, 0xa5][..], "movsq"),
            (&[0xf3, 0xa4], "rep movsb"),
            (&[0xff, 0x33], "push (%rbx)"),
            (&[0xff, 0x13], "call *(%rbx)"),
        ] {
            assert!(of(code).accesses() == (true, true) && !modifies(code), "{text}");
        }
    }

    #[test]
    fn micro_operations_are_estimated() {
        let uops = |code: &[u8]| of(code).counts[Event::Uops];
        assert_eq!(uops(&[0x48, 0x01, 0xd8]), 1, "add of registers");
        assert_eq!(uops(&[0x8b, 0x1b]), 1, "a load");
        assert_eq!(uops(&[0x48, 0x89, 0x03]), 2, "a store: address and data");
        assert_eq!(uops(&[0x48, 0x03, 0x03]), 2, "load and add");
        assert_eq!(uops(&[0x48, 0x01, 0x03]), 4, "load, add, store");
    }
}
