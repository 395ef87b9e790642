//! Loops in assembly whose every event is known.

use perftax_pmu::{Error, Result};

use super::{Loop, LoopMemory, Stimulus, Turn, noted};

/// So many turns of a loop.
pub struct KnownLoop {
    of: Loop,
    turns: u64,
    memory: LoopMemory,
}

impl KnownLoop {
    /// Turns of a loop, at least one.
    ///
    /// # Errors
    /// Where the loops have not been written for this architecture.
    pub fn new(of: Loop, turns: u64) -> Result<Self> {
        if !Loop::HERE {
            return Err(Error::Unsupported {
                what: format!("run {}", of.symbol()),
                why: "the loops whose events are known are written for x86-64".into(),
                remedy: "an x86-64 machine".into(),
            });
        }
        Ok(Self { of, turns: turns.max(1), memory: LoopMemory::new() })
    }

    /// What all turns retire.
    pub fn retired(&self) -> Turn {
        let (turn, turns) = (self.of.turn(), self.turns);
        // A branch that the coin takes skips one instruction.
        let skipped = if self.of == Loop::Coin { (1..=turns).filter(|left| Loop::coin(*left)).count() as u64 } else { 0 };
        Turn {
            instructions: turn.instructions * turns - skipped,
            loads: turn.loads * turns,
            stores: turn.stores * turns,
            branches: turn.branches * turns,
            // The last branch back falls through.
            taken: turn.taken * turns + skipped - 1,
            locked: turn.locked * turns,
            returns: turn.returns * turns,
        }
    }

    /// Addresses of its loads where nothing else reads memory: the instruction, and the data.
    pub fn load_sites(&self) -> Vec<(u64, u64)> {
        let (code, data) = (self.of.address(), self.memory.scratch_address());
        self.of.load_sites().iter().map(|(instruction, datum)| (code + instruction, data + datum)).collect()
    }

    /// Addresses of a turn's instructions, where they are told.
    pub fn instructions(&self) -> Vec<u64> {
        self.of.instruction_sites().iter().map(|instruction| self.of.address() + instruction).collect()
    }
}

impl Stimulus for KnownLoop {
    fn run(&mut self) {
        self.of.run(self.turns, &mut self.memory);
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        for _ in 0..self.turns {
            noted(ticks, || self.of.run(1, &mut self.memory));
        }
    }

    fn truth(&self) -> Option<u64> {
        Some(self.turns)
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use std::process::Command;

    use crate::stimulus::{Loop, LoopMemory, Ratio};

    /// An instruction of a disassembly: where, its name, its operands.
    struct Line {
        at: u64,
        name: String,
        operands: String,
    }

    /// What objdump says that a function consists of.
    fn disassembled(symbol: &str) -> Vec<Line> {
        let this = std::env::current_exe().unwrap();
        let mut objdump = Command::new("objdump");
        let output =
            objdump.args(["-d", "--no-show-raw-insn", "-j", ".text", &format!("--disassemble={symbol}")]).arg(this).output();
        let output = output.expect("objdump: apt-get install binutils");
        let text = String::from_utf8(output.stdout).unwrap();
        let line = |line: &str| {
            let (at, rest) = line.trim().split_once(":\t")?;
            let rest = rest.split('#').next()?.trim();
            let (prefix, after) = rest.split_once(' ').unwrap_or((rest, ""));
            let (name, operands) = if prefix == "lock" {
                let (name, operands) = after.trim().split_once(' ')?;
                (format!("lock {name}"), operands)
            } else {
                (prefix.to_string(), after)
            };
            Some(Line { at: u64::from_str_radix(at, 16).ok()?, name, operands: operands.trim().to_string() })
        };
        text.lines().filter_map(line).collect()
    }

    /// The truths are what a disassembly says: loads, stores, branches by their names, from the first instruction to the branch back.
    #[test]
    fn a_turn_is_what_the_disassembly_says() {
        let all = [Loop::Mix, Loop::FourLoads, Loop::Coin, Loop::Multiply].into_iter().chain(Ratio::ALL.map(Loop::Chase));
        let mut memory = LoopMemory::new();
        for of in all {
            of.run(3, &mut memory);
            let lines = disassembled(of.symbol());
            let turn = of.turn();
            let end = lines.iter().rposition(|line| line.name.starts_with("jne")).expect("a branch back");
            let body: Vec<&Line> = lines[..=end].iter().collect();
            // What a call leads to: its return stands behind the loop's own.
            let calls = body.iter().filter(|line| line.name.starts_with("call")).count() as u64;
            let is = |line: &&&Line, names: &[&str]| names.iter().any(|name| line.name.starts_with(name));
            let reads = |line: &&&Line| {
                line.operands.starts_with(|c: char| c == '(' || c.is_ascii_digit())
                    && line.operands.contains(',')
                    && is(line, &["mov"])
            };
            let writes = |line: &&&Line| line.operands.ends_with(')') && is(line, &["mov"]);
            let count = |of: &dyn Fn(&&&Line) -> bool| body.iter().filter(|line| of(line)).count() as u64;
            let locked = count(&|line| is(line, &["lock"]));
            let jumps = count(&|line| line.name.starts_with('j'));
            // Those that fall through; the coin's is taken as one that does.
            let never = count(&|line| is(line, &["je", "jae"]));
            assert_eq!(turn.instructions, body.len() as u64 + calls, "{of:?}");
            assert_eq!(turn.loads, count(&reads) + locked + calls, "{of:?}");
            assert_eq!(turn.stores, count(&writes) + locked + calls, "{of:?}");
            assert_eq!(turn.branches, jumps + 2 * calls, "{of:?}");
            assert_eq!(turn.taken, jumps - never + 2 * calls, "{of:?}");
            assert_eq!((turn.locked, turn.returns), (locked, calls), "{of:?}");
            let loads: Vec<u64> = body.iter().filter(|line| reads(line)).map(|line| line.at - lines[0].at).collect();
            if !of.load_sites().is_empty() {
                let all: Vec<u64> = body.iter().map(|line| line.at - lines[0].at).collect();
                assert_eq!(of.instruction_sites(), all, "{of:?}");
                assert_eq!(of.load_sites().iter().map(|(at, _)| *at).collect::<Vec<_>>(), loads, "{of:?}");
            }
        }
    }
}
