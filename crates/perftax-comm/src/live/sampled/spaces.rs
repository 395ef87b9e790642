//! Address spaces: what processes have at the same address is the same memory only where they share it.

use std::collections::HashMap;

use crate::Line;

/// Bytes of a page (x86-64, AArch64 as Linux distributions build it).
const PAGE_BYTES: u64 = 4096;

/// Those of the processes that were met. What processes share at one address is in the first one's, number 0; where they share it at
/// different ones it is not known to be one.
#[derive(Debug)]
pub struct Spaces {
    first: u32,
    /// How many there were besides the first: beyond [`Line::SPACES`] numbers are given anew.
    others: u32,
    of_process: HashMap<u32, u16>,
    processes: HashMap<u16, u32>,
    /// Whether a process shares a page.
    shared: HashMap<(u32, u64), bool>,
}

impl Spaces {
    /// Of a program, by its first process.
    pub fn new(first: u32) -> Self {
        Self { first, others: 0, of_process: HashMap::from([(first, 0)]), processes: HashMap::new(), shared: HashMap::new() }
    }

    /// The line as a process has it; `is_shared` says whether it shares what it has at an address, and is asked once a page.
    pub fn line(&mut self, pid: u32, line: Line, is_shared: impl FnOnce(u32, u64) -> bool) -> Line {
        let space = self.of(pid);
        let address = line.address();
        let is_shared = || *self.shared.entry((pid, address / PAGE_BYTES)).or_insert_with(|| is_shared(pid, address));
        if space == 0 || is_shared() { line } else { line.in_space(space) }
    }

    /// A process executes another program, or is another one by an old number.
    pub fn replaced(&mut self, pid: u32) {
        self.of_process.remove(&pid);
        self.shared.retain(|(other, _), _| *other != pid);
    }

    /// Whose memory a line is.
    pub fn process(&self, line: Line) -> u32 {
        self.processes.get(&line.space()).copied().unwrap_or(self.first)
    }

    fn of(&mut self, pid: u32) -> u16 {
        if let Some(space) = self.of_process.get(&pid) {
            return *space;
        }
        let space = (self.others % u32::from(Line::SPACES - 1)) as u16 + 1;
        self.others += 1;
        self.of_process.insert(pid, space);
        self.processes.insert(space, pid);
        space
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_lines_of_their_own() {
        let mut spaces = Spaces::new(10);
        let (line, shared) = (Line::of(0x7000), Line::of(0xf000));
        let mut of = |pid, line: Line| spaces.line(pid, line, |_, address| address == 0xf000);
        let [first, child, other] = [10, 11, 12].map(|pid| of(pid, line));
        assert_eq!((first, child.address(), other.address()), (line, 0x7000, 0x7000));
        assert!(child != first && other != first && other != child);
        assert_eq!((of(11, line), of(11, shared), of(12, shared)), (child, shared, shared));
        assert_eq!([first, child, other].map(|line| spaces.process(line)), [10, 11, 12]);
        spaces.replaced(11);
        let again = spaces.line(11, shared, |_, _| false);
        assert_eq!((again.address(), spaces.process(again)), (0xf000, 11), "another program shares nothing there");
        assert_ne!(again.space(), child.space());
    }
}
