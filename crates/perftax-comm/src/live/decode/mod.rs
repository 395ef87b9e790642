//! Which instruction a debug register trapped at, and what it did to memory.
//!
//! A data breakpoint is a trap: it is reported when the access is done, at the address of the next instruction (Intel SDM vol. 3,
//! "Data Memory and I/O Breakpoint Exception Conditions"). What stands before that address cannot be read backwards without doubt on x86,
//! so there may be several [`Candidates`]; the registers of the sample then tell which of them touched the place.

mod operand;

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory};

use operand::{Lie, Operand, SP, operands};

/// The longest instruction, bytes (SDM vol. 2, 2.3.11).
pub const LONGEST: u64 = 15;
/// Code that ends, or is read, somewhere behind the address that was sampled.
#[derive(Clone, Copy, Debug)]
pub struct Code<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Address of the first.
    pub start: u64,
    /// Whether an instruction begins there: it is the start of a function.
    pub is_function: bool,
    /// Of the program: 64 or 32.
    pub bits: u32,
}

/// What an instruction did to a watched place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Where the instruction stands; of several candidates, the longest.
    pub ip: u64,
    /// Whether it wrote.
    pub is_store: bool,
    /// Its first byte, where registers tell.
    pub address: Option<u64>,
    /// Bytes; 0 where that is not known.
    pub bytes: u64,
}

/// Instructions that may be the one that trapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The address that was sampled.
    ip: u64,
    /// Bytes of a return address.
    word_bytes: u64,
    /// Those that stand before it: where each does, and its accesses.
    before: Vec<(u64, Vec<Operand>)>,
}

impl Candidates {
    /// Those that end at a sampled address, or stay there because they repeat.
    pub fn at(ip: u64, code: Code<'_>, factory: &mut InstructionInfoFactory) -> Self {
        let mut found = Vec::new();
        match code.is_function.then(|| swept(ip, code)).flatten() {
            Some(instruction) => found.extend(operands(&instruction, factory)),
            None => {
                for bytes in 1..=LONGEST {
                    let instruction = one(ip.wrapping_sub(bytes), code).filter(|one| one.len() as u64 == bytes);
                    found.extend(instruction.and_then(|instruction| operands(&instruction, factory)));
                }
            }
        }
        let repeats = |one: &Instruction| one.is_string_instruction() && (one.has_rep_prefix() || one.has_repne_prefix());
        let itself = one(ip, code).filter(repeats);
        found.extend(itself.and_then(|instruction| operands(&instruction, factory)));
        Self { ip, word_bytes: u64::from(code.bits) / 8, before: found }
    }

    /// What was done to a place, by the registers after it; none where that cannot be told.
    pub fn touch(&self, address: u64, bytes: u64, register: impl Fn(u32) -> Option<u64>) -> Option<Touch> {
        let (mut certain, mut possible) = (Vec::new(), Vec::new());
        for (ip, candidate) in &self.before {
            let mut touching: Option<Touch> = None;
            let mut maybe: Option<Touch> = None;
            for operand in candidate {
                let (into, at) = match operand.lies(address, bytes, &register) {
                    Lie::Apart => continue,
                    Lie::Touching { address } => (&mut touching, address),
                    Lie::NotKnown => (&mut maybe, None),
                };
                let one = Touch { ip: *ip, is_store: operand.is_store, address: at, bytes: operand.bytes };
                *into = Some(into.map_or(one, |other| together(other, one, other.is_store || one.is_store)));
            }
            certain.extend(touching);
            possible.extend(maybe.filter(|_| touching.is_none()));
        }
        if certain.is_empty()
            && let Some(touch) = self.call_or_return(address, bytes, &register)
        {
            return Some(touch);
        }
        let all = if certain.is_empty() { possible } else { certain };
        let agree = all.windows(2).all(|two| two[0].is_store == two[1].is_store);
        let first = all.first().copied().filter(|_| agree)?;
        Some(all.into_iter().fold(first, |a, b| together(a, b, a.is_store)))
    }

