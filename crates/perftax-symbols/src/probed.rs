//! Where a uprobe can stand at a function: at its first instruction, and where it returns.

use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};

use crate::elf::{Elf, GoRelease};
use crate::error::Result;
use crate::naming::{MIN_ALIKE, alike, nearest};
use crate::{demangled, without_parameters};

/// The first instructions of a Go function among which it looks whether its stack has room: at most a subtraction and two comparisons.
const OF_STACK_CHECK: usize = 8;
/// Where a goroutine's `stackguard0` and `stackguard1` lie (runtime/runtime2.go, `g`), which r14 points to (ABIInternal).
const STACK_GUARDS: [u64; 2] = [0x10, 0x18];

/// A function where probes can stand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbedFunction {
    /// Offset of its first instruction in the file.
    pub offset: u64,
    /// As the linker has it.
    pub linked: String,
    /// Bytes of it; 0 where nobody says.
    pub bytes: u64,
    /// Its address, without where the file is loaded.
    address: u64,
}

/// How a function leaves for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaysOut {
    /// Its return instructions, as offsets in the file.
    pub returns: Vec<u64>,
    /// It jumps to another function, which returns in its place.
    pub jumps_away: bool,
}

/// The functions of a program or library, to be found by name.
#[derive(Debug)]
pub struct ProbedFunctions {
    elf: Elf,
    all: Vec<ProbedFunction>,
    go: Option<GoRelease>,
}

impl ProbedFunctions {
    /// Those of a file: by its own symbols, by those that its distribution stripped off and that are installed (gdb manual, "Separate Debug Files"), and of Go
    /// programs by their runtime's table. Indirect functions are left out: what is called is a variant that they choose.
    ///
    /// # Errors
    /// Where it cannot be read, or is no 64-bit ELF file.
    pub fn of(path: &Path) -> Result<Self> {
        let elf = Elf::open_64_bit(path).and_then(|_| Elf::read(path))?;
        let segments = elf.segments();
        let debug = elf.debug(path).and_then(|file| Elf::read(&file).ok());
        let indirect: Vec<u64> =
            elf.code_symbols().into_iter().filter(|symbol| symbol.is_indirect).map(|symbol| symbol.offset).collect();
        let functions = elf.functions().into_iter().chain(debug.iter().flat_map(Elf::functions));
        let place = |function: crate::elf::Function| {
            let offset = segments.code_offset(function.address).filter(|offset| !indirect.contains(offset))?;
            Some(ProbedFunction { offset, linked: function.name, bytes: function.bytes, address: function.address })
        };
        let mut all: Vec<ProbedFunction> = functions.filter_map(place).collect();
        all.sort();
        all.dedup_by(|a, b| (a.offset, &a.linked) == (b.offset, &b.linked));
        Ok(Self { go: elf.go_release(), elf, all })
    }

    /// The functions of that name, each place once: as the linker has it, or as the source has it, with its parameters or without. Several where C++ has several of one name, or the compiler
    /// made several of one.
    pub fn find(&self, wanted: &str) -> Vec<&ProbedFunction> {
        // What is mangled has the last part of the name in it as it is.
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let head = wanted.split(['(', '<']).next().unwrap_or(wanted);
        let word = head.rsplit(|c| !is_word(c)).find(|word| !word.is_empty()).unwrap_or(head);
        let is_it = |function: &&ProbedFunction| {
            let linked = function.linked.as_str();
            let is_mangled = || linked.starts_with("_Z") || linked.starts_with("_R");
            linked == wanted
                || is_mangled() && linked.contains(word) && (demangled(linked) == wanted || without_parameters(linked) == wanted)
        };
        let mut found: Vec<&ProbedFunction> = self.all.iter().filter(is_it).collect();
        found.dedup_by_key(|function| function.offset);
        found
    }

