//! What an instruction does to memory, and where, as far as registers still tell when it is done.

use iced_x86::{
    FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

/// How far beyond the element that trapped a repeated string instruction may have come: it works in groups of up to a line
/// (SDM vol. 1, "Fast-String Operation").
const GROUP_BYTES: u64 = 64;
/// Numbers of registers (`asm/perf_regs.h`).
pub(super) const FLAGS: u32 = 9;
pub(super) const SI: u32 = 4;
pub(super) const DI: u32 = 5;
pub(super) const SP: u32 = 7;
/// The direction flag: string instructions go down.
pub(super) const DIRECTION: u64 = 1 << 10;

/// Where an access goes, as far as registers after it still tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// base + index · scale + displacement.
    Computed { base: Option<u32>, index: Option<u32>, scale: u64, displacement: u64, is_32_bits: bool },
    /// Just behind where a string instruction goes on, by the register that points there.
    Behind(u32),
    /// By registers that the instruction itself wrote, the base of a segment, or a vector of indices.
    Unknown,
}

/// One access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    place: Place,
    /// How many.
    pub bytes: u64,
    /// Whether it writes.
    pub is_store: bool,
}

/// How an operand and a watched place lie.
pub(super) enum Lie {
    Apart,
    Touching { address: Option<u64> },
    NotKnown,
}

impl Operand {
    pub fn lies(&self, address: u64, bytes: u64, register: impl Fn(u32) -> Option<u64>) -> Lie {
        let overlaps = |from: u64, to: u64| from < address.saturating_add(bytes) && address < to;
        match self.place {
            Place::Computed { base, index, scale, displacement, is_32_bits } => {
                let value = |number: Option<u32>| number.map_or(Some(0), &register);
                let (Some(base), Some(index)) = (value(base), value(index)) else { return Lie::NotKnown };
                let sum = base.wrapping_add(index.wrapping_mul(scale)).wrapping_add(displacement);
                let at = if is_32_bits { sum & u64::from(u32::MAX) } else { sum };
                if overlaps(at, at.saturating_add(self.bytes)) { Lie::Touching { address: Some(at) } } else { Lie::Apart }
            }
            Place::Behind(number) => {
                let (Some(next), Some(flags)) = (register(number), register(FLAGS)) else { return Lie::NotKnown };
                let (from, to) = match flags & DIRECTION {
                    0 => (next.saturating_sub(GROUP_BYTES), next),
                    _ => (next.saturating_add(self.bytes), next.saturating_add(self.bytes + GROUP_BYTES)),
                };
                if overlaps(from, to) { Lie::Touching { address: None } } else { Lie::Apart }
            }
            Place::Unknown => Lie::NotKnown,
        }
    }
}

/// What it does to memory; none where nothing, or where what is executed next is not what stands next.
pub(super) fn operands(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Option<(u64, Vec<Operand>)> {
    let goes_on = matches!(instruction.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch);
    if !goes_on {
        return None;
    }
    let info = factory.info(instruction);
    let all: Vec<Operand> = match instruction.is_string_instruction() {
        true => (0..instruction.op_count()).filter_map(|number| of_string(instruction, info, number)).collect(),
        false => info.used_memory().iter().filter_map(|memory| of_memory(memory, instruction, info)).collect(),
    };
    (!all.is_empty()).then(|| (instruction.ip(), all))
}

fn of_string(instruction: &Instruction, info: &InstructionInfo, number: u32) -> Option<Operand> {
    let register = match instruction.op_kind(number) {
        OpKind::MemoryESRDI | OpKind::MemoryESEDI | OpKind::MemoryESDI => DI,
        OpKind::MemorySegRSI | OpKind::MemorySegESI | OpKind::MemorySegSI => SI,
        _ => return None,
    };
    let is_store = writes(info.op_access(number))?;
    Some(Operand { place: Place::Behind(register), bytes: instruction.memory_size().size() as u64, is_store })
}

fn of_memory(memory: &UsedMemory, instruction: &Instruction, info: &InstructionInfo) -> Option<Operand> {
    let is_store = writes(memory.access())?;
    let bytes = memory.memory_size().size() as u64;
    if let Some(displacement) = from_top(memory, instruction) {
        let place = Place::Computed { base: Some(SP), index: None, scale: 1, displacement, is_32_bits: false };
        return Some(Operand { place, bytes, is_store });
    }
    let is_written = |register: Register| {
        let changes = |access| writes(access) == Some(true);
        info.used_registers()
            .iter()
            .any(|used| used.register().full_register() == register.full_register() && changes(used.access()))
    };
    let numbered = |register: Register| match register {
        Register::None => Some(None),
        _ if is_written(register) => None,
        _ => number_of(register).map(Some),
    };
    // The base of FS and GS is not in samples; the other segments begin at 0 in all that Linux runs.
    let is_flat = !matches!(memory.segment(), Register::FS | Register::GS);
    let place = match (numbered(memory.base()), numbered(memory.index())) {
        (Some(base), Some(index)) if is_flat && bytes > 0 => Place::Computed {
            base,
            index,
            scale: memory.scale().into(),
            displacement: memory.displacement(),
            is_32_bits: memory.base().is_gpr32() || memory.index().is_gpr32(),
        },
        _ => Place::Unknown,
    };
    Some(Operand { place, bytes, is_store })
}

/// How far from where the stack pointer points afterwards an instruction that moves it accesses the stack; none where it does not.
fn from_top(memory: &UsedMemory, instruction: &Instruction) -> Option<u64> {
    if instruction.mnemonic() == Mnemonic::Leave {
        return Some(0u64.wrapping_sub(memory.memory_size().size() as u64));
    }
    let moved = i64::from(instruction.stack_pointer_increment());
    let is_stack = instruction.is_stack_instruction() && memory.base() == Register::RSP && memory.index() == Register::None;
    is_stack.then(|| memory.displacement().wrapping_sub(moved as u64))
}

/// Whether an access writes; none where it is none.
fn writes(access: OpAccess) -> Option<bool> {
    match access {
        OpAccess::Read | OpAccess::CondRead => Some(false),
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(true),
        OpAccess::None | OpAccess::NoMemAccess => None,
    }
}

/// A general register's number in `asm/perf_regs.h`.
fn number_of(register: Register) -> Option<u32> {
    Some(match register.full_register() {
        Register::RAX => 0,
        Register::RBX => 1,
        Register::RCX => 2,
        Register::RDX => 3,
        Register::RSI => SI,
        Register::RDI => DI,
        Register::RBP => 6,
        Register::RSP => 7,
        Register::R8 => 16,
        Register::R9 => 17,
        Register::R10 => 18,
        Register::R11 => 19,
        Register::R12 => 20,
        Register::R13 => 21,
        Register::R14 => 22,
        Register::R15 => 23,
        _ => return None,
    })
}