    /// Calls and returns go elsewhere, so they do not stand before the address that was sampled. But a call has just written what the stack
    /// pointer points to then, and a return has read what lies below it.
    fn call_or_return(&self, address: u64, bytes: u64, register: impl Fn(u32) -> Option<u64>) -> Option<Touch> {
        let top = register(SP)?;
        let holds = |at: u64| address <= at && at + self.word_bytes <= address.saturating_add(bytes);
        let below = top.checked_sub(self.word_bytes)?;
        let touch = |ip, is_store, at| Touch { ip, is_store, address: Some(at), bytes: self.word_bytes };
        match (holds(top), holds(below)) {
            (true, _) => Some(touch(self.ip, true, top)),
            (_, true) => Some(touch(self.ip.wrapping_sub(1), false, below)),
            _ => None,
        }
    }
}

/// Bytes that the longest memory operand of the instruction that begins the code touches; none where it has none.
pub fn operand_bytes(code: &[u8], ip: u64, factory: &mut InstructionInfoFactory) -> Option<u64> {
    let instruction = Decoder::with_ip(64, code, ip, DecoderOptions::NONE).decode();
    let info = factory.info(&instruction);
    info.used_memory().iter().map(|memory| memory.memory_size().size() as u64).max().filter(|bytes| *bytes > 0)
}

/// Two that may each be it, or that one instruction does.
fn together(a: Touch, b: Touch, is_store: bool) -> Touch {
    let address = a.address.filter(|_| a.address == b.address);
    Touch { ip: a.ip.min(b.ip), is_store, address, bytes: a.bytes.max(b.bytes) }
}

/// The instruction that ends at an address, all before it having been read from the start of its function.
fn swept(ip: u64, code: Code<'_>) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(code.bits, code.bytes, code.start, DecoderOptions::NONE);
    let mut last = None;
    while decoder.can_decode() && decoder.ip() < ip {
        last = Some(decoder.decode());
    }
    last.filter(|last| last.next_ip() == ip && !last.is_invalid())
}

fn one(at: u64, code: Code<'_>) -> Option<Instruction> {
    let offset = usize::try_from(at.checked_sub(code.start)?).ok()?;
    let bytes = code.bytes.get(offset..)?;
    let mut decoder = Decoder::with_ip(code.bits, bytes, at, DecoderOptions::NONE);
    decoder.can_decode().then(|| decoder.decode()).filter(|instruction| !instruction.is_invalid())
}

#[cfg(test)]
mod tests {
    use super::operand::{DI, DIRECTION, SI};
    use super::*;

    #[test]
    fn operands_have_their_sizes() {
        let mut factory = InstructionInfoFactory::new();
        let mut bytes = |code: &[u8]| operand_bytes(code, 0x1000, &mut factory);
        assert_eq!(bytes(&[0x89, 0x03]), Some(4), "mov %eax,(%rbx)");
        assert_eq!(bytes(&[0xf0, 0x48, 0xff, 0x03]), Some(8), "lock incq (%rbx)");
        assert_eq!(bytes(&[0x0f, 0x29, 0x03]), Some(16), "movaps %xmm0,(%rbx)");
        assert_eq!(bytes(&[0x55]), Some(8), "push %rbp");
        assert_eq!(bytes(&[0x90]), None, "nop");
    }

    const START: u64 = 0x1000;
    const RBX: u32 = 1;

    fn candidates(bytes: &[u8], length: u64, is_function: bool) -> Candidates {
        let code = Code { bytes, start: START, is_function, bits: 64 };
        Candidates::at(START + length, code, &mut InstructionInfoFactory::new())
    }