    /// Names that are like one that is not there, the nearest first.
    pub fn nearest(&self, wanted: &str) -> Vec<String> {
        let near = |function: &ProbedFunction| {
            let name = without_parameters(&function.linked);
            let score = alike(wanted, &name);
            (score >= MIN_ALIKE).then_some((score, name))
        };
        nearest(self.all.iter().filter_map(near).collect())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether it is a Go program's file.
    pub fn is_go(&self) -> bool {
        self.elf.is_go()
    }

    /// The release of Go that built it, where it says so (1.18 on).
    pub fn go_release(&self) -> Option<GoRelease> {
        self.go
    }

    /// Whether it is for x86-64.
    pub fn is_x86_64(&self) -> bool {
        self.elf.is_x86_64()
    }

    /// Where a Go function is passed once a call: behind the look at its stack's room, after which it begins anew where that has grown. Arguments are still where they were.
    /// (cmd/internal/obj/x86/obj6.go, `stacksplit`.)
    pub fn go_entry(&self, function: &ProbedFunction) -> u64 {
        let Some(code) = self.elf.code(function.address, function.bytes.max(1)) else { return function.offset };
        let mut is_compared = false;
        for instruction in instructions(&code, function.address).take(OF_STACK_CHECK) {
            if is_compared {
                let is_jump = instruction.is_jcc_short_or_near();
                return if is_jump { function.offset + (instruction.next_ip() - function.address) } else { function.offset };
            }
            is_compared = instruction.mnemonic() == Mnemonic::Cmp
                && instruction.memory_base() == Register::R14
                && STACK_GUARDS.contains(&instruction.memory_displacement64());
        }
        function.offset
    }

    /// Whether its first instruction takes an argument from the stack, as Go's functions in assembler do (ABI0).
    pub fn takes_from_stack(&self, function: &ProbedFunction) -> bool {
        let Some(code) = self.elf.code(function.address, function.bytes.max(1)) else { return false };
        let first = instructions(&code, function.address).next();
        first.is_some_and(|first| {
            first.mnemonic() == Mnemonic::Mov && first.memory_base() == Register::RSP && first.memory_displacement64() == 8
        })
    }

    /// Where it leaves for good, of x86-64. Nothing where nobody says how long it is.
    pub fn ways_out(&self, function: &ProbedFunction) -> WaysOut {
        // What compilers think is seldom done lies elsewhere (GCC's and Clang's function splitting).
        let cold = format!("{}.cold", function.linked);
        let parts: Vec<&ProbedFunction> =
            [function].into_iter().chain(self.all.iter().filter(|other| other.linked.starts_with(&cold))).collect();
        let is_own = |address: u64| parts.iter().any(|part| address.wrapping_sub(part.address) < part.bytes);
        let mut ways = WaysOut::default();
        for part in &parts {
            let code = self.elf.code(part.address, part.bytes).unwrap_or_default();
            for instruction in instructions(&code, part.address) {
                match instruction.flow_control() {
                    FlowControl::Return => ways.returns.push(part.offset + (instruction.ip() - part.address)),
                    FlowControl::UnconditionalBranch => ways.jumps_away |= !is_own(instruction.near_branch_target()),
                    _ => {}
                }
            }
        }
        ways
    }
}

/// The instructions of code at an address.
fn instructions(code: &[u8], address: u64) -> impl Iterator<Item = Instruction> {
    Decoder::with_ip(64, code, address, DecoderOptions::NONE).into_iter()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use std::process::Command;

    fn built(folder: &Path, name: &str, compiler: &str, text: &str) -> ProbedFunctions {
        let (source, library) = (folder.join(name), folder.join("built"));
        std::fs::write(&source, text).unwrap();
        let built = Command::new(compiler).args(["-O1", "-shared", "-fPIC", "-o"]).args([&library, &source]).status();
        assert!(built.unwrap().success());
        ProbedFunctions::of(&library).unwrap()
    }

    #[test]
    fn functions_are_found_by_what_they_are_called() {
        let folder = tempfile::tempdir().unwrap();
        let c = built(folder.path(), "a.c", "gcc", "int handle(int x) { return x * 3; }\nint handler(int x) { return x; }\n");
        assert_eq!(c.find("handle").len(), 1);
        assert!(c.find("handl").is_empty() && c.nearest("handl").contains(&"handle".to_string()));
        assert!(!c.is_go() && c.go_release().is_none() && c.count() > 2);
        let text = "namespace a { struct B { int f(int x); int f(long x); }; int B::f(int x) { return x * 3; }\nint B::f(long x) { return x; } }\n";
        let cpp = built(folder.path(), "a.cpp", "g++", text);
        assert_eq!(cpp.find("a::B::f").len(), 2);
        assert_eq!(cpp.find("a::B::f(int)").len(), 1);
        assert_eq!(cpp.find("_ZN1a1B1fEl").len(), 1);
        assert!(cpp.find("B::f").is_empty() && cpp.nearest("a::B::g").contains(&"a::B::f".to_string()));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_function_returns_where_its_returns_stand() {
        let folder = tempfile::tempdir().unwrap();
        let text = "int f(int x, int *p) { if (x > 3) return *p; for (int i = 0; i < x; i++) p[i] = x; return -1; }\n";
        let c = built(folder.path(), "a.c", "gcc", text);
        let function = c.find("f")[0];
        let bytes = std::fs::read(folder.path().join("built")).unwrap();
        let WaysOut { returns, jumps_away } = c.ways_out(function);
        assert!(
            !jumps_away && !returns.is_empty() && returns.iter().all(|offset| bytes[*offset as usize] == 0xc3),
            "{returns:?}"
        );
        assert!(returns.iter().all(|offset| (function.offset..function.offset + function.bytes).contains(offset)));
        let text = "int g(int x);\nint f(int x) { return g(x + 1); }\n";
        let jumps = built(folder.path(), "b.c", "gcc", text);
        assert!(jumps.ways_out(jumps.find("f")[0]).returns.len() == 1, "-O1 calls");
        // C looks at no stack.
        assert_eq!(c.go_entry(function), function.offset);
    }
}