    /// What code, of which the last instruction trapped, did to eight bytes at 0x5000, with registers of which the rest are 0.
    fn touch(bytes: &[u8], is_function: bool, registers: &[(u32, u64)]) -> Option<(bool, Option<u64>, u64)> {
        let value = |number| Some(registers.iter().find(|(known, _)| *known == number).map_or(0, |(_, value)| *value));
        said(candidates(bytes, bytes.len() as u64, is_function).touch(0x5000, 8, value))
    }

    fn said(touch: Option<Touch>) -> Option<(bool, Option<u64>, u64)> {
        touch.map(|touch| (touch.is_store, touch.address, touch.bytes))
    }

    fn known(is_store: bool, address: u64, bytes: u64) -> Option<(bool, Option<u64>, u64)> {
        Some((is_store, Some(address), bytes))
    }

    #[test]
    fn the_instruction_before_is_the_one() {
        let (add, load) = ([0x48, 0x01, 0xd8], [0x8b, 0x43, 0x04]);
        let code = [&add[..], &load].concat();
        assert_eq!(touch(&code, true, &[(RBX, 0x5000)]), known(false, 0x5004, 4), "mov 4(%rbx),%eax");
        assert_eq!(touch(&[0x48, 0x89, 0x03], true, &[(RBX, 0x5000)]), known(true, 0x5000, 8), "mov %rax,(%rbx)");
        assert_eq!(touch(&[0xf0, 0x48, 0x0f, 0xc1, 0x03], true, &[(RBX, 0x5000)]), known(true, 0x5000, 8), "lock xadd");
        assert_eq!(touch(&[0x48, 0x39, 0x03], true, &[(RBX, 0x5000)]), known(false, 0x5000, 8), "cmp");
        // Relative to the next instruction, at 0x1006: no register is needed.
        assert_eq!(touch(&[0x8b, 0x05, 0xfa, 0x3f, 0, 0], true, &[]), known(false, 0x5000, 4), "mov 0x3ffa(%rip),%eax");
        // base + index · 8 + displacement.
        assert_eq!(touch(&[0x48, 0x89, 0x44, 0xcb, 0x10], true, &[(RBX, 0x4fe0), (2, 2)]), known(true, 0x5000, 8));
        assert_eq!(touch(&add, true, &[]), None, "no access at all");
    }

    #[test]
    fn registers_that_are_gone_leave_the_address_open() {
        assert_eq!(touch(&[0x48, 0x8b, 0x1b], true, &[(RBX, 1)]), Some((false, None, 8)));
        assert_eq!(touch(&[0x64, 0x8b, 0x03], true, &[]), Some((false, None, 4)), "by FS");
    }

    #[test]
    fn the_stack_pointer_tells_of_pushes_and_pops() {
        assert_eq!(touch(&[0x53], true, &[(SP, 0x5000)]), known(true, 0x5000, 8), "push %rbx");
        assert_eq!(touch(&[0x53], true, &[(SP, 0x4fe0)]), None, "push to another place");
        assert_eq!(touch(&[0x5b], true, &[(SP, 0x5008)]), known(false, 0x5000, 8), "pop %rbx");
        assert_eq!(touch(&[0xc9], true, &[(SP, 0x5008)]), known(false, 0x5000, 8), "leave");
        // push 0x10(%rsp): reads by the pointer as it was, writes at where it comes to.
        let push = [0xff, 0x74, 0x24, 0x10];
        assert_eq!(touch(&push, true, &[(SP, 0x5000)]), known(true, 0x5000, 8), "it writes there");
        assert_eq!(touch(&push, true, &[(SP, 0x4fe8)]), known(false, 0x5000, 8), "it reads there");
    }

    #[test]
    fn calls_and_returns_are_told_by_the_stack() {
        // The first instruction of a function, behind the return of the one before it.
        assert_eq!(touch(&[0xc3], true, &[(SP, 0x5000)]), known(true, 0x5000, 8), "called");
        assert_eq!(touch(&[0xc3], false, &[(SP, 0x5000)]), known(true, 0x5000, 8), "called, and no symbol");
        // What stands behind call 0x1005.
        assert_eq!(touch(&[0xe8, 0, 0, 0, 0], true, &[(SP, 0x5008)]), known(false, 0x5000, 8), "returned");
        assert_eq!(touch(&[0xe8, 0, 0, 0, 0], true, &[(SP, 0x5010)]), None, "neither");
        // An instruction that is sure to have touched the place goes before: mov (%rsp),%rax.
        assert_eq!(touch(&[0x48, 0x8b, 0x04, 0x24], true, &[(SP, 0x5000)]), known(false, 0x5000, 8));
    }

    #[test]
    fn an_instruction_that_goes_elsewhere_or_touches_other_places_is_not_the_one() {
        assert_eq!(touch(&[0xff, 0x13], true, &[(RBX, 0x5000)]), None, "call *(%rbx): what follows is not executed next");
        assert_eq!(touch(&[0xc3], true, &[]), None, "ret");
        assert_eq!(touch(&[0x8b, 0x43, 0x40], true, &[(RBX, 0x5000)]), None, "another line");
    }

    #[test]
    fn without_a_function_all_that_end_there_must_agree() {
        // Read backwards: mov %rax,(%rbx) with its prefix, and mov %eax,(%rbx) without.
        let stored = touch(&[0x90, 0x48, 0x89, 0x03], false, &[(RBX, 0x5000)]);
        assert_eq!(stored, known(true, 0x5000, 8));
        let loaded = touch(&[0x90, 0x8b, 0x03], false, &[(RBX, 0x5000)]);
        assert_eq!(loaded.map(|touch| touch.0), Some(false));
        // 00 03 is add %al,(%rbx); c7 00 03 wants three bytes more, which belong to what comes next.
        assert_eq!(touch(&[0xc7, 0x00, 0x03], false, &[(RBX, 0x5000)]).map(|touch| touch.0), Some(true));
    }

    #[test]
    fn candidates_that_differ_are_refused() {
        // 48 c7 43 08 00 00 8b 03 is movq $0x38b0000,8(%rbx), and ends in 8b 03, mov (%rbx),%eax.
        let both = [0x48, 0xc7, 0x43, 0x08, 0x00, 0x00, 0x8b, 0x03];
        assert_eq!(touch(&both, false, &[(RBX, 0x4ff8)]).map(|touch| touch.0), Some(true), "mov to 8(%rbx) alone reaches it");
        assert_eq!(touch(&both, false, &[(RBX, 0x4fff)]), None, "both do");
    }

    #[test]
    fn a_string_instruction_that_repeats_is_where_it_stays() {
        let movs = [0xf3, 0x48, 0xa5];
        let at = candidates(&movs, 0, true);
        let registers = |si: u64, di: u64, flags: u64| {
            move |number: u32| {
                Some(if number == SI {
                    si
                } else if number == DI {
                    di
                } else {
                    flags
                })
            }
        };
        let touched = |si, di, flags| said(at.touch(0x5000, 8, registers(si, di, flags)));
        assert_eq!(touched(0x5008, 0x9008, 0), Some((false, None, 8)), "it read there");
        assert_eq!(touched(0x9008, 0x5008, 0), Some((true, None, 8)), "it wrote there");
        assert_eq!(touched(0x9008, 0x4ff8, DIRECTION), Some((true, None, 8)), "downwards");
        assert_eq!(touched(0x9008, 0x7008, 0), None);
        // Done: what comes next was sampled.
        let done = candidates(&movs, 3, true).touch(0x5000, 8, registers(0, 0x5008, 0));
        assert_eq!(done.map(|touch| (touch.is_store, touch.ip)), Some((true, START)));
    }

    #[test]
    fn no_bytes_are_too_strange() {
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..40).map(|_| random.u8(..)).collect();
            for is_function in [true, false] {
                candidates(&bytes, random.u64(0..50), is_function).touch(0x5000, 8, |_| Some(random.clone().u64(..)));
            }
        }
    }
}
